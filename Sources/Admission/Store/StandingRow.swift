// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// What is kept of a device token across restarts. Prints as `<redacted>`: hashes under the node's key never change, so
/// a log that had them would show what belongs together.
package struct StandingRow: Equatable, Sendable, Redacted {
    /// The device token's hash under the node's key: what names the row.
    package var token: UInt64
    /// What is thought of the token; the store does not look into it.
    package var standing: UInt8
    /// Since when, Unix time in milliseconds.
    package var since: UInt64
    /// The day of the last use, counted from 1970-01-01.
    package var day: UInt16
    /// The hash, under the node's key, of the Ed25519 key that the token is bound to, bit 63 set. Where it is bound to none,
    /// the last day on which an unsigned submission was delivered, counted from 1970-01-01, or 0.
    package var sender: UInt64

    package init(token: UInt64, standing: UInt8, since: UInt64, day: UInt16, sender: UInt64) {
        self.token = token
        self.standing = standing
        self.since = since
        self.day = day
        self.sender = sender
    }
}
