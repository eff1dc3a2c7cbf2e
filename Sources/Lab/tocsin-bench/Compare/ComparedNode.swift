// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import FoundationEssentials
import StandIns

/// A node that delivers to the sink. Its limits are too high to be reached, but the node checks them, as by default.
struct ComparedNode {
    let server: LocalServer
    let httpPort: UInt16
    /// Where the node listens for TNP.
    let tnp: Endpoint

    private let arguments: [String]

    /// The largest value of `limits.replay_entries`.
    static let maximumEnvelopes = 10_000_000

    /// Starts a node.
    /// - Parameters:
    ///   - name: the name of the node's files.
    ///   - envelopes: how many envelopes, each for another device token, the node's tables have room for.
    ///   - isForTor: whether tor connects at a unix socket, as a node's own tor does by default, and names the circuit
    ///     of each connection.
    ///   - upstream: the node that delivers for this one; `nil` to deliver to the sink.
    ///   - siteKey: the file with the key by which the upstream node knows this node as a site; `nil` if this node is
    ///     no site.
    ///   - site: the public key of a site that this node knows; `nil` if it knows none.
    ///   - engine: the engine of the node's cluster; `nil` for a node on its own.
    ///   - hasSpool: whether the node may store envelopes.
    ///   - hasDefaultBounds: whether the node's tables have their default sizes, and its replay window is a minute
    ///     long. `envelopes` has no effect then.
    init(
        _ name: String, on servers: ServerProcesses, sink: LocalServer, envelopes: Int, isForTor: Bool = false,
        upstream: LocalServer? = nil, siteKey: String? = nil, site: [UInt8]? = nil, engine: RedisServer? = nil,
        hasSpool: Bool = false,
        hasDefaultBounds: Bool = false
    ) throws {
        let (port, httpPort) = (try servers.ports.reserve(), try servers.ports.reserve())
        let directory = servers.directory
        tnp = isForTor ? .unix(path: "\(directory)/\(name).sock") : .tcp(host: "127.0.0.1", port: port)
        try PrivateFile.create("\(directory)/\(name).p8", holding: SigningKey.generate(.es256).pem)
        let credential = """
            [app.apns]
            topic = "org.example.app"
            key_file = "\(name).p8"
            key_id = "BENCHKEY01"
            team_id = "BENCHTEAM1"
            """
        let cluster = try engine.map { engine in
            _ = try KeyFile.readOrCreate("\(directory)/cluster.key")
            return "[cluster]\nnodes = 3\nredis = \"\(engine.endpoint)\"\nkey_file = \"cluster.key\""
        }
        let bounds =
            hasDefaultBounds
            ? "replay_window = 60"
            : """
            in_flight = 1000
            total_in_flight = 100000
            replay_entries = \(envelopes)
            device_tokens = \(envelopes)
            """
        let delivery = upstream.map { upstream in
            "[app.upstream]\nnode = \"\(upstream.address)\"\ndirect = true\n"
                + (siteKey.map { "site_key = \"\($0)\"" } ?? "")
        }
        let sites = site.map { key in
            """
            [sites]
            mode = "open"
            [[site]]
            name = "first"
            key = "\(String(decoding: Base64.encode(key), as: UTF8.self))"
            rate_burst = 10000000
            rate_per_minute = 1000000000
            """
        }
        let configuration = """
            [node]
            state = "\(name)"
            log = "error"
            [listen]
            tnp = "\(tnp)"
            http = "127.0.0.1:\(httpPort)"
            circuit_ids = \(isForTor)
            [tor]
            managed = false
            \(SimulatedConfiguration.unlimitedRates)
            \(bounds)
            [[app]]
            name = "bench"
            \(delivery ?? credential)
            \(sites ?? "")
            [apns]
            production = "https://\(sink.address)"
            trust_file = "ca.pem"
            \(cluster ?? "")
            [spool]
            enabled = \(hasSpool)

            """
        let file = "\(directory)/\(name).toml"
        try Data(configuration.utf8).write(to: URL(filePath: file))
        arguments = [try Executables.tocsin(), "run", "--config", file]
        server = try servers.start(arguments, port: isForTor ? httpPort : port)
        self.httpPort = httpPort
    }

    /// Starts the node again after it was stopped.
    func restart(on servers: ServerProcesses) throws -> LocalServer {
        try servers.start(arguments, port: server.port)
    }
}
