// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials

/// Runs subcommands of this program as load generators, each in a process of its own.
struct BenchProgram {
    private let directory: String
    private let path: String

    init(directory: String) throws {
        self.directory = directory
        path = try Executables.bench()
    }

    /// Runs a subcommand that prints a measurement.
    /// - Parameter pids: the processes to measure in addition to the load generator.
    func run(_ arguments: [String], measuring pids: [Int32]) throws -> Measurement {
        let log = "\(directory)/load.log"
        let all = arguments + pids.flatMap { ["--pid", "\($0)"] }
        let result = try MeasuredProcess([path] + all, directory: directory, errors: log).wait()
        guard result.status == 0, let line = result.output.split(separator: "\n").last,
            let measurement = try? JSONDecoder().decode(Measurement.self, from: Data(line.utf8))
        else {
            let errors = FileManager.default.contents(atPath: log).map { String(decoding: $0, as: UTF8.self) } ?? ""
            throw fail("\(all.joined(separator: " ")) failed: \(result.output)\(errors.suffix(2000))", .failure)
        }
        return measurement
    }

    /// Sends envelopes of the size of a short notification to a node.
    func load(
        _ envelopes: Int, to node: String, _ options: [String] = [], measuring pids: [Int32]
    ) throws -> Measurement {
        try run(
            [
                "load", "--node", node, "--envelopes", "\(envelopes)", "--ciphertext",
                "\(PushRequestGenerator.ciphertextLength)",
            ] + options, measuring: pids)
    }
}
