// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import TNP
import TestSupport
import Testing

@testable import tocsin

@Suite(.tags(.sockets)) struct ArgumentTests {
    // MARK: Texts

    private func text(inFileOf bytes: [UInt8]) throws -> String {
        let path = URL.temporaryDirectory.appending(path: "tocsin-\(UUID().uuidString)").path()
        try Data(bytes).write(to: URL(filePath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try TextArgument.text("@\(path)")
    }

    @Test func `a text comes from the command line or from a file`() throws {
        #expect(try TextArgument.text("Paid") == "Paid")
        #expect(try TextArgument.text("") == "")
        #expect(try TextArgument.text("@@home") == "@home")
        #expect(try text(inFileOf: Array("Zaplaceno\n".utf8)) == "Zaplaceno")
        #expect(try text(inFileOf: Array("two\nlines\n\n".utf8)) == "two\nlines\n")
        #expect(try text(inFileOf: []) == "")
        #expect(try text(inFileOf: [UInt8](repeating: 97, count: 16 * 1024)).count == 16 * 1024)
    }

    @Test func `a missing, binary or oversized file is an error`() throws {
        #expect(throws: ExitCode.self) { try TextArgument.text("@/nowhere/at/all") }
        #expect(throws: ExitCode.self) { try text(inFileOf: [0xFF, 0xFE]) }
        #expect(throws: ExitCode.self) { try text(inFileOf: [UInt8](repeating: 97, count: 16 * 1024 + 1)) }
    }

    // MARK: Addresses of nodes

    /// The onion address of the Tor Project.
    private static let onion = "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid"

    @Test(arguments: [
        ("127.0.0.1:7077", true), ("node.example:7077", true), ("unix:/run/tocsin/tnp.sock", true),
        ("\(onion).onion:7077", false), ("www.\(onion).onion:7077", false),
    ])
    func `a valid address is accepted`(_ text: String, _ isDirect: Bool) throws {
        _ = try NodeAddress.endpoint(text, direct: isDirect)
    }

    @Test(arguments: [
        ("nothing", false), ("\(onion).onion:7077", true), ("\(onion.dropLast()).onion:7077", false),
        ("\(onion.dropLast(6))aaaaid.onion:7077", false), ("expyuzz4wqqyqhjn.onion:7077", false),
    ])
    func `an invalid address is an error before tor is used`(_ text: String, _ isDirect: Bool) {
        #expect(throws: ExitCode.self) { try NodeAddress.endpoint(text, direct: isDirect) }
    }
}
