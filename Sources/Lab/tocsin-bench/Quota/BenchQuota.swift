// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc
import StandIns
import TNP

struct BenchQuota: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quota", abstract: "Show how a node adapts to the quotas of Apple and Google, in virtual time.",
        discussion: """
            Senders submit at a constant rate, and some to one phone more often than its quota allows. The push service \
            takes less after quiet (slow start), then more than is submitted, then less, then more again, each for five \
            minutes; after ten minutes without a notification, it begins with a slow start again. The same seed gives the \
            same run. Exits with 1 if the node does not settle: see the table.

            EXAMPLES
              tocsin-bench quota
              tocsin-bench quota --service apns --samples /tmp/apns.csv
            """)

    /// The simulated push services.
    enum Service: String, ExpressibleByArgument, CaseIterable {
        case apns, fcm

        var magic: Magic { self == .apns ? .iOS : .android }
    }

    @Option(help: "The seed, which determines everything.")
    var seed: UInt64 = 1

    @Option(help: "The push service: apns or fcm.")
    var service = Service.fcm

    @Option(help: "Write what happens in each second to this file, as CSV.")
    var samples: String?

    func run() async throws {
        try BenchSimulate.ensureDeterministicHashing()
        let directory = URL.temporaryDirectory.appending(path: "tocsin-quota-\(getpid())").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let run = try QuotaRun(service, seed: seed, directory: directory)
        let report = try run.run()
        if let samples {
            do {
                try report.csv.write(toFile: samples, atomically: true, encoding: .utf8)
            } catch {
                throw fail("cannot write \(samples): \(error)", .failure)
            }
        }
        for line in report.table { Terminal.print(line) }
        for problem in report.problems { Terminal.error("tocsin-bench: \(problem)") }
        if !report.problems.isEmpty { throw ExitCode.failure }
    }
}
