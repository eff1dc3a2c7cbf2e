// SPDX-License-Identifier: Apache-2.0

import Store

extension StoreKind {
    /// The store of what is known about device tokens. Commits do not wait for the disk: after a power failure, the
    /// tokens of the last commits prove themselves again, are rejected by the push service again, or are bound again.
    package static let standing = StoreKind(
        name: "store of device tokens",
        lossWhenMoved: "device tokens then have to prove themselves again, and sender keys are bound again",
        applicationID: 0x546F_6B6E,  // "Tokn"
        durability: .normal,
        migrations: [
            // SQLite's integers are signed: 64-bit hashes are stored with the same bits. Rows are ordered by day, so
            // that loading reads one page after another; the index on `token` finds them.
            """
            CREATE TABLE standing (
                token INTEGER NOT NULL UNIQUE,
                standing INTEGER NOT NULL CHECK (standing BETWEEN 0 AND 255),
                since INTEGER NOT NULL,
                day INTEGER NOT NULL CHECK (day BETWEEN 0 AND 65535),
                sender INTEGER NOT NULL,
                PRIMARY KEY (day, token)
            ) STRICT, WITHOUT ROWID
            """,
            // The column `sender` may hold a day, which version 1 would read as a key.
            "",
        ])
}
