// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import TNP
import Time

/// An HTTP request that has no response yet: outcomes and time in; which response is sent, and when, out.
struct PendingRequest {
    /// What to do after an event.
    enum Action: Equatable {
        /// Respond with this outcome.
        case respond(Outcome)
        /// Respond with ``fallback`` at this time, unless another event comes first.
        case wait(until: MonotonicTime)
    }

    /// A stored envelope is reported as accepted after this time: no later outcome could be reported anyway.
    static let storedPatience = Duration.seconds(5)
    /// The longest delay of a response to a circuit over its rate. Nothing is read from the connection meanwhile.
    static let longestRateDelay = Duration.seconds(1)

    let number: UInt32
    let dialect: RelayRequest.Dialect
    /// The outcome reported at the deadline.
    private(set) var fallback = Outcome.retry(
        .providerUnreachable, after: 60_000, text: "the push service has not answered in time")
    /// When the request is answered at the latest.
    private(set) var deadline: MonotonicTime

    init(number: UInt32, dialect: RelayRequest.Dialect, deadline: MonotonicTime) {
        self.number = number
        self.dialect = dialect
        self.deadline = deadline
    }

    /// Its submission has an outcome.
    mutating func finished(_ outcome: Outcome, now: MonotonicTime) -> Action {
        outcome.isFinal ? .respond(outcome) : wait(outcome, until: now + Self.storedPatience)
    }

    /// Its submission was not admitted.
    mutating func refused(_ outcome: Outcome, now: MonotonicTime) -> Action {
        guard outcome.reason == .connectionOverRate else { return .respond(outcome) }
        return wait(outcome, until: now + min(.milliseconds(Int64(outcome.retryAfter)), Self.longestRateDelay))
    }

    /// The node shuts down: an outcome that arrives within this time is still reported.
    mutating func nodeShutsDown(within time: Duration, retryAfter: UInt32, now: MonotonicTime) -> Action {
        let refusal = Outcome.retry(.shuttingDown, after: retryAfter, text: "the node is shutting down")
        // A stored envelope stays stored.
        return wait(fallback.kind == .queued ? fallback : refusal, until: now + time)
    }

    private mutating func wait(_ outcome: Outcome, until time: MonotonicTime) -> Action {
        fallback = outcome
        deadline = min(deadline, time)
        return .wait(until: deadline)
    }
}
