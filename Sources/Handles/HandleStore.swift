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

        /// - Parameters: as the properties of the same names.
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
    private static let fullRetry: UInt32 = 60_000

    private let keys: HandleKeys
    private let database: ConnectionQueue

    /// Opens the store, or creates an empty one. Reads the whole file once, and blocks while it does.
    /// - Parameters:
    ///   - path: the path of the database. SQLite's other files and the lock file append `-wal`, `-shm` and `.lock`.
    ///   - keyFile: the path of the key file.
    package init(at path: String, keyFile: String) throws(StoreError) {
        let file = try StoreFile(
            .handles, at: path, keyFile: keyFile, makeCheck: { HandleKeys($0).check },
            isRightKey: { HandleKeys($0).check == $1 })
        keys = HandleKeys(file.key)
        database = ConnectionQueue(file)
    }

    /// What stands behind a handle; `nil` if the node does not know the handle, or its owner has ended it.
    /// - Parameter now: Unix time in seconds.
    package func find(
        _ handle: Handle, _ limits: Limits, at now: Int64, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> HandleEntry? {
        let keys = keys
        return try await database.run { connection in
            let entry = try Self.entry(of: handle, keys, limits, now, connection)
            return entry?.state == .forgotten ? nil : entry
        }
    }

    /// Performs a request of an owner. The change is durable when this returns.
    /// - Parameters:
    ///   - app: the name of the app that a REGISTER names.
    ///   - now: Unix time in seconds.
    package func perform(
        _ request: HandleRequest, app: String, _ limits: Limits, at now: Int64,
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> Answer {
        let keys = keys
        let handle =
            switch request.action {
            case .register(_, let owner, let registration): keys.handle(app: app, registration, owner: owner)
            case .rotate(let handle, _), .forget(let handle): handle
            }
        return try await database.run { connection in
            var outcome = Outcome.delivered()
            var ended: HandleEntry.Record?
            try connection.transaction {
                let present = try Self.entry(of: handle, keys, limits, now, connection)
                switch HandleEntry.change(request, app: app, present, at: now) {
                case .none(let unchanged): outcome = unchanged
                case .store(let entry):
                    if entry.state == .forgotten { ended = present?.record }
                    guard try present != nil || Self.makeRoom(limits, connection) else {
                        outcome = .retry(.nodeBusy, after: Self.fullRetry)
                        return
                    }
                    try connection.run(
                        "INSERT OR REPLACE INTO handles (name, sealed, state, time) VALUES (?, ?, ?, ?)",
                        [keys.name(of: handle), keys.seal(entry.record, of: handle), entry.state.rawValue, entry.time])
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

    /// Drops expired handles.
    /// - Parameter now: Unix time in seconds.
    /// - Returns: the number of handles that are left.
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
            return try connection.first("SELECT COUNT(*) FROM handles WHERE state < 2") { Int($0.integer(0)) } ?? 0
        }
    }

    /// Waits for earlier calls and closes the file. Later calls throw ``StoreError/Problem/closed``.
    package func close(isolation: isolated (any Actor)? = #isolation) async { await database.close() }

    /// The entry of a handle; `nil` if there is none or it has expired.
    private static func entry(
        of handle: Handle, _ keys: HandleKeys, _ limits: Limits, _ now: Int64, _ connection: Connection
    ) throws -> HandleEntry? {
        let row = try connection.first(
            "SELECT sealed, state, time FROM handles WHERE name = ?", [keys.name(of: handle)]
        ) { ($0.bytes(0), UInt8(truncatingIfNeeded: $0.integer(1)), $0.integer(2)) }
        guard let (sealed, state, time) = row, let record = keys.open(sealed, of: handle),
            let state = HandleEntry.State(rawValue: state)
        else { return nil }
        let entry = HandleEntry(record: record, state: state, time: time)
        return entry.isExpired(forgetDays: limits.forgetDays, at: now) ? nil : entry
    }

    /// Removes the oldest ended handle if the store is full.
    /// - Returns: whether there is room for a handle.
    private static func makeRoom(_ limits: Limits, _ connection: Connection) throws -> Bool {
        let count = try connection.first("SELECT COUNT(*) FROM handles") { Int($0.integer(0)) } ?? 0
        guard count >= limits.maximum else { return true }
        try connection.run(
            "DELETE FROM handles WHERE name IN (SELECT name FROM handles WHERE state = 2 ORDER BY time LIMIT 1)")
        return connection.changes > 0 && count == limits.maximum
    }
}
