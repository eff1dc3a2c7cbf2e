// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc

struct BenchCompare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare", abstract: "Compare the node and its HTTP/2 client with h2load, nghttpx, nginx and tor.",
        discussion: """
            Measures the rows in alternating rounds, those with tor first, and prints medians and their ratios. Only \
            ratios within one run are meaningful: do not compare rows of different runs.

            The sink stands in for Apple: nginx as a single process, which reads each body and answers 200 to any \
            path. All requests to it have the headers and the size of the node's. The node and our client send a new \
            device token, apns-id and apns-collapse-id with each request. h2load takes its device tokens from a list \
            of \(H2Load.pathCount) and cannot change its headers, which HPACK then reduces to a byte each: this \
            favours h2load.

            The part with the most CPU time per second is the bottleneck. If that is not the part under test, the row \
            says nothing about how fast the part under test is, and only CPU ratios count. "cores" is the CPU time of \
            all parts per second: near the number of the machine's cores, the parts slow each other down.

            In (k), nghttpx has the node's place behind the onion service. h2load cannot use tor by itself, so socat \
            forwards its connections. (l) is (g) on the same route. "cores" does not include socat.

            In (m) and (n), the node has a spool, and senders allow it to store what waits. Apple and Google answer after \
            20 to 200 ms: --answer-after gives the sink such a delay.

            In (o), the first node is a site of its upstream node, so its phones share connections; in (i) each phone has \
            one of its own.

            (p) and (q) are what people run in place of a node: clients of PyPI. They need --python.

            In (h), latencies count from the time at which an envelope or request was sent. h2load sends in bursts, one \
            every 10 ms: above 100 requests/s, this raises its latencies and favours the node.

            EXAMPLES
              tocsin-bench compare --rounds 5
              tocsin-bench compare --rows a,b,c,d --requests 100000
              tocsin-bench compare --rows g,k,l --rounds 1 --tor-rounds 3
              tocsin-bench compare --rows d,f,m,n --answer-after 100
              tocsin-bench compare --rows b,d,p,q --rounds 3 --python .build/apns-clients/bin/python
              tocsin-bench compare --tor-rounds 0
            """)

    @Option(help: "Number of rounds of the rows without tor, 1 to 100.")
    var rounds = 5

    @Option(help: "Requests per row and round, 1000 to 1000000.")
    var requests = 200_000

    @Option(help: "Number of rounds of the rows in a private Tor network, 0 to 10.")
    var torRounds = 1

    @Option(help: "The time after which the sink answers a request, in milliseconds, 0 to 1000.")
    var answerAfter = 0

    @Option(help: "The rows to measure, by their letters.")
    var rows = ComparisonRow.allCases.filter { !$0.needsPython }.map(\.rawValue).joined(separator: ",")

    @Option(help: "An interpreter of Python that has aioapns and httpx, as `make bench-clients` makes it.")
    var python: String?

    func validate() throws {
        guard (1...100).contains(rounds) else { throw ValidationError("--rounds must be 1 to 100, not \(rounds)") }
        guard (1000...1_000_000).contains(requests) else {
            throw ValidationError("--requests must be 1000 to 1000000, not \(requests)")
        }
        guard (0...10).contains(torRounds) else {
            throw ValidationError("--tor-rounds must be 0 to 10, not \(torRounds)")
        }
        guard (0...1000).contains(answerAfter) else {
            throw ValidationError("--answer-after must be 0 to 1000, not \(answerAfter)")
        }
        guard let list = ComparisonRow.list(rows) else {
            throw ValidationError("--rows must be letters like a,b,d, not \(rows)")
        }
        guard python != nil || !list.contains(where: \.needsPython) else {
            throw ValidationError("(p) and (q) need --python: make bench-clients")
        }
        let most = ComparedNode.maximumEnvelopes
        guard Comparison.envelopes(rounds: rounds, requests: requests) <= most else {
            throw ValidationError(
                "--rounds times --requests is too large: the node remembers \(most) envelopes")
        }
    }

    func run() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-bench-\(getpid())").path()
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let servers = ServerProcesses(directory: directory)
        defer { servers.stop() }
        let rows = ComparisonRow.list(self.rows) ?? []
        let comparison = try await Comparison(
            on: servers, requests: requests, envelopes: Comparison.envelopes(rounds: rounds, requests: requests),
            answerAfter: .milliseconds(answerAfter), python: python)
        do {
            try await measure(rows, by: comparison)
        } catch {
            await comparison.stop()
            throw error
        }
        await comparison.stop()
        Terminal.print(ComparisonReport(comparison.results, requests: requests).text)
    }

    private func measure(_ rows: [ComparisonRow], by comparison: Comparison) async throws {
        let onionRows = rows.filter(\.usesOnion)
        if !onionRows.isEmpty, torRounds > 0 { try await comparison.measureOnion(onionRows, rounds: torRounds) }
        for round in 1...rounds {
            for row in rows where !row.usesOnion {
                Terminal.progress("round \(round) of \(rounds): \(row.title) …")
                try comparison.measure(row)
            }
        }
        Terminal.endProgress()
    }
}
