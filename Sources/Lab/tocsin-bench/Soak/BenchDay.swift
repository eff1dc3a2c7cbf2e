// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Glibc
import StandIns

struct BenchDay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "day",
        abstract: "Send at a steady rate through tor for hours, and fit the slopes of the node's figures.",
        discussion: """
            The node serves an onion of a private Tor network with its own tor. The stand-ins for the push services have \
            the usual faults of soak all the time. At even intervals, eight to forty times, something happens: the \
            node reloads, its tor is killed, or a push service restarts. The node itself restarts after an eighth of the \
            time, and is killed after a quarter. One envelope a second goes past tor, and shows the node's own latency. \
            The slopes are those of the last five eighths, or from twelve minutes after the kill on. Exits with 0 only \
            if no envelope was lost, none was repeated without need, and memory, descriptors and latency do not grow.

            EXAMPLES
              tocsin-bench day --duration 6h
              tocsin-bench day --duration 20m --rate 50 --samples day.csv
            """)

    @Option(help: "How long, at least 20m, e.g. 6h.")
    var duration: RunTime = RunTime(.seconds(6 * 3600))

    @Option(help: "Envelopes per second, 1 to 1000.")
    var rate = 20

    @Option(
        help:
            "A new file for a line every ten seconds: seconds, kB of memory, descriptors, latency in ms past and through tor."
    )
    var samples: String?

    func validate() throws {
        guard duration.value >= DayResult.shortest else { throw ValidationError("--duration must be at least 20m") }
        guard (1...1000).contains(rate) else { throw ValidationError("--rate must be from 1 to 1000") }
    }

    func run() async throws {
        OpenFiles.raiseLimit()
        let network = try PrivateTorNetwork(on: EventLoop(name: "tor"))
        let directory = URL.temporaryDirectory.appending(path: "tocsin-day-tor-\(getpid())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let access = try await network.start(target: .unix(path: "/none"), virtualPort: 7077) { Terminal.progress($0) }
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
            try await network.writeMemberProgram(to: "\(directory)/tor")
            let surroundings = TestBed.Surroundings(tor: "managed = true\nbinary = \"\(directory)/tor\"")
            let tables = SimulatedConfiguration.unlimitedRates + "\n[spool]\nenabled = true"
            try await TestBed.run("day", more: tables, surroundings: surroundings) { bed in
                let result = try await Day(bed, through: access.socks, rate: rate, samples).run(for: duration.value)
                Terminal.endProgress()
                Terminal.print(result.table)
                let broken = result.violations
                guard broken.isEmpty else { throw fail(broken.joined(separator: "; "), .failure) }
            }
        } catch {
            await network.stop()
            throw error
        }
        await network.stop()
    }
}

/// A time on the command line, in seconds, minutes or hours: `90s`, `20m`, `6h`.
struct RunTime: ExpressibleByArgument, CustomStringConvertible {
    let value: Duration

    init(_ value: Duration) { self.value = value }

    init?(argument: String) {
        let factors: [Character: Int] = ["s": 1, "m": 60, "h": 3600]
        guard let factor = argument.last.flatMap({ factors[$0] }), let number = Int(argument.dropLast()),
            (1...1_000_000).contains(number)
        else { return nil }
        value = .seconds(number * factor)
    }

    var description: String { "\(value.components.seconds)s" }
}
