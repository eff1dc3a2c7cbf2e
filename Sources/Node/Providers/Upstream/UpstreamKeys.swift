// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The keys with which a node signs for senders that do not sign (PROTOCOL §9): one for each device token, derived from
/// a secret of the node, so that none is stored.
package struct UpstreamKeys: Sendable {
    private let secret: SecretBytes

    /// - Parameter secret: 32 secret bytes of the node, which must stay the same: the upstream node binds the device
    ///   token to the key.
    package init(secret: SecretBytes) { self.secret = secret }

    /// Signs the envelope with the key of its device token.
    package func sign(_ envelope: inout Envelope) {
        var seed = secret.keyedHash(of: Array("tnp1-relay-seed".utf8) + envelope.phone.bytes, count: 32)
        envelope.signature = SenderSignature(of: envelope.digest, consuming: &seed)
    }
}
