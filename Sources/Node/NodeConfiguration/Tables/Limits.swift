// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import Settings
import TNP

extension Configuration {
    /// `[limits]`
    package struct Limits: Sendable {
        static var restartKeys: [RestartKey] {
            [
                RestartKey("limits.replay_window", \.limits.replayWindow),
                RestartKey("limits.replay_entries", \.limits.replayEntries),
            ]
        }

        /// Maximum concurrent connections of senders.
        package var connections: Int
        /// Maximum submissions without a result on one connection.
        package var inFlight: Int
        /// Maximum envelopes without an outcome in the node's memory.
        package var totalInFlight: Int
        /// Maximum `length` of a frame, in bytes.
        package var maximumFrame: Int
        /// Seconds until HELLO must have arrived.
        package var handshakeTimeout: Int
        /// Seconds without a frame and with nothing in flight until a connection is closed.
        package var idleTimeout: Int
        /// Seconds to answer accepted submissions during a graceful shutdown.
        package var shutdownTimeout: Int
        /// Maximum delivery attempts for an envelope that is not in the spool.
        package var attempts: Int
        /// Seconds to try an envelope that is not in the spool before its sender gets RETRY.
        package var patience: Int
        /// Seconds during which a resend gets the final outcome of the first submission.
        package var replayWindow: Int
        /// Maximum outcomes in the replay window.
        package var replayEntries: Int
        /// Maximum connections that have not sent HELLO.
        package var halfOpen: Int
        /// Seconds to receive a frame, from its first byte.
        package var frameTimeout: Int
        /// Seconds a sender may leave its results unread.
        package var readTimeout: Int
        /// Rate limit, on one connection, of PING, PONG and unknown frames, requests about handles, and submissions
        /// above ``inFlight``.
        package var control: Rate
        /// Maximum attempts in flight in one lane.
        package var concurrency: Int
        /// Seconds to receive an HTTP request, from its first byte.
        package var httpRequestTimeout: Int
        /// Seconds to wait for an outcome before the node answers an HTTP request with 503.
        package var httpAnswerTimeout: Int

        init(_ table: TableReader) {
            connections = table.integer(
                "connections", in: 1...100_000, default: 10_000,
                "Maximum connections of senders; with both `listen.tnp` and `listen.http`, a quarter is reserved for each"
            )
            inFlight = table.integer(
                "in_flight", in: 1...10_000, default: 64, "Maximum submissions without a result on one connection")
            totalInFlight = table.integer(
                "total_in_flight", in: 1...1_000_000, default: 4000,
                "Maximum envelopes in memory without an outcome; a single app on a single platform gets at most half")
            maximumFrame = table.integer(
                "max_frame", in: 4096...65_536, default: Frame.defaultMaximumLength,
                "Maximum length of a TNP frame, in bytes")
            handshakeTimeout = table.integer(
                "handshake_timeout", in: 1...600, default: 30, "Seconds until HELLO must have arrived")
            idleTimeout = table.integer(
                "idle_timeout", in: 1...86_400, default: 600,
                "Seconds until a connection that sends nothing and has nothing in flight is closed")
            shutdownTimeout = table.integer(
                "shutdown_timeout", in: 1...600, default: 30,
                "Seconds to answer accepted submissions during a graceful shutdown")
            attempts = table.integer(
                "attempts", in: 1...100, default: 5,
                "Maximum delivery attempts for an envelope that is not in the spool")
            patience = table.integer(
                "patience", in: 0...600, default: 20,
                "Seconds to try an envelope that is not in the spool before its sender gets RETRY")
            replayWindow = table.integer(
                "replay_window", in: 1...86_400, default: 600,
                "Seconds during which a resent envelope gets its first outcome again and is not delivered again")
            replayEntries = table.integer(
                "replay_entries", in: 1000...10_000_000, default: 200_000,
                "Maximum outcomes in the replay window; while it is full, new envelopes get RETRY")
            halfOpen = table.integer(
                "half_open", in: 1...100_000, default: 1000,
                "Maximum connections that have not sent HELLO; never more than half of all connections")
            frameTimeout = table.integer(
                "frame_timeout", in: 1...600, default: 30, "Seconds to receive a frame, from its first byte")
            readTimeout = table.integer(
                "read_timeout", in: 1...600, default: 60, "Seconds a sender may leave its results unread")
            control = table.rate(
                "control", default: Rate(burst: 60, perMinute: 60),
                "PINGs and other frames without a submission, per connection")
            concurrency = table.integer(
                "concurrency", in: 1...100_000, default: 2000,
                "Maximum attempts in flight of an app at one push service")
            httpRequestTimeout = table.integer(
                "http_request_timeout", in: 1...24, default: 20,
                "Seconds to receive an HTTP request, from its first byte")
            httpAnswerTimeout = table.integer(
                "http_answer_timeout", in: 1...24, default: 20,
                "Seconds to wait for an outcome before the node answers an HTTP request with 503")
        }
    }

    /// The limits of delivery.
    package var dispatchLimits: DispatchLimits {
        var dispatch = DispatchLimits()
        dispatch.totalInFlight = limits.totalInFlight
        dispatch.retry = RetryPolicy(attempts: limits.attempts, patience: .seconds(limits.patience))
        dispatch.replaySeconds = limits.replayWindow
        dispatch.replayEntries = limits.replayEntries
        dispatch.maximumStored = spool?.maximumEnvelopes ?? 0
        dispatch.concurrency = limits.concurrency
        return dispatch
    }
}
