// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import EventLoop
import HeapModule
import Providers
import TNP

/// Owns what has been taken until it has an outcome: the attempts and the pauses between them, the breakers, the
/// duplicates, and what lies in the spool. Each envelope gets exactly one final outcome.
///
/// The decisions are value types (``Attempts``, ``Breaker``, ``DevicePauses``, ``TokenMemory``, ``RefusalWave``,
/// ``ReplayWindow``, ``CollapseOrder``, ``HomeSearch``); this performs them.
public actor Dispatch {
    /// Providers that go from one actor of the loop to another.
    public struct Providers: @unchecked Sendable {
        // Unchecked: made, passed and used on one loop's thread.
        let byRoute: [Route: any Provider]

        /// - Parameter byRoute: who serves which route.
        public init(_ byRoute: [Route: any Provider]) { self.byRoute = byRoute }
    }

    nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private(set) var lanes: [Route: Lane] = [:]
    /// Providers that were replaced while they may still have had something under way.
    private var retired: [any Provider] = []
    private(set) var limits: DispatchLimits
    let observer: @Sendable (DispatchEvent) -> Void
    let now: @Sendable () -> Int64

    /// Everything without a final outcome, in memory or in the spool, as far as this process knows it.
    var parcels: [Digest256: Parcel] = [:]
    /// Of them, those whose envelope is in memory.
    public internal(set) var inFlight = 0
    /// Of those, the ones that wait for the disk.
    var storing = 0
    /// Of those, the ones that were sent away from a lane's queue and are about to be answered.
    private var leaving = 0
    var window: ReplayWindow
    private var pauses: DevicePauses
    /// By app: a device token of one is none of another. All together know as many as `limits.replay_entries`.
    private var tokens: [String: TokenMemory] = [:]
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
    var parked: [Int64: Parcel] = [:]
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
    public static let busyRetry: UInt32 = 1000
    private static let mostRetired = 64
    /// Bytes of a request beside the ciphertext, about: what a turn costs.
    private static let costOfARequest = 512
    private static let turnsToClose = 5000

    /// - Parameters:
    ///   - loop: all of it runs there.
    ///   - now: Unix time in seconds.
    ///   - observer: is told what happens, on the loop.
    public init(
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
    public func start(_ providers: Providers) {
        whileRunning = self
        serve(providers.byRoute)
    }

    /// Takes other providers in the place of the present ones, by route; a route without one is no longer served. What
    /// is under way at the old ones is still answered.
    public nonisolated func replace(_ providers: Providers, limits: DispatchLimits) {
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
            if let row = lane.scout { lane.held.append(row) }
            releaseHeld(lane)
            sendAwayWaiting(at: lane)
        }
        for (route, provider) in providers where lanes[route] == nil {
            lanes[route] = Lane(route, provider, concurrency: limits.concurrency, now: .now)
            observer(.serving(route))
        }
        for lane in lanes.values { lane.window.range = Lane.range(limits.concurrency) }
        tokensOfAnApp = limits.replayEntries / max(1, Set(lanes.keys.map(\.app)).count)
    }

    /// Whether envelopes can be stored durably.
    public nonisolated var canQueue: Bool { assumeIsolated { $0.spool != nil } }

    /// Takes nothing more, and lets nothing wait for another attempt: what is not in the spool is answered RETRY 400,
    /// what is there stays there. What is under way at a provider goes on.
    public func drain() {
        isDraining = true
        pump = nil
        for sleeper in sleepers.values { sleeper.wake() }
        for lane in lanes.values { sendAwayWaiting(at: lane) }
    }

    /// Ends the connections to all providers and closes the spool; what is under way gets an outcome at once.
    public func close() async {
        drain()
        for provider in retired + lanes.values.map(\.provider) { provider.close() }
        // Attempts that have just failed are answered in this loop's next turns, stores by the next commit; a disk that
        // hangs is not waited for.
        for _ in 0..<Self.turnsToClose where inFlight > 0 { await loop.sleep(for: .milliseconds(1)) }
        await spool?.close()
        spool = nil
        whileRunning = nil
    }

    // MARK: Taking

    /// Whether the envelope is under way already, or has had its outcome a while ago: then nothing new comes of it.
    /// - Parameter app: the name of its profile.
    public nonisolated func knows(_ envelope: Envelope, app: String) -> Bool {
        assumeIsolated { dispatch in
            guard dispatch.lanes[Route(app: app, magic: envelope.magic)] != nil, !dispatch.isDraining else {
                return false
            }
            return dispatch.parcels[envelope.digest] != nil
                || dispatch.window.outcome(of: envelope, now: .now) != nil
        }
    }

    /// Tells the outcome of an envelope that it ``knows(_:app:)``, now or when it is there.
    public nonisolated func repeatOutcome(of envelope: Envelope, to reply: Reply) {
        assumeIsolated { dispatch in
            if let parcel = dispatch.parcels[envelope.digest] { return parcel.attach(reply) }
            // Its time may have run out in this very moment: then it is new.
            reply.tell(
                dispatch.window.outcome(of: envelope, now: .now) ?? .retry(.nodeBusy, after: Self.busyRetry))
        }
    }

    /// What is answered to an envelope whatever its device token is: nothing here depends on what the node knows of that.
    /// Nil: nothing.
    /// - Parameter acceptsQueued: whether it may be stored, and so wait for a push service that does not work.
    public nonisolated func refusal(of envelope: Envelope, app: String, acceptsQueued: Bool) -> Outcome? {
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
                return Verdict.held(back: held.reason, for: held.retryAfter, "breaker-open").outcome
            }
            return .seconds(Int64(envelope.ttl)) <= held.retryAfter ? .rejected(.ttlRanOut) : nil
        }
    }

    /// What is answered where there is no room for an envelope of this origin, not even by another that has to go for it.
    /// Nil: there is room.
    public nonisolated func lackOfRoom(
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
        window.count + parcels.count + unreadRows < window.capacity ? nil : window.nextFree(now: clock)
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
    public nonisolated func submit(
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
        let parcel = Parcel(
            envelope, route: route, format: format, origin: origin, expiry: Expiry(ttl: envelope.ttl, takenAt: now()),
            taken: clock, sequence: sequence, pair: pair)
        parcel.attach(reply)
        parcels[parcel.digest] = parcel
        inFlight += 1
        if isToBeStored {
            Task(executorPreference: loop) { await self.store(parcel, envelope) }
        } else if mayBeOfAnEarlierProcess(clock) {
            Task(executorPreference: loop) { await self.recover(parcel, envelope) }
        } else {
            Task(executorPreference: loop) { await self.carry(parcel, envelope) }
        }
    }

    /// No lane takes more than what it leaves to the others, so that one that hangs never takes all there is.
    func hasRoom(for route: Route) -> Bool {
        let left = limits.totalInFlight - (inFlight - storing - leaving)
        return left > 0 && (lanes[route]?.inFlight ?? 0) - (lanes[route]?.leaving ?? 0) <= left
    }

    /// The share of the room for envelopes in memory that is taken, from 0 to 1.
    public nonisolated var load: Double {
        // Not what comes from the spool as room allows: that waits for nobody.
        assumeIsolated { Double($0.inFlight - $0.loadedRows) / Double(max(1, $0.limits.totalInFlight)) }
    }

    // MARK: Delivering

    func carry(_ parcel: Parcel, _ envelope: Envelope) async {
        guard let own = lanes[parcel.route] else {
            guard parcel.row != nil else { return finish(parcel, .rejected(.platformNotConfigured)) }
            return parkUnserved(parcel)
        }
        own.inFlight += 1
        defer { own.inFlight -= 1 }
        parcel.search.begin(at: tokens[parcel.route.app]?[envelope.deviceToken].home)
        while true {
            if let outcome = ended(parcel, envelope) { return finish(parcel, outcome) }
            if isDraining { return stop(parcel) }
            if parcel.row != nil, lanes[parcel.route] == nil { return parkUnserved(parcel) }
            let verdict = await attempt(parcel, envelope)
            switch step(parcel, after: verdict) {
            case .finish where verdict.outcome.kind == .retry && isDraining: return stop(parcel)
            case .finish: return finish(parcel, verdict.outcome)
            case .expire: return finish(parcel, .rejected(.ttlRanOut))
            case .again(let delay) where parcel.row != nil && (delay > Self.longestInMemory || parcel.heldBy != nil):
                return park(parcel, for: delay, verdict.outcome)
            case .again(let delay): if delay > .zero { await sleep(delay) }
            }
        }
    }

    /// The app is no longer configured: it may come back.
    private func parkUnserved(_ parcel: Parcel) {
        park(parcel, for: Self.unservedPause, .retry(.credentialsRefused, after: 300_000))
    }

    /// The node shuts down, and this has no outcome yet.
    private func stop(_ parcel: Parcel) {
        let refusal = Outcome.retry(.shuttingDown, after: Self.busyRetry)
        if parcel.row != nil { park(parcel, for: .zero, refusal) } else { finish(parcel, refusal) }
    }

    /// What ends an envelope before it is tried, or tried again.
    private func ended(_ parcel: Parcel, _ envelope: Envelope) -> Outcome? {
        if parcel.expiry.hasPassed(at: now()) { return .rejected(.ttlRanOut) }
        if collapses.isReplaced(envelope, parcel.sequence) {
            return .rejected(.ttlRanOut, text: "a newer notification with the same collapse id has taken its place")
        }
        return nil
    }

    private func step(_ parcel: Parcel, after verdict: Verdict) -> Attempts.Step {
        let left: Duration?
        switch parcel.expiry {
        case .nowOrNever: left = nil
        case .at(let time): left = .seconds(max(0, time - now()))
        }
        let bounds = Attempts.Bounds(
            policy: limits.retry, isStored: parcel.row != nil, age: .now - parcel.taken, left: left)
        return parcel.attempts.next(after: verdict, bounds, random: Double.random(in: 0..<1))
    }

    /// One attempt, in the other environment too where the first does not know the device token.
    private func attempt(_ parcel: Parcel, _ envelope: Envelope) async -> Verdict {
        let app = parcel.route.app
        while true {
            let magic = parcel.search.environment(for: parcel.route.magic)
            guard let lane = lanes[Route(app: app, magic: magic)] else {
                return Verdict(.rejected(.platformNotConfigured), ruling: .notSent, answer: "not-configured")
            }
            let verdict = await attempt(parcel, envelope, at: lane)
            let turns = parcel.search.turns(after: verdict.ruling.token, from: magic) { other in
                lanes[Route(app: app, magic: other)] != nil && tokens[app]?[envelope.deviceToken].isRefused != true
            }
            if !turns { return learn(verdict, parcel, envelope, from: magic) }
        }
    }

    private func attempt(_ parcel: Parcel, _ envelope: Envelope, at lane: Lane) async -> Verdict {
        let clock = MonotonicTime.now
        parcel.heldBy = nil
        if let left = pauses.left(envelope.deviceToken, now: clock) {
            return .held(back: .providerThrottles, for: left, "device-paused")
        }
        // Who would be held back is not made to wait for that.
        if let refusal = lane.breaker.refusal(clock) {
            parcel.heldBy = lane
            return .held(back: refusal.reason, for: refusal.retryAfter, "breaker-open")
        }
        guard await turn(of: parcel, envelope, at: lane) else {
            // The lane was replaced, and another stands ready.
            if let other = lanes[lane.route], other !== lane, !isDraining {
                return await attempt(parcel, envelope, at: other)
            }
            if parcel.expiry.hasPassed(at: now()) {
                return Verdict(.rejected(.ttlRanOut), ruling: .notSent, answer: "expired")
            }
            // Where it is the breaker that has opened, that is no want of room.
            if let refusal = lane.breaker.refusal(.now) {
                parcel.heldBy = lane
                return .held(back: refusal.reason, for: refusal.retryAfter, "breaker-open")
            }
            if parcel.reach == .notAsked, !isDraining { parcel.reach = .noRoom }
            return .held(back: isDraining ? .shuttingDown : .nodeBusy, for: .seconds(1), "sent-away")
        }
        let start = MonotonicTime.now
        let admission = lane.breaker.admit(start)
        if case .refused(let reason, let after) = admission {
            lane.window.gaveUp()
            letNextGo(at: lane)
            parcel.heldBy = lane
            return .held(back: reason, for: after, "breaker-open")
        }
        let verdict = await lane.provider.attempt(envelope, expiry: parcel.expiry)
        let end = MonotonicTime.now
        observer(
            .attempt(
                lane.route, deviceToken: envelope.deviceToken, verdict, waited: start - clock, took: end - start))
        if verdict.ruling.mayHaveReachedProvider { parcel.reach = .asked }
        let effect = note(verdict, of: parcel, envelope, at: lane, wasProbe: admission == .probe)
        switch effect {
        case .none: lane.window.gaveUp()
        case .works: lane.window.ended(latency: end - start, isOverload: false, now: end)
        case .strained, .blocked: lane.window.ended(latency: end - start, isOverload: true, now: end)
        }
        letNextGo(at: lane)
        return verdict
    }

    /// - Returns: what the verdict says of the lane, in view of what is known.
    private func note(
        _ verdict: Verdict, of parcel: Parcel, _ envelope: Envelope, at lane: Lane, wasProbe: Bool
    ) -> Ruling.LaneEffect {
        var ruling = verdict.ruling
        if ruling.retry == .atOnce, parcel.attempts.isOutOfReplays { ruling.lane = .strained }
        // Everything on a connection fails with it, which is one event. A probe decides by itself, and a resend on another
        // connection that fails, too, is evidence against the push service.
        if ruling.retry == .onceMore, ruling.lane == .none,
            wasProbe || parcel.attempts.hasUnknownFate || lane.connectionFailures.isNew(.now)
        {
            ruling.lane = .strained
        }
        // What was under way to a device when its first refusal came says nothing new, and must not stop all others.
        if ruling.token == .paused, ruling.lane == .strained, pauses.left(envelope.deviceToken, now: .now) != nil {
            ruling.lane = .none
        }
        let before = lane.breaker.state
        lane.breaker.record(
            ruling, wish: verdict.wish, wasProbe: wasProbe, now: .now, random: Double.random(in: 0..<1))
        if lane.breaker.state != before || wasProbe, lanes[lane.route] === lane {
            observer(.breaker(lane.route, lane.breaker.state, answer: verdict.answer))
        }
        if lane.breaker.state == .open { sendAwayWaiting(at: lane) }
        if parcel.scouts === lane { comeBack(parcel) } else if !lane.held.isEmpty { sendScout(of: lane) }
        return ruling.lane
    }

    /// Remembers what the verdict says of the device token, and what the sender is told in view of what was known.
    private func learn(_ verdict: Verdict, _ parcel: Parcel, _ envelope: Envelope, from magic: Magic) -> Verdict {
        guard let lane = lanes[parcel.route] else { return verdict }
        let wasActive = lane.wave.isActive
        defer {
            if lane.wave.isActive != wasActive { observer(.wave(lane.route, isActive: lane.wave.isActive)) }
        }
        let (app, token) = (parcel.route.app, envelope.deviceToken)
        switch verdict.ruling.token {
        case .none: break
        case .accepted:
            let home = magic == parcel.route.magic ? nil : magic
            tokens[app, default: TokenMemory(capacity: tokensOfAnApp)].accepted(
                token, by: home, at: UInt64(max(0, now())) * 1000)
            collapses.accepted(envelope, parcel.sequence)
            pauses.end(token)
            lane.wave.accepted(.now)
            if home != nil {
                var told = verdict
                told.outcome.text = "the device token is of Apple's other environment: pair anew to have this put right"
                return told
            }
        case .paused:
            pauses.pause(
                token, seconds: verdict.outcome.retryAfter / 1000, now: .now, random: Double.random(in: 0..<1))
        case .unknownHere, .foreign:
            let isNews = tokens[app, default: TokenMemory(capacity: tokensOfAnApp)].refused(token)
            // While it lasts those who come back count as well: else it would end for want of news.
            if isNews || lane.wave.isActive { lane.wave.refused(.now, isProven: parcel.origin.isProven) }
            if lane.wave.isActive, !parcel.origin.isProven { observer(.suspected(parcel.origin.circuit)) }
            if lane.wave.isActive {
                // What is said during a wave counts for nothing.
                parcel.search.reset()
                return .duringWave(verdict)
            }
        case .gone:
            // Apple's time is when it last found the token dead: one that was good later has come back to life. It is
            // asked once more.
            if let since = verdict.outcome.goneSince,
                tokens[app, default: TokenMemory(capacity: tokensOfAnApp)].contradicts(token, goneSince: since)
            {
                return .contradicted(verdict)
            }
            if lane.wave.isActive {
                if !parcel.origin.isProven { observer(.suspected(parcel.origin.circuit)) }
                return .duringWave(verdict)
            }
        }
        return verdict
    }

    func finish(_ parcel: Parcel, _ outcome: Outcome) {
        guard parcels[parcel.digest] === parcel else { return }
        if parcel.isRecovered, let envelope = parcel.envelope {
            observer(.recovered(envelope, app: parcel.route.app, outcome))
        }
        if let row = parcel.row {
            let keepUntil = ReplayWindow.isRepeated(outcome) ? now() + Int64(limits.replaySeconds) : nil
            spool?.finish(id: row, digest: parcel.digest, outcome: outcome, keepUntil: keepUntil)
        }
        if parcel.envelope != nil { leaveMemory(parcel) }
        end(parcel, outcome)
        if !due.isEmpty { loadDue() }
    }

    /// The parcel is done with.
    func end(_ parcel: Parcel, _ outcome: Outcome) {
        window.finished(parcel.digest, parcel.route.magic, parcel.pair, outcome, now: .now)
        parcels[parcel.digest] = nil
        observer(.finished(parcel.route, outcome))
        parcel.tell(outcome)
        comeBack(parcel)
    }

    /// Its envelope is let go of.
    func leaveMemory(_ parcel: Parcel) {
        parcel.envelope = nil
        inFlight -= 1
        if parcel.isLoaded {
            parcel.isLoaded = false
            loadedRows -= 1
        }
        comeBack(parcel)
    }

    /// Whether it went ahead for a lane or not, it does no longer: another may.
    private func comeBack(_ parcel: Parcel) {
        guard let lane = parcel.scouts else { return }
        parcel.scouts = nil
        lane.scout = nil
        sendScout(of: lane)
    }

    // MARK: Turns

    /// Waits until it is the parcel's turn at the lane.
    /// - Returns: false where it has been sent away.
    private func turn(of parcel: Parcel, _ envelope: Envelope, at lane: Lane) async -> Bool {
        if lane.queue.isEmpty, lane.window.hasRoom {
            lane.window.began()
            return true
        }
        // By the monotonic clock: the other one may be put right while somebody waits.
        let patience = max(1, limits.retry.patience.components.seconds)
        let expiresAt: Int64 =
            switch parcel.expiry {
            case .nowOrNever: Self.second + patience
            case .at(let time): Self.second + min(max(0, time - now()), patience)
            }
        let isItsTurn = await withUnsafeContinuation { continuation in
            lane.queue.append(
                continuation, flow: parcel.origin.circuit.rawValue, band: parcel.origin.band,
                cost: envelope.ciphertext.count + Self.costOfARequest, expiresAt: expiresAt)
        }
        if !isItsTurn {
            leaving -= 1
            lane.leaving -= 1
        }
        return isItsTurn
    }

    private func letNextGo(at lane: Lane) {
        while lane.window.hasRoom, let next = lane.queue.popFirst() {
            lane.window.began()
            next.resume(returning: true)
        }
    }

    /// Sends away who has waited for as long as it may. To be called each second.
    public nonisolated func endWaits() {
        assumeIsolated { dispatch in
            dispatch.endShortage()
            let second = Self.second
            for lane in dispatch.lanes.values where !lane.queue.isEmpty {
                for waiting in lane.queue.removeExpired(at: second) { dispatch.sendAway(waiting, from: lane) }
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
        sendAway(victim, from: lane)
        return true
    }

    private func sendAwayWaiting(at lane: Lane) {
        for waiting in lane.queue.removeAll() { sendAway(waiting, from: lane) }
    }

    private func sendAway(_ waiting: Lane.Waiting, from lane: Lane) {
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
