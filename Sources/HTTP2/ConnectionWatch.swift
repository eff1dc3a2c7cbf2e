// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Tells a connection that works from one that only looks so: events and time in, what to do out. No I/O and no clock.
struct ConnectionWatch {
    /// What is to be done about the connection.
    enum Finding: Equatable {
        case nothing
        /// No byte for a while with work outstanding, or a long idle time: ask with a PING.
        case ping
        /// Bytes come, but no answer to anything: new requests go elsewhere.
        case stalled
        /// Not even the PING was answered.
        case dead
    }

    /// How long no byte may come, with work outstanding, before a PING asks.
    static let quietBeforePing = Duration.seconds(5)
    /// How long no byte may come, with work outstanding, before the connection is given up: so that another has taken its
    /// place within ten seconds.
    static let quietBeforeDeath = Duration.seconds(9)
    /// How long no answer may come, with work outstanding, before new requests go elsewhere.
    static let longestWithoutAnswer = Duration.seconds(10)
    /// How long an idle connection is left alone (Apple: a PING after about an hour keeps it).
    static let idleBeforePing = Duration.seconds(3600)

    /// Since when there has been work without a break; nil: idle.
    private var busySince: MonotonicTime?
    private var lastByte: MonotonicTime
    private var lastAnswer: MonotonicTime
    /// When an unanswered PING went out.
    private var pingSent: MonotonicTime?
    private var isStalled = false

    init(now: MonotonicTime) {
        lastByte = now
        lastAnswer = now
    }

    /// Work is outstanding where there was none.
    mutating func becameBusy(_ now: MonotonicTime) { busySince = now }

    /// Nothing is outstanding any more.
    mutating func becameIdle() {
        busySince = nil
        isStalled = false
    }

    /// An answer is complete.
    mutating func answered(_ now: MonotonicTime) { lastAnswer = now }

    /// Time has passed.
    /// - Parameter lastReceived: when bytes last came.
    mutating func check(_ now: MonotonicTime, lastReceived: MonotonicTime) -> Finding {
        lastByte = lastReceived
        if let sent = pingSent, lastByte > sent { pingSent = nil }
        guard let busySince else { return checkIdle(now) }
        let quiet = now - max(lastByte, busySince)
        if quiet >= Self.quietBeforeDeath { return .dead }
        if quiet >= Self.quietBeforePing, pingSent == nil {
            pingSent = now
            return .ping
        }
        if !isStalled, now - max(lastAnswer, busySince) >= Self.longestWithoutAnswer {
            isStalled = true
            return .stalled
        }
        return .nothing
    }

    private mutating func checkIdle(_ now: MonotonicTime) -> Finding {
        if let pingSent { return now - pingSent >= Self.quietBeforePing ? .dead : .nothing }
        guard now - lastByte >= Self.idleBeforePing else { return .nothing }
        pingSent = now
        return .ping
    }
}
