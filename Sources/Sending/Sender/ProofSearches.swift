// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Time

/// The searches for proofs of work of one link, on threads other than the loop's. Used on the loop's thread.
final class ProofSearches: @unchecked Sendable {
    // Unchecked: used on the loop's thread only; its tasks prefer the loop's executor.

    private let slots: SearchSlots
    private let loop: EventLoop
    private(set) var running: [UInt32: (task: Task<Void, Never>, ticket: SearchSlots.Ticket)] = [:]

    /// - Parameter slots: limits these searches together with others.
    init(_ slots: SearchSlots, on loop: EventLoop) {
        self.slots = slots
        self.loop = loop
    }

    /// Begins a search as soon as there is a slot for it.
    /// - Parameters:
    ///   - limit: how long it may take from then on.
    ///   - began: called when it has a slot.
    ///   - ended: receives the proof; `nil` if there was not enough time. Not called if the search is stopped.
    func begin(
        _ request: UInt32, _ digest: Digest256, _ puzzle: Puzzle, within limit: Duration, began: @escaping () -> Void,
        ended: @escaping (Proof?) -> Void
    ) {
        let ticket = slots.ticket()
        // Unsafe only by their types: the task runs on the loop, as this function does.
        nonisolated(unsafe) let (began, ended) = (began, ended)
        let task = Task(executorPreference: loop, priority: .utility) { [self] in
            guard await slots.acquire(ticket) else { return }
            defer { slots.release() }
            guard !Task.isCancelled else { return }
            began()
            let deadline = MonotonicTime.now + limit
            var random = SecureRandom.Generator()
            let start = random.next()
            let proof = await withTaskExecutorPreference(loop.workers) {
                await puzzle.proof(for: digest, until: deadline, from: start)
            }
            // A cancelled search has no result: another one may be running for the same request.
            guard !Task.isCancelled else { return }
            running[request] = nil
            ended(proof)
        }
        running[request] = (task, ticket)
    }

    /// Cancels the search for a request's proof.
    func stop(_ request: UInt32) {
        guard let (task, ticket) = running.removeValue(forKey: request) else { return }
        task.cancel()
        slots.abandon(ticket)
    }

    func stopAll() {
        for request in Array(running.keys) { stop(request) }
    }
}
