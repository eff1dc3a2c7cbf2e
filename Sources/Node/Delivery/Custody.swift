// SPDX-License-Identifier: Apache-2.0

import TNP

/// Where an envelope is kept: in memory, in the spool, or in both.
struct Custody {
    /// A row of the spool.
    struct Row {
        let id: Int64
        /// Whether this process wrote the row: then the expiry in memory applies, whatever the wall clock did since, else that
        /// of the row.
        var isOfThisProcess = false
    }

    private struct Memory {
        let envelope: Envelope
        /// Whether the envelope was loaded from the spool.
        let isLoaded: Bool
        /// Whether it counts as one of its route's envelopes in memory.
        var isDelivering = false
    }

    private enum Storage {
        case none
        /// The spool will store the envelope before its first attempt.
        case reserved
        case row(Row)
    }

    private var memory: Memory?
    private var storage = Storage.none

    /// An envelope that has just arrived.
    init(_ envelope: Envelope) { memory = Memory(envelope: envelope, isLoaded: false) }

    // MARK: Memory

    /// The content; `nil` while it is only in the spool and takes no memory.
    var envelope: Envelope? { memory?.envelope }
    /// Whether the content is in memory.
    var isInMemory: Bool { memory != nil }
    /// Whether the content was loaded from the spool.
    var isLoaded: Bool { memory?.isLoaded ?? false }
    /// Whether the envelope counts as one of its route's envelopes in memory.
    var isDelivering: Bool { memory?.isDelivering ?? false }

    /// Records that the envelope counts as one of its route's envelopes in memory.
    mutating func beganDelivery() { memory?.isDelivering = true }

    /// Puts the content that was read from the spool into memory.
    mutating func load(_ envelope: Envelope) { memory = Memory(envelope: envelope, isLoaded: true) }

    /// Removes the content from memory.
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

    /// Whether the envelope has to be stored before its first attempt.
    var hasReservation: Bool {
        if case .reserved = storage { true } else { false }
    }

    /// Plans to store the envelope before its first attempt.
    mutating func reserve() { storage = .reserved }

    /// Ends the plan to store the envelope.
    /// - Returns: whether there was one.
    mutating func cancelReservation() -> Bool {
        guard hasReservation else { return false }
        storage = .none
        return true
    }

    /// Records the row of the stored envelope.
    /// - Returns: whether it had none before.
    mutating func stored(in row: Row) -> Bool {
        let isFirst = self.row == nil
        storage = .row(Row(id: row.id, isOfThisProcess: row.isOfThisProcess || isOfThisProcess))
        return isFirst
    }
}
