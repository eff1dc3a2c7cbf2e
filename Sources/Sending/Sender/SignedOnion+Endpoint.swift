// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

extension SignedOnion {
    private static let (keyLength, addressLength) = (32, 35)

    /// The onion of an address at which a sender reaches a node; ``none`` if that is not an onion address.
    package init(of node: Endpoint) {
        // An onion address is the Base32 of public key, checksum and version (rend-spec-v3, "Encoding onion addresses").
        // Subdomains are not part of it.
        guard case .tcp(let host, _) = node, case let labels = host.split(separator: "."), labels.count > 1,
            labels.last?.lowercased() == "onion", let bytes = Base32.decode(labels[labels.count - 2].utf8),
            bytes.count == Self.addressLength, let onion = SignedOnion(publicKey: bytes.prefix(Self.keyLength))
        else {
            self = .none
            return
        }
        self = onion
    }
}
