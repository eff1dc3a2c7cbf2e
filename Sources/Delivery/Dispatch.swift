// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HeapModule
import Providers
import TNP
import Time

/// Owns each accepted envelope until it has an outcome: its attempts and the pauses between them, the breakers, the
/// detection of resends, and delivery from the spool. Each envelope gets exactly one final outcome.
///
/// The decisions are value types (``AttemptHistory``, ``Breaker``, ``DevicePauses``, ``TokenHistory``,
/// ``TokenRefusalSurge``, ``ReplayWindow``, ``CollapseOrder``, ``EnvironmentSearch``); this actor carries them out.
package actor Dispatch {
    /// Providers by route, passed between actors of one loop.
    package struct Providers: @unchecked Sendable {
        // Unchecked: created, passed and used on one loop's thread.
        let byRoute: [Route: any Provider]

        /// - Parameter byRoute: the provider that serves each route.
        package init(_ byRoute: [Route: any Provider]) { self.byRoute = byRoute }
    }

    nonisolated let loop: EventLoop
    /// The loop's executor.
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private(set) var lanes: [Route: Lane] = [:]
    /// Replaced providers that may still have requests in flight.
    private var retired: [any Provider] = []
    private(set) var limits: DispatchLimits
    let observer: @Sendable (DispatchEvent) -> Void
    let now: @Sendable () -> Int64

    /// Every envelope without a final outcome, in memory or in the spool; excludes rows of the spool that this process
    /// has not read yet.
    var pendingEnvelopes: [Digest256: PendingEnvelope] = [:]
    /// Number of pending envelopes in memory.
    package internal(set) var inFlight = 0
    /// Number of pending envelopes in memory that wait for the disk.
    var storing = 0
    /// Number of pending envelopes in memory that a lane's queue has rejected and that still wait for their tasks to
    /// resume.
    private var leaving = 0
    var window: ReplayWindow
    private var pauses: DevicePauses
    /// Histories of device tokens by app, because a device token of one app is invalid for another. Together they hold
    /// up to `limits.replay_entries` tokens.
    private var tokens: [String: TokenHistory] = [:]
    private var tokensPerApp = 0
    private var collapses: CollapseOrder
    /// The sequence number of the last accepted envelope. It starts above every row id of a spool, so that envelopes of
    /// an earlier process have lower numbers than those of this process.
    private var sequence: UInt64 = 1 << 63
    /// The pauses between attempts, by number; each timer runs out into ``wake(_:)``.
    private var sleepers: [UInt64: (timer: Timer, continuation: UnsafeContinuation<Void, Never>)] = [:]
    private var lastSleeper: UInt64 = 0
    private(set) var isDraining = false
    /// Keeps self alive while running: resources of the loop must be released on its thread.
    private var retainedSelf: Dispatch?

    // State of delivery from the spool: see Dispatch+Spool.swift.
    var spool: Spool?
    var due: Heap<DueRow> = []
    var parked: [Int64: PendingEnvelope] = [:]
    var loadTimer: Timer?
    var isLoading = false
    var loadedRows = 0
    var unreadRows = 0
    var unreadableRows = 0
    var recoversUntil = MonotonicTime(nanoseconds: 0)
    /// Why the spool is full; `nil` if it has room.
    var shortage: SpoolShortage?

    /// The longest pause that a stored envelope spends in memory; during longer pauses it waits in the spool.
    private static let longestInMemory = Duration.seconds(2)
    /// How often to check whether the app of a stored envelope is configured again.
    private static let unservedPause = Duration.seconds(300)
    /// Retry-after while the node is busy or shutting down, in milliseconds.
    package static let busyRetry: UInt32 = 1000
    private static let maxRetired = 64
    /// Approximate bytes of a request without the ciphertext: part of an envelope's cost in the fair queue.
    private static let requestOverhead = 512
    /// Maximum number of waits of 1 ms for envelopes in flight when the dispatch closes.
    private static let closingTurns = 5000

    /// Makes a dispatch without providers; ``start(_:)`` begins delivery.
    /// - Parameters:
    ///   - loop: the loop that everything runs on.
    ///   - now: Unix time in seconds.
    ///   - observer: receives each event, on the loop.
    package init(
        limits: DispatchLimits, on loop: EventLoop, now: @escaping @Sendable () -> Int64 = { UnixTime.now },
        observer: @escaping @Sendable (DispatchEvent) -> Void
    ) {
        self.limits = limits
        self.loop = loop
        self.now = now
        self.observer = observer
        window = ReplayWindow(length: .seconds(limits.replaySeconds), capacity: limits.outcomes)
        pauses = DevicePauses(capacity: limits.replayEntries)
        collapses = CollapseOrder(capacity: limits.replayEntries)
    }

    // MARK: Life cycle

    /// Starts delivery with these providers.
    package func start(_ providers: Providers) {
        retainedSelf = self
        serve(providers.byRoute)
    }

    /// Replaces the provider of each route; a route without a new provider is no longer served. Replaced providers
    /// finish their requests in flight.
    package nonisolated func replace(_ providers: Providers, limits: DispatchLimits) {
        assumeIsolated { dispatch in
            dispatch.limits = limits
            dispatch.serve(providers.byRoute)
        }
    }

    private func serve(_ providers: [Route: any Provider]) {
        for (route, lane) in lanes where providers[route] !== lane.provider {
            lane.provider.retire()
            retired = retired.suffix(Self.maxRetired - 1) + [lane.provider]
            lanes[route] = nil
            if let row = lane.probeRow { lane.heldRows.append(row) }
            releaseHeld(lane)
            rejectWaiting(at: lane)
        }
        for (route, provider) in providers where lanes[route] == nil {
            lanes[route] = Lane(route, provider, concurrency: limits.concurrency, now: .now)
            observer(.serving(route))
        }
        for lane in lanes.values { lane.window.range = Lane.range(limits.concurrency) }
        tokensPerApp = limits.replayEntries / max(1, Set(lanes.keys.map(\.app)).count)
    }

    /// Whether envelopes can be stored durably.
    package nonisolated var canQueue: Bool { assumeIsolated { $0.spool != nil } }

    /// Accepts no more envelopes and ends all pauses: envelopes that are not in the spool get RETRY 400, and stored
    /// envelopes stay in the spool. Attempts in flight continue.
    package func drain() {
        isDraining = true
        loadTimer = nil
        for number in sleepers.keys { wake(number) }
        for lane in lanes.values { rejectWaiting(at: lane) }
    }

    /// Closes the connections to all providers, which ends all attempts, and then the spool.
    package func close() async {
        drain()
        for provider in retired + lanes.values.map(\.provider) { provider.close() }
        // Senders get the outcomes of failed attempts in the next turns of this loop, and those of stores after the
        // next commit. The wait is bounded, because a disk may hang.
        for _ in 0..<Self.closingTurns where inFlight > 0 { await loop.sleep(for: .milliseconds(1)) }
        await spool?.close()
        spool = nil
        retainedSelf = nil
    }

    // MARK: Accepting

    /// Whether the envelope is a resend: an envelope with the same digest is pending, or its outcome is remembered.
    /// - Parameter app: the name of its app.
    package nonisolated func isResend(_ envelope: Envelope, app: String) -> Bool {
        assumeIsolated { dispatch in
            guard dispatch.lanes[Route(app: app, magic: envelope.magic)] != nil, !dispatch.isDraining else {
                return false
            }
            return dispatch.pendingEnvelopes[envelope.digest] != nil
                || dispatch.window.outcome(of: envelope, now: .now) != nil
        }
    }

    /// Reports the outcome of a resend (``isResend(_:app:)``), at once or as soon as the outcome is known.
    package nonisolated func repeatOutcome(of envelope: Envelope, to reply: Reply) {
        assumeIsolated { dispatch in
            if let pending = dispatch.pendingEnvelopes[envelope.digest] { return pending.attach(reply) }
            // The remembered outcome may just have expired: the next resend is then a new envelope.
            reply.send(dispatch.window.outcome(of: envelope, now: .now) ?? .retry(.nodeBusy, after: Self.busyRetry))
        }
    }

    /// The refusal of an envelope for reasons that do not depend on its device token, so that the answer reveals
    /// nothing about the tokens that the node knows; `nil` if there is no such reason.
    /// - Parameter acceptsQueued: whether the sender accepts QUEUED, so that the envelope may be stored and wait for
    ///   the breaker to close.
    package nonisolated func refusal(of envelope: Envelope, app: String, acceptsQueued: Bool) -> Outcome? {
        assumeIsolated { dispatch in
            guard let lane = dispatch.lanes[Route(app: app, magic: envelope.magic)] else {
                return .rejected(.platformNotConfigured)
            }
            if dispatch.isDraining { return .retry(.shuttingDown, after: Self.busyRetry) }
            do throws(Rejection) {
                try lane.provider.check(envelope)
            } catch {
                return error.outcome
            }
            guard let held = lane.breaker.arrivalRefusal(.now) else { return nil }
            guard dispatch.willStore(envelope, acceptsQueued) else {
                return AttemptResult.heldBack(held.reason, for: held.retryAfter, "breaker-open").outcome
            }
            return .seconds(Int64(envelope.ttl)) <= held.retryAfter ? .rejected(.ttlRanOut) : nil
        }
    }

    /// The refusal if there is no room for an envelope of this origin, not even by evicting another from the queue;
    /// `nil` if there is room.
    package nonisolated func capacityRefusal(
        of envelope: Envelope, app: String, acceptsQueued: Bool, from origin: Origin
    ) -> Outcome? {
        assumeIsolated { dispatch in
            let clock = MonotonicTime.now
            if let wait = dispatch.waitForReplayWindow(clock) { return .retry(.nodeBusy, after: wait) }
            if dispatch.willStore(envelope, acceptsQueued) {
                if dispatch.isFull { dispatch.noteShortage(.envelopes) }
                if dispatch.shortage != nil { return Self.spoolIsFull }
                return dispatch.canStore ? nil : .retry(.nodeBusy, after: Self.busyRetry)
            }
            let route = Route(app: app, magic: envelope.magic)
            let hasRoom =
                dispatch.hasRoom(for: route)
                || dispatch.lanes[route]?.queue.canMakeRoom(
                    for: origin.circuit.rawValue, band: origin.band, now: Self.second) == true
            return hasRoom ? nil : .retry(.nodeBusy, after: Self.busyRetry)
        }
    }

    /// Milliseconds until the replay window has room for one more outcome; `nil` if it has room now. No outcome is
    /// evicted early.
    private func waitForReplayWindow(_ clock: MonotonicTime) -> UInt32? {
        window.count + pendingEnvelopes.count + unreadRows < window.capacity ? nil : window.nextFree(now: clock)
    }

    private func willStore(_ envelope: Envelope, _ acceptsQueued: Bool) -> Bool {
        acceptsQueued && spool != nil && envelope.ttl > 0
    }

    /// Accepts an envelope that is not a resend (``isResend(_:app:)``), or refuses it. The reply receives exactly one
    /// final outcome.
    /// - Parameters:
    ///   - app: the name of the envelope's app; ``Envelope/app`` may be empty.
    ///   - format: the envelope format of that app.
    ///   - origin: determines the envelope's share of a lane under load.
    package nonisolated func submit(
        _ envelope: Envelope, app: String, format: EnvelopeFormat, from origin: Origin, _ reply: Reply
    ) {
        assumeIsolated { $0.take(envelope, app: app, format: format, from: origin, reply) }
    }

    private func take(_ envelope: Envelope, app: String, format: EnvelopeFormat, from origin: Origin, _ reply: Reply) {
        let route = Route(app: app, magic: envelope.magic)
        guard let lane = lanes[route] else { return reply.send(.rejected(.platformNotConfigured)) }
        guard !isDraining else { return reply.send(.retry(.shuttingDown, after: Self.busyRetry)) }
        let clock = MonotonicTime.now
        if let wait = waitForReplayWindow(clock) { return reply.send(.retry(.nodeBusy, after: wait), .noCapacity) }
        guard let pair = window.claim(envelope, now: clock) else { return reply.send(.rejected(.ivReused)) }
        let isToBeStored = willStore(envelope, reply.acceptsQueued)
        guard isToBeStored ? canStore : hasRoom(for: route) || makeRoom(at: lane, for: origin) else {
            let refusal = Outcome.retry(.nodeBusy, after: Self.busyRetry)
            window.finished(envelope.digest, envelope.magic, pair, refusal, now: clock)
            return reply.send(refusal, .noCapacity)
        }
        sequence += 1
        let pending = PendingEnvelope(
            envelope, route: route, format: format, origin: origin, expiry: Expiry(ttl: envelope.ttl, takenAt: now()),
            taken: clock, sequence: sequence, pair: pair)
        pending.attach(reply)
        pendingEnvelopes[pending.digest] = pending
        inFlight += 1
        if isToBeStored {
            Task(executorPreference: loop) { await self.store(pending, envelope) }
        } else if mayBeResendFromEarlierProcess(clock) {
            Task(executorPreference: loop) { await self.recover(pending, envelope) }
        } else {
            Task(executorPreference: loop) { await self.deliver(pending, envelope) }
        }
    }

    /// Whether memory has room for one more envelope of this route. A lane may hold only as many envelopes as it leaves
    /// free for other lanes, so that a hanging lane cannot take all the room.
    func hasRoom(for route: Route) -> Bool {
        let left = limits.totalInFlight - (inFlight - storing - leaving)
        return left > 0 && (lanes[route]?.inFlight ?? 0) - (lanes[route]?.rejecting ?? 0) <= left
    }

    /// Share of the room for envelopes in memory that is in use, from 0 to 1.
    package nonisolated var load: Double {
        // Excludes rows loaded from the spool: they only use spare room, and no sender waits for them.
        assumeIsolated { Double($0.inFlight - $0.loadedRows) / Double(max(1, $0.limits.totalInFlight)) }
    }

    // MARK: Delivering

    /// Delivers an envelope: makes attempts until it has an outcome or is parked in the spool.
    func deliver(_ pending: PendingEnvelope, _ envelope: Envelope) async {
        guard let own = lanes[pending.route] else {
            guard pending.row != nil else { return finish(pending, .rejected(.platformNotConfigured)) }
            return parkUnserved(pending)
        }
        own.inFlight += 1
        defer { own.inFlight -= 1 }
        pending.search.begin(at: tokens[pending.route.app]?[envelope.deviceToken].environment)
        while true {
            if let outcome = earlyOutcome(of: pending, envelope) { return finish(pending, outcome) }
            if isDraining { return stop(pending) }
            if pending.row != nil, lanes[pending.route] == nil { return parkUnserved(pending) }
            let result = await attempt(pending, envelope)
            switch step(pending, after: result) {
            case .finish where result.outcome.kind == .retry && isDraining: return stop(pending)
            case .finish: return finish(pending, result.outcome)
            case .expire: return finish(pending, .rejected(.ttlRanOut))
            case .again(let delay)
            where pending.row != nil && (delay > Self.longestInMemory || pending.heldBy != nil):
                return park(pending, for: delay, result.outcome)
            case .again(let delay): if delay > .zero { await sleep(delay) }
            }
        }
    }

    /// Parks an envelope whose app is no longer configured: a reload may bring it back.
    private func parkUnserved(_ pending: PendingEnvelope) {
        park(pending, for: Self.unservedPause, .retry(.credentialsRefused, after: 300_000))
    }

    /// Ends the delivery of an envelope at shutdown.
    private func stop(_ pending: PendingEnvelope) {
        let refusal = Outcome.retry(.shuttingDown, after: Self.busyRetry)
        if pending.row != nil {
            park(pending, for: .zero, refusal)
        } else {
            finish(pending, refusal)
        }
    }

    /// The outcome of an envelope that expired or was replaced before its next attempt.
    private func earlyOutcome(of pending: PendingEnvelope, _ envelope: Envelope) -> Outcome? {
        if pending.expiry.hasPassed(at: now()) { return .rejected(.ttlRanOut) }
        if collapses.isReplaced(envelope, pending.sequence) {
            return .rejected(.ttlRanOut, text: "replaced by a newer notification with the same collapse id")
        }
        return nil
    }

    private func step(_ pending: PendingEnvelope, after result: AttemptResult) -> AttemptHistory.Step {
        let left: Duration?
        switch pending.expiry {
        case .nowOrNever: left = nil
        case .at(let time): left = .seconds(max(0, time - now()))
        }
        let bounds = AttemptHistory.Bounds(
            policy: limits.retry, isStored: pending.row != nil, age: .now - pending.taken, timeLeft: left)
        return pending.attempts.next(after: result, bounds, random: Double.random(in: 0..<1))
    }

    /// Makes one attempt, and one more in Apple's other environment if the first environment does not know the device
    /// token.
    private func attempt(_ pending: PendingEnvelope, _ envelope: Envelope) async -> AttemptResult {
        let app = pending.route.app
        while true {
            let magic = pending.search.environment(for: pending.route.magic)
            guard let lane = lanes[Route(app: app, magic: magic)] else {
                return AttemptResult(.rejected(.platformNotConfigured), disposition: .notSent, answer: "not-configured")
            }
            let result = await attempt(pending, envelope, at: lane)
            let turns = pending.search.switches(after: result.disposition.token, from: magic) { other in
                lanes[Route(app: app, magic: other)] != nil && tokens[app]?[envelope.deviceToken].isRefused != true
            }
            if !turns { return learn(result, pending, envelope, from: magic) }
        }
    }

    private func attempt(_ pending: PendingEnvelope, _ envelope: Envelope, at lane: Lane) async -> AttemptResult {
        let clock = MonotonicTime.now
        pending.heldBy = nil
        if let left = pauses.remaining(envelope.deviceToken, now: clock) {
            return .heldBack(.providerThrottles, for: left, "device-paused")
        }
        // Checked before the queue, so that an envelope that would be held back does not wait for its turn.
        if let refusal = lane.breaker.refusal(clock) { return hold(pending, at: lane, refusal) }
        guard await waitForTurn(of: pending, envelope, at: lane) else {
            // The lane was replaced: continue in the new one.
            if let other = lanes[lane.route], other !== lane, !isDraining {
                return await attempt(pending, envelope, at: other)
            }
            if pending.expiry.hasPassed(at: now()) {
                return AttemptResult(.rejected(.ttlRanOut), disposition: .notSent, answer: "expired")
            }
            // If the breaker opened during the wait, report its reason rather than a lack of room.
            if let refusal = lane.breaker.refusal(.now) { return hold(pending, at: lane, refusal) }
            if pending.contact == .notContacted, !isDraining { pending.contact = .noCapacity }
            return .heldBack(isDraining ? .shuttingDown : .nodeBusy, for: .seconds(1), "sent-away")
        }
        let start = MonotonicTime.now
        let admission = lane.breaker.admit(start)
        if case .refused(let reason, let after) = admission {
            lane.window.abandoned()
            releaseNext(at: lane)
            return hold(pending, at: lane, (reason, after))
        }
        let result = await lane.provider.attempt(envelope, expiry: pending.expiry)
        let end = MonotonicTime.now
        observer(
            .attempt(lane.route, deviceToken: envelope.deviceToken, result, waited: start - clock, took: end - start))
        if result.disposition.mayHaveReachedProvider { pending.contact = .contacted }
        let effect = note(result, of: pending, envelope, at: lane, wasProbe: admission == .probe)
        switch effect {
        case .none: lane.window.abandoned()
        case .success: lane.window.ended(latency: end - start, isOverload: false, now: end)
        case .failure, .trip: lane.window.ended(latency: end - start, isOverload: true, now: end)
        }
        releaseNext(at: lane)
        return result
    }

    private func hold(_ pending: PendingEnvelope, at lane: Lane, _ refusal: Breaker.Refusal) -> AttemptResult {
        pending.heldBy = lane
        return .heldBack(refusal.reason, for: refusal.retryAfter, "breaker-open")
    }

    /// Records the result in the lane.
    /// - Returns: the effect of the result on the lane, adjusted by what the node already knows.
    private func note(
        _ result: AttemptResult, of pending: PendingEnvelope, _ envelope: Envelope, at lane: Lane, wasProbe: Bool
    ) -> Disposition.LaneEffect {
        var disposition = result.disposition
        if disposition.retry == .atOnce, pending.attempts.isOutOfReplays { disposition.lane = .failure }
        // A lost connection fails all its requests, which together count as one failure. A failed probe counts
        // separately, and so does an envelope that is lost a second time, on another connection.
        if disposition.retry == .onceMore, disposition.lane == .none,
            wasProbe || pending.attempts.hasUnknownFate || lane.connectionFailures.isNew(.now)
        {
            disposition.lane = .failure
        }
        // Results of attempts that were in flight when the device was paused tell nothing new, and must not stop
        // delivery to other devices.
        if disposition.token == .paused, disposition.lane == .failure,
            pauses.remaining(envelope.deviceToken, now: .now) != nil
        {
            disposition.lane = .none
        }
        let before = lane.breaker.state
        lane.breaker.record(
            disposition, retryAfter: result.retryAfter, wasProbe: wasProbe, now: .now, random: Double.random(in: 0..<1))
        if lane.breaker.state != before || wasProbe, lanes[lane.route] === lane {
            observer(.breaker(lane.route, lane.breaker.state, answer: result.answer))
        }
        if lane.breaker.state == .open { rejectWaiting(at: lane) }
        if pending.probedLane === lane {
            endProbe(pending)
        } else if !lane.heldRows.isEmpty {
            sendProbe(of: lane)
        }
        return disposition.lane
    }

    /// Records what the result says about the device token.
    /// - Returns: the result for the sender, adjusted by what the node already knew about the token.
    private func learn(
        _ result: AttemptResult, _ pending: PendingEnvelope, _ envelope: Envelope, from magic: Magic
    ) -> AttemptResult {
        guard let lane = lanes[pending.route] else { return result }
        let wasActive = lane.surge.isActive
        defer {
            if lane.surge.isActive != wasActive {
                observer(.tokenRefusalSurge(lane.route, isActive: lane.surge.isActive))
            }
        }
        let (app, token) = (pending.route.app, envelope.deviceToken)
        switch result.disposition.token {
        case .none: break
        case .accepted:
            let home = magic == pending.route.magic ? nil : magic
            tokens[app, default: TokenHistory(capacity: tokensPerApp)].accepted(
                token, by: home, at: UInt64(max(0, now())) * 1000)
            collapses.accepted(envelope, pending.sequence)
            pauses.end(token)
            lane.surge.accepted(.now)
            if home != nil {
                var hinted = result
                hinted.outcome.text = "the device token belongs to Apple's other environment; pair again to fix this"
                return hinted
            }
        case .paused:
            pauses.pause(token, seconds: result.outcome.retryAfter / 1000, now: .now, random: Double.random(in: 0..<1))
        case .unknownInEnvironment, .otherApp:
            let isFirst = tokens[app, default: TokenHistory(capacity: tokensPerApp)].refused(token)
            // During a surge, repeated refusals count too: otherwise the surge would end for lack of first refusals.
            if isFirst || lane.surge.isActive { lane.surge.refused(.now, isProven: pending.origin.isProven) }
            if lane.surge.isActive, !pending.origin.isProven {
                observer(.unprovenTokenRefused(pending.origin.circuit))
            }
            if lane.surge.isActive {
                // Answers during a surge are not trusted.
                pending.search.reset()
                return .duringSurge(result)
            }
        case .gone:
            // The timestamp says when Apple last found the token invalid. If Apple accepted the token later, ask Apple
            // once more.
            if let since = result.outcome.goneSince,
                tokens[app, default: TokenHistory(capacity: tokensPerApp)].contradicts(token, goneSince: since)
            {
                return .contradicted(result)
            }
            if lane.surge.isActive {
                if !pending.origin.isProven { observer(.unprovenTokenRefused(pending.origin.circuit)) }
                return .duringSurge(result)
            }
        }
        return result
    }

    func finish(_ pending: PendingEnvelope, _ outcome: Outcome) {
        guard pendingEnvelopes[pending.digest] === pending else { return }
        if pending.isRecovered, let envelope = pending.envelope {
            observer(.recovered(envelope, app: pending.route.app, outcome))
        }
        if let row = pending.row {
            let keepUntil = ReplayWindow.isRepeated(outcome) ? now() + Int64(limits.replaySeconds) : nil
            spool?.finish(id: row, digest: pending.digest, outcome: outcome, keepUntil: keepUntil)
        }
        if pending.envelope != nil { leaveMemory(pending) }
        end(pending, outcome)
        if !due.isEmpty { loadDue() }
    }

    /// Reports the final outcome and forgets the pending envelope.
    func end(_ pending: PendingEnvelope, _ outcome: Outcome) {
        window.finished(pending.digest, pending.route.magic, pending.pair, outcome, now: .now)
        pendingEnvelopes[pending.digest] = nil
        pending.finish(outcome)
        endProbe(pending)
    }

    /// Releases the envelope's memory.
    func leaveMemory(_ pending: PendingEnvelope) {
        pending.envelope = nil
        inFlight -= 1
        if pending.isLoaded {
            pending.isLoaded = false
            loadedRows -= 1
        }
        endProbe(pending)
    }

    /// If the envelope is its lane's probe, ends that role, so that another envelope can become the probe.
    private func endProbe(_ pending: PendingEnvelope) {
        guard let lane = pending.probedLane else { return }
        pending.probedLane = nil
        lane.probeRow = nil
        sendProbe(of: lane)
    }

    // MARK: Fair queue

    /// Waits for room in the lane's window.
    /// - Returns: `false` if the envelope was rejected from the queue.
    private func waitForTurn(of pending: PendingEnvelope, _ envelope: Envelope, at lane: Lane) async -> Bool {
        if lane.queue.isEmpty, lane.window.hasRoom {
            lane.window.began()
            return true
        }
        // On the monotonic clock, because the wall clock may be corrected during the wait.
        let expiresAt: Int64 =
            switch pending.expiry {
            case .nowOrNever: Self.second + patience
            case .at(let time): Self.second + min(max(0, time - now()), patience)
            }
        let isItsTurn = await withUnsafeContinuation { continuation in
            lane.queue.append(
                continuation, flow: pending.origin.circuit.rawValue, band: pending.origin.band,
                cost: envelope.ciphertext.count + Self.requestOverhead, expiresAt: expiresAt)
        }
        if !isItsTurn {
            leaving -= 1
            lane.rejecting -= 1
        }
        return isItsTurn
    }

    private func releaseNext(at lane: Lane) {
        while lane.window.hasRoom, let next = lane.queue.popFirst() {
            lane.window.began()
            next.resume(returning: true)
        }
    }

    /// Rejects envelopes that have waited in a queue for too long, and checks the spool's shortage. Call once a second.
    package nonisolated func expireWaiting() {
        assumeIsolated { dispatch in
            dispatch.updateShortage()
            let second = Self.second
            for lane in dispatch.lanes.values where !lane.queue.isEmpty {
                for waiting in lane.queue.removeExpired(at: second) { dispatch.reject(waiting, from: lane) }
            }
        }
    }

    /// Seconds that an envelope may wait in a queue.
    private var patience: Int64 { max(1, limits.retry.patience.components.seconds) }

    private static var second: Int64 { Int64(MonotonicTime.now.nanoseconds / 1_000_000_000) }

    /// How long the oldest envelope in the queue has waited, estimated from the next expiry: an envelope with a ttl
    /// shorter than the node's patience seems older than it is.
    func longestWait(at lane: Lane) -> Duration {
        guard let expiry = lane.queue.nextExpiry() else { return .zero }
        return .seconds(max(0, patience - (expiry - Self.second)))
    }

    /// Evicts an envelope for a new one, if the queue's fairness allows that.
    private func makeRoom(at lane: Lane, for origin: Origin) -> Bool {
        let flow = origin.circuit.rawValue
        guard let victim = lane.queue.makeRoom(for: flow, band: origin.band, now: Self.second) else { return false }
        reject(victim, from: lane)
        return true
    }

    private func rejectWaiting(at lane: Lane) {
        for waiting in lane.queue.removeAll() { reject(waiting, from: lane) }
    }

    private func reject(_ waiting: Lane.Waiting, from lane: Lane) {
        leaving += 1
        lane.rejecting += 1
        waiting.resume(returning: false)
    }

    // MARK: Time

    private func sleep(_ delay: Duration) async {
        guard !isDraining else { return }
        lastSleeper += 1
        let number = lastSleeper
        await withUnsafeContinuation { continuation in
            let timer = Timer(on: loop, after: delay) { [unowned self] in assumeIsolated { $0.wake(number) } }
            sleepers[number] = (timer, continuation)
        }
    }

    private func wake(_ number: UInt64) { sleepers.removeValue(forKey: number)?.continuation.resume() }
}
