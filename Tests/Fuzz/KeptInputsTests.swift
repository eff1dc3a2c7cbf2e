// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// What the fuzzers have kept, in every `make test`, and under both sanitizers in `make test-quick-sanitized`. `make fuzz-kept`
/// does the same with the fuzzer's own program.
@Suite(.tags(.sockets)) struct KeptInputsTests {
    /// In a process of its own: the simulated peer replaces the process's clock and executors.
    @Test func `a target returns from every kept input, and its checks hold`() async {
        await #expect(processExitsWith: .success) {
            for target in Target.allCases {
                let lines = try String(contentsOf: Self.corpus(of: target), encoding: .utf8).split(separator: "\n")
                try #require(!lines.isEmpty, "nothing is kept for \(target)")
                for (number, line) in lines.enumerated() {
                    let bytes = try #require(
                        Data(base64Encoded: String(line)), "line \(number + 1) of \(target) is not Base64")
                    var input = bytes.withUnsafeBytes { FuzzInput($0.bindMemory(to: UInt8.self)) }
                    target.run(&input)
                }
            }
        }
    }

    private static func corpus(of target: Target) -> URL {
        Repository.file("Tests/Fuzz/Corpus/\(target.rawValue).txt")
    }
}
