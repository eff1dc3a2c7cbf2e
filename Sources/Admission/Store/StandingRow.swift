// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The stored record of a device token, which survives restarts. Prints as `<redacted>`: hashes under the node's key
/// never change, so they would link log lines about the same token.
package struct StandingRow: Equatable, Sendable, Redacted {
    /// The device token's hash under the node's key; identifies the row.
    package var token: UInt64
    /// The token's standing, encoded; the store does not interpret it.
    package var standing: UInt8
    /// When the standing began or was last confirmed, Unix time in milliseconds.
    package var since: UInt64
    /// The day of the last use, counted from 1970-01-01.
    package var day: UInt16
    /// The hash, under the node's key, of the Ed25519 key that the token is bound to, with bit 63 set. For an unbound
    /// token, the last day on which an unsigned submission was delivered, counted from 1970-01-01, or 0.
    package var sender: UInt64
}
