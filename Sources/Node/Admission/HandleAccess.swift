// SPDX-License-Identifier: Apache-2.0

import TNP

/// Who may ring a phone by its handle (PROTOCOL §11).
package struct HandleAccess: Sendable {
    /// The Ed25519 public key of the handle's owner, 32 bytes.
    let owner: [UInt8]
    /// The Ed25519 public keys of the senders, 32 bytes each; empty if anyone who has the handle may ring.
    let senderKeys: [[UInt8]]

    package init(owner: [UInt8], senderKeys: [[UInt8]]) {
        self.owner = owner
        self.senderKeys = senderKeys
    }

    /// Whether a submission with a valid signature by this key may ring the phone.
    func allows(_ key: Bytes) -> Bool {
        senderKeys.isEmpty || key.elementsEqual(owner) || senderKeys.contains { key.elementsEqual($0) }
    }
}
