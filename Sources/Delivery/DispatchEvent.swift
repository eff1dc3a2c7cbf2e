// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

/// What a ``Dispatch`` has to say to logs, metrics and admission. Nothing in it names a phone but an attempt's device token,
/// which goes no further than to be made a pseudonym of, and a recovered envelope's, of which a keyed hash is made.
package enum DispatchEvent {
    /// A route is served by a new provider, its breaker closed.
    case serving(Route)
    /// A provider has answered for this device token, or could not be asked; after so long a wait for its turn, and so long
    /// a time for the answer.
    case attempt(Route, deviceToken: Bytes, AttemptResult, waited: Duration, took: Duration)
    /// An envelope has its final outcome.
    case finished(Route, Outcome)
    /// An envelope that an earlier process had taken has its final outcome; no reply tells of it.
    case recovered(Envelope, app: String, Outcome)
    /// A push service refuses a device token that none has accepted before, and its sender is not told so as a wave is on.
    case suspected(CircuitID)
    /// A lane's breaker has changed; the answer that did it.
    case breaker(Route, Breaker.State, answer: String)
    /// So many device tokens are refused that the environment or the topic must be wrong; or no longer.
    case wave(Route, isActive: Bool)
    /// The spool does not take an envelope, for this reason.
    case spoolRefused(String)
    /// The spool takes no more envelopes, for this reason; nil: it does again.
    case spoolShort(SpoolShortage?)
    /// So many rows of the spool could not be read and were dropped, since it was opened.
    case spoolUnreadable(Int)
}
