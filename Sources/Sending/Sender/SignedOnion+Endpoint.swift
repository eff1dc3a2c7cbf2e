// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

extension Endpoint {
    /// Whether the host ends in `.onion`, but is no onion address.
    package var isInvalidOnion: Bool {
        guard case .tcp(let host, _) = self else { return false }
        return host.lowercased().hasSuffix(".onion") && OnionAddress(host: host) == nil
    }
}

extension SignedOnion {
    /// The onion of an address at which a sender reaches a node; ``none`` if that is not an onion address.
    package init(of node: Endpoint) {
        guard case .tcp(let host, _) = node, let address = OnionAddress(host: host),
            let onion = SignedOnion(publicKey: address.publicKey)
        else {
            self = .none
            return
        }
        self = onion
    }
}
