// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Handles
import TNP
import Time

/// Remembers which handles are in use, and saves that in the store.
final class HandleUseKeeper: @unchecked Sendable {
    // Unchecked: used on the loop's thread only; tasks prefer the loop's executor.

    private static let sweepInterval = Duration.seconds(60)
    /// Maximum number of phones, of owners, and of ended handles, that are remembered.
    private static let maximumRemembered = 100_000

    private let records: HandleRecords
    private let log: EventLog
    private let loop: EventLoop
    private var use = HandleUse(maximum: HandleUseKeeper.maximumRemembered)
    private var isSaving = false
    private var nextSweep = MonotonicTime.now
    /// The number of handles at the last sweep.
    private(set) var count = 0

    init(_ records: HandleRecords, log: EventLog, on loop: EventLoop) {
        self.records = records
        self.log = log
        self.loop = loop
    }

    /// Whether the owner of this handle has ended it in this run of the node.
    func hasEnded(_ handle: Handle) -> Bool { use.hasEnded(handle) }

    /// Whether the phone behind a handle was rung since the last save.
    func isUnsaved(_ handle: Handle) -> Bool { use.unsaved.contains(handle) }

    /// The outcome of a submission to a handle that nobody knows.
    func outcome(ofUnknown handle: Handle, isAlone: Bool) -> Outcome {
        use.outcome(ofUnknown: handle, isAlone: isAlone)
    }

    /// Records what a request of an owner has done.
    func performed(_ request: HandleRequest, _ answer: HandleStore.Answer) { use.performed(request, answer) }

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
                try await self.records.store.drop(unconfirmed: oldest)
            } catch {
                self.log.handlesFailed(error)
            }
        }
    }

    /// Saves which handles were rung, and drops expired ones once a minute. Call once a second.
    /// - Parameter now: Unix time in seconds.
    func secondPassed(_ limits: HandleStore.Limits, at now: Int64) {
        loop.preconditionOnLoop()
        guard !isSaving else { return }
        let sweeps = MonotonicTime.now >= nextSweep
        guard sweeps || !use.unsaved.isEmpty else { return }
        isSaving = true
        Task(executorPreference: loop) {
            await self.save(limits, at: now, sweeps: sweeps)
            self.isSaving = false
        }
    }

    /// Saves which handles were rung.
    /// - Parameters:
    ///   - now: Unix time in seconds.
    ///   - sweeps: whether to drop expired handles, too.
    func save(
        _ limits: HandleStore.Limits, at now: Int64, sweeps: Bool = false, isolation: isolated (any Actor)? = #isolation
    ) async {
        let saved = use.unsaved
        do {
            try await records.store.rang(Array(saved), at: now)
            records.sharing?.rang(saved.map { records.store.name(of: $0) }, limits, at: now)
            use.saved(saved)
            if sweeps {
                nextSweep = .now + Self.sweepInterval
                count = try await records.store.sweep(limits, at: now)
            }
        } catch {
            log.handlesFailed(error)
        }
    }
}
