// SPDX-License-Identifier: Apache-2.0

import CSQLite

/// A connection to a SQLite database. Only one thread at a time may use it; ``ConnectionQueue`` serialises access.
package final class Connection {
    private let handle: OpaquePointer
    /// Prepared statements by their SQL. Each is compiled once and kept, because the callers' SQL texts are constants.
    private var statements: [String: Statement] = [:]

    /// How long to wait for a lock that another connection holds, e.g. for a backup, in milliseconds.
    private static let busyTimeout: Int32 = 5000

    /// Opens a database file; creates it if it does not exist and `isReadOnly` is false.
    /// - Throws: ``SQLiteError``.
    package init(_ path: String, isReadOnly: Bool = false) throws(SQLiteError) {
        let mode = isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        var handle: OpaquePointer?
        let code = sqlite3_open_v2(path, &handle, mode | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let handle else {
            let error = SQLiteError(code, of: handle)
            sqlite3_close_v2(handle)
            throw error
        }
        self.handle = handle
        sqlite3_busy_timeout(handle, Self.busyTimeout)
    }

    deinit {
        statements = [:]
        sqlite3_close_v2(handle)
    }

    /// Runs one or more SQL statements without parameters.
    /// - Throws: ``SQLiteError``.
    package func execute(_ sql: String) throws(SQLiteError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code, of: handle) }
    }

    /// Runs one statement and calls `body` with each of its rows.
    /// - Parameters:
    ///   - sql: a constant text, because the connection keeps each compiled statement.
    ///   - values: the values of the statement's parameters, in their order.
    /// - Throws: ``SQLiteError``, or what `body` throws.
    package func run(_ sql: String, _ values: [any SQLiteValue] = [], _ body: (Row) throws -> Void = { _ in }) throws {
        let statement = try statement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        while try statement.step() { try body(Row(statement.handle)) }
    }

    /// Runs one statement whose parameters are all integers; ignores its rows.
    /// - Throws: ``SQLiteError``.
    package func run(_ sql: String, _ integers: [Int64]) throws(SQLiteError) {
        let statement = try statement(sql)
        defer { statement.reset() }
        try statement.bind(integers)
        while try statement.step() {}
    }

    /// Runs one statement and converts its first row; `nil` if there is none.
    package func first<Value>(
        _ sql: String, _ values: [any SQLiteValue] = [], convert: (Row) throws -> Value
    ) throws -> Value? {
        let statement = try statement(sql)
        defer { statement.reset() }
        try statement.bind(values)
        return try statement.step() ? convert(Row(statement.handle)) : nil
    }

    /// Runs one statement and converts all its rows.
    package func all<Value>(
        _ sql: String, _ values: [any SQLiteValue] = [], convert: (Row) throws -> Value
    ) throws -> [Value] {
        var result: [Value] = []
        try run(sql, values) { result.append(try convert($0)) }
        return result
    }

    private func statement(_ sql: String) throws(SQLiteError) -> Statement {
        if let statement = statements[sql] { return statement }
        let statement = try Statement(sql, on: handle)
        statements[sql] = statement
        return statement
    }

    /// The number of rows that the last INSERT, UPDATE or DELETE changed.
    package var changes: Int { Int(sqlite3_changes64(handle)) }

    /// The row id of the last inserted row.
    package var lastInsertedRowID: Int64 { sqlite3_last_insert_rowid(handle) }

    /// Runs `body` in a transaction that takes the write lock at once; rolls back if `body` or the commit fails.
    package func transaction(_ body: () throws -> Void) throws {
        try execute("BEGIN IMMEDIATE")
        do {
            try body()
            try execute("COMMIT")
        } catch {
            // After some errors, e.g. a full disk, SQLite has rolled back already.
            if sqlite3_get_autocommit(handle) == 0 { try? execute("ROLLBACK") }
            throw error
        }
    }

    /// Writes the write-ahead log into the database and truncates it.
    /// - Throws: ``SQLiteError``, e.g. while another connection reads.
    package func truncateLog() throws(SQLiteError) {
        let code = sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        guard code == SQLITE_OK else { throw SQLiteError(code, of: handle) }
    }
}
