// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The work of one transaction.
struct SpoolBatch: Sendable {
    /// An envelope to store, and the caller that waits for the result.
    struct Store: Sendable {
        let envelope: SpooledEnvelope
        let continuation: CheckedContinuation<StoreResult, Never>
    }

    /// An envelope that has its final outcome.
    struct Finish: Sendable {
        let id: Int64
        let digest: Digest256
        let outcome: Outcome
        /// Unix time in seconds until which the outcome is remembered; `nil` if it is not.
        let keepUntil: Int64?
    }

    var stores: [Store] = []
    var finishes: [Finish] = []

    var isEmpty: Bool { stores.isEmpty && finishes.isEmpty }
}
