// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// What goes into one transaction.
struct SpoolBatch: Sendable {
    /// An envelope to be stored, and who waits for it.
    struct Store: Sendable {
        let envelope: SpooledEnvelope
        let continuation: CheckedContinuation<StoreResult, Never>
    }

    /// An envelope that has its outcome.
    struct Finish: Sendable {
        let id: Int64
        let digest: Digest256
        let outcome: Outcome
        /// Until when the outcome is to be remembered, Unix time in seconds; nil: not at all.
        let keepUntil: Int64?
    }

    var stores: [Store] = []
    var finishes: [Finish] = []

    var isEmpty: Bool { stores.isEmpty && finishes.isEmpty }
}
