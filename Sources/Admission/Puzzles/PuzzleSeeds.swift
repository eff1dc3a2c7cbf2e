// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// What a submission's proof of work is worth.
package enum ProofCheck: Equatable, Sendable {
    /// Nothing is asked, and no proof that holds was given.
    case notAsked
    /// It holds, for so much effort.
    case valid(UInt32)
    /// One is asked, and none was given (reason 203).
    case missing
    /// It does not hold (reason 204).
    case wrong
    /// It is for a seed that is not accepted any more (reason 204).
    case stale
    /// It claims less effort than is asked (reason 204).
    case tooSmall
}

/// Which seed is asked with, and until when: a new one takes over when the old one's time is over, and the one before
/// counts for as long again (PROTOCOL §5).
package struct PuzzleSeeds: Sendable {
    /// How long one seed is asked with.
    package static let lifetime = Duration.seconds(3600)

    private var present: Puzzle
    private var previous: (puzzle: Puzzle, endsAt: MonotonicTime)?
    /// When ``rotate(to:now:)`` is due.
    package private(set) var changesAt: MonotonicTime

    /// - Parameter seed: 16 random bytes.
    package init(seed: [UInt8], now: MonotonicTime) {
        present = Puzzle(seed: seed, effort: 0, lifetime: 0)
        changesAt = now + Self.lifetime
    }

    /// Asks with a new seed (16 random bytes) from now on. The present one becomes the one before, and counts for as
    /// long as ``puzzle(effort:at:)`` has ever promised, whether this comes at its time, early or late.
    package mutating func rotate(to seed: [UInt8], now: MonotonicTime) {
        previous = (present, max(changesAt, now) + Self.lifetime)
        present = Puzzle(seed: seed, effort: 0, lifetime: 0)
        changesAt = now + Self.lifetime
    }

    /// What WELCOME and PUZZLE say: the present seed, and for how many seconds it will be accepted, which is the rest of
    /// its own time and one lifetime more.
    /// - Parameter effort: expected hashes; 0: nothing is asked.
    package func puzzle(effort: UInt32, at now: MonotonicTime) -> Puzzle {
        // The rest of its own time cannot be more than all of it, whatever the clock says.
        let left = min(changesAt - now, Self.lifetime) + Self.lifetime
        return Puzzle(seed: present.seed, effort: effort, lifetime: UInt32(left.components.seconds))
    }

    /// Whether `proof` holds for the envelope of `digest` under the present seed or the one before, with at least
    /// `effort`. Costs one hash; none where effort or seed rule the proof out, and two where both seeds begin with the
    /// same four bytes.
    /// - Parameter effort: expected hashes; 0: nothing is asked. A proof is judged then, too, since more effort goes
    ///   first; one that does not hold is worth nothing, and does no harm.
    package func validate(
        _ proof: Proof?, for digest: Digest256, effort: UInt32, now: MonotonicTime
    ) -> ProofCheck {
        guard let proof else { return effort == 0 ? .notAsked : .missing }
        guard proof.effort >= effort else { return .tooSmall }
        let older = previous.flatMap { now < $0.endsAt ? $0.puzzle : nil }
        if present.holds(proof, for: digest) || older?.holds(proof, for: digest) == true { return .valid(proof.effort) }
        if effort == 0 { return .notAsked }
        let isKnown = present.isMeant(by: proof) || older?.isMeant(by: proof) == true
        return isKnown ? .wrong : .stale
    }
}
