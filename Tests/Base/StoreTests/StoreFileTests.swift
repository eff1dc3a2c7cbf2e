// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Foundation
import TestSupport
import Testing

@testable import Store

@Suite(.tags(.sockets)) struct StoreFileTests {
    private let directory = TemporaryDirectory()
    private var path: String { directory.path + "/store" }
    private var keyFile: String { directory.path + "/key" }

    private static func kind(migrations: [String]) -> StoreKind {
        StoreKind(
            name: "test store", lossWhenMoved: "nothing is lost", applicationID: 7, durability: .normal,
            migrations: migrations)
    }

    private let kind = kind(migrations: ["CREATE TABLE item (number INTEGER) STRICT"])

    private func open(_ kind: StoreKind) throws(StoreError) -> StoreFile {
        try StoreFile(
            kind, at: path, keyFile: keyFile, makeCheck: { $0.keyedHash(of: BLAKE2b.hash256([]), count: 16) },
            isRightKey: { $0.keyedHash(of: BLAKE2b.hash256([]), count: 16) == $1 })
    }

    private func problem(_ kind: StoreKind) -> StoreError.Problem? {
        do {
            _ = try open(kind)
            return nil
        } catch {
            return error.problem
        }
    }

    @Test func `a new store has its tables, its application id and an owner-only key`() throws {
        let connection = try open(kind).connection
        try connection.execute("INSERT INTO item VALUES (1)")
        #expect(try connection.first("PRAGMA application_id") { $0.integer(0) } == 7)
        for file in [path, keyFile, path + "-wal"] {
            var status = stat()
            #expect(stat(file, &status) == 0 && status.st_mode & 0o077 == 0, "\(file)")
        }
    }

    @Test func `a store can be open only once at a time`() throws {
        let first = try open(kind)
        #expect(problem(kind) == .inUse)
        withExtendedLifetime(first) {}
    }

    @Test func `a queue runs work in order, and after closing only reports that it is closed`() async throws {
        let queue = ConnectionQueue(try open(kind), on: SystemDisk())
        for number in 0..<100 { queue.async { try? $0.run("INSERT INTO item VALUES (?)", [number]) } }
        #expect(try queue.sync { try $0.first("SELECT COUNT(*) FROM item") { $0.integer(0) } } == 100)
        await queue.close()
        let closed = StoreError(.closed, file: path, of: kind)
        #expect(throws: closed) { try queue.sync { _ in } }
        await #expect(throws: closed) { try await queue.run { _ in } }
        #expect(problem(kind) == nil)
    }

    @Test func `new migrations run once, in order, and keep the rows`() throws {
        try open(kind).connection.execute("INSERT INTO item VALUES (1)")
        let later = Self.kind(
            migrations: kind.migrations + ["ALTER TABLE item ADD COLUMN name TEXT", "UPDATE item SET name = 'a'"])
        for _ in 0..<2 {
            let names = try open(later).connection.all("SELECT name FROM item") { $0.text(0) }
            #expect(names == ["a"])
        }
        #expect(problem(kind) == .newer)
        #expect(throws: StoreError(.newer, file: path, of: kind)) { try StoreFile.inspect(kind, at: path) }
        try StoreFile.inspect(later, at: path)
    }

    @Test func `a failed migration leaves the previous version`() throws {
        try open(kind).connection.execute("INSERT INTO item VALUES (1)")
        let broken = Self.kind(migrations: kind.migrations + ["UPDATE item SET number = 2; SELECT nonsense"])
        #expect(problem(broken) != nil)
        #expect(try open(kind).connection.first("SELECT number FROM item") { $0.integer(0) } == 1)
    }

    @Test(arguments: ["PRAGMA application_id = 8", "CREATE TABLE bookmark (url TEXT)"])
    func `a database of another program is refused and left unchanged`(_ sql: String) throws {
        do { try Connection(path).execute(sql) }
        let before = try Data(contentsOf: URL(filePath: path))
        #expect(problem(kind) == .foreign)
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
    }

    @Test func `a missing or wrong key is reported, and no new key is created`() throws {
        _ = try open(kind)
        unlink(keyFile)
        #expect(problem(kind) == .keyMissing(store: path))
        #expect(!FileManager.default.fileExists(atPath: keyFile))
        try PrivateFile.create(keyFile, holding: [UInt8](repeating: 1, count: KeyFile.length))
        #expect(problem(kind) == .wrongKey(store: path))
    }

    @Test func `every error names the problem, the file and the remedy`() {
        let problems: [StoreError.Problem] = [
            .inUse, .keyMissing(store: "/store"), .keyReadableByOthers, .keyLength(3), .wrongKey(store: "/store"),
            .damaged, .foreign, .newer, .diskFull, .closed, .unusable("reason"),
        ]
        for problem in problems {
            let text = StoreError(problem, file: "/file", of: kind).description
            #expect(text.contains("/file") && (text.contains(";") || text.contains(",")))
        }
    }
}
