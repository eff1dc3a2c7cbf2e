// SPDX-License-Identifier: Apache-2.0

/// Limits how many searches for proofs of work run at a time, so that the machine keeps processors for other work.
package final class SearchSlots: @unchecked Sendable {
    // Unchecked: used on the thread of one loop only, which the links that share it run on.

    /// A search's place in the queue.
    typealias Ticket = UInt64

    private let maximum: Int
    private var running = 0
    private var lastTicket: Ticket = 0
    /// The searches that wait, first come, first served.
    private var waiting: [(ticket: Ticket, continuation: UnsafeContinuation<Bool, Never>)] = []

    /// - Parameter maximum: how many searches may run at a time.
    package init(_ maximum: Int) { self.maximum = maximum }

    /// A new ticket for ``acquire(_:)``.
    func ticket() -> Ticket {
        lastTicket += 1
        return lastTicket
    }

    /// Waits for a slot.
    /// - Returns: whether the search has one; `false` if it was abandoned.
    nonisolated(nonsending) func acquire(_ ticket: Ticket) async -> Bool {
        if running < maximum {
            running += 1
            return true
        }
        return await withUnsafeContinuation { waiting.append((ticket, $0)) }
    }

    /// Ends the wait of a search that is no longer needed, if it waits.
    func abandon(_ ticket: Ticket) {
        guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return }
        waiting.remove(at: index).continuation.resume(returning: false)
    }

    func release() {
        // The slot goes to the next search without being free in between.
        if waiting.isEmpty { running -= 1 } else { waiting.removeFirst().continuation.resume(returning: true) }
    }
}
