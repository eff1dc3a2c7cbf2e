// SPDX-License-Identifier: Apache-2.0

/// What waits for the next transaction, and when there is to be one. One transaction runs at a time; what comes
/// meanwhile goes into the next together, which is what makes one flush of the disk serve many envelopes.
struct SpoolInbox: Sendable {
    /// What whoever added something has to do.
    enum Step: Equatable {
        /// To run a batch.
        case run
        /// Nothing: a batch that is to come takes it along.
        case wait
        /// The spool is closed; it was not taken.
        case refused
    }

    /// What follows a batch.
    struct Sequel: Equatable {
        /// Another batch is to be run at once.
        var runs: Bool
        /// ``pauseEnded()`` is to be called after a pause.
        var pauses: Bool
    }

    /// The most stores, and the most finishes, in one transaction.
    static let largestBatch = 2000

    private var waiting = SpoolBatch()
    /// A batch is about to be run or is running.
    private var isRunning = false
    /// Finishes could not be committed and wait for a while, or for a store.
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

    /// The next batch; empty where nothing waits.
    mutating func takeBatch() -> SpoolBatch {
        // No store overtakes a finish: it may be of the same envelope, sent again.
        let isDrained = waiting.finishes.count <= Self.largestBatch
        let batch = SpoolBatch(
            stores: isDrained ? Array(waiting.stores.prefix(Self.largestBatch)) : [],
            finishes: Array(waiting.finishes.prefix(Self.largestBatch)))
        waiting.stores.removeFirst(batch.stores.count)
        waiting.finishes.removeFirst(batch.finishes.count)
        return batch
    }

    /// A batch has been run, and all but these finishes of it are done with.
    mutating func batchEnded(left: [SpoolBatch.Finish]) -> Sequel {
        waiting.finishes.insert(contentsOf: left, at: 0)
        let wasPaused = isPaused
        isPaused = !left.isEmpty
        isRunning = !isClosed && (!waiting.stores.isEmpty || (!waiting.finishes.isEmpty && !isPaused))
        return Sequel(runs: isRunning, pauses: isPaused && !wasPaused && !isClosed)
    }

    /// The pause is over. Returns whether a batch is to be run.
    mutating func pauseEnded() -> Bool {
        isPaused = false
        guard !isClosed, !isRunning, !waiting.isEmpty else { return false }
        isRunning = true
        return true
    }

    /// All stores that wait, which get no batch any more.
    mutating func abandonStores() -> [SpoolBatch.Store] {
        defer { waiting.stores = [] }
        return waiting.stores
    }

    /// Takes nothing more and starts no more batches; whoever closes runs what waits. Returns whether it was open.
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
