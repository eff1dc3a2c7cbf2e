// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Cryptography
import Glibc
import Handles
import Redis
import TNP
import Time

/// Exchanges handles with the other nodes: each stores on disk all handles that it has learnt of, and the engine has
/// the newest record of each. Without the engine, a node uses its own records.
final class ClusterHandles {
    /// The most changed handles, and the most rows of the store, that are given to the engine in a second.
    private static let perSecond = 500

    /// What the engine has answered about a handle.
    enum Exchange {
        /// It has a newer record.
        case newer(SealedHandle)
        /// It has no newer record than this node.
        case same
        /// It cannot be used.
        case unavailable
    }

    private let engine: Engine
    private let outbox: EngineOutbox
    /// The settings of all nodes together.
    private let settings: () -> AdmissionSettings
    private let epochFile: String
    private var backlog = HandleBacklog()
    private var isGiving = false

    /// - Parameter state: the node's state directory.
    init(_ engine: Engine, _ outbox: EngineOutbox, state: String, settings: @escaping () -> AdmissionSettings) {
        self.engine = engine
        self.outbox = outbox
        self.settings = settings
        epochFile = "\(state)/cluster.epoch"
    }

    private var calls: HandleCalls { HandleCalls(in: engine.names) }

    /// Gives the engine a record, and asks for a newer one.
    /// - Parameters:
    ///   - name: the name of the handle's row, a keyed hash of the handle.
    ///   - isAwaited: whether a sender waits for the result.
    func exchange(
        _ name: [UInt8], _ own: SealedHandle?, _ limits: HandleStore.Limits, isAwaited: Bool = true,
        isolation: isolated (any Actor)? = #isolation
    ) async -> Exchange {
        do throws(EngineProblem) {
            let command = calls.exchange(name, own, life: own?.life(limits) ?? 0)
            let reply = isAwaited ? try await engine.ask(command) : try await engine.call(command)
            return SealedHandle(reply, of: name).map { .newer($0) } ?? .same
        } catch {
            return .unavailable
        }
    }

    /// Takes one REGISTER from the budget that the nodes share.
    /// - Returns: 0 if it was taken; else the milliseconds until the budget has room; `nil` if the engine does not
    ///   answer in time.
    func spendRegistration(isolation: isolated (any Actor)? = #isolation) async -> UInt32? {
        let reply = try? await engine.ask(calls.spend(settings(), isRefund: false))
        return reply?.integer.flatMap { UInt32(exactly: $0) }
    }

    /// Gives back what ``spendRegistration(isolation:)`` has taken.
    func refundRegistration() { outbox.send(calls.spend(settings(), isRefund: true)) }

    /// Tells the engine that the phones behind these handles were rung.
    /// - Parameters:
    ///   - names: the names of the handles' rows.
    ///   - now: Unix time in seconds.
    func rang(_ names: [[UInt8]], _ limits: HandleStore.Limits, at now: Int64) {
        for name in names {
            outbox.send(calls.ring(name, on: HandleEntry.day(of: now), life: SealedHandle.life(limits)))
        }
    }

    // MARK: What the engine lacks

    /// Remembers a handle that was changed without the engine.
    func changed(_ handle: Handle) {
        // Without the file, the node gives the engine all handles after a restart: it may end before the engine
        // returns.
        unlink(epochFile)
        backlog.changed(handle)
    }

    /// Remembers for a minute that the engine has learnt of a change: a replica that takes its place may lack it.
    func told(_ handle: Handle) { backlog.told(handle, now: .now) }

    /// Finds out whether the engine may lack handles, because it is a new one or has lost its state.
    func engineReturned() {
        let known = try? RegularFile.read(epochFile, atMost: 64, access: .owner)
        backlog.engineReturned(isKnown: known == engine.epoch, now: .now)
    }

    /// Gives the engine what it lacks. Call this once a second.
    func secondPassed(_ store: HandleStore, _ limits: HandleStore.Limits, isolation: isolated (any Actor)? = #isolation)
        async
    {
        guard engine.status.isAvailable, !isGiving else { return }
        isGiving = true
        defer { isGiving = false }
        for handle in backlog.next(Self.perSecond) {
            backlog.giving(handle)
            guard let own = try? await store.sealed(handle) else { continue }
            if case .unavailable = await exchange(own.name, own, limits, isAwaited: false) {
                return backlog.takeBack(handle)
            }
        }
        guard let last = backlog.position, let rows = try? await store.sealed(after: last, limit: Self.perSecond) else {
            return
        }
        for row in rows {
            if case .unavailable = await exchange(row.name, row, limits, isAwaited: false) { return }
        }
        guard backlog.gave(after: last, last: rows.last?.name), backlog.isEmpty, let epoch = engine.epoch else {
            return
        }
        try? PrivateFile.replace(epochFile, holding: epoch, isDurable: true)
    }
}
