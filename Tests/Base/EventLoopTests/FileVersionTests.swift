// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite(.tags(.computing)) struct FileVersionTests {
    @Test func `writing, replacing, touching or removing a file changes its version`() throws {
        let file = URL.temporaryDirectory.appending(path: "tocsin-version-\(UUID().uuidString.prefix(8))")
        defer { try? FileManager.default.removeItem(at: file) }
        func version() -> FileVersion? { FileVersion(of: file.path()) }
        #expect(version() == nil)
        try Data("nameserver 10.0.0.1\n".utf8).write(to: file)
        let one = version()
        #expect(one != nil && version() == one)
        // The same size under another inode, as editors and resolvconf write it.
        try Data("nameserver 10.0.0.2\n".utf8).write(to: file, options: .atomic)
        let replaced = version()
        #expect(replaced != nil && replaced != one)
        // The same inode and size with another modification time.
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)], ofItemAtPath: file.path())
        let touched = version()
        #expect(touched != nil && touched != replaced && version() == touched)
        try FileManager.default.removeItem(at: file)
        #expect(version() == nil)
    }
}
