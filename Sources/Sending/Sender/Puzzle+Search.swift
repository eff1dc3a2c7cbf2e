// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

extension Puzzle {
    /// Hashes between two checks of the deadline. They take one or two milliseconds.
    static let batchSize: UInt64 = 4096

    /// Searches for a proof of work on the global thread pool and in small batches, so that it neither blocks an event
    /// loop nor monopolises a thread.
    /// - Parameters:
    ///   - digest: the hash that the proof covers.
    ///   - deadline: the time at which the search ends.
    ///   - start: the first nonce; a random one, so that a restarted search does not repeat the previous one.
    ///   - now: the clock.
    /// - Returns: the proof, or `nil` if the deadline passed or the task was cancelled.
    @concurrent
    package func proof(
        for digest: Digest256, until deadline: MonotonicTime, from start: UInt64,
        now: @Sendable () -> MonotonicTime = { .now }
    ) async -> Proof? {
        var nonce = start
        while !Task.isCancelled, now() < deadline {
            if let proof = solve(for: digest, from: nonce, tries: Self.batchSize) { return proof }
            nonce &+= Self.batchSize
            await Task.yield()
        }
        return nil
    }
}
