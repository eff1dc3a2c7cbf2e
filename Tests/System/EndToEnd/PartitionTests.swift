// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing
import Tor

@testable import tocsin_bench

/// Nodes of a cluster that are cut off, in network namespaces.
@Suite struct PartitionTests {
    @Test func `nodes that decide alone add their share of burst and rate`() {
        var limit = SharedLimit(burst: 300, perMinute: 60, nodes: 3)
        #expect(limit.maximum(in: .seconds(120)) == 300 + 120)
        limit.decidedAlone(1, for: .seconds(30))
        #expect(limit.maximum(in: .seconds(120)) == 300 + 120 + 100 + 10)
        limit.decidedAlone(3, for: .seconds(60))
        #expect(limit.maximum(in: .seconds(120)) == 300 + 120 + 100 + 10 + 300 + 60)
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
        for row in ["other outcomes than DELIVERED", "lost", "repeated under another apns-id"] {
            #expect(number(row) == 0, "\(text)")
        }
        // On a busy machine, the engine may need longer than 250 ms: nodes then decide alone for a second, each with its
        // share of the limits, which the bench cannot see.
        #expect(number("repeated without need") ?? .max < 100, "\(text)")
        #expect(number("provider tokens for Apple") == 1)
        for row in ["deliveries to a flooded phone", "unproven device tokens forwarded"] {
            let numbers = text.split(separator: "\n").first { $0.hasPrefix(row) }?.split { !$0.isNumber }.compactMap {
                Int($0)
            }
            #expect(numbers?.count == 2 && numbers![0] > 0 && numbers![0] <= 2 * numbers![1], "\(text)")
        }
    }
}
