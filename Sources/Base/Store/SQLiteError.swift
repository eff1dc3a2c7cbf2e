// SPDX-License-Identifier: Apache-2.0

import CSQLite

/// An error that SQLite reported. Contains neither the statement nor its values.
package struct SQLiteError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The extended result code (SQLite's "Result and Error Codes").
    package let extendedCode: Int32
    /// SQLite's description of the error.
    package let message: String

    /// The primary result code, e.g. `SQLITE_FULL`.
    var code: Int32 { extendedCode & 0xFF }

    /// Whether the disk is full.
    package var isDiskFull: Bool { code == SQLITE_FULL }

    package var description: String { "\(message) (SQLite \(extendedCode))" }

    /// Creates the last error of a connection, or the error that `code` means if there is no connection.
    init(_ code: Int32, of connection: OpaquePointer?) {
        extendedCode = connection.map { sqlite3_extended_errcode($0) } ?? code
        message = String(cString: connection.map { sqlite3_errmsg($0) } ?? sqlite3_errstr(code))
    }
}
