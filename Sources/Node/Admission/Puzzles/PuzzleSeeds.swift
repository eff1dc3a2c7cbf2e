// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// The result of checking a submission's proof of work.
package enum ProofCheck: Equatable, Sendable {
    /// No proof is required, and the submission has no valid one.
    case notRequired
    /// The proof is valid for this effort.
    case valid(UInt32)
    /// A proof is required but missing (reason 203).
    case missing
    /// The proof is invalid (reason 204).
    case wrong
    /// The proof is for an expired or unknown seed (reason 204).
    case stale
    /// The proof claims less effort than required (reason 204).
    case tooSmall
}

/// The current puzzle seed and the previous one. After one lifetime, a new seed replaces the current one, which stays
/// valid for one more lifetime as the previous one (PROTOCOL §5).
package struct PuzzleSeeds: Sendable {
    /// How long one seed is announced.
    package static let lifetime = Duration.seconds(3600)

    private var current: Puzzle
    private var previous: (puzzle: Puzzle, expiresAt: MonotonicTime)?
    /// The time at which a call of ``rotate(to:now:)`` is due.
    package private(set) var rotatesAt: MonotonicTime

    /// Starts with one seed.
    /// - Parameter seed: 16 random bytes.
    package init(seed: [UInt8], now: MonotonicTime) {
        current = Puzzle(seed: seed, effort: 0, lifetime: 0)
        rotatesAt = now + Self.lifetime
    }

    /// Replaces the current seed by a new one (16 random bytes). The current one becomes the previous one. It stays
    /// valid for as long as ``puzzle(effort:at:)`` has promised, even if this call comes early or late.
    package mutating func rotate(to seed: [UInt8], now: MonotonicTime) {
        previous = (current, max(rotatesAt, now) + Self.lifetime)
        current = Puzzle(seed: seed, effort: 0, lifetime: 0)
        rotatesAt = now + Self.lifetime
    }

    /// The puzzle for WELCOME and PUZZLE: the current seed and the number of seconds for which the node still accepts
    /// it, which is the rest of its lifetime plus one lifetime.
    /// - Parameter effort: the required effort in expected hashes; 0 if no proof is required.
    package func puzzle(effort: UInt32, at now: MonotonicTime) -> Puzzle {
        // Clamped in case the clock went back.
        let left = min(rotatesAt - now, Self.lifetime) + Self.lifetime
        return Puzzle(seed: current.seed, effort: effort, lifetime: UInt32(left.components.seconds))
    }

    /// Checks that `proof` is valid for the envelope with this digest under the current or the previous seed, and that
    /// its effort is sufficient. Costs one hash; no hash if effort or seed rule the proof out; two hashes if both seeds
    /// begin with the same four bytes.
    /// - Parameter effort: the required effort in expected hashes; 0 if no proof is required. Even then the proof is
    ///   checked, because submissions with more effort go first in the queue. An invalid proof then counts as none.
    package func validate(_ proof: Proof?, for digest: Digest256, effort: UInt32, now: MonotonicTime) -> ProofCheck {
        guard let proof else { return effort == 0 ? .notRequired : .missing }
        guard proof.effort >= effort else { return .tooSmall }
        let older = previous.flatMap { now < $0.expiresAt ? $0.puzzle : nil }
        if current.isValid(proof, for: digest) || older?.isValid(proof, for: digest) == true {
            return .valid(proof.effort)
        }
        if effort == 0 { return .notRequired }
        let isKnown = current.matchesSeed(of: proof) || older?.matchesSeed(of: proof) == true
        return isKnown ? .wrong : .stale
    }
}
