// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HeapModule
import Providers
import TNP
import Time

/// Owns what has been taken until it has an outcome: the attempts and the pauses between them, the breakers, the
/// duplicates, and what lies in the spool. Each envelope gets exactly one final outcome.
///
/// The decisions are value types (``AttemptHistory``, ``Breaker``, ``DevicePauses``, ``TokenHistory``, ``TokenRefusalSurge``,
/// ``ReplayWindow``, ``CollapseOrder``, ``EnvironmentSearch``); this performs them.
package actor Dispatch {
    /// Providers that go from one actor of the loop to another.
    package struct Providers: @unchecked Sendable {
        // Unchecked: made, passed and used on one loop's thread.
        let byRoute: [Route: any Provider]

        /// - Parameter byRoute: who serves which route.
        package init(_ byRoute: [Route: any Provider]) { self.byRoute = byRoute }
    }

    nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private(set) var lanes: [Route: Lane] = [:]
    /// Providers that were replaced while they may still have had something under way.
    private var retired: [any Provider] = []
    private(set) var limits: DispatchLimits
    let observer: @Sendable (DispatchEvent) -> Void
    let now: @Sendable () -> Int64

    /// Everything without a final outcome, in memory or in the spool, as far as this process knows it.
    var pendingEnvelopes: [Digest256: PendingEnvelope] = [:]
    /// Of them, those whose envelope is in memory.
    package internal(set) var inFlight = 0
    /// Of those, the ones that wait for the disk.
    var storing = 0
    /// Of those, the ones that were sent away from a lane's queue and are about to be answered.
    private var leaving = 0
    var window: ReplayWindow
    private var pauses: DevicePauses
    /// By app: a device token of one is none of another. All together know as many as `limits.replay_entries`.
    private var tokens: [String: TokenHistory] = [:]
    private var tokensOfAnApp = 0
    private var collapses: CollapseOrder
    /// Above every row of a spool, so that what an earlier process took comes before what this one takes.
    private var sequence: UInt64 = 1 << 63
    private var sleepers: [ObjectIdentifier: Sleeper] = [:]
    private(set) var isDraining = false
    /// The dispatch itself while it runs: what hangs on the loop must not be let go of on another thread.
    private var whileRunning: Dispatch?

    // What lies in the spool: see Dispatch+Spool.swift.
    var spool: Spool?
    var due: Heap<DueRow> = []
    var parked: [Int64: PendingEnvelope] = [:]
    var pump: Timer?
    var isLoading = false
    var loadedRows = 0
    var unreadRows = 0
    var unreadable = 0
    var recoversUntil = MonotonicTime(nanoseconds: 0)
    /// Why the spool takes no more; nil: it does.
    var shortage: SpoolShortage?

    /// A pause longer than this is spent in the spool rather than in memory, by who can.
    private static let longestInMemory = Duration.seconds(2)
    /// How often a stored envelope whose app is no longer configured is looked at: it may come back.
    private static let unservedPause = Duration.seconds(300)
    /// What senders are told to wait where there is no room.
    package static let busyRetry: UInt32 = 1000
    private static let mostRetired = 64
    /// Bytes of a request beside the ciphertext, about: what a turn costs.
    private static let costOfARequest = 512
    private static let turnsToClose = 5000

    /// - Parameters:
    ///   - loop: all of it runs there.
    ///   - now: Unix time in seconds.
    ///   - observer: is told what happens, on the loop.
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

    /// Starts to deliver by these providers.
    package func start(_ providers: Providers) {
        whileRunning = self
        serve(providers.byRoute)
    }

    /// Takes other providers in the place of the present ones, by route; a route without one is no longer served. What
    /// is under way at the old ones is still answered.
    package nonisolated func replace(_ providers: Providers, limits: DispatchLimits) {
        assumeIsolated { dispatch in
            dispatch.limits = limits
            dispatch.serve(providers.byRoute)
        }
    }

    private func serve(_ providers: [Route: any Provider]) {
        for (route, lane) in lanes where providers[route] !== lane.provider {
            lane.provider.retire()
            retired = retired.suffix(Self.mostRetired - 1) + [lane.provider]
            lanes[route] = nil
            if let row = lane.probe { lane.held.append(row) }
            releaseHeld(lane)
            rejectWaiting(at: lane)
        }
        for (route, provider) in providers where lanes[route] == nil {
            lanes[route] = Lane(route, provider, concurrency: limits.concurrency, now: .now)
            observer(.serving(route))
        }
        for lane in lanes.values { lane.window.range = Lane.range(limits.concurrency) }
        tokensOfAnApp = limits.replayEntries / max(1, Set(lanes.keys.map(\.app)).count)
    }

    /// Whether envelopes can be stored durably.
    package nonisolated var canQueue: Bool { assumeIsolated { $0.spool != nil } }

    /// Takes nothing more, and lets nothing wait for another attempt: what is not in the spool is answered RETRY 400,
    /// what is there stays there. What is under way at a provider goes on.
    package func drain() {
        isDraining = true
        pump = nil
        for sleeper in sleepers.values { sleeper.wake() }
        for lane in lanes.values { rejectWaiting(at: lane) }
    }

    /// Ends the connections to all providers and closes the spool; what is under way gets an outcome at once.
    package func close() async {
        drain()
        for provider in retired + lanes.values.map(\.provider) { provider.close() }
        // AttemptHistory that have just failed are answered in this loop's next turns, stores by the next commit; a disk that
        // hangs is not waited for.
        for _ in 0..<Self.turnsToClose where inFlight > 0 { await loop.sleep(for: .milliseconds(1)) }
        await spool?.close()
        spool = nil
        whileRunning = nil
    }

    // MARK: Taking

    /// Whether the envelope is under way already, or has had its outcome a while ago: then nothing new comes of it.
    /// - Parameter app: the name of its profile.
    package nonisolated func knows(_ envelope: Envelope, app: String) -> Bool {
        assumeIsolated { dispatch in
            guard dispatch.lanes[Route(app: app, magic: envelope.magic)] != nil, !dispatch.isDraining else {
                return false
            }
            return dispatch.pendingEnvelopes[envelope.digest] != nil
                || dispatch.window.outcome(of: envelope, now: .now) != nil
        }
    }

    /// Tells the outcome of an envelope that it ``knows(_:app:)``, now or when it is there.
    package nonisolated func repeatOutcome(of envelope: Envelope, to reply: Reply) {
        assumeIsolated { dispatch in
            if let pendingEnvelope = dispatch.pendingEnvelopes[envelope.digest] { return pendingEnvelope.attach(reply) }
            // Its time may have run out in this very moment: then it is new.
            reply.tell(
                dispatch.window.outcome(of: envelope, now: .now) ?? .retry(.nodeBusy, after: Self.busyRetry))
        }
    }

    /// What is answered to an envelope whatever its device token is: nothing here depends on what the node knows of that.
    /// Nil: nothing.
    /// - Parameter acceptsQueued: whether it may be stored, and so wait for a push service that does not work.
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
            guard let held = lane.breaker.turnsBack(.now) else { return nil }
            guard dispatch.willStore(envelope, acceptsQueued) else {
                return AttemptResult.held(back: held.reason, for: held.retryAfter, "breaker-open").outcome
            }
            return .seconds(Int64(envelope.ttl)) <= held.retryAfter ? .rejected(.ttlRanOut) : nil
        }
    }

    /// What is answered where there is no room for an envelope of this origin, not even by another that has to go for it.
    /// Nil: there is room.
    package nonisolated func lackOfRoom(
        for envelope: Envelope, app: String, acceptsQueued: Bool, from origin: Origin
    ) -> Outcome? {
        assumeIsolated { dispatch in
            let clock = MonotonicTime.now
            if let wait = dispatch.waitForPlace(clock) { return .retry(.nodeBusy, after: wait) }
            if dispatch.willStore(envelope, acceptsQueued) {
                if dispatch.holdsAllItMay { dispatch.noteShortage(.envelopes) }
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

    /// The time until an outcome has a place, where there may be none: no outcome is forgotten before its time. Nil: at
    /// once.
    private func waitForPlace(_ clock: MonotonicTime) -> UInt32? {
        window.count + pendingEnvelopes.count + unreadRows < window.capacity ? nil : window.nextFree(now: clock)
    }

    private func willStore(_ envelope: Envelope, _ acceptsQueued: Bool) -> Bool {
        acceptsQueued && spool != nil && envelope.ttl > 0
    }

    /// Takes an envelope for an app that is no resend (``knows(_:app:)``), or says why not. The reply is told one
    /// final outcome.
    /// - Parameters:
    ///   - app: the name of its profile; the envelope's own may be empty.
    ///   - format: of that profile.
    ///   - origin: who shares what with whom where there is not enough for all.
    package nonisolated func submit(
        _ envelope: Envelope, app: String, format: EnvelopeFormat, from origin: Origin, _ reply: Reply
    ) {
        assumeIsolated { $0.take(envelope, app: app, format: format, from: origin, reply) }
    }

    private func take(
        _ envelope: Envelope, app: String, format: EnvelopeFormat, from origin: Origin, _ reply: Reply
    ) {
        let route = Route(app: app, magic: envelope.magic)
        guard let lane = lanes[route] else { return reply.tell(.rejected(.platformNotConfigured)) }
        guard !isDraining else { return reply.tell(.retry(.shuttingDown, after: Self.busyRetry)) }
        let clock = MonotonicTime.now
        if let wait = waitForPlace(clock) { return reply.tell(.retry(.nodeBusy, after: wait), .noRoom) }
        guard let pair = window.claim(envelope, now: clock) else { return reply.tell(.rejected(.ivReused)) }
        let isToBeStored = willStore(envelope, reply.acceptsQueued)
        guard isToBeStored ? canStore : hasRoom(for: route) || makeRoom(at: lane, for: origin) else {
            let refusal = Outcome.retry(.nodeBusy, after: Self.busyRetry)
            window.finished(envelope.digest, envelope.magic, pair, refusal, now: clock)
            return reply.tell(refusal, .noRoom)
        }
        sequence += 1
        let pendingEnvelope = PendingEnvelope(
            envelope, route: route, format: format, origin: origin, expiry: Expiry(ttl: envelope.ttl, takenAt: now()),
            taken: clock, sequence: sequence, pair: pair)
        pendingEnvelope.attach(reply)
        pendingEnvelopes[pendingEnvelope.digest] = pendingEnvelope
        inFlight += 1
        if isToBeStored {
            Task(executorPreference: loop) { await self.store(pendingEnvelope, envelope) }
        } else if mayBeOfAnEarlierProcess(clock) {
            Task(executorPreference: loop) { await self.recover(pendingEnvelope, envelope) }
        } else {
            Task(executorPreference: loop) { await self.carry(pendingEnvelope, envelope) }
        }
    }

    /// No lane takes more than what it leaves to the others, so that one that hangs never takes all there is.
    func hasRoom(for route: Route) -> Bool {
        let left = limits.totalInFlight - (inFlight - storing - leaving)
        return left > 0 && (lanes[route]?.inFlight ?? 0) - (lanes[route]?.leaving ?? 0) <= left
    }

    /// The share of the room for envelopes in memory that is taken, from 0 to 1.
    package nonisolated var load: Double {
        // Not what comes from the spool as room allows: that waits for nobody.
        assumeIsolated { Double($0.inFlight - $0.loadedRows) / Double(max(1, $0.limits.totalInFlight)) }
    }

    // MARK: Delivering

    func carry(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope) async {
        guard let own = lanes[pendingEnvelope.route] else {
            guard pendingEnvelope.row != nil else { return finish(pendingEnvelope, .rejected(.platformNotConfigured)) }
            return parkUnserved(pendingEnvelope)
        }
        own.inFlight += 1
        defer { own.inFlight -= 1 }
        pendingEnvelope.search.begin(at: tokens[pendingEnvelope.route.app]?[envelope.deviceToken].home)
        while true {
            if let outcome = ended(pendingEnvelope, envelope) { return finish(pendingEnvelope, outcome) }
            if isDraining { return stop(pendingEnvelope) }
            if pendingEnvelope.row != nil, lanes[pendingEnvelope.route] == nil { return parkUnserved(pendingEnvelope) }
            let attemptResult = await attempt(pendingEnvelope, envelope)
            switch step(pendingEnvelope, after: attemptResult) {
            case .finish where attemptResult.outcome.kind == .retry && isDraining: return stop(pendingEnvelope)
            case .finish: return finish(pendingEnvelope, attemptResult.outcome)
            case .expire: return finish(pendingEnvelope, .rejected(.ttlRanOut))
            case .again(let delay)
            where pendingEnvelope.row != nil && (delay > Self.longestInMemory || pendingEnvelope.heldBy != nil):
                return park(pendingEnvelope, for: delay, attemptResult.outcome)
            case .again(let delay): if delay > .zero { await sleep(delay) }
            }
        }
    }

    /// The app is no longer configured: it may come back.
    private func parkUnserved(_ pendingEnvelope: PendingEnvelope) {
        park(pendingEnvelope, for: Self.unservedPause, .retry(.credentialsRefused, after: 300_000))
    }

    /// The node shuts down, and this has no outcome yet.
    private func stop(_ pendingEnvelope: PendingEnvelope) {
        let refusal = Outcome.retry(.shuttingDown, after: Self.busyRetry)
        if pendingEnvelope.row != nil {
            park(pendingEnvelope, for: .zero, refusal)
        } else {
            finish(pendingEnvelope, refusal)
        }
    }

    /// What ends an envelope before it is tried, or tried again.
    private func ended(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope) -> Outcome? {
        if pendingEnvelope.expiry.hasPassed(at: now()) { return .rejected(.ttlRanOut) }
        if collapses.isReplaced(envelope, pendingEnvelope.sequence) {
            return .rejected(.ttlRanOut, text: "a newer notification with the same collapse id has taken its place")
        }
        return nil
    }

    private func step(_ pendingEnvelope: PendingEnvelope, after attemptResult: AttemptResult) -> AttemptHistory.Step {
        let left: Duration?
        switch pendingEnvelope.expiry {
        case .nowOrNever: left = nil
        case .at(let time): left = .seconds(max(0, time - now()))
        }
        let bounds = AttemptHistory.Bounds(
            policy: limits.retry, isStored: pendingEnvelope.row != nil, age: .now - pendingEnvelope.taken, left: left)
        return pendingEnvelope.attempts.next(after: attemptResult, bounds, random: Double.random(in: 0..<1))
    }

    /// One attempt, in the other environment too where the first does not know the device token.
    private func attempt(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope) async -> AttemptResult {
        let app = pendingEnvelope.route.app
        while true {
            let magic = pendingEnvelope.search.environment(for: pendingEnvelope.route.magic)
            guard let lane = lanes[Route(app: app, magic: magic)] else {
                return AttemptResult(.rejected(.platformNotConfigured), disposition: .notSent, answer: "not-configured")
            }
            let attemptResult = await attempt(pendingEnvelope, envelope, at: lane)
            let turns = pendingEnvelope.search.turns(after: attemptResult.disposition.token, from: magic) { other in
                lanes[Route(app: app, magic: other)] != nil && tokens[app]?[envelope.deviceToken].isRefused != true
            }
            if !turns { return learn(attemptResult, pendingEnvelope, envelope, from: magic) }
        }
    }

    private func attempt(_ pendingEnvelope: PendingEnvelope, _ envelope: Envelope, at lane: Lane) async -> AttemptResult
    {
        let clock = MonotonicTime.now
        pendingEnvelope.heldBy = nil
        if let left = pauses.left(envelope.deviceToken, now: clock) {
            return .held(back: .providerThrottles, for: left, "device-paused")
        }
        // Who would be held back is not made to wait for that.
        if let refusal = lane.breaker.refusal(clock) {
            pendingEnvelope.heldBy = lane
            return .held(back: refusal.reason, for: refusal.retryAfter, "breaker-open")
        }
        guard await turn(of: pendingEnvelope, envelope, at: lane) else {
            // The lane was replaced, and another stands ready.
            if let other = lanes[lane.route], other !== lane, !isDraining {
                return await attempt(pendingEnvelope, envelope, at: other)
            }
            if pendingEnvelope.expiry.hasPassed(at: now()) {
                return AttemptResult(.rejected(.ttlRanOut), disposition: .notSent, answer: "expired")
            }
            // Where it is the breaker that has opened, that is no want of room.
            if let refusal = lane.breaker.refusal(.now) {
                pendingEnvelope.heldBy = lane
                return .held(back: refusal.reason, for: refusal.retryAfter, "breaker-open")
            }
            if pendingEnvelope.reach == .notAsked, !isDraining { pendingEnvelope.reach = .noRoom }
            return .held(back: isDraining ? .shuttingDown : .nodeBusy, for: .seconds(1), "sent-away")
        }
        let start = MonotonicTime.now
        let admission = lane.breaker.admit(start)
        if case .refused(let reason, let after) = admission {
            lane.window.gaveUp()
            releaseNext(at: lane)
            pendingEnvelope.heldBy = lane
            return .held(back: reason, for: after, "breaker-open")
        }
        let attemptResult = await lane.provider.attempt(envelope, expiry: pendingEnvelope.expiry)
        let end = MonotonicTime.now
        observer(
            .attempt(
                lane.route, deviceToken: envelope.deviceToken, attemptResult, waited: start - clock, took: end - start))
        if attemptResult.disposition.mayHaveReachedProvider { pendingEnvelope.reach = .asked }
        let effect = note(attemptResult, of: pendingEnvelope, envelope, at: lane, wasProbe: admission == .probe)
        switch effect {
        case .none: lane.window.gaveUp()
        case .works: lane.window.ended(latency: end - start, isOverload: false, now: end)
        case .strained, .blocked: lane.window.ended(latency: end - start, isOverload: true, now: end)
        }
        releaseNext(at: lane)
        return attemptResult
    }

    /// - Returns: what the attemptResult says of the lane, in view of what is known.
    private func note(
        _ attemptResult: AttemptResult, of pendingEnvelope: PendingEnvelope, _ envelope: Envelope, at lane: Lane,
        wasProbe: Bool
    ) -> Disposition.LaneEffect {
        var disposition = attemptResult.disposition
        if disposition.retry == .atOnce, pendingEnvelope.attempts.isOutOfReplays { disposition.lane = .strained }
        // Everything on a connection fails with it, which is one event. A probe decides by itself, and a resend on another
        // connection that fails, too, is evidence against the push service.
        if disposition.retry == .onceMore, disposition.lane == .none,
            wasProbe || pendingEnvelope.attempts.hasUnknownFate || lane.connectionFailures.isNew(.now)
        {
            disposition.lane = .strained
        }
        // What was under way to a device when its first refusal came says nothing new, and must not stop all others.
        if disposition.token == .paused, disposition.lane == .strained,
            pauses.left(envelope.deviceToken, now: .now) != nil
        {
            disposition.lane = .none
        }
        let before = lane.breaker.state
        lane.breaker.record(
            disposition, retryAfter: attemptResult.retryAfter, wasProbe: wasProbe, now: .now,
            random: Double.random(in: 0..<1))
        if lane.breaker.state != before || wasProbe, lanes[lane.route] === lane {
            observer(.breaker(lane.route, lane.breaker.state, answer: attemptResult.answer))
        }
        if lane.breaker.state == .open { rejectWaiting(at: lane) }
        if pendingEnvelope.probes === lane {
            comeBack(pendingEnvelope)
        } else if !lane.held.isEmpty {
            sendProbe(of: lane)
        }
        return disposition.lane
    }

    /// Remembers what the attemptResult says of the device token, and what the sender is told in view of what was known.
    private func learn(
        _ attemptResult: AttemptResult, _ pendingEnvelope: PendingEnvelope, _ envelope: Envelope, from magic: Magic
    ) -> AttemptResult {
        guard let lane = lanes[pendingEnvelope.route] else { return attemptResult }
        let wasActive = lane.wave.isActive
        defer {
            if lane.wave.isActive != wasActive { observer(.wave(lane.route, isActive: lane.wave.isActive)) }
        }
        let (app, token) = (pendingEnvelope.route.app, envelope.deviceToken)
        switch attemptResult.disposition.token {
        case .none: break
        case .accepted:
            let home = magic == pendingEnvelope.route.magic ? nil : magic
            tokens[app, default: TokenHistory(capacity: tokensOfAnApp)].accepted(
                token, by: home, at: UInt64(max(0, now())) * 1000)
            collapses.accepted(envelope, pendingEnvelope.sequence)
            pauses.end(token)
            lane.wave.accepted(.now)
            if home != nil {
                var told = attemptResult
                told.outcome.text = "the device token is of Apple's other environment: pair anew to have this put right"
                return told
            }
        case .paused:
            pauses.pause(
                token, seconds: attemptResult.outcome.retryAfter / 1000, now: .now, random: Double.random(in: 0..<1))
        case .unknownHere, .foreign:
            let isNews = tokens[app, default: TokenHistory(capacity: tokensOfAnApp)].refused(token)
            // While it lasts those who come back count as well: else it would end for want of news.
            if isNews || lane.wave.isActive { lane.wave.refused(.now, isProven: pendingEnvelope.origin.isProven) }
            if lane.wave.isActive, !pendingEnvelope.origin.isProven {
                observer(.suspected(pendingEnvelope.origin.circuit))
            }
            if lane.wave.isActive {
                // What is said during a wave counts for nothing.
                pendingEnvelope.search.reset()
                return .duringSurge(attemptResult)
            }
        case .gone:
            // Apple's time is when it last found the token dead: one that was good later has come back to life. It is
            // asked once more.
            if let since = attemptResult.outcome.goneSince,
                tokens[app, default: TokenHistory(capacity: tokensOfAnApp)].contradicts(token, goneSince: since)
            {
                return .contradicted(attemptResult)
            }
            if lane.wave.isActive {
                if !pendingEnvelope.origin.isProven { observer(.suspected(pendingEnvelope.origin.circuit)) }
                return .duringSurge(attemptResult)
            }
        }
        return attemptResult
    }

    func finish(_ pendingEnvelope: PendingEnvelope, _ outcome: Outcome) {
        guard pendingEnvelopes[pendingEnvelope.digest] === pendingEnvelope else { return }
        if pendingEnvelope.isRecovered, let envelope = pendingEnvelope.envelope {
            observer(.recovered(envelope, app: pendingEnvelope.route.app, outcome))
        }
        if let row = pendingEnvelope.row {
            let keepUntil = ReplayWindow.isRepeated(outcome) ? now() + Int64(limits.replaySeconds) : nil
            spool?.finish(id: row, digest: pendingEnvelope.digest, outcome: outcome, keepUntil: keepUntil)
        }
        if pendingEnvelope.envelope != nil { leaveMemory(pendingEnvelope) }
        end(pendingEnvelope, outcome)
        if !due.isEmpty { loadDue() }
    }

    /// The pendingEnvelope is done with.
    func end(_ pendingEnvelope: PendingEnvelope, _ outcome: Outcome) {
        window.finished(pendingEnvelope.digest, pendingEnvelope.route.magic, pendingEnvelope.pair, outcome, now: .now)
        pendingEnvelopes[pendingEnvelope.digest] = nil
        observer(.finished(pendingEnvelope.route, outcome))
        pendingEnvelope.tell(outcome)
        comeBack(pendingEnvelope)
    }

    /// Its envelope is let go of.
    func leaveMemory(_ pendingEnvelope: PendingEnvelope) {
        pendingEnvelope.envelope = nil
        inFlight -= 1
        if pendingEnvelope.isLoaded {
            pendingEnvelope.isLoaded = false
            loadedRows -= 1
        }
        comeBack(pendingEnvelope)
    }

    /// Whether it went ahead for a lane or not, it does no longer: another may.
    private func comeBack(_ pendingEnvelope: PendingEnvelope) {
        guard let lane = pendingEnvelope.probes else { return }
        pendingEnvelope.probes = nil
        lane.probe = nil
        sendProbe(of: lane)
    }

    // MARK: Turns

    /// Waits until it is the pendingEnvelope's turn at the lane.
    /// - Returns: false where it has been sent away.
    private func turn(of pendingEnvelope: PendingEnvelope, _ envelope: Envelope, at lane: Lane) async -> Bool {
        if lane.queue.isEmpty, lane.window.hasRoom {
            lane.window.began()
            return true
        }
        // By the monotonic clock: the other one may be put right while somebody waits.
        let patience = max(1, limits.retry.patience.components.seconds)
        let expiresAt: Int64 =
            switch pendingEnvelope.expiry {
            case .nowOrNever: Self.second + patience
            case .at(let time): Self.second + min(max(0, time - now()), patience)
            }
        let isItsTurn = await withUnsafeContinuation { continuation in
            lane.queue.append(
                continuation, flow: pendingEnvelope.origin.circuit.rawValue, band: pendingEnvelope.origin.band,
                cost: envelope.ciphertext.count + Self.costOfARequest, expiresAt: expiresAt)
        }
        if !isItsTurn {
            leaving -= 1
            lane.leaving -= 1
        }
        return isItsTurn
    }

    private func releaseNext(at lane: Lane) {
        while lane.window.hasRoom, let next = lane.queue.popFirst() {
            lane.window.began()
            next.resume(returning: true)
        }
    }

    /// Sends away who has waited for as long as it may. To be called each second.
    package nonisolated func endWaits() {
        assumeIsolated { dispatch in
            dispatch.endShortage()
            let second = Self.second
            for lane in dispatch.lanes.values where !lane.queue.isEmpty {
                for waiting in lane.queue.removeExpired(at: second) { dispatch.reject(waiting, from: lane) }
            }
        }
    }

    private static var second: Int64 { Int64(MonotonicTime.now.nanoseconds / 1_000_000_000) }

    /// By when the first of those who wait has to go: an envelope that may be kept for less than the node's patience
    /// counts as having come earlier than it did.
    func longestWait(at lane: Lane) -> Duration {
        guard let expiry = lane.queue.nextExpiry() else { return .zero }
        let patience = max(1, limits.retry.patience.components.seconds)
        return .seconds(max(0, patience - (expiry - Self.second)))
    }

    /// Sends one away for a newcomer, where that is just.
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
        lane.leaving += 1
        waiting.resume(returning: false)
    }

    // MARK: Time

    private func sleep(_ delay: Duration) async {
        guard !isDraining else { return }
        let sleeper = Sleeper(on: loop)
        sleepers[ObjectIdentifier(sleeper)] = sleeper
        await sleeper.sleep(delay)
        sleepers[ObjectIdentifier(sleeper)] = nil
    }
}

/// A wait that can be ended early, on one loop.
private final class Sleeper {
    private var timer: Timer?
    private var continuation: UnsafeContinuation<Void, Never>?

    init(on loop: EventLoop) { timer = Timer(on: loop) { [unowned self] in wake() } }

    func sleep(_ delay: Duration, isolation: isolated (any Actor)? = #isolation) async {
        timer?.start(after: delay)
        await withUnsafeContinuation { continuation = $0 }
    }

    func wake() {
        timer?.stop()
        let waiting = continuation
        continuation = nil
        waiting?.resume()
    }
}
