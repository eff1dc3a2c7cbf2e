// SPDX-License-Identifier: Apache-2.0

import Dispatch

/// Owns a ``Connection`` and runs closures on it, one at a time, on a background thread. Can be called from any thread.
package final class ConnectionQueue: @unchecked Sendable {
    // Unchecked: `connection` is used on `queue` only.
    private let queue: DispatchQueue
    private var connection: Connection?

    /// - Parameter label: names the queue in a debugger.
    package init(_ connection: Connection, label: String) {
        queue = DispatchQueue(label: label)
        self.connection = connection
    }

    /// Queues `work` behind all earlier work and returns. `work` receives `nil` if the connection has been closed.
    package func async(_ work: @escaping @Sendable (Connection?) -> Void) { queue.async { work(self.connection) } }

    /// Runs `work` after all earlier work and waits until it ends. `work` receives `nil` if the connection has been
    /// closed. Do not call this from `work`, which would wait for itself.
    package func sync<Value>(_ work: (Connection?) throws -> Value) rethrows -> Value {
        try queue.sync { try work(connection) }
    }

    /// Closes the connection after all earlier work, then calls `completion` on the queue.
    package func close(_ completion: @escaping @Sendable () -> Void) {
        queue.async {
            self.connection = nil
            completion()
        }
    }
}
