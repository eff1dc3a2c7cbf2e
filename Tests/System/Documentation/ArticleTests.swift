// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TestSupport
import Testing

@testable import Tor

/// The articles of the libraries, as a developer of another package would use them.
@Suite(.tags(.extended)) struct ArticleTests {
    @Test func `the program in Ring a phone compiles with public declarations only`() async throws {
        let article = Repository.file("Sources/Sending/TocsinClient/TocsinClient.docc/RingAPhone.md")
        let program = try String(contentsOf: article, encoding: .utf8).split(separator: "```swift\n").dropFirst()
            .map { $0.prefix(upTo: $0.firstRange(of: "```")?.lowerBound ?? $0.endIndex) }.joined()
        #expect(program.contains("TocsinClient("))
        let file = URL.temporaryDirectory.appending(path: "tocsin-article-\(UUID().uuidString).swift")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(program.utf8).write(to: file)
        let products = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        let modules = products.appending(path: "Modules")
        // The package manager makes the maps of modules with C sources.
        let maps =
            (["CLibevent", "CSodium"].map { Repository.file("Sources/C/\($0)/module.modulemap") }
            + ["CClock", "COpenSSL"].map { products.appending(path: "\($0).build/module.modulemap") })
            .flatMap { ["-Xcc", "-fmodule-map-file=\($0.path())"] }
        let result = try await ChildProcess.output(
            of: "swiftc",
            ["-typecheck", "-swift-version", "6", "-package-name", "other", "-I", modules.path()] + maps
                + [file.path()],
            timeout: .seconds(120))
        #expect(result.isSuccess, "\(result.text)")
    }
}
