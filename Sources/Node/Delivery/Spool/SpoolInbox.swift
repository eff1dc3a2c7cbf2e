// SPDX-License-Identifier: Apache-2.0

/// Collects the work for the next transaction, and decides when it runs. One transaction runs at a time; work that
/// arrives during a transaction shares the next one, so that one disk flush serves many envelopes.
struct SpoolInbox: Sendable {
    /// What the caller has to do after adding something.
    enum Step: Equatable {
        /// Run a batch.
        case run
        /// Nothing: a later batch includes the work.
        case wait
        /// Nothing was added: the spool is closed.
        case refused
    }

    /// What the caller has to do after a batch.
    struct FollowUp: Equatable {
        /// Whether to run another batch at once.
        var runs: Bool
        /// Whether to call ``pauseEnded()`` after a pause.
        var pauses: Bool
    }

    /// Maximum number of stores, and of finishes, in one transaction.
    static let maximumBatch = 2000

    private var waiting = SpoolBatch()
    /// Whether a batch is running or about to run.
    private var isRunning = false
    /// Whether finishes that could not be committed wait for the end of a pause, or for a store.
    private var isPaused = false
    private(set) var isClosed = false

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ store: SpoolBatch.Store) -> Step {
        guard !isClosed else { return .refused }
        waiting.stores.append(store)
        return start()
    }

    mutating func add(_ finish: SpoolBatch.Finish) -> Step {
        guard !isClosed else { return .refused }
        waiting.finishes.append(finish)
        return isPaused ? .wait : start()
    }

    /// Removes and returns the next batch, which may be empty.
    mutating func takeBatch() -> SpoolBatch {
        // A store must not overtake a finish: the store may be a resend of the same envelope.
        let isDrained = waiting.finishes.count <= Self.maximumBatch
        let batch = SpoolBatch(
            stores: isDrained ? Array(waiting.stores.prefix(Self.maximumBatch)) : [],
            finishes: Array(waiting.finishes.prefix(Self.maximumBatch)))
        waiting.stores.removeFirst(batch.stores.count)
        waiting.finishes.removeFirst(batch.finishes.count)
        return batch
    }

    /// Records that a batch has run, and returns the finishes in `left`, which could not be committed, to the queue.
    mutating func batchEnded(left: [SpoolBatch.Finish]) -> FollowUp {
        waiting.finishes.insert(contentsOf: left, at: 0)
        let wasPaused = isPaused
        isPaused = !left.isEmpty
        isRunning = !isClosed && (!waiting.stores.isEmpty || (!waiting.finishes.isEmpty && !isPaused))
        return FollowUp(runs: isRunning, pauses: isPaused && !wasPaused && !isClosed)
    }

    /// Ends the pause.
    /// - Returns: whether to run a batch.
    mutating func pauseEnded() -> Bool {
        isPaused = false
        guard !isClosed, !isRunning, !waiting.isEmpty else { return false }
        isRunning = true
        return true
    }

    /// Removes and returns all waiting stores, after the last batch.
    mutating func abandonStores() -> [SpoolBatch.Store] {
        defer { waiting.stores = [] }
        return waiting.stores
    }

    /// Accepts no more work and requests no more batches; the caller runs the waiting work.
    /// - Returns: whether the inbox was open.
    mutating func close() -> Bool {
        guard !isClosed else { return false }
        isClosed = true
        return true
    }

    private mutating func start() -> Step {
        guard !isRunning else { return .wait }
        isRunning = true
        return .run
    }
}
