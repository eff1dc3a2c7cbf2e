// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Glibc
import StandIns

/// The rows in which the node, or nghttpx in its place, is behind an onion service of a private Tor network. The report
/// compares it with the tor that hosts the service.
struct OnionComparison {
    /// The name of that tor among the parts of a ``RowRun``.
    static let service = "onion's tor"
    /// Envelopes per row and round; fewer than other rows' default, because the network is slow.
    static let envelopes = 100_000
    static let connections = 50
    /// Envelopes in flight per connection.
    static let inFlight = 20

    private static let nodePort: UInt16 = 80
    private static let nghttpxPort: UInt16 = 81

    let bench: BenchProgram
    let h2load: H2Load
    let servers: ServerProcesses
    let sink: LocalServer

    /// Measures the rows in alternating rounds, with a private Tor network and with a node and an nghttpx that receive
    /// circuit ids. The network runs only meanwhile.
    func run(_ rows: [ComparisonRow], rounds: Int) async throws -> [ComparisonRow: [RowRun]] {
        let node = try ComparedNode(
            "onion", on: servers, sink: sink, envelopes: max(1_000_000, rounds * Self.envelopes * rows.count * 2),
            isForTor: true)
        let nghttpx = try NghttpxServer.start(on: servers, sink: sink, readsProxyLine: true)
        let pidFile = "\(servers.directory)/tor.pid"
        let network = try PrivateTorNetwork(on: EventLoop(name: "tor"))
        let access = try await network.start(
            target: node.tnp, virtualPort: Self.nodePort,
            serviceOptions: [
                "HiddenServiceExportCircuitID haproxy", "PidFile \(pidFile)",
                "HiddenServicePort \(Self.nghttpxPort) \(nghttpx.address)",
            ]
        ) { Terminal.progress("private Tor network: \($0) …") }
        do {
            let service = try Self.pid(in: pidFile)
            let others = ProcessUsage.children(of: getpid(), named: "tor").filter { $0 != service }
            let tors = [service] + others
            var runs: [ComparisonRow: [RowRun]] = [:]
            for round in 1...rounds {
                for row in rows {
                    Terminal.progress("\(row.title): round \(round) of \(rounds), \(Self.envelopes) requests …")
                    let run: RowRun
                    switch row {
                    case .onion:
                        run = try measure(
                            node.server, at: "\(access.onion)", ["--socks", "\(access.socks)"], tors: tors)
                    case .onionForwarded:
                        let forwarder = try startForwarder(to: Self.nodePort, of: access)
                        run = try measure(node.server, at: forwarder.address, tors: tors)
                    case .onionProxy:
                        let forwarder = try startForwarder(to: Self.nghttpxPort, of: access)
                        run = try measure(nghttpx: nghttpx, at: forwarder.address, tors: tors)
                    default: continue
                    }
                    runs[row, default: []].append(run)
                }
            }
            await network.stop()
            return runs
        } catch {
            await network.stop()
            throw error
        }
    }

    private static func names(_ server: String, _ tors: [Int32]) -> [String] {
        [server, "sink", service] + tors.dropFirst().map { _ in "another tor" }
    }

    /// Starts socat, which forwards connections to a port of the onion service.
    private func startForwarder(
        to virtualPort: UInt16, of access: PrivateTorNetwork.Access
    ) throws -> LocalServer {
        guard case .tcp(let onion, _) = access.onion, case .tcp(let proxy, let socks) = access.socks else {
            preconditionFailure("a private Tor network has TCP ports")
        }
        let port = try servers.ports.reserve()
        return try servers.start(
            [
                "socat", "TCP-LISTEN:\(port),bind=127.0.0.1,fork,backlog=100,nodelay",
                "SOCKS4A:\(proxy):\(onion):\(virtualPort),socksport=\(socks),nodelay",
            ], port: port)
    }

    /// Measures the node.
    /// - Parameters:
    ///   - options: options of `tocsin-bench load` that say how to reach `address`.
    ///   - tors: the pids of the network's tors, that of the onion service first.
    private func measure(
        _ node: LocalServer, at address: String, _ options: [String] = [], tors: [Int32]
    ) throws -> RowRun {
        let measurement = try bench.load(
            Self.envelopes, to: address,
            options + ["--connections", "\(Self.connections)", "--in-flight", "\(Self.inFlight)"],
            measuring: [node.pid, sink.pid] + tors)
        return RowRun(measurement, load: "load", others: Self.names("node", tors), tested: "node")
    }

    /// Measures nghttpx in place of the node.
    private func measure(nghttpx: LocalServer, at address: String, tors: [Int32]) throws -> RowRun {
        let target = H2Load.Target(
            origin: "http://\(address)", connections: Self.connections, inFlight: Self.inFlight)
        let measurement = try h2load.run(
            Self.envelopes, to: target, measuring: [nghttpx.pid, sink.pid] + tors)
        return RowRun(measurement, load: "h2load", others: Self.names("nghttpx", tors), tested: "nghttpx")
    }

    private static func pid(in file: String) throws -> Int32 {
        guard let data = FileManager.default.contents(atPath: file),
            let pid = Int32(String(decoding: data, as: UTF8.self).filter(\.isNumber))
        else { throw fail("the onion service's tor wrote no pid to \(file)", .failure) }
        return pid
    }
}
