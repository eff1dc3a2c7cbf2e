// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Owns an open store and runs closures on its connection, one at a time, on a background thread. Can be called from
/// any thread.
package final class ConnectionQueue: @unchecked Sendable {
    // Unchecked: `connection` and `lock` are used on `queue` only.
    private let queue: any WorkQueue
    private var connection: Connection?
    private var lock: FileLock?
    private let path: String
    private let kind: StoreKind

    /// Takes over the connection and the lock of `file`.
    package init(_ file: StoreFile, on disk: any Disk) {
        queue = disk.queue(file.kind.name)
        (connection, lock, path, kind) = (file.connection, file.lock, file.path, file.kind)
    }

    /// Opens a second connection to the store of `file`, for reading only: it does not wait for the first one's commits. Close
    /// it before the first one, which has the lock.
    package init(reading file: StoreFile, on disk: any Disk) throws(StoreError) {
        queue = disk.queue("\(file.kind.name), reading")
        (path, kind) = (file.path, file.kind)
        do {
            connection = try Connection(file.path, isReadOnly: true)
        } catch {
            throw StoreError(error, file: file.path, of: file.kind)
        }
    }

    /// Queues `work` behind all earlier work and returns. Drops `work` if the store has been closed.
    package func async(_ work: @escaping @Sendable (Connection) -> Void) {
        queue.async {
            if let connection = self.connection { work(connection) }
        }
    }

    /// Runs `work` after all earlier work and waits for its result without blocking the caller's thread.
    /// - Throws: ``StoreError``, made of what `work` throws, or ``StoreError/Problem/closed``.
    package func run<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ work: @escaping @Sendable (Connection) throws -> Value
    ) async throws(StoreError) -> Value {
        let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.result(of: work)) }
        }
        return try result.get()
    }

    /// Runs `work` like ``run(isolation:_:)``, but blocks the caller's thread. Do not call this from `work`, which would
    /// wait for itself.
    package func sync<Value>(_ work: (Connection) throws -> Value) throws(StoreError) -> Value {
        let result = queue.sync { self.result(of: work) }
        return try result.get()
    }

    private func result<Value>(of work: (Connection) throws -> Value) -> Result<Value, StoreError> {
        do {
            guard let connection else { throw StoreError(.closed, file: path, of: kind) }
            return .success(try work(connection))
        } catch {
            return .failure(StoreError(error, file: path, of: kind))
        }
    }

    /// Closes the store after all earlier work, and waits until it is closed.
    package func close(isolation: isolated (any Actor)? = #isolation) async {
        await withCheckedContinuation { continuation in
            queue.async {
                self.connection = nil
                self.lock = nil
                continuation.resume()
            }
        }
    }
}
