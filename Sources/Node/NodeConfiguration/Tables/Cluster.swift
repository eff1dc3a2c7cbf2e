// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings

extension Configuration {
    /// `[cluster]`
    package struct Cluster: Sendable, Equatable {
        static var restartKeys: [RestartKey] { [RestartKey("cluster", \.cluster)] }

        /// The name of the cluster.
        package var name: String
        /// The name of this node; `nil` for the name of the machine.
        package var node: String?
        /// The number of nodes.
        package var nodes: Int
        /// The engine's primary; `nil` if Sentinels know it.
        package var redis: Endpoint?
        /// The Sentinels that know the engine's primary.
        package var sentinels: [Endpoint]
        /// The file of the key that all nodes share.
        package var keyFile: String
        /// The engine's ACL user; `nil` for the default user.
        package var user: String?
        /// The file of the user's password.
        package var passwordFile: String?
        /// Whether connections to the engine use TLS.
        package var usesTLS: Bool
        /// Additional certificate authorities for the engine.
        package var trustFile: String?
    }

    /// Reads `[cluster]`; `nil` if the node shares nothing.
    static func cluster(_ root: TableReader) throws -> Cluster? {
        let table = root.table(
            "cluster",
            "Several nodes of one operator that share their state in a Redis or Valkey server; see cluster.md.")
        let redis = table.string(
            "redis", expected: "an address",
            "Address of the server's primary: `HOST:PORT`, or `unix:` and the path of a socket. If neither this nor `sentinels` is set, the node shares nothing"
        )
        let sentinels = try table.strings(
            "sentinels", expected: "an address", isRequired: false,
            "Addresses of Redis Sentinels, which know the primary by the name of the cluster")
        let name = table.string(
            "name", expected: "a name", default: "tocsin", "Name of the cluster, the same for all its nodes")
        let node = table.string(
            "node", expected: "a name",
            "Name of this node, different from those of the others. If not set: the name of the machine")
        let nodes = table.integer(
            "nodes", in: 2...64, default: 2,
            "Number of nodes. While a node cannot reach the server, it applies this share of the rates that the nodes have together"
        )
        let keyFile = table.string(
            "key_file", expected: "a file",
            "File with the cluster's key, 32 random bytes, the same for all its nodes. Mode 600")
        let user = table.string(
            "user", expected: "a name", "User of the server's ACL. If not set: the default user")
        let passwordFile = table.string(
            "password_file", expected: "a file", "File with the user's password. Mode 600. If not set, none is sent")
        let usesTLS = table.boolean("tls", default: false, "Whether the server and the Sentinels use TLS")
        let trustFile = table.string(
            "trust_file", expected: "a file", "File of additional certificate authorities for the server, in PEM form")
        guard redis != nil || sentinels != nil else { return nil }
        guard redis == nil || sentinels == nil else {
            throw table.problem(
                "sentinels", "cannot be set together with cluster.redis: the Sentinels know the primary")
        }
        guard let keyFile else {
            throw table.missing(
                "key_file", "is missing: make one with `head -c 32 /dev/urandom`, mode 600, and copy it to all nodes")
        }
        for (key, value) in [("name", name), ("node", node ?? "x")] where !isClusterName(value) {
            throw table.problem(key, "must be 1 to 64 of the characters a-z, A-Z, 0-9, \".\", \"-\" and \"_\"")
        }
        func endpoint(_ text: String, _ key: String) throws -> Endpoint {
            guard let endpoint = Endpoint(text) else {
                throw table.problem(key, "must be HOST:PORT, [IPV6]:PORT or unix:PATH")
            }
            return endpoint
        }
        return Cluster(
            name: name, node: node, nodes: nodes, redis: try redis.map { try endpoint($0, "redis") },
            sentinels: try (sentinels ?? []).map { try endpoint($0, "sentinels") },
            keyFile: table.paths.absolute(keyFile),
            user: user, passwordFile: passwordFile.map(table.paths.absolute), usesTLS: usesTLS,
            trustFile: trustFile.map(table.paths.absolute))
    }

    /// Whether a text can be the name of a cluster, or of a node in one.
    static func isClusterName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                $0 < 0x80
                    && (Character(UnicodeScalar($0)).isLetter || Character(UnicodeScalar($0)).isNumber
                        || "._-".utf8.contains($0))
            }
    }
}
