// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Detects a connection that looks open but is dead: takes events and the time, returns findings. No I/O and no clock.
struct ConnectionWatch {
    /// What to do about the connection.
    enum Finding: Equatable {
        case nothing
        /// No byte for ``silenceBeforePing`` with requests in flight, or for ``idleBeforePing`` while idle: send a
        /// PING.
        case ping
        /// Bytes arrive, but no response completes: new requests go elsewhere.
        case stalled
        /// No byte arrived for ``silenceTimeout`` with requests in flight, or an idle connection's PING was not
        /// answered.
        case dead
    }

    /// How long the server may send nothing, with requests in flight, before a PING is sent. An idle connection must
    /// answer its PING within the same time.
    static let silenceBeforePing = Duration.seconds(5)
    /// How long the server may send nothing, with requests in flight, before the connection counts as dead. A
    /// replacement is then in place within ten seconds.
    static let silenceTimeout = Duration.seconds(9)
    /// How long requests may be in flight without a response completing before new requests go elsewhere.
    static let responseTimeout = Duration.seconds(10)
    /// How long an idle connection stays silent before a PING (Apple: a PING after about an hour keeps it open).
    static let idleBeforePing = Duration.seconds(3600)

    /// Since when requests have been in flight without a break; `nil` if idle.
    private var busySince: MonotonicTime?
    private var lastByte: MonotonicTime
    private var lastAnswer: MonotonicTime
    /// When the unanswered PING was sent.
    private var pingSent: MonotonicTime?
    private var isStalled = false

    init(now: MonotonicTime) {
        lastByte = now
        lastAnswer = now
    }

    /// The first request is in flight after an idle time.
    mutating func becameBusy(_ now: MonotonicTime) { busySince = now }

    /// No request is in flight any more.
    mutating func becameIdle() {
        busySince = nil
        isStalled = false
    }

    /// A response is complete.
    mutating func responseCompleted(_ now: MonotonicTime) { lastAnswer = now }

    /// Checks the connection at the current time.
    /// - Parameter lastReceived: when bytes last arrived.
    mutating func check(_ now: MonotonicTime, lastReceived: MonotonicTime) -> Finding {
        lastByte = lastReceived
        if let sent = pingSent, lastByte > sent { pingSent = nil }
        guard let busySince else { return checkIdle(now) }
        let quiet = now - max(lastByte, busySince)
        if quiet >= Self.silenceTimeout { return .dead }
        if quiet >= Self.silenceBeforePing, pingSent == nil {
            pingSent = now
            return .ping
        }
        if !isStalled, now - max(lastAnswer, busySince) >= Self.responseTimeout {
            isStalled = true
            return .stalled
        }
        return .nothing
    }

    private mutating func checkIdle(_ now: MonotonicTime) -> Finding {
        if let pingSent { return now - pingSent >= Self.silenceBeforePing ? .dead : .nothing }
        guard now - lastByte >= Self.idleBeforePing else { return .nothing }
        pingSent = now
        return .ping
    }
}
