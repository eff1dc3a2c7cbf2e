// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Cryptography

@Suite(.tags(.sockets)) struct DraftFileTests {
    private func withDirectory(_ body: (_ directory: String) throws -> Void) throws {
        let directory = NSTemporaryDirectory() + "tocsin-draft-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try body(directory)
    }

    private func write(
        _ text: String, to file: String, through draft: String? = nil, replacing: Bool, mode: mode_t = 0o600
    ) -> Int32 {
        DraftFile.write(
            Array(text.utf8).span.bytes, to: file, through: draft, mode: mode, replacing: replacing, isDurable: true)
    }

    private func text(of file: String) -> String? {
        FileManager.default.contents(atPath: file).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func `a file is replaced only if that is wanted, and no draft is left`() throws {
        try withDirectory { directory in
            let file = "\(directory)/f"
            #expect(write("one", to: file, replacing: false) == 0)
            #expect(write("two", to: file, replacing: false) == EEXIST && text(of: file) == "one")
            #expect(write("three", to: file, replacing: true, mode: 0o640) == 0 && text(of: file) == "three")
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["f"])
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
            #expect(mode as? Int == 0o640)
        }
    }

    @Test func `what a crash has left does not stop the next write, and links are not followed`() throws {
        try withDirectory { directory in
            let (file, draft, other) = ("\(directory)/f", "\(directory)/f.new", "\(directory)/other")
            try Data("half".utf8).write(to: URL(filePath: draft))
            #expect(write("whole", to: file, through: draft, replacing: true) == 0 && text(of: file) == "whole")
            try Data("others".utf8).write(to: URL(filePath: other))
            #expect(symlink(other, draft) == 0)
            #expect(write("again", to: file, through: draft, replacing: true) == 0 && text(of: file) == "again")
            #expect(text(of: other) == "others")
            #expect(try Set(FileManager.default.contentsOfDirectory(atPath: directory)) == ["f", "other"])
        }
    }

    @Test func `a failure has the error of its cause`() throws {
        try withDirectory { directory in
            #expect(write("x", to: "\(directory)/none/f", replacing: true) == ENOENT)
            try FileManager.default.createDirectory(atPath: "\(directory)/d/e", withIntermediateDirectories: true)
            #expect([EISDIR, ENOTEMPTY, EEXIST].contains(write("x", to: "\(directory)/d", replacing: true)))
        }
    }
}
