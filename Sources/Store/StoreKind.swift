// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// What distinguishes one kind of store from another: its mark, its tables, and its name in messages.
package struct StoreKind: Sendable, Equatable {
    /// How a commit is made durable (`PRAGMA synchronous`).
    package enum Durability: String, Sendable {
        /// A committed transaction survives a power failure.
        case full = "FULL"
        /// A power failure may undo the last commits; a crash of the process undoes none.
        case normal = "NORMAL"
    }

    /// In messages, e.g. `spool`.
    package let name: String
    /// What an operator loses who moves the store away, as a clause.
    package let lossWhenMoved: String
    /// SQLite's `application_id` of the files.
    package let applicationID: Int32
    package let durability: Durability
    /// The SQL that makes each version of the tables from the one before; an empty text changes nothing but keeps older
    /// versions of Tocsin from opening the file. A released entry never changes.
    package let migrations: [String]

    /// - Parameters: as the properties of the same names.
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
