// SPDX-License-Identifier: Apache-2.0

import Store

extension StoreKind {
    /// The spool. A committed envelope survives a power failure, because its sender has received QUEUED.
    package static let spool = StoreKind(
        name: "spool", lossWhenMoved: "the notifications in it are not delivered",
        applicationID: 0x546F_6373,  // "Tocs"
        durability: .full,
        migrations: [
            """
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
            """,
            // The slot of the row's secret in ``RowKeys``; never NULL since 1.0.0.
            "ALTER TABLE envelope ADD COLUMN slot INTEGER",
        ])
}
