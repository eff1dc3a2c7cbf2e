// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// Searches for one proof of work on the global thread pool and in small batches, so that it neither blocks an event loop
/// nor monopolises a thread.
package struct PuzzleSolver: Sendable {
    let puzzle: Puzzle
    /// The digest of the envelope that the proof is for.
    let digest: Digest256
    /// The time at which the search ends.
    let deadline: MonotonicTime

    /// Hashes between two checks of the deadline: one or two milliseconds.
    static let batchSize: UInt64 = 4096

    /// Creates a solver.
    /// - Parameters: as the properties of the same names.
    package init(puzzle: Puzzle, digest: Digest256, deadline: MonotonicTime) {
        (self.puzzle, self.digest, self.deadline) = (puzzle, digest, deadline)
    }

    /// Searches until it finds a proof, the deadline passes or the task is cancelled.
    /// - Parameters:
    ///   - start: the first nonce; a random one, so that a restarted search does not repeat the previous one.
    ///   - now: the clock.
    /// - Returns: the proof, or `nil` if the deadline passed or the task was cancelled.
    @concurrent
    package func proof(from start: UInt64, now: @Sendable () -> MonotonicTime = { .now }) async -> Proof? {
        var nonce = start
        while !Task.isCancelled, now() < deadline {
            if let proof = puzzle.solve(for: digest, from: nonce, tries: Self.batchSize) { return proof }
            nonce &+= Self.batchSize
            await Task.yield()
        }
        return nil
    }
}
