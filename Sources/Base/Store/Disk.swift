// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Glibc

/// What stores need of a machine besides SQLite: background threads for work that blocks, and the free space.
package protocol Disk: Sendable {
    /// A queue for work on the disk.
    /// - Parameter label: the queue's name, for debuggers.
    func queue(_ label: String) -> any WorkQueue
    /// Runs `work` on a background thread after `delay`.
    func run(after delay: Duration, _ work: @escaping @Sendable () -> Void)
    /// The bytes available to this process on the disk of the file at `path`; `Int.max` if they are unknown.
    func freeBytes(at path: String) -> Int
}

/// Runs work that blocks, such as writes to a disk, one item after another. Callable from any thread.
package protocol WorkQueue: AnyObject, Sendable {
    /// Queues `work` behind all earlier work and returns.
    func async(_ work: @escaping @Sendable () -> Void)
    /// Runs `work` after all earlier work, and blocks until it has run. Do not call this from the queue's own work.
    func sync<Value>(_ work: () -> Value) -> Value
}

/// The disks of this machine.
package struct SystemDisk: Disk {
    package init() {}

    package func queue(_ label: String) -> any WorkQueue { BackgroundQueue(label) }

    package func run(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        let (seconds, attoseconds) = delay.components
        DispatchQueue.global().asyncAfter(
            deadline: .now() + .seconds(Int(seconds)) + .nanoseconds(Int(attoseconds / 1_000_000_000)), execute: work)
    }

    package func freeBytes(at path: String) -> Int {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return .max }
        return Int(clamping: status.f_bavail &* status.f_frsize)
    }
}

/// A serial queue on the background threads of libdispatch.
private final class BackgroundQueue: WorkQueue {
    private let queue: DispatchQueue

    init(_ label: String) { queue = DispatchQueue(label: label) }

    func async(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    func sync<Value>(_ work: () -> Value) -> Value { queue.sync(execute: work) }
}
