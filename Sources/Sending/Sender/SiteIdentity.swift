// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

/// A site's key and the onion of one node, with which a sender proves to that node that it is the site (PROTOCOL §10).
package struct SiteIdentity: Sendable {
    private let key: Ed25519.PrivateKey
    private let onion: SignedOnion

    /// What went wrong when a node refuses a site, as a sentence.
    package static let refusal = "the node does not know this site key, or the key is for another onion"

    /// - Parameters:
    ///   - key: the site's private key.
    ///   - node: the address at which the sender reaches the node.
    package init(_ key: Ed25519.PrivateKey, at node: Endpoint) {
        self.key = key
        onion = SignedOnion(of: node)
    }

    /// The AUTH for a connection whose WELCOME had a puzzle with this seed.
    func authentication(seed: [UInt8]) -> SiteAuthentication { SiteAuthentication(seed: seed, onion: onion, by: key) }
}
