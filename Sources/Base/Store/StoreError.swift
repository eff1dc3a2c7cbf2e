// SPDX-License-Identifier: Apache-2.0

import CSQLite
import Cryptography

/// Why a store cannot be used. The description says what is wrong, with which file, and what to do.
package struct StoreError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kinds of problem.
    package enum Problem: Equatable, Sendable {
        /// Another process has the file open.
        case inUse
        /// The store exists, but its key file does not.
        case keyMissing(store: String)
        /// Users other than its owner may read the key file.
        case keyReadableByOthers
        /// The key file has this many bytes instead of `KeyFile.length`.
        case keyLength(Int)
        /// The key is not the one that the store was created with.
        case wrongKey(store: String)
        /// The file is truncated or corrupt.
        case damaged
        /// The file is a database of another program.
        case foreign
        /// A newer version of Tocsin wrote the file.
        case newer
        /// The disk is full. The write can be retried once there is space.
        case diskFull
        /// The store has been closed.
        case closed
        /// The operating system or SQLite cannot use the file.
        case unusable(String)
    }

    /// The kind of the store.
    package let kind: StoreKind
    /// The file that has the problem.
    package let file: String
    /// What is wrong with the file.
    package let problem: Problem

    package init(_ problem: Problem, file: String, of kind: StoreKind) {
        self.kind = kind
        self.file = file
        self.problem = problem
    }

    package var description: String {
        let orMoved = "or move the \(kind.name) away: \(kind.lossWhenMoved)"
        return switch problem {
        case .inUse: "\(file) is in use by another process; stop that process, or configure another file for this node"
        case .keyMissing(let store):
            "the \(kind.name) \(store) cannot be opened without its key \(file); restore the key, \(orMoved)"
        case .keyReadableByOthers:
            "users other than its owner can read the key \(file) of the \(kind.name); run: chmod 600 \(file)"
        case .keyLength(let bytes):
            "the key \(file) of the \(kind.name) has \(bytes) bytes instead of \(KeyFile.length); restore it, \(orMoved)"
        case .wrongKey(let store):
            "the key \(file) does not belong to the \(kind.name) \(store); restore the right key, \(orMoved)"
        case .damaged:
            "the \(kind.name) \(file) is damaged or not a database; restore it, or move it and \(file)-wal away: "
                + kind.lossWhenMoved
        case .foreign: "\(file) is a database of another program; move it away to start with an empty \(kind.name)"
        case .newer:
            "a newer version of Tocsin wrote the \(kind.name) \(file); run that version, \(orMoved)"
        case .diskFull:
            "no space left on the disk of \(file); free some space: the \(kind.name) cannot be written until then"
        case .closed: "the \(kind.name) \(file) is closed; restart the node to use it"
        case .unusable(let reason):
            "cannot use \(file): \(reason); check its directory, its permissions and the free space"
        }
    }

    /// Converts an error that was thrown while opening or using a store at `file`.
    package init(_ error: any Error, file: String, of kind: StoreKind) {
        switch error {
        case let error as StoreError: self = error
        case let error as PrivateFileError: self.init(error, store: file, of: kind)
        case let error as SQLiteError: self.init(Self.problem(error), file: file, of: kind)
        default: self.init(.unusable("unexpected \(type(of: error))"), file: file, of: kind)
        }
    }

    private init(_ error: PrivateFileError, store: String, of kind: StoreKind) {
        switch error {
        case .inUse(let file, _): self.init(.inUse, file: file, of: kind)
        case .missing(let file): self.init(.keyMissing(store: store), file: file, of: kind)
        case .readableByOthers(let file): self.init(.keyReadableByOthers, file: file, of: kind)
        case .wrongLength(let file, let bytes): self.init(.keyLength(bytes), file: file, of: kind)
        case .unusable(let file, let reason): self.init(.unusable(reason), file: file, of: kind)
        }
    }

    private static func problem(_ error: SQLiteError) -> Problem {
        switch error.code {
        case SQLITE_CORRUPT, SQLITE_NOTADB: .damaged
        case SQLITE_BUSY, SQLITE_LOCKED: .inUse
        case SQLITE_FULL: .diskFull
        default: .unusable(error.description)
        }
    }

    /// SQLite's description of an error for a log, without the statement and its values.
    package static func reason(_ error: any Error) -> String {
        (error as? SQLiteError)?.description ?? "unexpected \(type(of: error))"
    }

    /// Whether a later start may succeed because the cause is the state of the machine. Otherwise the operator must
    /// change files or the configuration.
    package var isTransient: Bool {
        switch problem {
        case .diskFull, .unusable: true
        default: false
        }
    }
}
