// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import StandIns

struct BenchFlood: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flood", abstract: "Test that honest senders are served during a flood of hostile circuits.",
        discussion: """
            The node has its default limits. The harness acts as tor and names a circuit for each stream. Honest \
            senders send a notification every two seconds, first alone, then with nine kinds of hostile circuits at \
            once: invented device tokens, with and without proofs of work and over HTTP, bad device tokens, garbage, \
            stalled streams, replays, senders that never read, and senders with phones of their own that stay below \
            the limits. A circuit that the node blocks comes back as another one. Meanwhile ten new senders arrive.

            The attackers have idle priority, because attackers on machines of their own could not take the cores of \
            the node and of honest senders. New senders search for proofs in turns with them: 200 attackers that \
            search are together 200 times as fast as a new sender's desktop.

            With --check it exits with 0 only if every honest envelope was delivered, the push services saw no more \
            bad device tokens than the unproven budget allows, no envelope rang twice, and the node still delivers and \
            stays within --max-megabytes. Latencies are printed but not checked, because the harness shares the \
            machine.

            EXAMPLES
              tocsin-bench flood
              tocsin-bench flood --seconds 600 --calm-seconds 60 --hostile 2000 --pause-factor 8 --check --max-megabytes 400
              tocsin-bench flood --tor --honest 5 --hostile 30
            """)

    @Option(help: "Seconds per phase, calm and flooded, 1 to 600.")
    var seconds = 20.0

    @Option(help: "Seconds of the calm phase, if it is shorter.")
    var calmSeconds: Double?

    @Option(help: "Number of hostile circuits, divided equally among the kinds, 0 to 5000.")
    var hostile = 200

    @Option(help: "Multiply the pauses between the submissions of a hostile circuit, 1 to 100.")
    var pauseFactor = 1.0

    @Option(help: "Number of honest senders, 1 to 200.")
    var honest = 20

    @Flag(help: "Connect through an onion service of a private Tor network on this machine.")
    var tor = false

    @Flag(help: "Exit with 1 if one of the conditions above is not met.")
    var check = false

    @Option(help: "Maximum resident memory of the node in megabytes; only checked with --check.")
    var maxMegabytes: Int?

    func validate() throws {
        guard (1...600).contains(seconds) else { throw ValidationError("--seconds must be 1 to 600, not \(seconds)") }
        guard (0...5000).contains(hostile) else { throw ValidationError("--hostile must be 0 to 5000, not \(hostile)") }
        guard (1...100).contains(pauseFactor) else {
            throw ValidationError("--pause-factor must be 1 to 100, not \(pauseFactor)")
        }
        guard (1...200).contains(honest) else { throw ValidationError("--honest must be 1 to 200, not \(honest)") }
    }

    func run() async throws {
        var options = FloodScenario.Options()
        options.time = .seconds(seconds)
        options.calm = calmSeconds.map { .seconds(min($0, seconds)) }
        options.pauseFactor = pauseFactor
        options.honest = honest
        options.hostile = hostile
        OpenFiles.raiseLimit()
        try await TestBed.run("flood", more: "", circuitIDs: true, servesHTTP: !tor) { [options] bed in
            let report = try await run(options, on: bed)
            Terminal.endProgress()
            Terminal.print(report.table)
            let broken = report.violations(maxMegabytes: maxMegabytes)
            guard check, !broken.isEmpty else { return }
            throw fail(broken.joined(separator: "; "), .failure)
        }
    }

    private func run(_ options: FloodScenario.Options, on bed: TestBed) async throws -> FloodReport {
        guard tor else {
            return try await FloodScenario(
                bed, by: .direct(bed.endpoint), http: .direct(bed.httpEndpoint), options
            ).run()
        }
        let network = try PrivateTorNetwork(on: EventLoop(name: "tor"))
        let access = try await network.start(
            target: bed.endpoint, virtualPort: 80, serviceOptions: ["HiddenServiceExportCircuitID haproxy"]
        ) { Terminal.progress($0) }
        do {
            let report = try await FloodScenario(bed, by: .tor(access), http: nil, options).run()
            await network.stop()
            return report
        } catch {
            await network.stop()
            throw error
        }
    }
}
