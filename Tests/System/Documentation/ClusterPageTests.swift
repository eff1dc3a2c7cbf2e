// SPDX-License-Identifier: Apache-2.0

import Foundation
import Simulator
import TestSupport
import Testing

@testable import Tor

/// Docs/cluster.md, as an operator would use it.
@Suite(.tags(.extended)) struct ClusterPageTests {
    /// The commands of a section, as written.
    private func commands(ofSection title: String) throws -> String {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "Docs/cluster.md"), encoding: .utf8)
        let section = try #require(page.split(separator: "\n## ").first { $0.contains(" \(title)\n") })
        return section.split(separator: "\n", omittingEmptySubsequences: false).filter { $0.hasPrefix("    ") }
            .map { $0.dropFirst(4) }.joined(separator: "\n")
    }

    @Test(.timeLimit(.minutes(2))) func `the walk-through works as written`() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-page-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // Debian's redis-tools contains the server under another name.
        try FileManager.default.createSymbolicLink(
            atPath: directory.appending(path: "redis-server").path(), withDestinationPath: "/usr/bin/redis-check-rdb")
        let program = URL(filePath: Program.path).deletingLastPathComponent()
        let script = """
            set -Eeuo pipefail
            export PATH="\(program.path()):\(directory.path()):$PATH"
            cd "\(directory.path())"
            trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
            \(try commands(ofSection: "Try it"))
            """
        let file = directory.appending(path: "script")
        try Data(script.utf8).write(to: file)
        let (isSuccess, text) = try await ChildProcess.output(
            of: "/bin/bash", [file.path()], timeout: .seconds(100))
        #expect(isSuccess, "\(text)")
        #expect(text.contains("Hello") && text.contains("Still here"))
    }
}
