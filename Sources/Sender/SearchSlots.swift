// SPDX-License-Identifier: Apache-2.0

/// Limits how many searches for proofs of work run at a time, so that the machine keeps processors for other work.
package final class SearchSlots: @unchecked Sendable {
    // Unchecked: used on the thread of one loop only, which the links that share it run on.

    private let maximum: Int
    private var running = 0
    private var waiting: [UnsafeContinuation<Void, Never>] = []

    /// - Parameter maximum: how many searches may run at a time.
    package init(_ maximum: Int) { self.maximum = maximum }

    /// Waits for a slot.
    nonisolated(nonsending) func acquire() async {
        while running >= maximum { await withUnsafeContinuation { waiting.append($0) } }
        running += 1
    }

    /// Frees a slot.
    func release() {
        running -= 1
        if !waiting.isEmpty { waiting.removeFirst().resume() }
    }
}
