// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Settings

extension Configuration {
    /// `[listen]`
    package struct Listen: Sendable, Equatable {
        static var restartKeys: [RestartKey] { [RestartKey("listen", \.listen)] }

        /// The value that lets the node choose an endpoint.
        private static let automatic = "on"
        /// What ``automatic`` stands for if the tor is not the node's own.
        private static let ports = (
            tnp: Endpoint.tcp(host: "127.0.0.1", port: 7077), http: Endpoint.tcp(host: "127.0.0.1", port: 7080)
        )

        /// The endpoint for TNP senders, to which tor forwards streams of the onion service.
        package var tnp: Endpoint
        /// The endpoint of the HTTP API, for desktops that do not speak TNP; `nil` if it is disabled.
        package var http: Endpoint?
        /// The endpoint of the HTTP API for desktops that reach the node without tor, on a home network; `nil` if it is
        /// disabled.
        package var directHTTP: Endpoint?
        /// Whether tor writes a PROXY line with the circuit id before each stream.
        package var circuitIDs: Bool
        /// The endpoint of health checks, metrics and the dashboard; `nil` if it is disabled.
        package var admin: Endpoint?
        /// The file with the token that ``admin`` asks for; `nil` if it asks for none, and only this machine can reach it.
        package var adminTokenFile: String?

        /// Whether the node chooses ``tnp`` and ``http``.
        private let isAutomatic: (tnp: Bool, http: Bool)

        /// All endpoints, each with its configuration key.
        package var endpoints: [(key: String, endpoint: Endpoint)] {
            [
                ("listen.tnp", Optional(tnp)), ("listen.http", http), ("listen.direct_http", directHTTP),
                ("listen.admin", admin),
            ].compactMap { key, endpoint in endpoint.map { (key, $0) } }
        }

        /// Whether the node has the HTTP API.
        package var servesHTTP: Bool { http != nil || directHTTP != nil }

        init(_ root: TableReader) {
            let table = root.table(
                "listen",
                "Addresses on which the node listens: `HOST:PORT`, or `unix:` and the path of a socket. `on` leaves `tnp` and `http` to the node: sockets that only its own tor can reach; with another tor, ports 7077 and 7080 of 127.0.0.1."
            )
            let isPublicAllowed = table.boolean(
                "allow_public", default: false, "Allow `tnp` and `http` on addresses that other machines can reach")
            let tnp = Self.endpoint(
                table, "tnp", isPublicAllowed: isPublicAllowed, default: Self.automatic, automatic: Self.ports.tnp,
                "Endpoint for TNP, to which tor connects")
            let http = Self.endpoint(
                table, "http", isPublicAllowed: isPublicAllowed, automatic: Self.ports.http,
                "HTTP API for today's desktops, usually `on`; see bisq.md. Disabled if not set")
            (self.tnp, self.http) = (tnp?.endpoint ?? Self.ports.tnp, http?.endpoint)
            directHTTP =
                Self.endpoint(
                    table, "direct_http", isPublicAllowed: isPublicAllowed,
                    "HTTP API for desktops that reach the node without tor, at home: see self-hosting-an-app.md. Each connection has limits of its own. Disabled if not set"
                )?.endpoint
            isAutomatic = (tnp?.isAutomatic ?? false, http?.isAutomatic ?? false)
            circuitIDs = table.boolean(
                "circuit_ids", default: false,
                "Apply limits per circuit; set this if and only if the external tor has `HiddenServiceExportCircuitID haproxy`. Ignored with the node's own tor, which always identifies circuits"
            )
            adminTokenFile = table.file(
                "admin_token_file",
                "File whose first line is the token that `admin` asks for: a bearer token for programs, the password for browsers. Mode 600. Make it with `openssl rand -hex 32`"
            )
            let isPublicAdminAllowed = table.boolean(
                "allow_public_admin", default: false,
                "Allow `admin` on an address that other machines or containers can reach; `admin_token_file` must be set. The connection is not encrypted"
            )
            if isPublicAdminAllowed, adminTokenFile == nil {
                table.note("allow_public_admin", "needs listen.admin_token_file: anybody could read the dashboard")
            }
            admin =
                Self.endpoint(
                    table, "admin", isPublicAllowed: isPublicAdminAllowed,
                    advice:
                        "to read the dashboard elsewhere, open a tunnel: ssh -L 7079:127.0.0.1:7079 SERVER; or, in a network of containers, set allow_public_admin and admin_token_file",
                    "Dashboard, metrics and health checks, usually `127.0.0.1:7079` or a unix socket. Disabled if not set"
                )?.endpoint
            if self.http == self.tnp, !self.tnp.isAnyPort {
                table.note("http", "is the same address as listen.tnp; each endpoint needs its own")
            }
            if let directHTTP, directHTTP == self.tnp || directHTTP == self.http, !directHTTP.isAnyPort {
                table.note("direct_http", "is the address of another endpoint; each endpoint needs its own")
            }
        }

        /// Sets the endpoints for the node's own tor: sockets in this directory, unless the file names addresses.
        mutating func serveOwnTor(in directory: String) {
            // The node's own tor always sends circuit ids.
            circuitIDs = true
            if isAutomatic.tnp { tnp = .unix(path: "\(directory)/tnp.sock") }
            if isAutomatic.http { http = .unix(path: "\(directory)/http.sock") }
        }

        /// Why this process cannot listen on one of ``endpoints``; `nil` if it can, or if that is unknown: a directory
        /// that the node or systemd creates may not exist yet, or this user may not enter it.
        package func obstacle(to endpoint: Endpoint) -> ListenError? {
            if case .unix(let path) = endpoint,
                endpoint == tnp && isAutomatic.tnp || endpoint == http && isAutomatic.http,
                let slash = path.lastIndex(of: "/"), access(String(path[..<slash]), W_OK | X_OK) != 0
            {
                return nil
            }
            return Listener.obstacle(to: endpoint)
        }

        package static func == (one: Self, other: Self) -> Bool {
            one.tnp == other.tnp && one.http == other.http && one.directHTTP == other.directHTTP
                && one.admin == other.admin
                && one.adminTokenFile == other.adminTokenFile && one.circuitIDs == other.circuitIDs
        }

        private static func endpoint(
            _ table: TableReader, _ key: String, isPublicAllowed: Bool, default standard: String? = nil,
            automatic: Endpoint? = nil,
            advice: String = "only tor should connect to the node. To allow it anyway, set allow_public = true",
            _ help: String
        ) -> (endpoint: Endpoint, isAutomatic: Bool)? {
            let expected = "an address like \"127.0.0.1:7077\""
            let text =
                if let standard { table.string(key, expected: expected, default: standard, help) as String? } else {
                    table.string(key, expected: expected, help)
                }
            guard let text else { return nil }
            if text == Self.automatic, let automatic { return (automatic, true) }
            guard var endpoint = Endpoint(text) else {
                let values = automatic == nil ? "" : "\"on\", or "
                table.note(key, "must be \(values)an address like \"127.0.0.1:7077\" or \"unix:/run/tocsin/tnp.sock\"")
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
            guard endpoint.isLocal || isPublicAllowed else {
                table.note(key, "other machines can reach \(endpoint); \(advice)")
                return nil
            }
            return (endpoint, false)
        }
    }
}

extension Endpoint {
    /// Whether the system chooses the port.
    fileprivate var isAnyPort: Bool { if case .tcp(_, 0) = self { true } else { false } }
}
