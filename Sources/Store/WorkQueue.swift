// SPDX-License-Identifier: Apache-2.0

import Dispatch

/// Runs work that blocks, such as writes to a disk, one item after another on a background thread. Callable from any thread.
package final class WorkQueue: @unchecked Sendable {
    // Unchecked: `waiting` is used in a simulation only, which has one thread.
    private let queue: DispatchQueue
    private var waiting: [() -> Void] = []

    /// Calls its argument after some virtual time. A simulation sets it before anything makes a queue; it has no background
    /// threads. Unsafe, because a simulation has one thread.
    nonisolated(unsafe) package static var simulated: ((_ delay: Duration?, @escaping () -> Void) -> Void)?

    /// - Parameter label: the name of the queue's thread.
    package init(label: String) { queue = DispatchQueue(label: label) }

    /// Queues `work` behind all earlier work and returns.
    package func async(_ work: @escaping @Sendable () -> Void) {
        guard let simulated = Self.simulated else { return queue.async(execute: work) }
        waiting.append(work)
        simulated(nil) { [self] in
            // A caller of `sync` may have run it already.
            if !waiting.isEmpty { waiting.removeFirst()() }
        }
    }

    /// Runs `work` after all earlier work, and blocks until it has run. Do not call this from the queue's own work.
    package func sync<Value>(_ work: () -> Value) -> Value {
        guard Self.simulated != nil else { return queue.sync(execute: work) }
        while !waiting.isEmpty { waiting.removeFirst()() }
        return work()
    }

    /// Runs `work` on a background thread after `delay`.
    package static func run(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        if let simulated { return simulated(delay, work) }
        let (seconds, attoseconds) = delay.components
        DispatchQueue.global().asyncAfter(
            deadline: .now() + .seconds(Int(seconds)) + .nanoseconds(Int(attoseconds / 1_000_000_000)), execute: work)
    }
}
