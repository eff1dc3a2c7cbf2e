// SPDX-License-Identifier: Apache-2.0

import Cryptography
import GRDB

/// Why the spool cannot be used: what, where, and what to do.
package enum SpoolError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Another process has it open.
    case inUse(file: String)
    /// There are envelopes but not the key that opens them.
    case keyMissing(file: String, spool: String)
    /// Not only its owner may read the key.
    case keyReadableByOthers(file: String)
    /// The key file does not hold a key.
    case keyLength(file: String, bytes: Int)
    /// The key is not the one that the spool was made with.
    case wrongKey(file: String, spool: String)
    /// Torn, overwritten or cut short.
    case damaged(file: String)
    /// A database, but not ours.
    case foreign(file: String)
    /// Written by a version whose tables this one does not know.
    case newer(file: String)
    /// The operating system or SQLite cannot work with the file.
    case unusable(file: String, reason: String)

    package var description: String {
        switch self {
        case .inUse(let file):
            "\(file) is in use by another process; end that one, or give this node a spool of its own"
        case .keyMissing(let file, let spool):
            "the spool \(spool) cannot be opened without the key \(file); "
                + "restore it, or move the spool away to start an empty one"
        case .keyReadableByOthers(let file):
            "the spool's key \(file) can be read by others than its owner; run: chmod 600 \(file)"
        case .keyLength(let file, let bytes):
            "the spool's key \(file) has \(bytes) bytes instead of \(KeyFile.length); "
                + "restore it, or move it and the spool away to start an empty one"
        case .wrongKey(let file, let spool):
            "the key \(file) is not the one of the spool \(spool); "
                + "restore the right one, or move the spool away to start an empty one"
        case .damaged(let file):
            "the spool \(file) is damaged or not a spool at all; "
                + "restore it, or move it and \(file)-wal away to start an empty one"
        case .foreign(let file):
            "\(file) is a database of another program; move it away to start an empty spool"
        case .newer(let file):
            "the spool \(file) was made by a newer version of Tocsin; "
                + "run that version, or move the spool away to start an empty one"
        case .unusable(let file, let reason):
            "cannot use \(file): \(reason); check its directory, its permissions and the free space"
        }
    }

    /// What an error of the spool at `file`, of its lock or of its key file means for it.
    init(_ error: any Error, file: String) {
        switch error {
        case let error as SpoolError: self = error
        case let error as PrivateFileError: self.init(error, spool: file)
        default:
            switch (error as? DatabaseError)?.resultCode ?? .SQLITE_INTERNAL {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged(file: file)
            case .SQLITE_BUSY, .SQLITE_LOCKED: self = .inUse(file: file)
            default: self = .unusable(file: file, reason: SpoolError.reason(error))
            }
        }
    }

    private init(_ error: PrivateFileError, spool: String) {
        switch error {
        case .inUse(let file, _): self = .inUse(file: file)
        case .missing(let file): self = .keyMissing(file: file, spool: spool)
        case .readableByOthers(let file): self = .keyReadableByOthers(file: file)
        case .length(let file, let bytes): self = .keyLength(file: file, bytes: bytes)
        case .unusable(let file, let reason): self = .unusable(file: file, reason: reason)
        }
    }

    /// SQLite's own words for an error, without statement and values.
    static func reason(_ error: any Error) -> String {
        guard let error = error as? DatabaseError else { return "unexpected \(type(of: error))" }
        return "\(error.message ?? "no message") (SQLite \(error.extendedResultCode.rawValue))"
    }
}
