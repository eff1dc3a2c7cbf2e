// SPDX-License-Identifier: Apache-2.0

import Cryptography
import GRDB

extension Spool {
    /// Looks whether this version could open the spool at `path`, without a change to it. For a spool that no process has
    /// open.
    /// - Throws: ``SpoolError``: foreign, newer or damaged.
    package static func inspect(at path: String) throws(SpoolError) {
        do {
            var configuration = Configuration()
            configuration.readonly = true
            let present = try DatabaseQueue(path: path, configuration: configuration).read { db in
                try SpoolSchema.refuseForeign(db, file: path)
                return try migrations(in: db)
            }
            // An empty spool has had all the migrations that this version knows.
            let empty = try DatabaseQueue()
            let anyKey = SecretBytes([UInt8](repeating: 0, count: KeyFile.length))
            if let key = SpoolKey(anyKey) { try SpoolSchema.prepare(empty, key: key, file: "") }
            guard try present.isSubset(of: empty.read { try migrations(in: $0) }) else {
                throw SpoolError.newer(file: path)
            }
        } catch {
            throw SpoolError(error, file: path)
        }
    }

    private static func migrations(in db: Database) throws -> Set<String> {
        guard try db.tableExists("grdb_migrations") else { return [] }
        return try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
    }
}
