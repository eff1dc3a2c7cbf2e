// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// An open store: a locked SQLite file that only its owner can read, checked and migrated, with its key.
package struct StoreFile {
    let kind: StoreKind
    let path: String
    /// The connection to the database.
    package let connection: Connection
    /// The lock on the store. The store is locked while this object exists.
    let lock: FileLock
    /// The key: the random bytes of the key file.
    package let key: SecretBytes

    /// Opens a store, or creates an empty one together with its key. Blocks while it reads the whole file once.
    /// - Parameters:
    ///   - path: the path of the database. SQLite's other files and the lock file append `-wal`, `-shm` and `.lock`.
    ///   - keyFile: the path of the key file, which may be on other storage.
    ///   - makeCheck: derives a text from a key. A new store saves this text to recognise the key later.
    ///   - isRightKey: returns whether the text was derived from this key.
    /// - Throws: ``StoreError``.
    package init(
        _ kind: StoreKind, at path: String, keyFile: String, makeCheck: (SecretBytes) throws -> [UInt8],
        isRightKey: (SecretBytes, [UInt8]) throws -> Bool
    ) throws(StoreError) {
        (self.kind, self.path) = (kind, path)
        do {
            lock = try FileLock(at: path + ".lock", for: path)
            // Creates a new key only for an empty store, before anything is written to it, so that a lost key is
            // noticed.
            let isEmpty = try PrivateFile.ensure(path) == 0
            let firstKey = try isEmpty ? KeyFile.readOrCreate(keyFile) : nil
            connection = try Connection(path)
            try Self.refuseForeign(connection, kind, file: path)
            try Self.configure(connection, kind, file: path)
            key = try firstKey ?? KeyFile.read(keyFile)
            // SQLite gives its other files the permissions of the database.
            for suffix in ["", "-wal", "-shm"] { try PrivateFile.restrict(path + suffix) }
            try Self.migrate(connection, kind, file: path) { try makeCheck(key) }
            let check = try connection.first("SELECT value FROM meta WHERE name = 'key-check'") { $0.bytes(0) }
            guard let check else { throw StoreError(.damaged, file: path, of: kind) }
            guard try isRightKey(key, check) else {
                throw StoreError(.wrongKey(store: path), file: keyFile, of: kind)
            }
        } catch {
            throw StoreError(error, file: path, of: kind)
        }
    }

    /// Checks that this version could open the store at `path`, without changing it. No process may be using the store.
    /// - Throws: ``StoreError``, e.g. if the store is foreign, newer or damaged.
    package static func inspect(_ kind: StoreKind, at path: String) throws(StoreError) {
        do {
            let connection = try Connection(path, isReadOnly: true)
            try refuseForeign(connection, kind, file: path)
            guard try version(connection) <= kind.migrations.count else {
                throw StoreError(.newer, file: path, of: kind)
            }
        } catch {
            throw StoreError(error, file: path, of: kind)
        }
    }

    /// Throws if the database belongs to another program. Call this before writing anything to it.
    private static func refuseForeign(_ connection: Connection, _ kind: StoreKind, file: String) throws {
        let mark = try connection.first("PRAGMA application_id") { $0.integer(0) } ?? 0
        guard mark != Int64(kind.applicationID) else { return }
        let isEmpty = try connection.first("SELECT COUNT(*) FROM sqlite_master") { $0.integer(0) } == 0
        guard mark == 0, isEmpty else { throw StoreError(.foreign, file: file, of: kind) }
    }

    /// Configures the connection to use a write-ahead log and to overwrite deleted content.
    private static func configure(_ connection: Connection, _ kind: StoreKind, file: String) throws {
        guard try connection.first("PRAGMA journal_mode = WAL", convert: { $0.text(0) }) == "wal" else {
            throw StoreError(.unusable("its file system does not support SQLite's WAL mode"), file: file, of: kind)
        }
        try connection.execute(
            """
            PRAGMA synchronous = \(kind.durability.rawValue);
            PRAGMA secure_delete = ON;
            PRAGMA journal_size_limit = 0;
            PRAGMA temp_store = MEMORY;
            PRAGMA cache_size = -8192;
            """)
    }

    /// Throws if the file is damaged or of a newer version, and migrates the tables of an older version.
    private static func migrate(
        _ connection: Connection, _ kind: StoreKind, file: String, makeCheck: () throws -> [UInt8]
    ) throws {
        guard try connection.first("PRAGMA quick_check(1)", convert: { $0.text(0) }) == "ok" else {
            throw StoreError(.damaged, file: file, of: kind)
        }
        let present = try version(connection)
        guard present <= kind.migrations.count else { throw StoreError(.newer, file: file, of: kind) }
        // Set before the first table is created, so that the file is recognised even after a crash in between.
        try connection.execute("PRAGMA application_id = \(kind.applicationID)")
        for version in present..<kind.migrations.count {
            try connection.transaction {
                if version == 0 {
                    try connection.execute(
                        "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID")
                    try connection.run("INSERT INTO meta (name, value) VALUES ('key-check', ?)", [makeCheck()])
                }
                try connection.execute(kind.migrations[version])
                try connection.execute("PRAGMA user_version = \(version + 1)")
            }
        }
    }

    /// The version of the tables: the number of migrations that the file has had.
    private static func version(_ connection: Connection) throws -> Int {
        try connection.first("PRAGMA user_version") { Int($0.integer(0)) } ?? 0
    }
}
