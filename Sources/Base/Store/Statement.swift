// SPDX-License-Identifier: Apache-2.0

import CSQLite

/// A prepared statement.
final class Statement {
    let handle: OpaquePointer
    private let connection: OpaquePointer

    init(_ sql: String, on connection: OpaquePointer) throws(SQLiteError) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard code == SQLITE_OK, let handle else { throw SQLiteError(code, of: connection) }
        self.handle = handle
        self.connection = connection
    }

    deinit { sqlite3_finalize(handle) }

    func bind(_ integers: [Int64]) throws(SQLiteError) {
        precondition(integers.count == Int(sqlite3_bind_parameter_count(handle)), "wrong number of values")
        for (index, value) in integers.enumerated() {
            let code = sqlite3_bind_int64(handle, Int32(index + 1), value)
            guard code == SQLITE_OK else { throw SQLiteError(code, of: connection) }
        }
    }

    func bind(_ values: [any SQLiteValue]) throws(SQLiteError) {
        precondition(values.count == Int(sqlite3_bind_parameter_count(handle)), "wrong number of values")
        for (index, value) in values.enumerated() {
            let code = value.bind(to: handle, at: Int32(index + 1))
            guard code == SQLITE_OK else { throw SQLiteError(code, of: connection) }
        }
    }

    /// Advances to the next row.
    /// - Returns: whether there is a next row.
    func step() throws(SQLiteError) -> Bool {
        let code = sqlite3_step(handle)
        switch code {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw SQLiteError(code, of: connection)
        }
    }

    func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }
}

/// A value that can be bound to a parameter of a statement.
package protocol SQLiteValue {
    /// Binds the value to the parameter at `index`, counted from 1.
    /// - Returns: SQLite's result code.
    func bind(to statement: OpaquePointer, at index: Int32) -> Int32
}

/// Tells SQLite to copy the bytes (`SQLITE_TRANSIENT`, a macro that Swift cannot import).
private let copying = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

/// SQLite's integers are signed: an unsigned 64-bit number is stored as the signed one with the same bits.
extension SQLiteValue where Self: BinaryInteger {
    package func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        sqlite3_bind_int64(statement, index, Int64(truncatingIfNeeded: self))
    }
}

extension Int: SQLiteValue {}
extension Int64: SQLiteValue {}
extension UInt8: SQLiteValue {}
extension UInt16: SQLiteValue {}
extension UInt64: SQLiteValue {}

/// Bytes are bound as a blob.
extension [UInt8]: SQLiteValue {
    package func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        // A null pointer would bind NULL instead of an empty blob.
        isEmpty
            ? sqlite3_bind_zeroblob(statement, index, 0)
            : sqlite3_bind_blob64(statement, index, self, UInt64(count), copying)
    }
}

/// The current row of a statement; valid only inside the closure that receives it.
package struct Row {
    private let statement: OpaquePointer

    init(_ statement: OpaquePointer) { self.statement = statement }

    /// The integer in a column, 0 if it is NULL. Columns are counted from 0.
    package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    /// The bytes in a column; none if it is NULL.
    package func bytes(_ column: Int32) -> [UInt8] {
        let count = Int(sqlite3_column_bytes(statement, column))
        guard count > 0, let start = sqlite3_column_blob(statement, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }

    /// The text in a column; empty if it is NULL.
    package func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }
}
