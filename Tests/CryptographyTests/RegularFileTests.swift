// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Cryptography

@Suite(.tags(.computing)) struct RegularFileTests {
    private let path = URL.temporaryDirectory.appending(path: "tocsin-file-\(UUID().uuidString)").path()

    private func failure(atMost limit: Int = 100, access: RegularFile.Access = .anyone) -> RegularFile.Failure? {
        do {
            _ = try RegularFile.read(path, atMost: limit, access: access)
            return nil
        } catch {
            return error
        }
    }

    private func write(_ count: Int, mode: mode_t = 0o600) throws {
        try Data(repeating: 7, count: count).write(to: URL(filePath: path))
        #expect(chmod(path, mode) == 0)
    }

    @Test(arguments: [0, 1, 100]) func `a file within the limit is read whole`(_ count: Int) throws {
        defer { unlink(path) }
        try write(count)
        for access in [RegularFile.Access.anyone, .owner, .thisUser] {
            #expect(try RegularFile.read(path, atMost: 100, access: access) == [UInt8](repeating: 7, count: count))
        }
    }

    @Test func `a larger file is refused with its size`() throws {
        defer { unlink(path) }
        try write(101)
        #expect(failure() == .tooLarge(101))
    }

    @Test func `a missing file and a directory are told apart`() {
        #expect(failure() == .system(ENOENT))
        #expect(mkdir(path, 0o700) == 0)
        defer { rmdir(path) }
        #expect(failure() == .notRegular)
    }

    @Test func `a pipe is refused at once`() {
        #expect(mkfifo(path, 0o600) == 0)
        defer { unlink(path) }
        #expect(failure() == .notRegular)
    }

    @Test(arguments: [mode_t(0o640), 0o604, 0o610, 0o602])
    func `a file that other users can access is refused if it must be private`(_ mode: mode_t) throws {
        defer { unlink(path) }
        try write(1, mode: mode)
        #expect(failure() == nil)
        #expect(failure(access: .owner) == .accessibleByOthers)
        #expect(failure(access: .thisUser) == .accessibleByOthers)
    }

    @Test func `a symbolic link is followed unless the file must be this user's own`() throws {
        let target = path + "-target"
        try Data([7]).write(to: URL(filePath: target))
        #expect(chmod(target, 0o600) == 0 && symlink(target, path) == 0)
        defer {
            unlink(path)
            unlink(target)
        }
        #expect(failure(access: .owner) == nil)
        #expect(failure(access: .thisUser) == .system(ELOOP))
    }
}
