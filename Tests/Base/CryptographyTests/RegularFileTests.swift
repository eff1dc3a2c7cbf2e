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

    @Test func `a file beneath a forbidden directory is refused, whatever links lead to it`() throws {
        let base = path
        defer { try? FileManager.default.removeItem(atPath: base) }
        for directory in ["state", "state/inner", "state2", "elsewhere"] {
            try FileManager.default.createDirectory(atPath: "\(base)/\(directory)", withIntermediateDirectories: true)
        }
        for file in ["state/a", "state/inner/a", "state2/a", "elsewhere/a"] {
            try Data([7]).write(to: URL(filePath: "\(base)/\(file)"))
        }
        try FileManager.default.createSymbolicLink(atPath: "\(base)/elsewhere/link", withDestinationPath: "../state/a")
        try FileManager.default.createSymbolicLink(atPath: "\(base)/through", withDestinationPath: "state/inner")
        try FileManager.default.createSymbolicLink(atPath: "\(base)/state/out", withDestinationPath: "../elsewhere/a")
        func isRead(_ file: String) -> Bool {
            (try? RegularFile.read("\(base)/\(file)", atMost: 1, notBeneath: canonical("\(base)/state"))) != nil
        }
        for file in ["state/a", "state/inner/a", "elsewhere/link", "through/a", "elsewhere/../state/a"] {
            #expect(!isRead(file), "\(file)")
        }
        // The last one leads out of the directory; a configuration that names it is refused by its path.
        for file in ["state2/a", "elsewhere/a", "state/out"] { #expect(isRead(file), "\(file)") }
    }

    private func canonical(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    @Test(arguments: [mode_t(0o640), 0o604, 0o610, 0o602])
    func `a file that other users can access is refused if it must be private`(_ mode: mode_t) throws {
        defer { unlink(path) }
        try write(1, mode: mode)
        #expect(failure() == nil)
        #expect(failure(access: .owner) == .accessibleByOthers)
        #expect(failure(access: .thisUser) == .accessibleByOthers)
    }

    @Test(arguments: [mode_t(0o440), 0o444, 0o644, 0o400, 0o600])
    func `a file in a directory of secrets may be readable, as runtimes give it to a process`(_ mode: mode_t) {
        for place in ["/run/secrets/apns.p8", "/run/secrets/..2026/apns.p8", "/run/credentials/tocsin.service/apns.p8"]
        {
            #expect(
                RegularFile.isPrivate(
                    mode: mode, in: place, secretDirectories: ["/run/secrets", "/run/credentials/tocsin.service"]
                ) { _ in true })
        }
    }

    @Test(
        arguments: [
            (mode_t(0o664), "/run/secrets/a"), (0o646, "/run/secrets/a"), (0o454, "/run/secrets/a"),
            (0o444, "/run/secrets"), (0o444, "/run/secrets2/a"), (0o444, "/etc/tocsin/a"),
            (0o440, "/srv/run/secrets/a"),
            (0o444, nil),
        ] as [(mode_t, String?)])
    func `a file that others can write, or that is elsewhere, is not private`(_ mode: mode_t, _ place: String?) {
        // An empty or relative CREDENTIALS_DIRECTORY names no place.
        #expect(
            !RegularFile.isPrivate(mode: mode, in: place, secretDirectories: ["/run/secrets", "", "etc"]) { _ in true })
        // A directory that anybody on the machine can enter.
        #expect(
            !RegularFile.isPrivate(mode: 0o444, in: "/run/secrets/a", secretDirectories: ["/run/secrets"]) { _ in false
            })
    }

    @Test func `a link into another directory does not make a file a secret`() throws {
        defer { unlink(path) }
        try write(1, mode: 0o444)
        #expect(!RegularFile.isPrivate(path))
        #expect(chmod(path, 0o400) == 0)
        #expect(RegularFile.isPrivate(path) && RegularFile.isPrivate(path + "-missing"))
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
