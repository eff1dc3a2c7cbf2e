// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// How a node reaches the engine, and what it is called there. Prints as `<redacted>`.
package struct EngineSettings: Sendable, Redacted {
    /// How to find the engine's primary.
    package enum Address: Sendable, Equatable {
        /// The primary itself.
        case direct(Endpoint)
        /// Redis Sentinels that know the primary by the name of the cluster.
        case sentinels([Endpoint])
    }

    /// The name of the cluster: part of each key, and the name of the primary that the Sentinels watch.
    package var cluster: String
    /// The name of this node, different from those of the other nodes.
    package var node: String
    package var address: Address
    /// The key under which the nodes seal and hash what they give to the engine; the same for all nodes.
    package var secret: SecretBytes
    /// Identifies the key of the node's store of handles; `nil` if it keeps none. The same for all nodes that do.
    package var handleCheck: [UInt8]?
    /// The ACL user; `nil` for the default user.
    package var user: String?
    /// The user's password; `nil` to send none.
    package var password: SecretBytes?
    /// `nil` without TLS.
    package var tls: TLSContext?

    package init(
        cluster: String, node: String, address: Address, secret: SecretBytes, user: String? = nil,
        password: SecretBytes? = nil, tls: TLSContext? = nil
    ) {
        self.cluster = cluster
        self.node = node
        self.address = address
        self.secret = secret
        self.user = user
        self.password = password
        self.tls = tls
    }
}

extension EngineSettings {
    /// The watch of the Sentinels; `nil` if none are configured.
    func sentinelWatch(on loop: EventLoop) -> SentinelWatch? {
        guard case .sentinels(let endpoints) = address else { return nil }
        return SentinelWatch(endpoints, self, on: loop)
    }

    /// The engine's primary.
    /// - Throws: ``EngineProblem`` if no Sentinel names it.
    func primary(
        by watch: SentinelWatch?, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> Endpoint {
        if let watch { return try await watch.primary() }
        guard case .direct(let endpoint) = address else { throw EngineProblem("no Sentinel is configured") }
        return endpoint
    }

    /// The line of the engine's configuration, or of its ACL file, that lets a user do what a node needs and nothing
    /// else.
    package static func aclRules(user: String, cluster: String) -> String {
        "user \(user) on >PASSWORD ~\(KeyNames.pattern(cluster: cluster)) resetchannels "
            + "-@all +@read +@write -@dangerous +time +info +fcall +function|load +role"
    }
}
