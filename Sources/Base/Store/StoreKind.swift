// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A kind of store: its `application_id`, its tables, and its name in messages.
package struct StoreKind: Sendable, Equatable {
    /// How a commit is made durable (`PRAGMA synchronous`).
    package enum Durability: String, Sendable {
        /// A committed transaction survives a power failure.
        case full = "FULL"
        /// A power failure may undo the last commits; a crash of the process undoes none.
        case normal = "NORMAL"
    }

    /// The store's name in messages, e.g. `spool`.
    package let name: String
    /// What the operator loses by moving the store away, as a clause for messages.
    package let lossWhenMoved: String
    /// The `application_id` of the SQLite files.
    package let applicationID: Int32
    /// The durability of commits.
    package let durability: Durability
    /// The SQL that creates each version of the tables from the previous one. An empty text changes no table, but keeps
    /// older versions of Tocsin from opening the file. Never change an entry after its release.
    package let migrations: [String]

    package init(
        name: String, lossWhenMoved: String, applicationID: Int32, durability: Durability, migrations: [String]
    ) {
        self.name = name
        self.lossWhenMoved = lossWhenMoved
        self.applicationID = applicationID
        self.durability = durability
        self.migrations = migrations
    }
}
