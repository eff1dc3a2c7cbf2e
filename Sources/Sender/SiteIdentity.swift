// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

/// With what a sender proves to one node that it is a site (PROTOCOL §10).
package struct SiteIdentity: Sendable {
    private let key: Ed25519.PrivateKey
    /// The public key of the node's onion.
    private let onion: [UInt8]

    private static let addressLength = 35

    /// What went wrong when a node refuses a site, as a sentence.
    package static let refusal = "the node does not know this site key, or the key is for another onion"

    /// - Parameters:
    ///   - key: the site's private key.
    ///   - node: the address at which the sender reaches the node.
    package init(_ key: Ed25519.PrivateKey, at node: Endpoint) {
        self.key = key
        // An onion address is the Base32 of public key, checksum and version (rend-spec-v3, "Encoding onion addresses").
        // Subdomains are not part of it.
        if case .tcp(let host, _) = node, case let labels = host.split(separator: "."), labels.count > 1,
            labels.last?.lowercased() == "onion", let bytes = Base32.decode(labels[labels.count - 2].utf8),
            bytes.count == Self.addressLength
        {
            onion = Array(bytes.prefix(SiteAuthentication.noOnion.count))
        } else {
            onion = SiteAuthentication.noOnion
        }
    }

    /// The AUTH for a connection whose WELCOME had a puzzle with this seed.
    func authentication(seed: [UInt8]) -> SiteAuthentication { SiteAuthentication(seed: seed, onion: onion, by: key) }
}
