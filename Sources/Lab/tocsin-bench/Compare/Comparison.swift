// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns

/// The results of a comparison.
struct ComparisonResults {
    /// The runs of all rows but (h).
    var rows: [ComparisonRow: [RowRun]] = [:]
    /// The runs of row (h).
    var openLoop: [OpenLoop.Run] = []
}

/// Runs the rows of a comparison. All rows without tor share the same servers.
final class Comparison {
    private(set) var results = ComparisonResults()

    private let servers: ServerProcesses
    private let requests: Int
    private let bench: BenchProgram
    private let h2load: H2Load
    private var relay: RelayLoad
    private let sink: LocalServer
    private let nginx: LocalServer
    private let nghttpx: LocalServer
    private let node: ComparedNode
    /// A node without credentials, whose upstream is ``node``.
    private let relayingNode: ComparedNode
    /// A node that knows ``site``.
    private let upstreamNode: ComparedNode
    /// A node without credentials that is a site of its upstream, ``upstreamNode``.
    private let site: ComparedNode
    private let python: PythonClient?
    /// A node that shares its state with others through ``engine``.
    private let clusteredNode: ComparedNode
    private let engine: RedisServer
    /// A node that stores what waits, if its sender allows it.
    private let storingNode: ComparedNode

    /// More than the number of envelopes with which all loads warm up.
    private static let reserve = 100_000

    /// The most envelopes that any node receives; each is for another device token.
    static func envelopes(rounds: Int, requests: Int) -> Int {
        rounds * (2 * requests + RelayLoad.maximumRequests + OpenLoop.envelopes) + reserve
    }

    /// Starts the servers.
    /// - Parameters:
    ///   - requests: the requests per row.
    ///   - envelopes: the most envelopes that any node receives in all rounds.
    ///   - delay: the time after which the sink answers a request.
    ///   - python: an interpreter that has the clients of PyPI; `nil` to leave out their rows.
    init(
        on servers: ServerProcesses, requests: Int, envelopes: Int, answerAfter delay: Duration, python: String?
    ) async throws {
        self.servers = servers
        self.requests = requests
        bench = try BenchProgram(directory: servers.directory)
        h2load = try H2Load(directory: servers.directory)
        relay = RelayLoad(directory: servers.directory)
        sink = try NginxServer.startSink(on: servers, answerAfter: delay)
        nginx = try NginxServer.startPlain(on: servers)
        nghttpx = try NghttpxServer.start(on: servers, sink: sink)
        node = try ComparedNode("node", on: servers, sink: sink, envelopes: envelopes)
        relayingNode = try ComparedNode(
            "relay", on: servers, sink: sink, envelopes: envelopes, upstream: node.server)
        let siteKey = Ed25519.PrivateKey(try KeyFile.readOrCreate("\(servers.directory)/site.key"))
        upstreamNode = try ComparedNode(
            "upstream", on: servers, sink: sink, envelopes: envelopes, site: siteKey.publicKey)
        site = try ComparedNode(
            "site", on: servers, sink: sink, envelopes: envelopes, upstream: upstreamNode.server, siteKey: "site.key")
        self.python = try python.map { try PythonClient($0, directory: servers.directory) }
        engine = try RedisServer(port: servers.ports.reserve())
        try await engine.start()
        clusteredNode = try ComparedNode("clustered", on: servers, sink: sink, envelopes: envelopes, engine: engine)
        storingNode = try ComparedNode("storing", on: servers, sink: sink, envelopes: envelopes, hasSpool: true)
    }

    /// Stops the engine.
    func stop() async { await engine.stop() }

    /// Measures rows with an onion service, in a network that runs only meanwhile.
    func measureOnion(_ rows: [ComparisonRow], rounds: Int) async throws {
        let onion = OnionComparison(bench: bench, h2load: h2load, servers: servers, sink: sink)
        results.rows.merge(try await onion.run(rows, rounds: rounds)) { $1 }
    }

    /// Measures a row without an onion service once.
    func measure(_ row: ComparisonRow) throws {
        if let run = try run(row) { results.rows[row, default: []].append(run) }
    }

    private func run(_ row: ComparisonRow) throws -> RowRun? {
        switch row {
        case .h2load: return try runH2Load()
        case .client: return try runClient()
        case .nghttpx: return try runProxy()
        case .node: return try runNode(node)
        case .nginx: return try runNginx()
        case .httpAPI: return try runHTTPAPI(node)
        case .openLoop:
            results.openLoop += try OpenLoop(
                bench: bench, h2load: h2load, node: node.server, clusteredNode: clusteredNode.server, sink: sink
            ).round()
            return nil
        case .relay: return try runRelay(relayingNode, to: node)
        case .site: return try runRelay(site, to: upstreamNode)
        case .aioapns, .httpx: return try runPython("\(row)")
        case .cluster: return try runCluster()
        case .httpSpool: return try runHTTPAPI(storingNode)
        case .spool: return try runNode(storingNode, ["--accept-queued"])
        case .onion, .onionProxy, .onionForwarded: return nil
        }
    }

    private func runH2Load() throws -> RowRun {
        let target = H2Load.Target(origin: "https://\(sink.address)", inFlight: 500)
        return RowRun(
            try h2load.run(requests, to: target, measuring: [sink.pid]), load: "h2load", others: ["sink"],
            tested: "h2load")
    }

    private func runClient() throws -> RowRun {
        RowRun(
            try bench.run(
                [
                    "http2", "--server", sink.address, "--authority", "\(servers.directory)/ca.pem", "--requests",
                    "\(requests)", "--in-flight", "500",
                ], measuring: [sink.pid]),
            load: "our client", others: ["sink"], tested: "our client")
    }

    private func runProxy() throws -> RowRun {
        let target = H2Load.Target(origin: "http://\(nghttpx.address)", connections: 50, inFlight: 20)
        return RowRun(
            try h2load.run(requests, to: target, measuring: [nghttpx.pid, sink.pid]), load: "h2load",
            others: ["nghttpx", "sink"], tested: "nghttpx")
    }

    private func runNode(_ node: ComparedNode, _ options: [String] = []) throws -> RowRun {
        RowRun(
            try bench.load(
                requests, to: node.server.address, ["--connections", "50", "--in-flight", "20"] + options,
                measuring: [node.server.pid, sink.pid]),
            load: "load", others: ["node", "sink"], tested: "node")
    }

    private func runPython(_ client: String) throws -> RowRun? {
        guard let python else { return nil }
        return RowRun(
            try python.run(client, min(requests, PythonClient.maximumRequests), to: sink, measuring: [sink.pid]),
            load: client, others: ["sink"], tested: client)
    }

    private func runRelay(_ first: ComparedNode, to upstream: ComparedNode) throws -> RowRun {
        RowRun(
            try bench.load(
                requests, to: first.server.address, ["--connections", "50", "--in-flight", "20"],
                measuring: [first.server.pid, upstream.server.pid, sink.pid]),
            load: "load", others: ["first node", "upstream", "sink"], tested: "first node")
    }

    private func runCluster() throws -> RowRun {
        RowRun(
            try bench.load(
                requests, to: clusteredNode.server.address, ["--connections", "50", "--in-flight", "20"],
                measuring: [clusteredNode.server.pid, engine.pid ?? 0, sink.pid]),
            load: "load", others: ["node", "Redis", "sink"], tested: "node")
    }

    private func runNginx() throws -> RowRun {
        RowRun(
            try relay.run(requests, to: nginx.port, measuring: [nginx.pid]), load: "h2load", others: ["nginx"],
            tested: "nginx")
    }

    private func runHTTPAPI(_ node: ComparedNode) throws -> RowRun {
        RowRun(
            try relay.run(requests, to: node.httpPort, measuring: [node.server.pid, sink.pid]), load: "h2load",
            others: ["node", "sink"], tested: "node")
    }
}
