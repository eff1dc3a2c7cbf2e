// SPDX-License-Identifier: Apache-2.0

import Cryptography
import GRDB

extension StandingStore {
    /// Looks whether this version could open the store at `path`, without a change to it. It need not be there. For a
    /// store that no process has open.
    /// - Throws: ``StandingStoreError``: foreign, newer or damaged.
    package static func inspect(at path: String) throws(StandingStoreError) {
        do {
            var configuration = Configuration()
            configuration.readonly = true
            let present = try DatabaseQueue(path: path, configuration: configuration).read { db in
                try StandingSchema.refuseForeign(db, file: path)
                return try migrations(in: db)
            }
            // An empty store has had all the migrations that this version knows.
            let empty = try DatabaseQueue()
            try StandingSchema.prepare(empty, key: SecretBytes([UInt8](repeating: 0, count: 32)), file: "", keyFile: "")
            guard try present.isSubset(of: empty.read { try migrations(in: $0) }) else {
                throw StandingStoreError.newer(file: path)
            }
        } catch {
            throw StandingStoreError(error, file: path)
        }
    }

    private static func migrations(in db: Database) throws -> Set<String> {
        guard try db.tableExists("grdb_migrations") else { return [] }
        return try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
    }
}
