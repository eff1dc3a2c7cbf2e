// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Glibc
import Simulator

/// Row (g): a node behind an onion service of a private Tor network. Its reference is the tor that hosts the service.
struct OnionComparison {
    /// The name of that tor in the row.
    static let service = "onion's tor"
    /// Envelopes per round; fewer than for other rows, because the network is slow.
    static let envelopes = 100_000
    static let connections = 50
    /// Envelopes in flight per connection.
    static let inFlight = 20

    let bench: BenchProgram
    let servers: ServerProcesses
    let sink: LocalServer

    /// Starts the network and a node of its own, which receives circuit ids, and measures.
    func run(rounds: Int) async throws -> RowRuns {
        let title = ComparisonRow.onion.title
        let node = try ComparedNode(
            "onion", on: servers, sink: sink, envelopes: max(1_000_000, rounds * Self.envelopes * 2), circuitIDs: true
        ).server
        let pidFile = "\(servers.directory)/tor.pid"
        let network = try PrivateTorNetwork(on: EventLoop(name: "tor"))
        let access = try await network.start(
            target: .tcp(host: "127.0.0.1", port: node.port), virtualPort: 80,
            serviceOptions: ["HiddenServiceExportCircuitID haproxy", "PidFile \(pidFile)"]
        ) { Terminal.progress("\(title): \($0) …") }
        do {
            let service = try Self.pid(in: pidFile)
            var runs = RowRuns()
            for round in 1...rounds {
                Terminal.progress("\(title): round \(round) of \(rounds), \(Self.envelopes) envelopes …")
                runs.append(try measure(node, service, by: access))
            }
            await network.stop()
            return runs
        } catch {
            await network.stop()
            throw error
        }
    }

    private func measure(
        _ node: LocalServer, _ service: Int32, by access: PrivateTorNetwork.Access
    ) throws -> RowRun {
        let others = ProcessUsage.children(of: getpid(), named: "tor").filter { $0 != service }
        let measurement = try bench.load(
            Self.envelopes, to: "\(access.onion)",
            [
                "--socks", "\(access.socks)", "--connections", "\(Self.connections)", "--in-flight",
                "\(Self.inFlight)",
            ], measuring: [node.pid, sink.pid, service] + others)
        return RowRun(
            measurement, load: "load",
            others: ["node", "sink", Self.service] + others.map { _ in "another tor" }, tested: "node")
    }

    private static func pid(in file: String) throws -> Int32 {
        guard let data = FileManager.default.contents(atPath: file),
            let pid = Int32(String(decoding: data, as: UTF8.self).filter(\.isNumber))
        else { throw fail("the onion service's tor wrote no pid to \(file)", .failure) }
        return pid
    }
}
