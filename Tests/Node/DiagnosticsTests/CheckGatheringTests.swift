// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Delivery
import EventLoop
import Foundation
import Handles
import Settings
import StandIns
import TestSupport
import Testing

@testable import Diagnostics
@testable import TocsinNode
@testable import Tor

/// Tests what the check reads from real files and sockets.
@Suite(.tags(.sockets)) struct CheckGatheringTests {
    private func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = "/tmp/tocsin-check-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await body(directory)
    }

    @Test func `the check reports the holder of a lock and does not take it`() async throws {
        try await withDirectory { directory in
            #expect(LockState(ofStateAt: directory) == .free)
            #expect(!FileManager.default.fileExists(atPath: "\(directory)/lock"))
            var lock: FileLock? = try FileLock(at: "\(directory)/lock", for: directory)
            #expect(LockState(ofStateAt: directory) == .held(pid: getpid()))
            #expect(StateCheck(lookingAt: directory).findings.map(\.grade) == [.ok, .ok])
            withExtendedLifetime(lock) {}
            lock = nil
            #expect(LockState(ofStateAt: directory) == .free)
            lock = try FileLock(at: "\(directory)/lock", for: directory)
            withExtendedLifetime(lock) {}
        }
    }

    @Test func `the check detects what is at the path of the state directory`() async throws {
        try await withDirectory { directory in
            #expect(
                StateCheck(lookingAt: "\(directory)/none").kind
                    == .missing(isPossible: true, reason: "No such file or directory"))
            try Data().write(to: URL(filePath: "\(directory)/file"))
            #expect(StateCheck(lookingAt: "\(directory)/file").kind == .other)
            guard case .missing(false, _) = StateCheck(lookingAt: "\(directory)/none/deeper").kind else {
                Issue.record("a directory without a parent was reported as possible")
                return
            }
            #expect(chmod(directory, 0o755) == 0)
            #expect(StateCheck(lookingAt: directory).findings[0].grade == .warning)
        }
    }

    @Test func `a database of a newer version fails, and the check changes none`()
        async throws
    {
        try await withDirectory { directory in
            let (standing, spool) = ("\(directory)/standing.sqlite", "\(directory)/spool.sqlite")
            let handles = "\(directory)/handles.sqlite"
            #expect(StateCheck(lookingAt: directory).databases(spool: spool).isEmpty)
            await (try StandingStore(at: standing, keyFile: "\(directory)/standing.key")).close()
            await (try Spool(at: spool, keyFile: "\(directory)/spool.key", maximumBytes: 1 << 20)).close()
            await (try HandleStore(at: handles, keyFile: "\(directory)/handles.key")).close()
            #expect(StateCheck(lookingAt: directory).databases(spool: spool).map(\.grade) == [.ok, .ok, .ok])
            let newer = """
                import sqlite3, sys
                for file in sys.argv[1:]:
                    db = sqlite3.connect(file)
                    db.execute("PRAGMA user_version = 999")
                    db.commit()
                    db.close()
                """
            let result = try await ChildProcess.output(of: "python3", ["-c", newer, standing, spool, handles])
            try #require(result.isSuccess)
            let before = FileManager.default.contents(atPath: standing)
            let findings = StateCheck(lookingAt: directory).databases(spool: spool)
            #expect(findings.map(\.grade) == [.failed, .failed, .failed])
            #expect(findings.allSatisfy { $0.text.contains("newer version") })
            #expect(FileManager.default.contents(atPath: standing) == before)
            try Data("no database, but long enough to be read as one".utf8).write(to: URL(filePath: spool))
            let damaged = StateCheck(lookingAt: directory).databases(spool: spool)[1]
            #expect(damaged.grade == .failed && damaged.text.contains("damaged"))
        }
    }

    @Test func `a port is free, in use or impossible`() async throws {
        let domain = LoopDomain(EventLoop(name: "check"))
        try await withDirectory { directory in
            try await domain.run { domain in
                let loop = domain.loop
                let listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop) { $0.close() }
                #expect(Listener.obstacle(to: listener.endpoint)?.isInUse == true)
                let endpoint = listener.endpoint
                listener.close()
                #expect(Listener.obstacle(to: endpoint) == nil)
                let foreign = Listener.obstacle(to: .tcp(host: "192.0.2.1", port: 7077))
                #expect(foreign?.isInUse == false, "the address of another machine was reported as possible")
                let socket = Endpoint.unix(path: "\(directory)/s.sock")
                #expect(Listener.obstacle(to: socket) == nil)
                let server = try Listener(socket, on: loop) { $0.close() }
                #expect(Listener.obstacle(to: socket)?.isInUse == true)
                server.close()
                let nowhere = Endpoint.unix(path: "\(directory)/none/s.sock")
                let missing = Listener.obstacle(to: nowhere)
                #expect(missing?.isInUse == false && missing?.reason.contains("\(directory)/none") == true)
                try Data().write(to: URL(filePath: "\(directory)/file"))
                #expect(Listener.obstacle(to: .unix(path: "\(directory)/file"))?.isInUse == false)
            }
        }
    }

    @Test func `the handshake fails with a server that is not a node`() async throws {
        let domain = LoopDomain(EventLoop(name: "check"))
        try await domain.run { domain in
            let listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: domain.loop) { stream in
                stream.write(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
                stream.finish()
            }
            await #expect(throws: NodeHandshake.Failure.self) {
                _ = try await NodeHandshake.exchange(
                    with: listener.endpoint, through: nil, on: domain.loop, timeout: .seconds(60))
            }
        }
    }

    @Test func `a missing directory is on the disk of its parent`() async throws {
        try await withDirectory { directory in
            let disk = try #require(DiskCheck(lookingAt: "\(directory)/a/b", spool: nil))
            #expect(disk.freeBytes > 0 && disk.path == "\(directory)/a/b")
        }
    }
}
