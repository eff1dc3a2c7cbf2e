// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Handles
import NodeConfiguration
import Store
import TNP
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

    private typealias LookupResult = (Found) -> Void
    private typealias RequestResult = (HandleStore.Answer) -> Void

    /// Maximum number of lookups, and of requests, that wait for the store. There may be fewer requests, because each
    /// waits for a write to the disk.
    static let (maximumLookups, maximumRequests) = (2000, 64)
    /// Retry-after when too many callers wait, in milliseconds.
    private static let busyRetry: UInt32 = 1000
    private static let sweepInterval = Duration.seconds(60)
    /// Maximum number of phones, of owners, and of ended handles, that are remembered.
    private static let maximumRemembered = 100_000

    private let records: HandleRecords
    private var store: HandleStore { records.store }
    private let loop: EventLoop
    private let log: EventLog
    /// The bounds of the store; a reload may change them.
    var limits: HandleStore.Limits
    private var lookups: [Int: LookupResult] = [:]
    private var requests: [Int: RequestResult] = [:]
    private var lastNumber = 0
    private var use = HandleUse(maximum: HandleKeeper.maximumRemembered)
    private var isSaving = false
    private var nextSweep = MonotonicTime.now
    /// The number of handles at the last sweep.
    private(set) var count = 0

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
    }

    // MARK: Requests

    /// Looks a handle up.
    /// - Parameter now: Unix time in seconds.
    func find(_ handle: Handle, at now: Int64, _ result: @escaping (Found) -> Void) {
        loop.preconditionOnLoop()
        guard lookups.count < Self.maximumLookups else { return result(.refused(Self.busy)) }
        let number = nextNumber()
        lookups[number] = result
        let (limits, isInUse) = (limits, use.unsaved.contains(handle))
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
            self.lookups.removeValue(forKey: number)?(found)
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
        guard requests.count < Self.maximumRequests else { return result(HandleStore.Answer(Self.busy)) }
        let number = nextNumber()
        requests[number] = result
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
            self.requests.removeValue(forKey: number)?(answer)
        }
    }

    private static let busy = Outcome.retry(.nodeBusy, after: busyRetry)

    private func nextNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// Whether the owner of this handle has ended it in this run of the node.
    func hasEnded(_ handle: Handle) -> Bool { use.hasEnded(handle) }

    private func failed(_ error: any Error) -> Outcome {
        log.handlesFailed(error)
        return .retry(.internalError, after: Self.busyRetry)
    }

    // MARK: Use

    /// Records that the phone behind a handle was rung with DELIVERED.
    /// - Parameter owner: whose handle it is, if it was not confirmed; `nil` otherwise.
    func rang(_ handle: Handle, confirming owner: HandleBounds.Owner? = nil) {
        loop.preconditionOnLoop()
        use.rang(handle, confirming: owner)
    }

    /// Records that a handle was registered, and drops the oldest unconfirmed one of the phone if there are too many.
    /// - Parameter token: the keyed hash of the device token.
    func registered(_ handle: Handle, token: UInt64) {
        loop.preconditionOnLoop()
        guard let oldest = use.registered(handle, token: token) else { return }
        Task(executorPreference: loop) {
            do {
                try await self.store.drop(unconfirmed: oldest)
            } catch {
                self.log.handlesFailed(error)
            }
        }
    }

    /// Saves which handles were rung, drops expired ones once a minute, and gives the engine of the cluster what it
    /// lacks. Call once a second.
    /// - Parameter now: Unix time in seconds.
    func secondPassed(at now: Int64) {
        loop.preconditionOnLoop()
        if let sharing = records.sharing {
            let limits = limits
            Task(executorPreference: loop) { await sharing.secondPassed(self.store, limits) }
        }
        guard !isSaving else { return }
        let sweeps = MonotonicTime.now >= nextSweep
        guard sweeps || !use.unsaved.isEmpty else { return }
        isSaving = true
        Task(executorPreference: loop) {
            await self.save(at: now, sweeps: sweeps)
            self.isSaving = false
        }
    }

    private func save(at now: Int64, sweeps: Bool, isolation: isolated (any Actor)? = #isolation) async {
        let saved = use.unsaved
        do {
            try await store.rang(Array(saved), at: now)
            records.sharing?.rang(saved.map { store.name(of: $0) }, limits, at: now)
            use.saved(saved)
            if sweeps {
                nextSweep = .now + Self.sweepInterval
                count = try await store.sweep(limits, at: now)
            }
        } catch {
            log.handlesFailed(error)
        }
    }

    /// Saves which handles were rung, and closes the store.
    /// - Parameter now: Unix time in seconds.
    func close(at now: Int64, isolation: isolated (any Actor)? = #isolation) async {
        await save(at: now, sweeps: false)
        await store.close()
    }
}

extension HandleStore.Limits {
    init(_ settings: Configuration.Handles) { self.init(maximum: settings.maximum, forgetDays: settings.forgetDays) }
}
