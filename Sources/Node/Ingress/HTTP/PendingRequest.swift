// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import TNP
import Time

/// An HTTP request without a response yet: decides from outcomes and time which response is sent, and when.
struct PendingRequest {
    /// What to do after an event.
    enum Action: Equatable {
        /// Respond with this outcome.
        case respond(Outcome)
        /// Respond with ``fallback`` at this time, unless another event comes first.
        case wait(until: MonotonicTime)
    }

    /// How long the request waits for a stored envelope's final outcome; then the envelope is reported as accepted.
    static let storedOutcomeTimeout = Duration.seconds(5)
    /// The longest delay of a response to a circuit over its rate. The connection is not read during the delay.
    static let maximumRateDelay = Duration.seconds(1)

    let number: UInt32
    let dialect: APIRequest.Dialect
    /// The outcome reported at the deadline.
    private(set) var fallback: Outcome
    /// The latest time of the response.
    private(set) var deadline: MonotonicTime

    init(_ number: UInt32, _ dialect: APIRequest.Dialect, deadline: MonotonicTime) {
        self.number = number
        self.dialect = dialect
        self.deadline = deadline
        fallback =
            if case .handles = dialect {
                .retry(.nodeBusy, after: 5000, text: "the node could not save the handle in time")
            } else {
                .retry(.providerUnreachable, after: 60_000, text: "the push service did not answer in time")
            }
    }

    /// Handles the outcome of the request.
    mutating func finished(_ outcome: Outcome, now: MonotonicTime) -> Action {
        outcome.isFinal ? .respond(outcome) : wait(outcome, until: now + Self.storedOutcomeTimeout)
    }

    /// Handles that the request's stored envelope waits for a push service. The response does not wait for the outcome:
    /// meanwhile, the desktop would send no other notification.
    func parked() -> Action { fallback.kind == .queued ? .respond(fallback) : .wait(until: deadline) }

    /// Handles the refusal of the request.
    mutating func refused(_ outcome: Outcome, now: MonotonicTime) -> Action {
        guard outcome.reason == .connectionOverRate else { return .respond(outcome) }
        return wait(outcome, until: now + min(.milliseconds(Int64(outcome.retryAfter)), Self.maximumRateDelay))
    }

    /// Handles the node's shutdown: an outcome that arrives within this time is still reported.
    mutating func shutDown(within time: Duration, retryAfter: UInt32, now: MonotonicTime) -> Action {
        let refusal = Outcome.retry(.shuttingDown, after: retryAfter, text: "the node is shutting down")
        // A stored envelope survives the shutdown, so it is still reported as accepted.
        return wait(fallback.kind == .queued ? fallback : refusal, until: now + time)
    }

    private mutating func wait(_ outcome: Outcome, until time: MonotonicTime) -> Action {
        fallback = outcome
        deadline = min(deadline, time)
        return .wait(until: deadline)
    }
}
