// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Handles
import NodeConfiguration
import Store
import TNP
import Tables
import Time

/// The node's handles: looks them up in the store, and performs owners' requests, for the connections of one loop.
final class HandleKeeper: @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which each method checks; tasks prefer the loop's executor.

    /// What a lookup has found.
    enum Found {
        /// What stands behind the handle, and whether the other nodes of the cluster could not be asked.
        case entry(HandleEntry, isAlone: Bool)
        /// The node does not know the handle, or its owner has ended it. The sender gets this outcome.
        case unknown(Outcome)
        /// The store could not be read, or too many callers wait for it.
        case refused(Outcome)
    }

    /// Maximum number of lookups, and of requests, that wait for the store. There may be fewer requests, because each
    /// waits for a write to the disk.
    static let (maximumLookups, maximumRequests) = (2000, 64)
    /// Retry-after when too many callers wait, in milliseconds.
    private static let busyRetry: UInt32 = 1000
    private let records: HandleRecords
    private var store: HandleStore { records.store }
    private let loop: EventLoop
    private let log: EventLog
    /// The bounds of the store; a reload may change them.
    var limits: HandleStore.Limits
    private var lookups = PendingCalls<Found>(maximum: HandleKeeper.maximumLookups)
    private var requests = PendingCalls<HandleStore.Answer>(maximum: HandleKeeper.maximumRequests)
    /// Which handles are in use.
    let use: HandleUseKeeper

    /// Opens the store of the handles in the state directory.
    /// - Parameter isShared: whether the node belongs to a cluster.
    /// - Throws: `StoreError`.
    static func store(
        in state: String, isShared: Bool = false, on disk: any Disk = SystemDisk()
    ) throws -> HandleStore {
        try HandleStore(at: "\(state)/handles.sqlite", keyFile: "\(state)/handles.key", isShared: isShared, on: disk)
    }

    init(
        _ settings: Configuration.Handles, in store: HandleStore, sharing: ClusterHandles? = nil, log: EventLog,
        on loop: EventLoop
    ) {
        records = HandleRecords(store: store, sharing: sharing)
        limits = HandleStore.Limits(settings)
        self.log = log
        self.loop = loop
        use = HandleUseKeeper(records, log: log, on: loop)
    }

    // MARK: Requests

    /// Looks a handle up.
    /// - Parameter now: Unix time in seconds.
    func find(_ handle: Handle, at now: Int64, _ result: @escaping (Found) -> Void) {
        loop.preconditionOnLoop()
        guard let number = lookups.add(result) else { return result(.refused(Self.busy)) }
        let (limits, isInUse) = (limits, use.isUnsaved(handle))
        Task(executorPreference: loop) {
            let found: Found
            do {
                let (entry, isAlone) = try await self.records.find(handle, limits, isInUse: isInUse, at: now)
                found =
                    entry.map { .entry($0, isAlone: isAlone) }
                    ?? .unknown(self.use.outcome(ofUnknown: handle, isAlone: isAlone))
            } catch {
                found = .refused(self.failed(error))
            }
            self.lookups.take(number)?(found)
        }
    }

    /// Finds out whether a REGISTER repeats the last accepted request of its handle: it then changes nothing.
    /// - Parameters:
    ///   - app: the name of the app that it names.
    ///   - now: Unix time in seconds.
    ///   - result: gets `nil` if the store could not be read, or too many callers wait for it.
    func isRepeated(_ request: HandleRequest, app: String, at now: Int64, _ result: @escaping (Bool?) -> Void) {
        find(store.handle(of: request, app: app), at: now) { found in
            switch found {
            case .entry(let entry, _): result(entry.record.lastRequest == request.hash)
            case .unknown: result(false)
            case .refused: result(nil)
            }
        }
    }

    /// Performs a request of an owner.
    /// - Parameters:
    ///   - app: the name of the app that a REGISTER names.
    ///   - isRepeated: the result of ``isRepeated(_:app:at:_:)``; a repeated REGISTER costs nothing.
    ///   - now: Unix time in seconds.
    func perform(
        _ request: HandleRequest, app: String, isRepeated: Bool = false, at now: Int64,
        _ result: @escaping (HandleStore.Answer) -> Void
    ) {
        loop.preconditionOnLoop()
        guard let number = requests.add(result) else { return result(HandleStore.Answer(Self.busy)) }
        let limits = limits
        Task(executorPreference: loop) {
            var answer: HandleStore.Answer
            do {
                let isAlone: Bool
                (answer, isAlone) = try await self.records.perform(
                    request, app: app, isRepeated: isRepeated, limits, at: now)
                if answer.outcome == HandleEntry.unknown {
                    let handle = self.store.handle(of: request, app: app)
                    answer = HandleStore.Answer(self.use.outcome(ofUnknown: handle, isAlone: isAlone))
                }
            } catch {
                answer = HandleStore.Answer(self.failed(error))
            }
            self.use.performed(request, answer)
            self.requests.take(number)?(answer)
        }
    }

    private static let busy = Outcome.retry(.nodeBusy, after: busyRetry)

    /// Saves which handles are in use, and gives the engine of the cluster what it lacks. Call once a second.
    /// - Parameter now: Unix time in seconds.
    func secondPassed(at now: Int64) {
        use.secondPassed(limits, at: now)
        guard let sharing = records.sharing else { return }
        let limits = limits
        Task(executorPreference: loop) { await sharing.secondPassed(self.store, limits) }
    }

    /// Saves which handles were rung, and closes the store.
    /// - Parameter now: Unix time in seconds.
    func close(at now: Int64, isolation: isolated (any Actor)? = #isolation) async {
        await use.save(limits, at: now)
        await store.close()
    }

    private func failed(_ error: any Error) -> Outcome {
        log.handlesFailed(error)
        return .retry(.internalError, after: Self.busyRetry)
    }
}

extension HandleStore.Limits {
    init(_ settings: Configuration.Handles) { self.init(maximum: settings.maximum, forgetDays: settings.forgetDays) }
}
