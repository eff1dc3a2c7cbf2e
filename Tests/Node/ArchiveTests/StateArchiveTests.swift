// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TestSupport
import Testing

@testable import Archive

/// `tocsin state export` and `import`, on files.
@Suite(.tags(.sockets)) struct StateArchiveTests {
    private static let passphrase = Array("correct horse battery".utf8)
    private static let files = [
        "standing.sqlite": 300_000, "standing.sqlite-wal": 0, "standing.key": 32, "spool.sqlite": 65_536,
        "spool.key": 32, "apns-TEAM123456-KEY1234567.token": 200, "upstream.key": 32,
        "tor/onion/hs_ed25519_secret_key": 96, "tor/onion/authorized_clients/alice.auth": 70,
        "tor/onion-old/hs_ed25519_secret_key": 96,
    ]
    private static let others = [
        "lock", "standing.sqlite-shm", "standing.sqlite~", "notes (old).txt", "tor/cached-certs", "tor/keys/x",
        "tor/onion/hostname~",
    ]

    private func withState(_ body: (_ directory: String) throws -> Void) throws {
        let directory = NSTemporaryDirectory() + "tocsin-state-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        for name in Array(Self.files.keys) + Self.others {
            let path = "\(directory)/state/\(name)"
            try FileManager.default.createDirectory(
                atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
            let bytes = (0..<(Self.files[name] ?? 5)).map { UInt8(truncatingIfNeeded: $0 &* 31 + name.utf8.count) }
            try Data(bytes).write(to: URL(filePath: path))
        }
        try body(directory)
    }

    private func export(_ directory: String) throws -> StateArchive.Summary {
        let output = open("\(directory)/archive", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        defer { close(output) }
        let onions = try StateArchive.onions(in: "\(directory)/state/tor")
        return try StateArchive.export("\(directory)/state", onions, to: output, passphrase: Self.passphrase)
    }

    private func restore(
        _ archive: String, to state: String, _ passphrase: [UInt8] = passphrase, hasSpool: Bool = true
    ) throws -> StateArchive.Summary {
        let input = open(archive, O_RDONLY)
        defer { close(input) }
        return try StateArchive.restore(from: input, to: state, passphrase: passphrase, hasSpool: hasSpool)
    }

    /// The files below a directory, except the lock.
    private func files(in directory: String) -> [String: Data] {
        var files: [String: Data] = [:]
        for case let name as String in FileManager.default.enumerator(atPath: directory) ?? .init() where name != "lock"
        {
            var isDirectory: ObjCBool = false
            let path = "\(directory)/\(name)"
            if FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory), !isDirectory.boolValue {
                files[name] = FileManager.default.contents(atPath: path)
            }
        }
        return files
    }

    private func problem(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "no error"
        } catch {
            return "\(error)"
        }
    }

    @Test func `an export that would open a closed onion fails`() throws {
        try withState { directory in
            let sender = "\(directory)/state/tor/onion/authorized_clients/bob@laptop.auth"
            try Data("descriptor:x25519:A".utf8).write(to: URL(filePath: sender))
            let text = problem { _ = try export(directory) }
            #expect(text.contains("bob@laptop.auth authorises a sender"), "\(text)")
        }
    }

    @Test func `an import restores what was exported, privately`() throws {
        try withState { directory in
            let summary = try export(directory)
            #expect(summary == .init(files: Self.files.count, bytes: Self.files.values.reduce(0, +)))
            let sealed = try #require(FileManager.default.contents(atPath: "\(directory)/archive"))
            #expect(!sealed.contains(Data("hs_ed25519".utf8)))
            #expect(try restore("\(directory)/archive", to: "\(directory)/new") == summary)
            let (old, new) = (files(in: "\(directory)/state"), files(in: "\(directory)/new"))
            #expect(Set(new.keys) == Set(Self.files.keys))
            for (name, bytes) in new { #expect(bytes == old[name], "\(name)") }
            for name in ["", "/tor", "/tor/onion", "/tor/onion/authorized_clients"] {
                let mode = try FileManager.default.attributesOfItem(atPath: "\(directory)/new\(name)")[
                    .posixPermissions]
                #expect(mode as? Int == 0o700, "\(name)")
            }
            let mode = try FileManager.default.attributesOfItem(atPath: "\(directory)/new/standing.key")[
                .posixPermissions]
            #expect(mode as? Int == 0o600)
            // Once more into the same directory.
            #expect(
                problem { _ = try restore("\(directory)/archive", to: "\(directory)/new") }.contains("already holds"))
        }
    }

    @Test func `the spool can be left out`() throws {
        try withState { directory in
            _ = try export(directory)
            _ = try restore("\(directory)/archive", to: "\(directory)/new", hasSpool: false)
            let names = files(in: "\(directory)/new").keys
            #expect(names.contains("standing.sqlite") && !names.contains { $0.hasPrefix("spool") })
        }
    }

    @Test func `an archive that is cut short, changed, foreign or for another passphrase imports nothing`() throws {
        try withState { directory in
            _ = try export(directory)
            let whole = try #require(FileManager.default.contents(atPath: "\(directory)/archive"))
            var changed = whole
            changed[whole.count / 2] ^= 1
            var newer = whole
            newer[8] = 9
            let cases: [(Data, String)] = [
                (whole.prefix(whole.count - 1), "cut short"), (whole.prefix(whole.count / 2), "cut short"),
                (whole.prefix(100), "cut short"), (whole.prefix(20), "cut short"), (Data(), "cut short"),
                (changed, "damaged"), (newer, "newer version"),
                (Data("no archive at all, but long enough".utf8), "not an archive"),
            ]
            for (bytes, words) in cases {
                try bytes.write(to: URL(filePath: "\(directory)/wrong"))
                let text = problem { _ = try restore("\(directory)/wrong", to: "\(directory)/new") }
                #expect(text.contains(words), "\(text)")
                #expect(files(in: "\(directory)/new").isEmpty)
            }
            let text = problem {
                _ = try restore("\(directory)/archive", to: "\(directory)/new", Array("another passphrase".utf8))
            }
            #expect(text.contains("the passphrase is wrong"))
            #expect(files(in: "\(directory)/new").isEmpty)
            _ = try restore("\(directory)/archive", to: "\(directory)/new")
        }
    }

    @Test func `a state in use is neither exported nor imported into`() throws {
        try withState { directory in
            _ = try export(directory)
            for state in ["state", "new"] {
                try FileManager.default.createDirectory(
                    atPath: "\(directory)/\(state)", withIntermediateDirectories: true)
                let lock = try FileLock(at: "\(directory)/\(state)/lock", for: state)
                withExtendedLifetime(lock) {
                    let text = problem {
                        if state == "state" {
                            _ = try export(directory)
                        } else {
                            _ = try restore("\(directory)/archive", to: "\(directory)/new")
                        }
                    }
                    #expect(text.contains("a node is running with"), "\(text)")
                    #expect(text.contains("process \(getpid())"))
                }
            }
        }
    }
}
