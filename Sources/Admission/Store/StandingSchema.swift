// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import GRDB

/// The table of the standing, and how a file is told to be ours.
enum StandingSchema {
    /// "Tokn": what SQLite's `application_id` is in our files.
    static let applicationID: Int32 = 0x546F_6B6E

    /// Refuses a database of another program before anything is written to it.
    static func refuseForeign(_ db: Database, file: String) throws {
        let mark = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        guard mark != applicationID else { return }
        let isEmpty = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master") == 0
        guard mark == 0, isEmpty else { throw StandingStoreError.foreign(file: file) }
    }

    /// Sets the connection up: what is deleted is overwritten, and a commit does not wait for the disk. A crash of the
    /// node loses nothing of what was saved; a power cut may undo the last saves, and then the tokens in them only
    /// prove themselves, are refused by the provider, or are bound again.
    static func configure(_ db: Database, file: String) throws {
        guard try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL") == "wal" else {
            throw StandingStoreError.unusable(file: file, reason: "SQLite's WAL mode does not work there")
        }
        try db.execute(
            sql: """
                PRAGMA synchronous = NORMAL;
                PRAGMA secure_delete = ON;
                PRAGMA journal_size_limit = 0;
                PRAGMA temp_store = MEMORY;
                PRAGMA cache_size = -16384;
                """)
    }

    /// Refuses a torn file, one of a newer version and one of another key, and brings the tables of an older one up to
    /// date.
    static func prepare(_ database: DatabaseQueue, key: SecretBytes, file: String, keyFile: String) throws {
        let migrator = migrator(check: check(of: key))
        try database.writeWithoutTransaction { db in
            guard try String.fetchOne(db, sql: "PRAGMA quick_check(1)") == "ok" else {
                throw StandingStoreError.damaged(file: file)
            }
            guard try !migrator.hasBeenSuperseded(db) else { throw StandingStoreError.newer(file: file) }
            // Before the first table, so that a crash in between leaves a file that is known for ours.
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
        }
        try migrator.migrate(database)
        let check = try database.read { try Data.fetchOne($0, sql: "SELECT value FROM meta WHERE name = 'key-check'") }
        guard let check else { throw StandingStoreError.damaged(file: file) }
        guard check == Data(self.check(of: key)) else { throw StandingStoreError.wrongKey(file: keyFile, store: file) }
    }

    /// A text by which the store knows its key again, and which tells nothing of it.
    private static func check(of key: SecretBytes) -> [UInt8] {
        key.derivedKey(for: "tocsin-standing-check").keyedHash(of: BLAKE2b.hash256([]), count: 16)
    }

    /// A migration that has been released is never changed; what comes later is another one.
    private static func migrator(check: [UInt8]) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            // SQLite's integers are signed: 64 bits without a sign stand there as the same bits with one. Rows lie in the
            // order of their days, so that loading reads one page after another; by token, an index leads to them.
            try db.execute(
                sql: """
                    CREATE TABLE meta (
                        name TEXT NOT NULL PRIMARY KEY,
                        value BLOB NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE standing (
                        token INTEGER NOT NULL UNIQUE,
                        standing INTEGER NOT NULL CHECK (standing BETWEEN 0 AND 255),
                        since INTEGER NOT NULL,
                        day INTEGER NOT NULL CHECK (day BETWEEN 0 AND 65535),
                        sender INTEGER NOT NULL,
                        PRIMARY KEY (day, token)
                    ) STRICT, WITHOUT ROWID;
                    """)
            try db.execute(sql: "INSERT INTO meta (name, value) VALUES ('key-check', ?)", arguments: [Data(check)])
        }
        // The column `sender` may hold a day, which earlier versions would take for a key: they are to refuse the file.
        migrator.registerMigration("2") { _ in }
        return migrator
    }
}
