// SPDX-License-Identifier: Apache-2.0

import TNP

/// A hostile circuit and its material.
struct HostileCircuit {
    let kind: HostileKind
    /// The recipients, used in turn. ``HostileKind/inventedTokens`` invents its own.
    var targets: [Recipient] = []
    /// The envelope to replay.
    var captured: Envelope?
    /// The origin of the server of Web Push, for invented device tokens.
    var pushServer = "https://push.example"
}
