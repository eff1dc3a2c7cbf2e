// SPDX-License-Identifier: Apache-2.0

import Dispatch

/// Owns a ``Connection`` and runs work on it, one piece after another, on a thread of its own. Callable from anywhere.
package final class ConnectionQueue: @unchecked Sendable {
    // Unchecked: `connection` is used on `queue` only.
    private let queue: DispatchQueue
    private var connection: Connection?

    /// - Parameter label: names the queue in a debugger.
    package init(_ connection: Connection, label: String) {
        queue = DispatchQueue(label: label)
        self.connection = connection
    }

    /// Runs `work` later, after all earlier work, with `nil` if the connection has been closed.
    package func async(_ work: @escaping @Sendable (Connection?) -> Void) { queue.async { work(self.connection) } }

    /// Runs `work` after all earlier work and waits for it, with `nil` if the connection has been closed. Work must not
    /// call this: it would wait for itself.
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
