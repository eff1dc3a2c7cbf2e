// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Handles
import NodeConfiguration
import TNP
import Time

/// The node's handles: answers from the store to the connections of one loop.
final class HandleKeeper: @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which each method checks; tasks prefer the loop's executor.

    /// What a lookup has found.
    enum Found {
        /// What stands behind the handle.
        case entry(HandleEntry)
        /// The node does not know the handle, or its owner has ended it.
        case unknown
        /// The store could not be read, or too many callers wait for it.
        case refused(Outcome)
    }

    private typealias LookupResult = (Found) -> Void
    private typealias RequestResult = (HandleStore.Answer) -> Void

    /// Maximum number of callers that wait for the store.
    private static let maximumWaiting = 2000
    /// Retry-after when too many callers wait, in milliseconds.
    private static let busyRetry: UInt32 = 1000
    private static let sweepInterval = Duration.seconds(60)

    private let store: HandleStore
    private let loop: EventLoop
    private let log: EventLog
    /// The bounds of the store; a reload may change them.
    var limits: HandleStore.Limits
    private var waiting = 0
    private var lookups: [Int: LookupResult] = [:]
    private var requests: [Int: RequestResult] = [:]
    private var lastNumber = 0
    /// The handles that were rung since the last save.
    private var rung: Set<Handle> = []
    private var isSaving = false
    private var nextSweep = MonotonicTime.now
    /// The number of handles at the last sweep.
    private(set) var count = 0

    /// - Throws: `StoreError`.
    init(_ settings: Configuration.Handles, state: String, log: EventLog, on loop: EventLoop) throws {
        store = try HandleStore(at: "\(state)/handles.sqlite", keyFile: "\(state)/handles.key")
        limits = HandleStore.Limits(settings)
        self.log = log
        self.loop = loop
    }

    // MARK: Requests

    /// Looks a handle up.
    /// - Parameter now: Unix time in seconds.
    func find(_ handle: Handle, at now: Int64, _ result: @escaping (Found) -> Void) {
        guard let number = start() else { return result(.refused(Self.busy)) }
        lookups[number] = result
        let limits = limits
        Task(executorPreference: loop) {
            let found: Found
            do {
                found = try await self.store.find(handle, limits, at: now).map { .entry($0) } ?? .unknown
            } catch {
                found = .refused(self.failed(error))
            }
            self.end()
            self.lookups.removeValue(forKey: number)?(found)
        }
    }

    /// Performs a request of an owner.
    /// - Parameters:
    ///   - app: the name of the app that a REGISTER names.
    ///   - now: Unix time in seconds.
    func perform(
        _ request: HandleRequest, app: String, at now: Int64, _ result: @escaping (HandleStore.Answer) -> Void
    ) {
        guard let number = start() else { return result(HandleStore.Answer(Self.busy)) }
        requests[number] = result
        let limits = limits
        Task(executorPreference: loop) {
            let answer: HandleStore.Answer
            do {
                answer = try await self.store.perform(request, app: app, limits, at: now)
            } catch {
                answer = HandleStore.Answer(self.failed(error))
            }
            self.end()
            self.requests.removeValue(forKey: number)?(answer)
        }
    }

    private static let busy = Outcome.retry(.nodeBusy, after: busyRetry)

    private func start() -> Int? {
        loop.preconditionOnLoop()
        guard waiting < Self.maximumWaiting else { return nil }
        waiting += 1
        lastNumber += 1
        return lastNumber
    }

    private func end() {
        loop.preconditionOnLoop()
        waiting -= 1
    }

    private func failed(_ error: any Error) -> Outcome {
        log.handlesFailed(error)
        return .retry(.internalError, after: Self.busyRetry)
    }

    // MARK: Use

    /// Records that the phone behind a handle was rung with DELIVERED.
    func rang(_ handle: Handle) {
        loop.preconditionOnLoop()
        rung.insert(handle)
    }

    /// Saves which handles were rung, and drops expired ones from time to time. Call once a second.
    /// - Parameter now: Unix time in seconds.
    func secondPassed(at now: Int64) {
        loop.preconditionOnLoop()
        guard !isSaving else { return }
        let sweeps = MonotonicTime.now >= nextSweep
        guard sweeps || !rung.isEmpty else { return }
        isSaving = true
        Task(executorPreference: loop) {
            await self.save(at: now, sweeps: sweeps)
            self.isSaving = false
        }
    }

    private func save(at now: Int64, sweeps: Bool) async {
        let saved = rung
        rung = []
        do {
            try await store.rang(Array(saved), at: now)
            if sweeps {
                nextSweep = .now + Self.sweepInterval
                count = try await store.sweep(limits, at: now)
            }
        } catch {
            rung.formUnion(saved)
            log.handlesFailed(error)
        }
    }

    /// Saves which handles were rung, and closes the store.
    /// - Parameter now: Unix time in seconds.
    func close(at now: Int64) async {
        await save(at: now, sweeps: false)
        await store.close()
    }
}

extension HandleStore.Limits {
    init(_ settings: Configuration.Handles) { self.init(maximum: settings.maximum, forgetDays: settings.forgetDays) }
}
