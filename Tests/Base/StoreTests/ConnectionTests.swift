// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import Store

@Suite(.tags(.sockets)) struct ConnectionTests {
    private let directory = TemporaryDirectory()

    private func connection() throws -> Connection {
        let connection = try Connection(directory.path + "/db")
        try connection.execute(
            "CREATE TABLE IF NOT EXISTS pair (name BLOB NOT NULL PRIMARY KEY, number INTEGER) STRICT")
        return connection
    }

    @Test func `bound values are read back unchanged`() throws {
        let connection = try connection()
        let values: [(name: [UInt8], number: Int64)] = [
            ([], .min), ([0], -1), ([1, 0, 2], 0), (Array("é".utf8), .max),
        ]
        for value in values {
            try connection.run("INSERT INTO pair VALUES (?, ?)", [value.name, value.number])
            #expect(connection.changes == 1)
        }
        let read = try connection.all("SELECT name, number FROM pair ORDER BY number") { ($0.bytes(0), $0.integer(1)) }
        #expect(read.map(\.0) == values.map(\.name) && read.map(\.1) == values.map(\.number))
        #expect(try connection.first("SELECT number FROM pair WHERE name = ?", [[UInt8]([])]) { $0.integer(0) } == .min)
        #expect(try connection.first("SELECT number FROM pair WHERE name = ?", [[UInt8]([9])]) { $0.integer(0) } == nil)
    }

    @Test func `a failed statement can run again`() throws {
        let connection = try connection()
        let insert = "INSERT INTO pair VALUES (?, ?)"
        try connection.run(insert, [[UInt8]([1]), 1])
        #expect(throws: SQLiteError.self) { try connection.run(insert, [[UInt8]([1]), 2]) }
        try connection.run(insert, [[UInt8]([2]), 2])
        #expect(try connection.first("SELECT COUNT(*) FROM pair") { $0.integer(0) } == 2)
    }

    @Test func `a transaction that throws is rolled back, and the next one works`() throws {
        struct Stop: Error {}
        let connection = try connection()
        #expect(throws: Stop.self) {
            try connection.transaction {
                try connection.execute("INSERT INTO pair VALUES (x'01', 1)")
                throw Stop()
            }
        }
        #expect(try connection.first("SELECT COUNT(*) FROM pair") { $0.integer(0) } == 0)
        try connection.transaction { try connection.execute("INSERT INTO pair VALUES (x'01', 1)") }
        #expect(try connection.first("SELECT COUNT(*) FROM pair") { $0.integer(0) } == 1)
    }

    @Test func `an error names SQLite's code and no value`() throws {
        let connection = try connection()
        let error = #expect(throws: SQLiteError.self) {
            try connection.execute("INSERT INTO pair VALUES ('secret', 1)")
        }
        let text = try #require(error).description
        #expect(text.contains("SQLite ") && !text.contains("secret"))
    }

    @Test func `a file that is not a database is reported when it is read`() throws {
        try Data("this is no database, however long it may be".utf8).write(to: URL(filePath: directory.path + "/no"))
        let connection = try Connection(directory.path + "/no", isReadOnly: true)
        let error = #expect(throws: SQLiteError.self) { try connection.execute("SELECT * FROM sqlite_master") }
        #expect(error?.code == 26)
    }
}

/// A temporary directory, removed when the object is released.
final class TemporaryDirectory {
    let path = URL.temporaryDirectory.appending(path: "tocsin-store-\(UUID().uuidString)").path()

    init() { mkdir(path, 0o700) }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
