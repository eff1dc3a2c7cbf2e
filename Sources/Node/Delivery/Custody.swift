// SPDX-License-Identifier: Apache-2.0

import TNP

/// Where an envelope is kept: in memory, in the spool, or in both.
struct Custody {
    /// A row of the spool.
    struct Row {
        let id: Int64
        /// Whether this process wrote the row. If so, the expiry in memory applies, which a step of the wall clock does
        /// not change; otherwise the row's expiry applies.
        var isOfThisProcess = false
    }

    /// What an envelope in memory counts as.
    enum Use {
        /// Nothing: the node is about to decide.
        case none
        /// It waits until it is claimed or stored, and takes no room of a route.
        case storing
        /// It is one of its route's envelopes in memory.
        case delivering
    }

    private struct Memory {
        let envelope: Envelope
        /// Whether the envelope was read from the spool or taken over from another node of the cluster.
        let isLoaded: Bool
        var use = Use.none
    }

    private enum Storage {
        case none
        /// The spool will store the envelope unless it soon has an outcome.
        case planned
        case row(Row)
    }

    private enum Write {
        case none
        case running
        /// Nobody needs the row any more: it must be removed as soon as it is written.
        case needless(Removal)
    }

    /// What the spool keeps of a removed row.
    struct Removal {
        let outcome: Outcome
        /// Unix time in seconds until which the outcome is remembered; `nil` if it is not.
        let keepUntil: Int64?
    }

    private var memory: Memory?
    private var storage = Storage.none
    private var write = Write.none

    /// An envelope that has just arrived.
    init(_ envelope: Envelope) { memory = Memory(envelope: envelope, isLoaded: false) }

    // MARK: Memory

    /// The content; `nil` while it is only in the spool.
    var envelope: Envelope? { memory?.envelope }
    var isInMemory: Bool { memory != nil }
    /// Whether the content was read from the spool or taken over from another node of the cluster.
    var isLoaded: Bool { memory?.isLoaded ?? false }
    /// What the content in memory counts as. Changed only by ``DeliveryCore/count(_:as:)``, which keeps the counts.
    var use: Use {
        get { memory?.use ?? .none }
        set { memory?.use = newValue }
    }

    /// Puts content into memory that comes from the spool or from another node of the cluster.
    mutating func load(_ envelope: Envelope) { memory = Memory(envelope: envelope, isLoaded: true) }

    mutating func leaveMemory() { memory = nil }

    // MARK: Spool

    /// The row; `nil` if the envelope is not stored.
    var row: Int64? {
        if case .row(let row) = storage { row.id } else { nil }
    }

    /// Whether this process wrote ``row``.
    var isOfThisProcess: Bool {
        if case .row(let row) = storage { row.isOfThisProcess } else { false }
    }

    /// Whether the envelope will be stored unless it soon has an outcome.
    var isPlanned: Bool {
        if case .planned = storage { true } else { false }
    }

    /// Whether the spool is writing the envelope, and the row is wanted.
    var isBeingWritten: Bool {
        if case .running = write { true } else { false }
    }

    /// Whether the envelope is stored, or will be if it has to wait.
    var isForSpool: Bool { row != nil || isPlanned || isBeingWritten }

    /// Plans to store the envelope unless it soon has an outcome.
    mutating func plan() { storage = .planned }

    mutating func cancelPlan() {
        if isPlanned { storage = .none }
    }

    /// Turns the plan into a write, whose end ``writeEnded()`` records.
    mutating func beginWrite() { (storage, write) = (.none, .running) }

    /// Records that nobody needs the row that is being written.
    mutating func abandonWrite(_ removal: Removal) {
        if isBeingWritten { write = .needless(removal) }
    }

    /// Records that the write has ended.
    /// - Returns: how to remove the row if nobody needs it any more.
    mutating func writeEnded() -> Removal? {
        defer { write = .none }
        if case .needless(let removal) = write { return removal }
        return nil
    }

    /// Records the row of the stored envelope.
    /// - Returns: whether the envelope had no row before.
    mutating func stored(in row: Row) -> Bool {
        let isFirst = self.row == nil
        storage = .row(Row(id: row.id, isOfThisProcess: row.isOfThisProcess || isOfThisProcess))
        return isFirst
    }
}
