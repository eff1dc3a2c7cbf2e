// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// Looks for one proof of work, on the system's threads and in small pieces, so that it neither holds up an event loop
/// nor keeps a thread from those who wait for one.
package struct PuzzleSolver: Sendable {
    let puzzle: Puzzle
    /// Of the envelope that the proof is for.
    let digest: Digest256
    /// When to give up.
    let deadline: MonotonicTime

    /// Hashes from one look at the time to the next: a millisecond or two.
    static let triesAtATime: UInt64 = 4096

    /// - Parameters: as the properties of the same names.
    package init(puzzle: Puzzle, digest: Digest256, deadline: MonotonicTime) {
        (self.puzzle, self.digest, self.deadline) = (puzzle, digest, deadline)
    }

    /// Looks for a proof until there is one, the deadline has come or the task is cancelled; nil in the latter cases.
    /// - Parameters:
    ///   - start: the nonce to begin with; a random one, so that a search that begins anew does not repeat the last.
    ///   - now: tells the time.
    @concurrent
    package func proof(from start: UInt64, now: @Sendable () -> MonotonicTime = { .now }) async -> Proof? {
        var nonce = start
        while !Task.isCancelled, now() < deadline {
            if let proof = puzzle.solve(for: digest, from: nonce, tries: Self.triesAtATime) { return proof }
            nonce &+= Self.triesAtATime
            await Task.yield()
        }
        return nil
    }
}
