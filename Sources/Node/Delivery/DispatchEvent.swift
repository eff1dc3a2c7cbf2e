// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// Receives the events of a ``Dispatch``, on its loop.
package protocol DispatchObserver: AnyObject {
    /// Records an event.
    func observe(_ event: DispatchEvent)
    /// Records an attempt that has ended with this result.
    func observe(_ attempt: EndedAttempt, _ result: AttemptResult)
}

/// An attempt that has ended. Not a ``DispatchEvent``: every envelope has one, and an event in the list of actions is
/// copied.
package struct EndedAttempt: Sendable {
    /// The route that the attempt took.
    package let route: Route
    /// Identifies a phone: observers use it only to derive a pseudonym.
    package let phone: DeviceIdentity
    /// The time that the envelope spent in the lane's queue.
    package let waited: Duration
    /// The time from the beginning of the attempt until its result.
    package let took: Duration

    package init(route: Route, phone: DeviceIdentity, waited: Duration, took: Duration) {
        (self.route, self.phone, self.waited, self.took) = (route, phone, waited, took)
    }
}

/// What a ``Dispatch`` reports to logs, metrics and admission. Observers use the device token of a recovered envelope only
/// to derive a keyed hash.
package enum DispatchEvent: Sendable {
    /// A new provider serves this route; its breaker is closed.
    case serving(Route)
    /// An envelope that an earlier process or another node of the cluster has accepted has its final outcome. Resends
    /// that wait for it get it as well; RETRY leaves the envelope to the other nodes.
    case recovered(Envelope, app: String, Outcome)
    /// During a surge, a push service refused a device token that no push service has accepted before; the sender on
    /// this circuit gets RETRY.
    case unprovenTokenRefused(CircuitID)
    /// A lane's breaker changed state, or a probe ended, after this answer.
    case breaker(Route, Breaker.State, answer: String)
    /// A surge of token refusals began or ended. A surge means that the environment or the topic is probably wrong.
    case tokenRefusalSurge(Route, isActive: Bool)
    /// The spool did not store an envelope, or could not look one up or read rows, for this reason.
    case spoolRefused(String)
    /// The spool is full for this reason; `nil` if it has room again.
    case spoolShortage(SpoolShortage?)
    /// The spool dropped unreadable rows; the number is the total since the spool was opened.
    case spoolUnreadable(Int)
}
