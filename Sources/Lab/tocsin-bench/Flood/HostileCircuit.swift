// SPDX-License-Identifier: Apache-2.0

import TNP

/// A hostile circuit, and what it submits.
struct HostileCircuit {
    let kind: HostileKind
    /// The recipients of the kinds `badTokens`, `neverReading` and `ownPhones`, used in turn.
    var targets: [Recipient] = []
    /// The envelope to replay; `nil` for all kinds but ``HostileKind/replaying``.
    var captured: Envelope?
    /// The origin of the push server, for invented device tokens.
    var pushServer = "https://push.example"
}
