// SPDX-License-Identifier: Apache-2.0

import Time

/// What a sender knows of one node of its list. Time and randomness are parameters.
package struct NodeState {
    /// The state of the connection to the node.
    package enum State: Equatable {
        /// There is no connection, and one may be opened at once.
        case unused
        /// The sender is connecting, possibly again after a lost connection: the node is likely to be back at once.
        case connecting
        /// The sender is connected.
        case connected
        /// The last attempt to connect failed, the connection ended before WELCOME or after repeated failures, or the
        /// node is shutting down or busy.
        case down
        /// The node ended the connection for a reason that a retry does not remove, or does not speak TNP.
        case refused
    }

    package var state = State.unused
    /// Whether the sender has been connecting for so long that it prefers other nodes meanwhile.
    package var isSlow = false
    /// The part of an attempt's time limit after which the node counts as slow: 15 s of 60 s. Through tor a connection
    /// takes a few seconds. An attempt to reach a machine that is switched off lasts until its time limit, because tor
    /// does not learn of it.
    package static let slowPart = 0.25
    /// The time from which the sender may connect again, while the node is down or has refused.
    package private(set) var retryAt = MonotonicTime(nanoseconds: 0)
    private var backoff = Backoff(base: .milliseconds(250), cap: .seconds(30))

    /// When the last attempt failed, if a wrong setting is the likely cause; else `nil`.
    private var mistakenAt: MonotonicTime?

    /// The longest wait after a failure whose likely cause is a wrong setting.
    private static let mistakePause = Duration.seconds(2)
    /// The longest `retryAfter` of a GOAWAY that the sender obeys.
    private static let maximumPause = Duration.seconds(600)
    /// The shortest time for which the sender does not use a node that has refused it.
    private static let refusedPause = Duration.seconds(60)

    /// Creates the state of a node that the sender has not used yet.
    package init() {}

    /// Whether new submissions may go to this node.
    package var isUsable: Bool { state != .down && state != .refused }

    /// Failed attempts and lost connections since the last RESULT after which the sender moves to other nodes.
    private static let unreliable = 3

    /// Resets the backoff after a RESULT.
    package mutating func answered() { backoff.reset() }

    /// Whether at least three attempts or connections have failed since the last RESULT.
    package var isUnreliable: Bool { backoff.failures >= Self.unreliable }

    /// Whether at least three attempts or connections have failed since the last RESULT, the last one no earlier than
    /// this time and with a wrong setting as the likely cause.
    package func isHopeless(since time: MonotonicTime) -> Bool {
        state == .down && isUnreliable && mistakenAt.map { $0 >= time } == true
    }

    /// Counts a failure.
    /// - Parameters:
    ///   - random: a random number from 0 up to 1, for the jitter.
    ///   - minimum: the node's `retryAfter`.
    ///   - byMistake: whether nothing answers at the proxy or the node's address. The wait is then at most 2 s, because
    ///     an attempt costs nobody anything.
    /// - Returns: the wait before the next attempt.
    package mutating func failed(
        now: MonotonicTime, random: Double, atLeast minimum: Duration = .zero, byMistake: Bool = false
    ) -> Duration {
        mistakenAt = byMistake ? now : nil
        let wait = backoff.next(random: random)
        let pause = max(min(minimum, Self.maximumPause), byMistake ? min(wait, Self.mistakePause) : wait)
        retryAt = now + pause
        return pause
    }

    /// Marks the node as refusing.
    /// - Parameter minimum: the node's `retryAfter`.
    package mutating func refused(now: MonotonicTime, atLeast minimum: Duration) {
        state = .refused
        retryAt = now + max(min(minimum, Self.maximumPause), Self.refusedPause)
    }

    /// Lets a refusing node be used again once its pause is over.
    /// - Returns: whether the pause was over.
    @discardableResult
    package mutating func revive(now: MonotonicTime) -> Bool {
        guard state == .refused, now >= retryAt else { return false }
        state = .unused
        return true
    }

    /// Makes a node that is down usable once its pause is over, without a new connection first.
    package mutating func endPause(now: MonotonicTime) {
        if state == .down, now >= retryAt { state = .unused }
    }

    /// The index of the first usable node, a slow one only if there is no other; `nil` if there is none. A sender
    /// prefers the first of its list, so that one node keeps the bindings and rates.
    package static func choose(_ nodes: [NodeState], excluding: Set<Int>) -> Int? {
        let usable = nodes.indices.filter { nodes[$0].isUsable && !excluding.contains($0) }
        return usable.first { !nodes[$0].isSlow } ?? usable.first
    }
}
