// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import GRDB
import TNP

extension Spool {
    /// What the spool knows of a digest.
    package enum Known: Equatable, Sendable {
        case nothing
        /// An envelope of it waits, under this id.
        case stored(id: Int64)
        /// An envelope of it has had this outcome.
        case final(Outcome)
    }

    /// What is known of an envelope that is not to be stored itself, but may have been by an earlier process.
    package func lookup(
        _ digest: Digest256, isolation: isolated (any Actor)? = #isolation
    ) async throws(SpoolError) -> Known {
        let name = Data(key.name(of: digest))
        return try await read { db in
            let row = try Row.fetchOne(
                db.cachedStatement(sql: "SELECT until, sealed FROM outcome WHERE digest = ?"), arguments: [name])
            if let row {
                let until: Int64 = row[0]
                let sealed: Data = row[1]
                if until > self.now(),
                    let outcome = self.key.openOutcome(Array(sealed), name: Array(name), until: until)
                {
                    return .final(outcome)
                }
            }
            let id = try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT id FROM envelope WHERE digest = ?"), arguments: [name])
            return id.map { .stored(id: $0) } ?? .nothing
        }
    }
}
