// SPDX-License-Identifier: Apache-2.0

import Store

extension StoreKind {
    /// The store of handles. Commits are durable, because the owner of a handle may discard the registration it was
    /// made of.
    package static let handles = StoreKind(
        name: "store of handles",
        lossWhenMoved: "all handles are then unknown, and their phones must register again",
        applicationID: 0x546F_6368,  // "Toch"
        durability: .full,
        migrations: [
            // The index finds the rows to drop.
            """
            CREATE TABLE handles (
                name BLOB NOT NULL PRIMARY KEY CHECK (length(name) = 16),
                sealed BLOB NOT NULL,
                state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
                time INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID;
            CREATE INDEX handles_by_age ON handles (state, time)
            """,
            // In a cluster: the sequence of the owner's last request, by which nodes know who has the newer record.
            "ALTER TABLE handles ADD COLUMN sequence INTEGER",
        ])
}
