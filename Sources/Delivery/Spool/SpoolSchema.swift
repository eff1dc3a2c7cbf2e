// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials
import GRDB

/// The tables of the spool, and how a file is told to be one.
enum SpoolSchema {
    /// "Tocs": what SQLite's `application_id` is in our files.
    static let applicationID: Int32 = 0x546F_6373

    /// Refuses a database of another program before anything is written to it.
    static func refuseForeign(_ db: Database, file: String) throws {
        let mark = try Int32.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        guard mark != applicationID else { return }
        let isEmpty = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master") == 0
        guard mark == 0, isEmpty else { throw SpoolError.foreign(file: file) }
    }

    /// Sets the connection up: what a commit has returned from is on disk, and what is deleted is overwritten.
    static func configure(_ db: Database, file: String) throws {
        guard try String.fetchOne(db, sql: "PRAGMA journal_mode = WAL") == "wal" else {
            throw SpoolError.unusable(file: file, reason: "SQLite's WAL mode does not work there")
        }
        try db.execute(
            sql: """
                PRAGMA synchronous = FULL;
                PRAGMA secure_delete = ON;
                PRAGMA journal_size_limit = 0;
                PRAGMA temp_store = MEMORY;
                PRAGMA cache_size = -16384;
                """)
    }

    /// Refuses a torn file and one of a newer version, and brings the tables of an older one up to date.
    static func prepare(_ database: DatabaseQueue, key: SpoolKey, file: String) throws {
        let migrator = migrator(check: key.makeCheck())
        try database.writeWithoutTransaction { db in
            guard try String.fetchOne(db, sql: "PRAGMA quick_check(1)") == "ok" else {
                throw SpoolError.damaged(file: file)
            }
            guard try !migrator.hasBeenSuperseded(db) else { throw SpoolError.newer(file: file) }
            // Before the first table, so that a crash in between leaves a file that is known for ours.
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
        }
        try migrator.migrate(database)
    }

    /// The text by which the spool knows its key; nil where there is none.
    static func check(_ db: Database) throws -> [UInt8]? {
        try Data.fetchOne(db, sql: "SELECT value FROM meta WHERE name = 'key-check'").map { Array($0) }
    }

    /// A migration that has been released is never changed; what comes later is another one.
    private static func migrator(check: [UInt8]) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE meta (
                        name TEXT NOT NULL PRIMARY KEY,
                        value BLOB NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE TABLE envelope (
                        id INTEGER PRIMARY KEY AUTOINCREMENT,
                        digest BLOB NOT NULL UNIQUE,
                        expires INTEGER NOT NULL,
                        sealed BLOB NOT NULL
                    ) STRICT;
                    CREATE INDEX envelope_by_expiry ON envelope (expires);
                    CREATE TABLE outcome (
                        digest BLOB NOT NULL PRIMARY KEY,
                        until INTEGER NOT NULL,
                        sealed BLOB NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX outcome_by_end ON outcome (until);
                    """)
            try db.execute(sql: "INSERT INTO meta (name, value) VALUES ('key-check', ?)", arguments: [Data(check)])
        }
        // Where the row's own secret is, in the file of ``RowKeys``; NULL: sealed by version 1, under the common key.
        migrator.registerMigration("2") { db in try db.execute(sql: "ALTER TABLE envelope ADD COLUMN slot INTEGER") }
        return migrator
    }
}
