// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// What a ``Dispatch`` reports to logs, metrics and admission. Two events identify a phone: the device token of
/// ``attempt(_:deviceToken:_:waited:took:)`` is only made into a pseudonym, and that of a recovered envelope only into
/// a keyed hash.
package enum DispatchEvent {
    /// A new provider serves this route; its breaker is closed.
    case serving(Route)
    /// An attempt for this device token has ended: `waited` is its time in the lane's queue, `took` the time until the
    /// result.
    case attempt(Route, deviceToken: Bytes, AttemptResult, waited: Duration, took: Duration)
    /// An envelope has its final outcome.
    case finished(Route, Outcome)
    /// An envelope that an earlier process accepted has its final outcome; no reply reports it.
    case recovered(Envelope, app: String, Outcome)
    /// During a surge, a push service refused a device token that none has accepted before; its sender gets RETRY.
    case unprovenTokenRefused(CircuitID)
    /// A lane's breaker changed state, or a probe of it ended, with this answer.
    case breaker(Route, Breaker.State, answer: String)
    /// A surge of token refusals began, which means that the environment or the topic is wrong; or it ended.
    case tokenRefusalSurge(Route, isActive: Bool)
    /// The spool did not store an envelope, or could not be read, for this reason.
    case spoolRefused(String)
    /// The spool is full, for this reason; `nil` when it has room again.
    case spoolShortage(SpoolShortage?)
    /// Number of rows that could not be read and were dropped since the spool was opened.
    case spoolUnreadable(Int)
}
