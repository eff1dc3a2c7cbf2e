// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store
import TNP

/// Stores handles in SQLite. A row is found by a keyed hash of its handle, and sealed under a key made of the handle. Can
/// be called from any thread.
package final class HandleStore: Sendable {
    /// The bounds of the store.
    package struct Limits: Equatable, Sendable {
        /// Maximum number of handles.
        package var maximum: Int
        /// Days without a delivered notification after which a handle is forgotten.
        package var forgetDays: Int

        package init(maximum: Int, forgetDays: Int) {
            self.maximum = maximum
            self.forgetDays = forgetDays
        }
    }

    /// The answer to a request of an owner.
    package struct Answer: Sendable {
        /// What became of the request.
        package let outcome: Outcome
        /// The handle, if the request was accepted.
        package let handle: Handle?
        /// What stood behind the handle, if the request has ended it.
        package let ended: HandleEntry.Record?

        init(outcome: Outcome, handle: Handle?, ended: HandleEntry.Record?) {
            self.outcome = outcome
            self.handle = handle
            self.ended = ended
        }

        /// An answer that changes nothing.
        package init(_ outcome: Outcome) { self.init(outcome: outcome, handle: nil, ended: nil) }
    }

    /// Retry-after when the store is full, in milliseconds.
    package static let fullRetry: UInt32 = 60_000

    private let keys: HandleKeys
    private let isShared: Bool
    private let path: String
    private let database: ConnectionQueue
    /// A second connection for reading, so that lookups do not wait for commits.
    private let reader: ConnectionQueue

    /// Opens the store, or creates an empty one. Reads the whole file once, and blocks while it does.
    /// - Parameters:
    ///   - path: the path of the database. SQLite's other files and the lock file append `-wal`, `-shm` and `.lock`.
    ///   - keyFile: the path of the key file.
    ///   - isShared: whether the nodes of a cluster exchange entries, and must know which one is newer.
    package init(
        at path: String, keyFile: String, isShared: Bool = false, on disk: any Disk = SystemDisk()
    ) throws(StoreError) {
        self.isShared = isShared
        let file = try StoreFile(
            .handles, at: path, keyFile: keyFile, makeCheck: { HandleKeys($0).check },
            isRightKey: { HandleKeys($0).check == $1 })
        keys = HandleKeys(file.key)
        self.path = path
        reader = try ConnectionQueue(reading: file, on: disk)
        database = ConnectionQueue(file, on: disk)
    }

    /// What stands behind a handle; `nil` if the node does not know the handle, or its owner has ended it.
    /// - Parameters:
    ///   - isInUse: whether the handle is known to be in use, although ``rang(_:at:)`` has not returned yet.
    ///   - now: Unix time in seconds.
    package func find(
        _ handle: Handle, _ limits: Limits, isInUse: Bool = false, at now: Int64,
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> HandleEntry? {
        let entry = try await reader.run { try self.row(of: handle, $0) }
        return entry.flatMap { $0.isUsable(limits, isInUse: isInUse, at: now) ? $0 : nil }
    }

    /// The handle that a request is about.
    /// - Parameter app: the name of the app that a REGISTER names.
    package func handle(of request: HandleRequest, app: String) -> Handle {
        keys.handle(of: request, app: app)
    }

    /// Performs a request of an owner. The change is durable when this returns.
    /// - Parameters:
    ///   - app: the name of the app that a REGISTER names.
    ///   - now: Unix time in seconds.
    package func perform(
        _ request: HandleRequest, app: String, _ limits: Limits, at now: Int64,
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> Answer {
        let handle = handle(of: request, app: app)
        return try await database.run { connection in
            var outcome = Outcome.delivered()
            var ended: HandleEntry.Record?
            try connection.transaction {
                let row = try self.row(of: handle, connection)
                let present = row.flatMap { $0.isExpired(forgetDays: limits.forgetDays, at: now) ? nil : $0 }
                switch HandleEntry.change(request, app: app, present, at: now) {
                case .none(let unchanged): outcome = unchanged
                case .store(let entry):
                    if entry.state == .forgotten { ended = present?.record }
                    guard try row != nil || Self.makeRoom(limits, connection) else {
                        outcome = .retry(.nodeBusy, after: Self.fullRetry)
                        return
                    }
                    try self.write(entry, sealed: self.keys.seal(entry.record, of: handle), of: handle, connection)
                }
            }
            return Answer(outcome: outcome, handle: outcome.kind == .delivered ? handle : nil, ended: ended)
        }
    }

    /// Records that the phones behind these handles were rung with DELIVERED.
    /// - Parameter now: Unix time in seconds.
    package func rang(
        _ handles: [Handle], at now: Int64, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) {
        let keys = keys
        try await database.run { connection in
            try connection.transaction {
                for handle in handles {
                    try connection.run(
                        "UPDATE handles SET state = ?, time = ? WHERE name = ? AND state <> ?",
                        [
                            HandleEntry.State.confirmed.rawValue, HandleEntry.day(of: now), keys.name(of: handle),
                            HandleEntry.State.forgotten.rawValue,
                        ])
                }
            }
        }
    }

    /// Drops a handle, unless it was rung with DELIVERED.
    package func drop(unconfirmed handle: Handle, isolation: isolated (any Actor)? = #isolation)
        async throws(StoreError)
    {
        let name = keys.name(of: handle)
        try await database.run { connection in
            try connection.run(
                "DELETE FROM handles WHERE name = ? AND state = ?", [name, HandleEntry.State.unconfirmed.rawValue])
        }
    }

    /// Drops expired handles.
    /// - Parameter now: Unix time in seconds.
    /// - Returns: the number of handles that are left, without those that their owners have ended.
    package func sweep(
        _ limits: Limits, at now: Int64, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> Int {
        try await database.run { connection in
            try connection.run(
                "DELETE FROM handles WHERE state = 0 AND time <= ?1 OR state > 0 AND time <= ?2",
                [
                    now - HandleEntry.confirmationTime,
                    HandleEntry.oldestUse(forgetDays: limits.forgetDays, at: now),
                ])
            // Rotated and removed rows must not stay in the write-ahead log.
            try? connection.truncateLog()
            return try connection.first("SELECT COUNT(*) FROM handles WHERE state < 2") { Int($0.integer(0)) } ?? 0
        }
    }

    /// Waits for earlier calls and closes the file. Later calls throw ``StoreError/Problem/closed``.
    package func close(isolation: isolated (any Actor)? = #isolation) async {
        await reader.close()
        await database.close()
    }

    /// The row of a handle, which may have expired; `nil` if there is none.
    /// - Throws: also if the row was altered, or if a later version of Tocsin has written it.
    private func row(of handle: Handle, _ connection: Connection) throws -> HandleEntry? {
        guard let sealed = try sealedRow(of: handle, connection) else { return nil }
        guard let entry = entry(sealed, of: handle) else { throw StoreError(.damaged, file: path, of: .handles) }
        return entry
    }

    private func sealedRow(of handle: Handle, _ connection: Connection) throws -> SealedHandle? {
        try connection.first(
            "\(Self.selection) WHERE name = ?", [keys.name(of: handle)], convert: SealedHandle.init(_:)) ?? nil
    }

    static let selection = "SELECT name, sealed, state, time, sequence FROM handles"

    private func entry(_ sealed: SealedHandle, of handle: Handle) -> HandleEntry? {
        keys.open(sealed.sealed, of: handle).map { HandleEntry(record: $0, state: sealed.state, time: sealed.time) }
    }

    private func write(_ entry: HandleEntry, sealed: [UInt8], of handle: Handle, _ connection: Connection) throws {
        try connection.run(
            "INSERT OR REPLACE INTO handles (name, sealed, state, time, sequence) VALUES (?, ?, ?, ?, ?)",
            [
                keys.name(of: handle), sealed, entry.state.rawValue, entry.time,
                isShared ? Int64(bitPattern: entry.record.sequence) : 0,
            ])
    }

    // MARK: In a cluster

    /// Identifies the key file. Nodes that share handles have the same one.
    package var check: [UInt8] { keys.check }

    /// The name of a handle's row.
    package func name(of handle: Handle) -> [UInt8] { keys.name(of: handle) }

    /// The row of a handle; `nil` if there is none.
    package func sealed(
        _ handle: Handle, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> SealedHandle? {
        try await reader.run { connection in
            guard let sealed = try self.sealedRow(of: handle, connection) else { return nil }
            // A row from before the node joined a cluster has the sequence only in its sealed record.
            return self.entry(sealed, of: handle).map { sealed.with(sequence: $0.record.sequence) } ?? sealed
        }
    }

    /// Up to `limit` rows, in the order of their names.
    /// - Parameter name: the name of the last row that the caller has; empty to begin.
    package func sealed(
        after name: [UInt8], limit: Int, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> [SealedHandle] {
        try await reader.run { connection in
            try connection.all(
                "\(Self.selection) WHERE name > ? ORDER BY name LIMIT ?", [name, limit],
                convert: SealedHandle.init(_:)
            ).compactMap(\.self)
        }
    }

    /// Takes over the row of another node if it is newer than the own one.
    /// - Returns: the newer entry, which may have expired or ended, and whether the store has it: it may be full. `nil` if
    ///   the row cannot be opened and there is no own one.
    package func merge(
        _ other: SealedHandle, of handle: Handle, _ limits: Limits, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> (entry: HandleEntry, isSaved: Bool)? {
        try await database.run { connection in
            var result: (entry: HandleEntry, isSaved: Bool)?
            try connection.transaction {
                let own = try self.row(of: handle, connection)
                result = own.map { ($0, true) }
                guard let entry = self.entry(other, of: handle), own.map({ entry.isNewer(than: $0) }) ?? true else {
                    return
                }
                let isSaved =
                    try own != nil
                    || (connection.first("SELECT COUNT(*) FROM handles") { Int($0.integer(0)) } ?? 0)
                        < limits.maximum
                if isSaved { try self.write(entry, sealed: other.sealed, of: handle, connection) }
                result = (entry, isSaved)
            }
            return result
        }
    }

    /// The share of the store that unconfirmed handles may take: anybody can register them.
    private static let unconfirmedShare = 4

    /// Removes the oldest ended handle if the store is full.
    /// - Returns: whether there is room for an unconfirmed handle.
    private static func makeRoom(_ limits: Limits, _ connection: Connection) throws -> Bool {
        func count(_ condition: String) throws -> Int {
            try connection.first("SELECT COUNT(*) FROM handles WHERE \(condition)") { Int($0.integer(0)) } ?? 0
        }
        guard try count("state = 0") < max(1, limits.maximum / unconfirmedShare) else { return false }
        let all = try count("state >= 0")
        guard all >= limits.maximum else { return true }
        try connection.run(
            "DELETE FROM handles WHERE name IN (SELECT name FROM handles WHERE state = 2 ORDER BY time LIMIT 1)")
        return connection.changes > 0 && all == limits.maximum
    }
}
