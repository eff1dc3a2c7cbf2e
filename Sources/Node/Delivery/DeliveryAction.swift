// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Providers
import TNP

/// What a ``DeliveryCore`` wants to be done after an event, in this order.
enum DeliveryAction {
    /// Send the envelope to the provider of this route. ``DeliveryCore/answered(_:_:at:)`` reports the result.
    case send(PendingEnvelope, RouteTable.Number)
    /// Claim the envelope for this node of a cluster. ``DeliveryCore/claimed(_:_:at:)`` reports the result.
    case claim(PendingEnvelope)
    /// Report an outcome of a submission.
    case tell(Reply, Outcome, ProviderContact)
    /// Report that the envelope of a submission that got QUEUED waits in the spool for 2 s or more, or for its breaker.
    case tellParked(Reply)
    /// Report an event to the observer.
    case observe(DispatchEvent)
    /// Store the envelope in the spool. ``DeliveryCore/stored(_:_:at:)`` reports the result.
    case store(PendingEnvelope)
    /// Share the stored envelope with the other nodes of the cluster.
    case share(SpooledEnvelope)
    /// Look up the envelope in the spool. ``DeliveryCore/lookedUp(_:_:at:)`` reports the result.
    case lookUp(PendingEnvelope)
    /// Read these rows from the spool. ``DeliveryCore/loaded(_:_:dropped:at:)`` or ``DeliveryCore/loadFailed(_:_:at:)``
    /// reports the result.
    case load([DueRow])
    /// Remove a row from the spool. If `keepUntil` (Unix time in seconds) is given, the spool remembers the outcome.
    case erase(row: Int64, Digest256, Outcome, keepUntil: Int64?)
    /// Remove expired rows from the spool.
    case purgeSpool
}
