// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// Receives the events of a ``Dispatch``, on its loop.
package protocol DispatchObserver: AnyObject {
    /// Records an event.
    func observe(_ event: DispatchEvent)
}

/// What a ``Dispatch`` reports to logs, metrics and admission. Two events identify a phone. Observers use the device
/// token of ``attempt(_:deviceToken:_:waited:took:)`` only to derive a pseudonym, and the device token of a recovered
/// envelope only to derive a keyed hash.
package enum DispatchEvent: Sendable {
    /// A new provider serves this route; its breaker is closed.
    case serving(Route)
    /// An attempt for this device token has ended: `waited` is its time in the lane's queue, `took` the time until the
    /// result.
    case attempt(Route, deviceToken: Bytes, AttemptResult, waited: Duration, took: Duration)
    /// An envelope that an earlier process, or another node of the cluster, has accepted has its final outcome; no reply
    /// reports it. RETRY leaves it to the other nodes.
    case recovered(Envelope, app: String, Outcome)
    /// During a surge, a push service refused a device token that no push service has accepted before; the sender on
    /// this circuit gets RETRY.
    case unprovenTokenRefused(CircuitID)
    /// A lane's breaker changed state, or a probe ended, after this answer.
    case breaker(Route, Breaker.State, answer: String)
    /// A surge of token refusals began or ended. A surge means that the environment or the topic is probably wrong.
    case tokenRefusalSurge(Route, isActive: Bool)
    /// The spool did not store an envelope, or could not be read, for this reason.
    case spoolRefused(String)
    /// The spool is full for this reason; `nil` if it has room again.
    case spoolShortage(SpoolShortage?)
    /// The spool dropped unreadable rows; the number is the total since the spool was opened.
    case spoolUnreadable(Int)
}
