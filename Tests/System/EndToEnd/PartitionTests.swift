// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing
import Time
import Tor

@testable import tocsin_bench

/// Nodes of a cluster that are cut off, in network namespaces.
@Suite(.tags(.extended)) struct PartitionTests {
    @Test func `nodes that decide alone add their share of burst and rate`() {
        var limit = SharedLimit(burst: 300, perMinute: 60, nodes: 3)
        #expect(limit.maximum(in: .seconds(120)) == 300 + 120)
        limit.decidedAlone(for: .seconds(30))
        #expect(limit.maximum(in: .seconds(120)) == 300 + 120 + 100 + 10)
        for _ in 0..<3 { limit.decidedAlone(for: .seconds(60)) }
        #expect(limit.maximum(in: .seconds(120)) == 300 + 120 + 100 + 10 + 300 + 60)
    }

    private func at(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    @Test func `the logs of the nodes say when they decide alone`() {
        var alone = AloneTimes(nodes: 2)
        alone.read("NOTICE the engine of the cluster can be used", of: 0, since: at(1), at: at(2))
        alone.read("WARNING the engine of the cluster is slow: …", of: 0, since: at(10), at: at(11))
        alone.read("ERROR the engine of the cluster cannot be used: …", of: 0, since: at(12), at: at(13))
        alone.read("NOTICE the engine of the cluster can be used", of: 0, since: at(14), at: at(15))
        alone.read("WARNING the engine of the cluster is slow: …", of: 1, since: at(30), at: at(31))
        alone.endAll(at: at(33))
        alone.add(at(14)...at(20), of: 0)
        alone.add(at(14)...at(20), of: 1)
        #expect(alone.durations == [.seconds(10), .seconds(6), .seconds(3)])
        #expect(alone.overlap(at(9)...at(10)) && alone.overlap(at(32)...at(40)))
        #expect(!alone.overlap(at(1)...at(9)) && !alone.overlap(at(21)...at(29)) && !alone.overlap(at(34)...at(40)))
    }

    @Test func `a file's lines are read as they are completed`() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "lines-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: file) }
        var lines = LinesOfFile(file)
        #expect(lines.next().isEmpty)
        try Data("one\ntw".utf8).write(to: URL(filePath: file))
        #expect(lines.next() == ["one"])
        #expect(lines.next().isEmpty)
        try Data("one\ntwo\n\nthree\n".utf8).write(to: URL(filePath: file))
        #expect(lines.next() == ["two", "three"])
    }

    @Test(.timeLimit(.minutes(5)))
    func `three nodes with tors lose nothing when they are cut off and upgraded`() async throws {
        guard getuid() == 0, try await ChildProcess.output(of: "which", ["tor-gencert"]).isSuccess else {
            print("SKIPPED: not root, or tor is not installed; no node of a cluster was cut off")
            return
        }
        let options = ["--namespaces", "--kills", "1", "--engine-kills", "0", "--cuts", "1", "--in-flight", "20"]
        let (_, text) = try await ChildProcess.output(
            of: Program.bench, ["cluster"] + options, timeout: .seconds(280))
        /// The number in a row of the table.
        func number(_ row: String) -> Int? {
            text.split(separator: "\n").first { $0.hasPrefix(row) }
                .flatMap { $0.dropFirst(row.count).split(separator: " ").first }.flatMap { Int($0) }
        }
        #expect(number("envelopes delivered") ?? 0 > 0, "\(text)")
        #expect(number("cuts from the engine") == 1)
        for row in ["other outcomes than DELIVERED", "lost", "repeated without need", "repeated under another apns-id"]
        {
            #expect(number(row) == 0, "\(text)")
        }
        #expect(number("provider tokens for Apple") == 1)
        for row in ["deliveries to a flooded phone", "unproven device tokens forwarded"] {
            let numbers = text.split(separator: "\n").first { $0.hasPrefix(row) }?.split { !$0.isNumber }.compactMap {
                Int($0)
            }
            #expect(numbers?.count == 2 && numbers![0] > 0 && numbers![0] <= numbers![1], "\(text)")
        }
    }
}
