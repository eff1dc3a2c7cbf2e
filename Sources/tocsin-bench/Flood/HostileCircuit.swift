// SPDX-License-Identifier: Apache-2.0

import TNP

/// One hostile circuit and what it has to send.
struct HostileCircuit {
    let kind: HostileKind
    /// To whom it sends, in turns; ``HostileKind/inventedTokens`` makes its own.
    var targets: [Recipient] = []
    /// What it replays.
    var captured: Envelope?
}
