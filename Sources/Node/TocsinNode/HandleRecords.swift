// SPDX-License-Identifier: Apache-2.0

import Handles
import TNP

/// The handles that this node has stored, together with what the other nodes of a cluster know about them.
struct HandleRecords {
    let store: HandleStore
    /// Shares the handles with the other nodes of a cluster; `nil` if the node belongs to none.
    let sharing: ClusterHandles?

    /// The outcome if the store has no room for a handle that another node has registered.
    private static let full = Outcome.retry(.nodeBusy, after: HandleStore.fullRetry)

    /// Looks a handle up: first in the engine, which has the newest record of all nodes.
    /// - Parameters:
    ///   - isInUse: whether its phone was rung in this run of the node.
    ///   - now: Unix time in seconds.
    /// - Returns: what stands behind the handle, `nil` if the node does not know it or its owner has ended it; and whether
    ///   the other nodes could not be asked.
    /// - Throws: `StoreError`.
    func find(
        _ handle: Handle, _ limits: HandleStore.Limits, isInUse: Bool, at now: Int64,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> (entry: HandleEntry?, isAlone: Bool) {
        let (newer, isAlone) = try await mergeNewer(handle, limits)
        if let newer { return (newer.entry.isUsable(limits, isInUse: isInUse, at: now) ? newer.entry : nil, false) }
        return (try await store.find(handle, limits, isInUse: isInUse, at: now), isAlone)
    }

    /// Performs a request of an owner, on what the newest record says, and tells the other nodes.
    /// - Parameters:
    ///   - app: the name of the app that a REGISTER names.
    ///   - isRepeated: whether the handle has accepted the request before, so that it costs nothing.
    ///   - now: Unix time in seconds.
    /// - Returns: the answer, and whether the other nodes could not be asked.
    /// - Throws: `StoreError`.
    func perform(
        _ request: HandleRequest, app: String, isRepeated: Bool, _ limits: HandleStore.Limits, at now: Int64,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> (answer: HandleStore.Answer, isAlone: Bool) {
        guard let sharing else { return (try await store.perform(request, app: app, limits, at: now), false) }
        var paid = false
        if case .register = request.action, !isRepeated, let wait = await sharing.spendRegistration() {
            guard wait == 0 else { return (HandleStore.Answer(.retry(.tooManyUnproven, after: wait)), false) }
            paid = true
        }
        let handle = store.handle(of: request, app: app)
        let (newer, isAlone) = try await mergeNewer(handle, limits)
        let answer =
            newer?.isSaved ?? true
            ? try await store.perform(request, app: app, limits, at: now) : HandleStore.Answer(Self.full)
        if answer.handle != nil, let own = try await store.sealed(handle) {
            // Gives the engine the new record, which the other nodes then find there.
            if case .unavailable = await sharing.exchange(own.name, own, limits) {
                sharing.changed(handle)
            } else {
                sharing.told(handle)
            }
        } else if paid, answer.outcome.kind == .retry {
            sharing.refundRegistration()
        }
        return (answer, isAlone)
    }

    /// Merges what another node knows about a handle, if that is newer, into the store.
    /// - Returns: the newer record, `nil` if there is none, and whether the store had room for it; and whether the other
    ///   nodes could not be asked.
    private func mergeNewer(
        _ handle: Handle, _ limits: HandleStore.Limits, isolation: isolated (any Actor)? = #isolation
    ) async throws -> (newer: (entry: HandleEntry, isSaved: Bool)?, isAlone: Bool) {
        guard let sharing else { return (nil, false) }
        let own = try await store.sealed(handle)
        switch await sharing.exchange(store.name(of: handle), own, limits) {
        case .newer(let other): return (try await store.merge(other, of: handle, limits), false)
        case .same: return (nil, false)
        case .unavailable: return (nil, true)
        }
    }
}
