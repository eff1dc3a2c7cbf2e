// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The proofs of work that have paid for an envelope or a request with a final outcome. Each pays for nothing else as
/// long as its seed is valid, even after the replay window has forgotten the envelope (PROTOCOL §5). Bounded: beyond
/// ``capacity`` under one seed, further proofs are not remembered.
struct SpentProofs: Sendable {
    /// The maximum number of proofs remembered between two changes of the seed: 72 a second for an hour.
    static let capacity = 262_144

    private let capacity: Int
    /// Proofs since the last change of the seed, and before it.
    private var (current, previous): (Set<UInt64>, Set<UInt64>) = ([], [])

    init(capacity: Int = SpentProofs.capacity) { self.capacity = capacity }

    /// The number of proofs remembered.
    var count: Int { current.count + previous.count }

    /// Identifies a proof and the envelope or request that it is for. Strangers do not know the digest, so they cannot
    /// spend another sender's proof.
    static func name(of proof: Proof, for digest: Digest256) -> UInt64 {
        digest.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } ^ (proof.nonce &* 0x9E37_79B9_7F4A_7C15)
    }

    func contains(_ name: UInt64) -> Bool { current.contains(name) || previous.contains(name) }

    mutating func insert(_ name: UInt64) {
        if current.count < capacity { current.insert(name) }
    }

    /// Forgets the proofs for the seed before the previous one: call when the seed changes.
    mutating func seedChanged() { (current, previous) = ([], current) }
}
