// SPDX-License-Identifier: Apache-2.0

import Cryptography
import GRDB

/// Why the store of device tokens' standing cannot be used: what, where, and what to do.
package enum StandingStoreError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Another process has it open.
    case inUse(file: String)
    /// There is a store but not the key that its tokens are hashed under.
    case keyMissing(file: String, store: String)
    /// Not only its owner may read the key.
    case keyReadableByOthers(file: String)
    /// The key file does not hold a key.
    case keyLength(file: String, bytes: Int)
    /// The key is not the one that the store was made with.
    case wrongKey(file: String, store: String)
    /// Torn, overwritten or cut short.
    case damaged(file: String)
    /// A database, but not ours.
    case foreign(file: String)
    /// Written by a version whose tables this one does not know.
    case newer(file: String)
    /// The disk has no room left; what was to be saved may be saved again later.
    case diskFull(file: String)
    /// It was closed before.
    case closed(file: String)
    /// The operating system or SQLite cannot work with the file.
    case unusable(file: String, reason: String)

    private static let price = "device tokens then have to prove themselves again, and sender keys are bound anew"

    package var description: String {
        switch self {
        case .inUse(let file):
            "\(file) is in use by another process; end that one, or give this node a state directory of its own"
        case .keyMissing(let file, let store):
            "the standing of device tokens in \(store) means nothing without the key \(file); "
                + "restore it, or move \(store) away: \(Self.price)"
        case .keyReadableByOthers(let file):
            "the key \(file) can be read by others than its owner; run: chmod 600 \(file)"
        case .keyLength(let file, let bytes):
            "the key \(file) has \(bytes) bytes instead of \(KeyFile.length); restore it, "
                + "or move it and the store of device tokens' standing away: \(Self.price)"
        case .wrongKey(let file, let store):
            "the key \(file) is not the one of the standing of device tokens in \(store); "
                + "restore the right one, or move \(store) away: \(Self.price)"
        case .damaged(let file):
            "the standing of device tokens in \(file) is damaged, or is something else; "
                + "restore it, or move it and \(file)-wal away: \(Self.price)"
        case .foreign(let file):
            "\(file) is a database of another program; move it away to start an empty store of device tokens' standing"
        case .newer(let file):
            "the standing of device tokens in \(file) was written by a newer version of Tocsin; "
                + "run that version, or move it away: \(Self.price)"
        case .diskFull(let file):
            "no room on the disk for \(file); make room: until then the standing of device tokens is kept in memory only"
        case .closed(let file):
            "\(file) was closed already; start the node again to use it"
        case .unusable(let file, let reason):
            "cannot use \(file): \(reason); check its directory, its permissions and the free space"
        }
    }

    /// What an error of the store at `file`, of its lock or of its key file means for it.
    init(_ error: any Error, file: String) {
        switch error {
        case let error as StandingStoreError: self = error
        case let error as PrivateFileError: self.init(error, store: file)
        case let error as DatabaseError: self.init(error, file: file)
        default: self = .unusable(file: file, reason: "unexpected \(type(of: error))")
        }
    }

    private init(_ error: PrivateFileError, store: String) {
        switch error {
        case .inUse(let file, _): self = .inUse(file: file)
        case .missing(let file): self = .keyMissing(file: file, store: store)
        case .readableByOthers(let file): self = .keyReadableByOthers(file: file)
        case .length(let file, let bytes): self = .keyLength(file: file, bytes: bytes)
        case .unusable(let file, let reason): self = .unusable(file: file, reason: reason)
        }
    }

    /// Takes SQLite's own words where it must, and never a statement or its values.
    private init(_ error: DatabaseError, file: String) {
        switch error.resultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged(file: file)
        case .SQLITE_BUSY, .SQLITE_LOCKED: self = .inUse(file: file)
        case .SQLITE_FULL: self = .diskFull(file: file)
        default:
            self = .unusable(
                file: file,
                reason: "\(error.message ?? "no message") (SQLite \(error.extendedResultCode.rawValue))")
        }
    }
}
