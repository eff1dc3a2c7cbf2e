// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import EventLoop
import Providers
import TNP
import Tables
import Time

/// Owns each accepted envelope until it has an outcome. A ``DeliveryCore`` decides; this class performs the core's
/// actions and reports the results back to it. Each envelope gets exactly one final outcome.
package final class Dispatch: AttemptReceiver, @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which `perform` and `arrival` check: each event passes one of them. Not
    // an actor, because the checks of `assumeIsolated` cost more than the decisions.

    /// The loop that everything runs on.
    package let loop: EventLoop

    private var core: DeliveryCore
    /// The provider of each route, by number.
    private var providers: [(any Provider)?] = []
    /// Replaced providers that may still have requests in flight.
    private var retired: [any Provider] = []
    private var spool: Spool?
    /// Set from ``start(_:reportingTo:observedBy:claimingBy:)`` until ``close()``, like the next two.
    private unowned var receiver: (any OutcomeReceiver)?
    private unowned var observer: (any DispatchObserver)?
    /// In a cluster, decides which node delivers an envelope.
    private unowned var claims: (any EnvelopeClaims)?
    private var timer: Timer?
    /// When the timer fires; `nil` if it is stopped.
    private var firesAt: MonotonicTime?
    private var isPerforming = false

    /// Retry-after while the node is busy or shutting down, in milliseconds.
    package static let busyRetry = DeliveryCore.busyRetry
    private static let maximumRetired = 64
    /// Maximum number of waits of 1 ms for envelopes in flight when the dispatch closes.
    private static let closingTurns = 5000

    /// Makes a dispatch without providers; ``start(_:reportingTo:observedBy:claimingBy:)`` begins delivery.
    /// - Parameter loop: the loop that everything runs on.
    package init(limits: DispatchLimits, on loop: EventLoop) {
        core = DeliveryCore(limits: limits, random: SecureRandom.Generator())
        self.loop = loop
        clock = ExpiryClock(wall: UnixTime.now, at: loop.now)
    }

    private var clock: ExpiryClock
    private var now: ClockReading {
        let now = clock.reading(wall: UnixTime.now, at: loop.now)
        if clock.steps != core.dates.steps {
            core.dates.clockStepped(clock.steps)
            spool?.clockStepped(clock.steps)
        }
        return now
    }

    // MARK: Life cycle

    /// Starts delivery.
    /// - Parameters:
    ///   - providers: the provider that serves each route.
    ///   - receiver: receives the outcomes of all submissions; not retained, and must live until ``close()`` returns.
    ///   - observer: receives each event; not retained, and must live until ``close()`` returns.
    ///   - claims: in a cluster, decides which node delivers an envelope; not retained, and must live until ``close()``
    ///     returns. `nil` without a cluster.
    package func start(
        _ providers: [Route: any Provider], reportingTo receiver: any OutcomeReceiver,
        observedBy observer: any DispatchObserver, claimingBy claims: (any EnvelopeClaims)? = nil
    ) {
        loop.keep(self)
        self.receiver = receiver
        self.observer = observer
        self.claims = claims
        core.usesClaims = claims != nil
        timer = Timer(on: loop) { [unowned self] in timeReached() }
        serve(providers, limits: core.limits)
    }

    /// Replaces the provider of each route; a route without a new provider is no longer served. Replaced providers
    /// finish their requests in flight.
    package func serve(_ new: [Route: any Provider], limits: DispatchLimits) {
        // The reload may have waited for the key holder since the loop last read the clock.
        loop.readClock()
        var replaced: [Route: any Provider] = [:]
        for (number, provider) in providers.enumerated() {
            let route = core.lanes.routes[number]
            if let provider, new[route] !== provider { replaced[route] = provider }
        }
        let pushServers = new.compactMap { route, provider in provider.pushServers.map { (route.app, $0) } }
        core.serve(
            Array(new.keys), replacing: Set(replaced.keys),
            namedServers: Dictionary(pushServers, uniquingKeysWith: { one, _ in one }), limits: limits, at: now)
        providers = core.lanes.numbers.map { new[core.lanes.routes[$0]] }
        // Only now: `retire` fails requests that wait for a connection, and they continue in the new lanes.
        for provider in replaced.values {
            retired = retired.suffix(Self.maximumRetired - 1) + [provider]
            provider.retire()
        }
        perform()
    }

    /// Whether envelopes can be stored durably.
    package var canQueue: Bool { spool != nil }

    /// Number of pending envelopes in memory.
    package var inFlight: Int { core.inFlight }

    /// Delivers the stored envelopes, and stores new ones whose senders accept QUEUED.
    /// - Throws: `StoreError` if the spool cannot be read.
    package nonisolated(nonsending) func use(_ spool: Spool) async throws {
        let rows = try await spool.index()
        self.spool = spool
        core.openSpool(rows, hasOutcomes: spool.hadOutcomes, at: now)
        perform()
    }

    /// Accepts no more envelopes and ends all pauses: envelopes that are not in the spool get RETRY 400, and stored
    /// envelopes stay in the spool. Attempts in flight continue.
    package func drain() {
        core.drain(now)
        perform()
    }

    /// Closes the connections to all providers, which ends all attempts, and then the spool.
    package nonisolated(nonsending) func close() async {
        drain()
        for provider in retired + providers.compactMap(\.self) { provider.close() }
        // Senders get the outcomes of failed attempts in the next turns of this loop, and those of stores after the
        // next commit; a later one removes rows that are no longer needed. The wait is bounded, because a disk may
        // hang.
        for _ in 0..<Self.closingTurns where core.inFlight > 0 || core.schedule.plansAndWrites > 0 {
            await loop.sleep(for: .milliseconds(1))
        }
        await spool?.close()
        spool = nil
        timer = nil
        (receiver, observer, claims) = (nil, nil, nil)
        loop.letGo(of: self)
    }

    // MARK: Accepting

    /// What the node knows about an envelope that has just arrived.
    package enum Arrival {
        /// An envelope with the same digest is pending, or its outcome is remembered: call ``repeatOutcome(of:to:)``.
        case resend
        /// The node refuses every envelope like this one, whatever its device token: the answer reveals nothing about
        /// the tokens that the node knows.
        case refused(Outcome)
        /// The envelope is new. The destination is valid until the end of the turn of the loop.
        case new(Destination)
    }

    /// The route that serves an envelope.
    package struct Destination {
        fileprivate let route: RouteTable.Number
    }

    /// Finds out whether an envelope is a resend, or must be refused for reasons that do not depend on its device token.
    /// - Parameters:
    ///   - app: the name of its app.
    ///   - acceptsQueued: whether the sender accepts QUEUED, so that the envelope may be stored and wait for the breaker
    ///     to close.
    package func arrival(
        of envelope: Envelope, app: String, acceptsQueued: Bool, at now: MonotonicTime
    ) -> Arrival {
        loop.preconditionOnLoop()
        let arrival = core.arrival(of: envelope, app: app, acceptsQueued: acceptsQueued, at: now) { envelope, route in
            do throws(Rejection) {
                try providers[route]?.check(envelope)
                return nil
            } catch {
                return error.outcome
            }
        }
        switch arrival {
        case .resend: return isLoop(envelope, app: app) ? .refused(.rejected(.tooManyHops)) : .resend
        case .refused(let outcome): return .refused(outcome)
        case .new(let route): return .new(Destination(route: route))
        }
    }

    /// Whether the envelope is one that this node has passed on to another node, which has sent it back. It must not
    /// wait for its own outcome.
    private func isLoop(_ envelope: Envelope, app: String) -> Bool {
        guard let hops = core.hops(ofPending: envelope.digest), envelope.hops > hops,
            let route = core.lanes.firstRoute(of: envelope, app: app)
        else { return false }
        // A route that a reload has removed may have been one to an upstream node.
        return providers[route].map { $0.upstreamKeys != nil } ?? true
    }

    /// Reports the outcome of a resend, at once or as soon as the outcome is known.
    package func repeatOutcome(of envelope: Envelope, to reply: Reply) {
        core.repeatOutcome(of: envelope, to: reply, isWanted: { receiver?.isWanted($0) ?? false }, at: loop.now)
        perform()
    }

    /// The refusal if there is no room for an envelope of this origin, not even by evicting another from the queue;
    /// `nil` if there is room.
    package func capacityRefusal(
        of envelope: Envelope, for destination: Destination, acceptsQueued: Bool, from origin: Origin,
        at now: MonotonicTime
    ) -> Outcome? {
        let refusal = core.capacityRefusal(
            of: envelope, on: destination.route, acceptsQueued: acceptsQueued, from: origin, at: now)
        perform()
        return refusal
    }

    /// Accepts an envelope that is not a resend, or refuses it. The reply receives exactly one final outcome.
    /// - Parameters:
    ///   - destination: from ``arrival(of:app:acceptsQueued:at:)``, in the same turn of the loop.
    ///   - format: the envelope format of its app.
    ///   - origin: determines the envelope's share of a lane under load.
    package func submit(
        _ envelope: Envelope, for destination: Destination, format: EnvelopeFormat, from origin: Origin,
        _ reply: Reply
    ) {
        if let keys = providers[destination.route]?.upstreamKeys, envelope.signature == nil {
            var signed = envelope
            // Signed before it is accepted, so that the spool keeps the signature.
            keys.sign(&signed)
            core.submit(signed, on: destination.route, format: format, from: origin, reply, at: now)
        } else {
            core.submit(envelope, on: destination.route, format: format, from: origin, reply, at: now)
        }
        perform()
    }

    /// Share of the room for envelopes in memory that is in use, from 0 to 1.
    package var load: Double { core.load }

    // MARK: Time

    /// Rejects envelopes that have waited in a queue for too long, and checks the spool's shortage. Call once a second.
    package func expireWaiting() {
        core.secondPassed(spoolShortage: spool?.shortage, at: now)
        perform()
    }

    private func timeReached() {
        firesAt = nil
        core.timeReached(now)
        perform()
    }

    private func armTimer() {
        guard let wake = core.nextWake, firesAt.map({ wake < $0 }) ?? true else { return }
        firesAt = wake
        timer?.start(after: max(.zero, wake - loop.now))
    }

    // MARK: Actions

    /// Performs the core's actions. An event that an action causes at once only adds to them.
    private func perform() {
        loop.preconditionOnLoop()
        guard !isPerforming else { return }
        isPerforming = true
        while let action = core.actions.popFirst() { perform(action) }
        isPerforming = false
        armTimer()
    }

    private func perform(_ action: DeliveryAction) {
        switch action {
        case .send(let pending, let route):
            guard let envelope = pending.custody.envelope else { return }
            providers[route]?.attempt(
                envelope, expiry: core.dates.wall(pending.expiry), number: pending.slot.rawValue, for: self)
        case .claim(let pending):
            guard let envelope = pending.custody.envelope else { return }
            claims?.claim(
                pending.slot.rawValue, envelope, app: core.lanes.routes[pending.route].app,
                for: pending.replies.first)
        case .tell(let reply, let outcome, let contact): receiver?.finished(reply, outcome, contact)
        case .tellParked(let reply): receiver?.parked(reply)
        case .observe(let event): observer?.observe(event)
        case .share(let envelope): claims?.stored(envelope)
        case .store(let pending): store(pending)
        case .lookUp(let pending): Task(executorPreference: loop) { await self.lookUp(pending) }
        case .load(let rows): Task(executorPreference: loop) { await self.load(rows) }
        case .erase(let row, let digest, let outcome, let keepUntil):
            spool?.finish(id: row, digest: digest, outcome: outcome, keepUntil: keepUntil)
        case .purgeSpool: spool?.purge()
        }
    }

    /// Handles the result of ``EnvelopeClaims/claim(_:_:app:for:)``.
    package func claimed(_ number: UInt64, _ result: ClaimResult) {
        core.claimed(number, result, at: now)
        perform()
    }

    /// Records a heartbeat that the other nodes of the cluster can see.
    /// - Parameters:
    ///   - end: when the claims of this node end without another one.
    ///   - isNew: whether other nodes may have taken over what this node had claimed.
    package func renewClaims(until end: MonotonicTime, isNew: Bool) { core.lease.renew(until: end, isNew: isNew) }

    /// How many stored envelopes of ended nodes of the cluster ``adopt(_:)`` may bring.
    package var roomToAdopt: Int { core.roomToAdopt }

    /// Takes a stored envelope of a node of the cluster that has ended.
    /// - Returns: whether this node has taken it.
    package func adopt(_ envelope: SpooledEnvelope) -> Bool {
        defer { perform() }
        return core.adopt(envelope, at: now)
    }

    /// Whether an envelope with this digest has no outcome yet.
    package func isPending(_ digest: Digest256) -> Bool { core.envelopes[digest] != nil }

    package func attempted(_ number: UInt64, _ result: AttemptResult) {
        if let attempt = core.answered(number, result, at: now) { observer?.observe(attempt, result) }
        perform()
    }

    // MARK: Spool

    private func store(_ pending: PendingEnvelope) {
        guard let spool, let envelope = core.spooled(pending) else {
            return stored(pending, .failed("the spool is closed"))
        }
        Task(executorPreference: loop) { self.stored(pending, await spool.store(envelope)) }
    }

    private func stored(_ pending: PendingEnvelope, _ result: StoreResult) {
        core.stored(pending, result, at: now)
        perform()
    }

    private func lookUp(_ pending: PendingEnvelope) async {
        let found: DeliveryCore.Found
        do {
            found = .known(try await spool?.lookup(pending.content.digest) ?? .nothing)
        } catch {
            found = .failed("\(error)")
        }
        core.lookedUp(pending, found, at: now)
        perform()
    }

    private func load(_ rows: [DueRow]) async {
        guard let spool else { return }
        do {
            let found = try await spool.load(rows.map(\.row))
            core.loaded(rows, found, dropped: spool.dropped, at: now)
        } catch {
            core.loadFailed(rows, "\(error)", at: now)
        }
        perform()
    }

    /// Ends envelopes whose rows expired and were removed to make room.
    package func expired(_ rows: [Int64]) {
        core.expired(rows, at: now)
        perform()
    }

    // MARK: Statistics

    /// The current state.
    package var statistics: DispatchStatistics {
        core.statistics(stored: spool.map { ($0.count, $0.bytes) }, at: loop.now)
    }

    /// What the tables hold, and the bounds from which their memory follows (Docs/admission.md, Memory).
    package var tables: [(name: String, entries: Int, bound: Int)] {
        core.tables + (spool.map { [("envelopes in the spool", $0.count, core.limits.maximumStored)] } ?? [])
    }
}
