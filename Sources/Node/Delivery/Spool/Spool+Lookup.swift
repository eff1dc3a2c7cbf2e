// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store
import TNP

extension Spool {
    /// What the spool knows about a digest.
    package enum Known: Equatable, Sendable {
        case nothing
        /// An envelope with this digest is stored under this id.
        case stored(id: Int64)
        /// An envelope with this digest has had this outcome.
        case final(Outcome)
    }

    /// Looks up an envelope that an earlier process may have stored, or delivered.
    package func lookup(
        _ digest: Digest256, isolation: isolated (any Actor)? = #isolation
    ) async throws(StoreError) -> Known {
        let name = key.name(of: digest)
        return try await database.run { connection in
            let outcome = try connection.first("SELECT until, sealed FROM outcome WHERE digest = ?", [name]) { row in
                let until = row.integer(0)
                return until > self.now() ? self.key.openOutcome(row.bytes(1), name: name, until: until) : nil
            }
            if let outcome = outcome ?? nil { return .final(outcome) }
            let id = try connection.first("SELECT id FROM envelope WHERE digest = ?", [name]) { $0.integer(0) }
            return id.map { .stored(id: $0) } ?? .nothing
        }
    }
}
