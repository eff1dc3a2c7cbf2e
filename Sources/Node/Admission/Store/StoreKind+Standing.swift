// SPDX-License-Identifier: Apache-2.0

import Store

extension StoreKind {
    /// The store of what is known about device tokens. Commits do not wait for the disk. If a power failure undoes the
    /// last ones, the node learns again from the push service whether it accepts these tokens, and binds them again.
    package static let standing = StoreKind(
        name: "store of device tokens",
        lossWhenMoved: "all device tokens are then unproven again, and their bindings to sender keys are lost",
        applicationID: 0x546F_6B6E,  // "Tokn"
        durability: .normal,
        migrations: [
            // SQLite's integers are signed: the store keeps the bits of a 64-bit hash as a signed integer.
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
            // Keeps version 1 from opening the file: it would read a day in the column `sender` as a key.
            "",
            // With `token` as its row id, SQLite writes one B-tree; the unique index was a second one.
            """
            CREATE TABLE by_token (
                token INTEGER PRIMARY KEY,
                standing INTEGER NOT NULL CHECK (standing BETWEEN 0 AND 255),
                since INTEGER NOT NULL,
                day INTEGER NOT NULL CHECK (day BETWEEN 0 AND 65535),
                sender INTEGER NOT NULL
            ) STRICT;
            INSERT INTO by_token SELECT token, standing, since, day, sender FROM standing ORDER BY token;
            DROP TABLE standing;
            ALTER TABLE by_token RENAME TO standing
            """,
        ])
}
