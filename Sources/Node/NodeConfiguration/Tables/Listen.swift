// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings

extension Configuration {
    /// `[listen]`
    package struct Listen: Sendable, Equatable {
        static var restartKeys: [RestartKey] { [RestartKey("listen", \.listen)] }

        /// The endpoint for TNP senders, to which tor forwards streams of the onion service.
        package var tnp: Endpoint
        /// The endpoint of the HTTP API for today's desktops; `nil` if it is disabled.
        package var http: Endpoint?
        /// Whether tor writes a PROXY line with the circuit id before each stream.
        package var circuitIDs: Bool
        /// The endpoint of health checks, metrics and the dashboard, on a local address only; `nil` if it is disabled.
        package var admin: Endpoint?

        /// All endpoints, each with its configuration key.
        package var endpoints: [(key: String, endpoint: Endpoint)] {
            [("listen.tnp", Optional(tnp)), ("listen.http", http), ("listen.admin", admin)].compactMap {
                key, endpoint in
                endpoint.map { (key, $0) }
            }
        }

        init(_ root: TableReader) {
            let table = root.table(
                "listen", "Addresses on which the node listens: `HOST:PORT`, or `unix:` and the path of a socket.")
            let isPublicAllowed = table.boolean(
                "allow_public", default: false, "Allow `tnp` and `http` on addresses that other machines can reach")
            tnp =
                Self.endpoint(
                    table, "tnp", isPublicAllowed: isPublicAllowed, default: "127.0.0.1:7077",
                    "Endpoint for TNP, to which tor connects")
                ?? .tcp(host: "127.0.0.1", port: 7077)
            http = Self.endpoint(
                table, "http", isPublicAllowed: isPublicAllowed,
                "HTTP API for today's desktops, usually `127.0.0.1:7080`; see bisq.md. Disabled if not set")
            circuitIDs = table.boolean(
                "circuit_ids", default: false,
                "Apply limits per circuit; set this if and only if the external tor has `HiddenServiceExportCircuitID haproxy`. Ignored with the node's own tor, which always identifies circuits"
            )
            admin = Self.endpoint(
                table, "admin", isPublicAllowed: nil,
                "Dashboard, metrics and health checks, on a local address only, usually `127.0.0.1:7079`. Disabled if not set"
            )
            if http == tnp, !tnp.isAnyPort {
                table.note("http", "is the same address as listen.tnp; each endpoint needs its own")
            }
        }

        private static func endpoint(
            _ table: TableReader, _ key: String, isPublicAllowed: Bool?,
            default standard: String? = nil, _ help: String
        ) -> Endpoint? {
            let expected = "an address like \"127.0.0.1:7077\""
            let text =
                if let standard { table.string(key, expected: expected, default: standard, help) as String? } else {
                    table.string(key, expected: expected, help)
                }
            guard let text else { return nil }
            guard var endpoint = Endpoint(text) else {
                table.note(key, "must be an address like \"127.0.0.1:7077\" or \"unix:/run/tocsin/tnp.sock\"")
                return nil
            }
            if case .unix(let path) = endpoint {
                endpoint = .unix(path: table.paths.absolute(path))
                if table.paths.absolute(path).utf8.count > Endpoint.maximumUnixPathLength {
                    table.note(
                        key,
                        "the path of a unix socket has at most \(Endpoint.maximumUnixPathLength) bytes; this one is longer"
                    )
                }
            }
            guard endpoint.isLocal || isPublicAllowed == true else {
                let advice =
                    isPublicAllowed == nil
                    ? "this port has no password. To connect from elsewhere, open a tunnel: ssh -L 7079:127.0.0.1:7079 SERVER"
                    : "only tor should connect to the node. To allow it anyway, set allow_public = true"
                table.note(key, "other machines can reach \(endpoint); \(advice)")
                return nil
            }
            return endpoint
        }
    }
}

extension Endpoint {
    /// Whether the system chooses the port.
    fileprivate var isAnyPort: Bool { if case .tcp(_, 0) = self { true } else { false } }
}
