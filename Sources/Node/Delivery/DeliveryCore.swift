// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import HeapModule
import Providers
import TNP
import Tables
import Time

/// Decides what happens to each accepted envelope until it has an outcome: its attempts and the pauses between them, the
/// breakers, the detection of resends, and the schedule of the spool. Each envelope gets exactly one final outcome.
///
/// Pure: events, time and randomness go in, and ``actions`` says what to do. After each event, take and perform the
/// actions, and call ``timeReached(_:)`` at ``nextWake``. The details are value types of their own:
/// ``PendingTable``, ``LaneTable``, ``DeviceKnowledge``, ``ReplayWindow``, ``SpoolSchedule``, and for each envelope
/// ``Custody``, ``EnvelopeClaim``, ``AttemptHistory``, ``EnvironmentSearch`` and ``ReplyList``.
struct DeliveryCore: ~Copyable {
    /// A pause between two attempts or two claims.
    struct Pause: Comparable {
        let until: MonotonicTime
        let sequence: UInt64
        let envelope: PendingEnvelope

        static func < (one: Self, other: Self) -> Bool {
            (one.until, one.sequence) < (other.until, other.sequence)
        }
        static func == (one: Self, other: Self) -> Bool {
            (one.until, one.sequence) == (other.until, other.sequence)
        }
    }

    private(set) var limits: DispatchLimits
    /// What to do, in this order.
    var actions: Deque<DeliveryAction> = []
    var random: any RandomNumberGenerator

    var lanes: LaneTable

    var envelopes = PendingTable()
    /// Number of pending envelopes in memory.
    private(set) var inFlight = 0
    var window: ReplayWindow
    var devices: DeviceKnowledge
    /// The sequence number of the last accepted envelope.
    private var sequence: UInt64 = 0
    var paused = Heap<Pause>()
    private(set) var isDraining = false
    /// Whether each envelope must be claimed before its first attempt, because other nodes may have it.
    var usesClaims = false
    /// For how long this node's claims hold.
    var lease = ClaimLease()

    /// The schedule of the spool.
    var schedule = SpoolSchedule()
    /// The dates of stored envelopes. All other times are those of ``ExpiryClock``.
    var dates = StoredDates()

    /// Envelopes that have left a queue during this event without an attempt.
    var rejected: Deque<(envelope: PendingEnvelope, route: RouteTable.Number, lane: Int)> = []
    /// Routes whose window may have room for the next envelope of the queue.
    var released: [RouteTable.Number] = []

    /// A stored envelope whose pause is at least this long waits in the spool, and takes no memory.
    static let maximumPauseInMemory = Duration.seconds(2)
    /// Retry-after while the node is busy or shutting down, in milliseconds.
    static let busyRetry: UInt32 = 1000
    static let busy = Outcome.retry(.nodeBusy, after: busyRetry)
    /// Approximate bytes of a request without the ciphertext: part of an envelope's cost in the fair queue.
    static let requestOverhead = 512

    init(limits: DispatchLimits, random: any RandomNumberGenerator) {
        self.limits = limits
        self.random = random
        window = ReplayWindow(length: .seconds(limits.replaySeconds), capacity: limits.outcomes)
        devices = DeviceKnowledge(capacity: limits.replayEntries)
        lanes = LaneTable(concurrency: limits.concurrency)
    }

    // MARK: Actions

    /// When to call ``timeReached(_:)``, unless another event comes first; `nil` if never.
    var nextWake: MonotonicTime? {
        Self.earlier(paused.min?.until, Self.earlier(schedule.nextLoad, schedule.nextStore))
    }

    private static func earlier(_ one: MonotonicTime?, _ other: MonotonicTime?) -> MonotonicTime? {
        guard let one, let other else { return one ?? other }
        return min(one, other)
    }

    mutating func draw() -> Double { Double.random(in: 0..<1, using: &random) }

    // MARK: Routes

    /// The route of an envelope that an earlier process or another node has accepted; adds its app if it is new.
    mutating func route(of envelope: Envelope, app: String, at now: ClockReading) -> RouteTable.Number {
        lanes.add(app: app)
        guard let first = lanes.firstRoute(of: envelope, app: app) else { return 0 }
        if case .found(let route, _) = apply(lanes.choose(for: envelope, from: first, at: now.monotonic), now.monotonic)
        {
            return route
        }
        return first
    }

    /// Serves these routes from now on. A route that is listed as replaced gets a new lane; a route that is not listed
    /// is no longer served.
    /// - Parameter namedServers: by app, the push servers that the operator has named, if each has a lane of its own.
    mutating func serve(
        _ served: [Route], replacing replaced: Set<Route>, namedServers: [String: Set<String>], limits: DispatchLimits,
        at now: ClockReading
    ) {
        self.limits = limits
        let (closed, opened) = lanes.serve(
            served, replacing: replaced, namedServers: namedServers, concurrency: limits.concurrency,
            at: now.monotonic)
        for lane in closed { requeue(lane, now.monotonic) }
        for route in opened { actions.append(.observe(.serving(route))) }
        devices.divide(among: Set(served.compactMap { lanes.routes.app(named: $0.app) }))
        settle(now)
    }

    /// Requeues the envelopes and rows of the lane that the choice has closed, if any.
    /// - Returns: the choice.
    mutating func apply(_ choice: LaneTable.Choice, _ now: MonotonicTime) -> LaneTable.Choice {
        if case .found(_, let closed?) = choice { requeue(closed, now) }
        return choice
    }

    private mutating func requeue(_ closed: LaneTable.Closed, _ now: MonotonicTime) {
        let lane = closed.lane
        if let row = lane.probeRow { lane.heldRows.append(row) }
        for row in lane.heldRows { schedule.add(row, at: now) }
        for waiting in lane.queue.removeAll() { rejected.append((waiting, closed.route, lane.generation)) }
    }

    // MARK: Accepting

    /// What the node knows about an envelope that has just arrived.
    enum Arrival {
        /// An envelope with the same digest is pending, or its outcome is remembered: call ``repeatOutcome(of:to:at:)``.
        case resend
        /// The node refuses every envelope like this one, whatever its device token.
        case refused(Outcome)
        /// The envelope is new, and this route serves it.
        case new(RouteTable.Number)
    }

    /// Finds out whether an envelope is a resend or must be refused for reasons that do not depend on its device token.
    /// - Parameters:
    ///   - app: the name of its app.
    ///   - acceptsQueued: whether the sender accepts QUEUED, so that the envelope may be stored and wait for the breaker
    ///     to close.
    ///   - check: checks the size of an envelope's payload on a route.
    mutating func arrival(
        of envelope: Envelope, app: String, acceptsQueued: Bool, at now: MonotonicTime,
        check: (Envelope, RouteTable.Number) -> Outcome?
    ) -> Arrival {
        if envelopes[envelope.digest] != nil || window.outcome(of: envelope, now: now) != nil { return .resend }
        guard let first = lanes.firstRoute(of: envelope, app: app), lanes[first] != nil else {
            return .refused(.rejected(.platformNotConfigured))
        }
        guard !isDraining else { return .refused(.retry(.shuttingDown, after: Self.busyRetry)) }
        if let refusal = check(envelope, first) { return .refused(refusal) }
        // Only now: a server that the node does not deliver to must take no lane.
        guard case .found(let route, _) = apply(lanes.choose(for: envelope, from: first, at: now), now),
            let lane = lanes[route]
        else { return .refused(Self.busy) }
        guard let held = lane.breaker.arrivalRefusal(now) else { return .new(route) }
        guard willStore(envelope, acceptsQueued) else {
            return .refused(AttemptResult.heldBack(held.reason, for: held.retryAfter, "breaker-open").outcome)
        }
        return .seconds(Int64(envelope.ttl)) <= held.retryAfter ? .refused(.rejected(.ttlRanOut)) : .new(route)
    }

    /// The lowest sequence number of an envelope accepted at this time: two of the same time have two numbers. It is above
    /// every row id of a spool, so that envelopes of an earlier process have lower numbers than those of this process.
    static func sequence(at time: MonotonicTime) -> UInt64 { 1 << 63 | time.nanoseconds }

    /// The hops of a pending envelope in memory; `nil` if there is none with this digest.
    func hops(ofPending digest: Digest256) -> UInt8? { envelopes[digest]?.custody.envelope?.hops }

    /// Reports the outcome of a resend, at once or as soon as the outcome is known.
    mutating func repeatOutcome(
        of envelope: Envelope, to reply: Reply, isWanted: (Reply) -> Bool, at now: MonotonicTime
    ) {
        if let pending = envelopes[envelope.digest] {
            return pending.attach(reply, isWanted: isWanted, &actions)
        }
        // The remembered outcome may just have expired: the next resend is then a new envelope.
        tell(reply, window.outcome(of: envelope, now: now) ?? Self.busy)
    }

    private mutating func tell(
        _ reply: Reply, _ outcome: Outcome, _ contact: ProviderContact = .notContacted
    ) { actions.append(.tell(reply, outcome, contact)) }

    /// The refusal if there is no room for an envelope of this origin, not even by evicting another from the queue;
    /// `nil` if there is room.
    mutating func capacityRefusal(
        of envelope: Envelope, on route: RouteTable.Number, acceptsQueued: Bool, from origin: Origin,
        at now: MonotonicTime
    ) -> Outcome? {
        if let wait = waitForReplayWindow(now) { return .retry(.nodeBusy, after: wait) }
        if willStore(envelope, acceptsQueued) {
            if isFull { noteShortage(.envelopes) }
            if schedule.shortage != nil { return Self.spoolIsFull }
            return canStore ? nil : Self.busy
        }
        if hasRoom(for: route) { return nil }
        let makesRoom = lanes[route]?.queue.canMakeRoom(
            for: origin.circuit.rawValue, band: origin.band, now: now.wholeSeconds)
        return makesRoom == true ? nil : Self.busy
    }

    /// Milliseconds until the replay window has room for one more outcome; `nil` if it has room now. No outcome is
    /// evicted early.
    func waitForReplayWindow(_ now: MonotonicTime) -> UInt32? {
        window.count + envelopes.count + schedule.unreadRows < window.capacity ? nil : window.nextFree(now: now)
    }

    private func willStore(_ envelope: Envelope, _ acceptsQueued: Bool) -> Bool {
        acceptsQueued && schedule.isOpen && envelope.ttl > 0
    }

    /// Accepts an envelope that is not a resend, or refuses it. The reply receives exactly one final outcome.
    /// - Parameters:
    ///   - route: from ``arrival(of:app:acceptsQueued:at:check:)``, in the same turn of the loop.
    ///   - format: the envelope format of its app.
    ///   - origin: determines the envelope's share of a lane under load.
    mutating func submit(
        _ envelope: Envelope, on route: RouteTable.Number, format: EnvelopeFormat, from origin: Origin, _ reply: Reply,
        at now: ClockReading
    ) {
        let clock = now.monotonic
        if let wait = waitForReplayWindow(clock) { return tell(reply, .retry(.nodeBusy, after: wait), .noCapacity) }
        let token = TableKey(envelope.phone)
        guard let ivKey = window.claim(envelope, token, now: clock) else { return tell(reply, .rejected(.ivReused)) }
        let isToBeStored = willStore(envelope, reply.acceptsQueued)
        guard isToBeStored ? canStore : hasRoom(for: route) || makeRoom(on: route, for: origin, clock) else {
            window.finished(envelope.digest, envelope.magic, ivKey, Self.busy, now: clock)
            return tell(reply, Self.busy, .noCapacity)
        }
        sequence = max(sequence + 1, Self.sequence(at: clock))
        let pending = PendingEnvelope(
            envelope, token: token, route: route, format: format, origin: origin,
            expiry: Expiry(ttl: envelope.ttl, takenAt: now.unix), acceptedAt: clock, sequence: sequence, ivKey: ivKey)
        envelopes.insert(pending)
        pending.attach(reply, isWanted: { _ in true }, &actions)
        inFlight += 1
        if isToBeStored { planStore(of: pending) }
        claimAndBegin(pending, now)
        settle(now)
    }

    /// Begins with an envelope that is in memory and claimed: looks it up, delivers it or stores it.
    mutating func begin(_ pending: PendingEnvelope, _ now: ClockReading) {
        if pending.custody.row == nil, pending.replies.first != nil, schedule.mayHoldResends(at: now.monotonic) {
            pending.phase = .lookingUp
            actions.append(.lookUp(pending))
        } else {
            deliverOrStore(pending, now)
        }
    }

    /// Whether memory has room for one more envelope of this route.
    func hasRoom(for route: RouteTable.Number) -> Bool {
        lanes.hasRoom(on: route, of: limits.totalInFlight - (inFlight - schedule.storing - rejected.count))
    }

    /// Evicts an envelope from a queue for a new one, if the queue's fairness allows that.
    private mutating func makeRoom(on route: RouteTable.Number, for origin: Origin, _ now: MonotonicTime) -> Bool {
        guard let lane = lanes[route],
            let victim = lane.queue.makeRoom(for: origin.circuit.rawValue, band: origin.band, now: now.wholeSeconds)
        else { return false }
        rejected.append((victim, route, lane.generation))
        return true
    }

    /// Share of the room for envelopes in memory that is in use, from 0 to 1.
    var load: Double {
        // Excludes rows loaded from the spool: they only use spare room, and no sender waits for them.
        Double(inFlight - schedule.loadedRows) / Double(max(1, limits.totalInFlight))
    }

    // MARK: Time

    /// Resumes the envelopes whose pause has ended, and stores those that were not answered soon. Called at ``nextWake``.
    mutating func timeReached(_ now: ClockReading) {
        storeOverdue(now.monotonic)
        while let first = paused.min, first.until <= now.monotonic {
            paused.removeMin()
            wake(first, now)
        }
        settle(now)
    }

    private mutating func wake(_ pause: Pause, _ now: ClockReading) {
        guard pause.envelope.phase == .paused(until: pause.until) else { return }
        pause.envelope.phase = .active
        if usesClaims, !pause.envelope.claim.isHeld { return claimAgain(pause.envelope, now) }
        // The claim no longer holds: the envelope is parked, and claimed again when its row is read.
        if pause.envelope.custody.isForSpool, !holdsClaim(pause.envelope, now) {
            guard pause.envelope.custody.row != nil else { return waitForStore(pause.envelope) }
            return park(pause.envelope, for: .zero, Self.busy, now)
        }
        advance(pause.envelope, now)
    }

    /// Rejects envelopes that have waited in a queue for too long, and checks whether a full spool has room again. Call
    /// this once a second.
    /// - Parameter shortage: why the spool is full, as it reports itself.
    mutating func secondPassed(spoolShortage shortage: @autoclosure () -> SpoolShortage?, at now: ClockReading) {
        if schedule.shortage != nil { updateShortage(shortage()) }
        for route in lanes.numbers {
            guard let lane = lanes[route], !lane.queue.isEmpty else { continue }
            for waiting in lane.queue.removeExpired(at: now.monotonic.wholeSeconds) {
                rejected.append((waiting, route, lane.generation))
            }
        }
        settle(now)
    }

    /// Accepts no more envelopes and ends all pauses: envelopes that are not in the spool get RETRY 400, and stored
    /// envelopes stay in the spool. Attempts in flight continue.
    mutating func drain(_ now: ClockReading) {
        isDraining = true
        schedule.stopLoading()
        while let pause = paused.popMin() { wake(pause, now) }
        for route in lanes.numbers { rejectWaiting(on: route) }
        settle(now)
    }

    // MARK: Ending

    /// Ends an envelope with its final outcome.
    mutating func finish(_ pending: PendingEnvelope, _ outcome: Outcome, _ now: ClockReading) {
        if pending.replies.isRecovered { reportRecovered(pending, outcome) }
        if pending.custody.isForSpool {
            let keepUntil = outcome.isRepeated ? dates.wall(now.unix) + Int64(limits.replaySeconds) : nil
            stopStoring(pending, outcome, keepUntil: keepUntil)
            if let row = pending.custody.row {
                actions.append(.erase(row: row, pending.content.digest, outcome, keepUntil: keepUntil))
            }
        }
        if pending.custody.isInMemory { leaveMemory(pending, now) }
        complete(pending, outcome, now)
    }

    /// Reports to the observer the outcome of an envelope that an earlier process or another node accepted.
    mutating func reportRecovered(_ pending: PendingEnvelope, _ outcome: Outcome) {
        guard let envelope = pending.custody.envelope else { return }
        actions.append(.observe(.recovered(envelope, app: lanes.routes[pending.route].app, outcome)))
    }

    /// Reports the final outcome and forgets the pending envelope.
    /// - Parameter isRemembered: whether the replay window may remember the outcome; if not, a resend is a new submission.
    mutating func complete(
        _ pending: PendingEnvelope, _ outcome: Outcome, isRemembered: Bool = true, _ now: ClockReading
    ) {
        endProbe(pending, now)
        pending.phase = .active
        guard envelopes.remove(pending) else { return }
        window.finished(
            pending.content.digest, lanes.routes[pending.route].magic, pending.content.ivKey,
            isRemembered ? outcome : Self.busy,
            now: now.monotonic)
        pending.tell(outcome, &actions)
    }

    /// Releases the envelope's memory.
    mutating func leaveMemory(_ pending: PendingEnvelope, _ now: ClockReading) {
        inFlight -= 1
        count(pending, as: .none)
        if pending.custody.isLoaded { schedule.loadedRows -= 1 }
        pending.custody.leaveMemory()
        endProbe(pending, now)
    }

    /// Changes what an envelope in memory counts as.
    mutating func count(_ pending: PendingEnvelope, as use: Custody.Use) {
        switch pending.custody.use {
        case .none: break
        case .storing: schedule.storing -= 1
        case .delivering: lanes.countInMemory(on: pending.route, -1)
        }
        pending.custody.use = use
        switch use {
        case .none: break
        case .storing: schedule.storing += 1
        case .delivering: lanes.countInMemory(on: pending.route, 1)
        }
    }

    /// Puts content into memory that comes from the spool or from another node, and counts it.
    mutating func enterMemory(_ pending: PendingEnvelope, _ envelope: Envelope) {
        pending.custody.load(envelope)
        inFlight += 1
        schedule.loadedRows += 1
    }

    /// Does what an event makes possible: continues envelopes that left a queue, begins attempts for which windows have
    /// room, and reads due rows for which memory has room.
    mutating func settle(_ now: ClockReading) {
        while true {
            if let (pending, route, generation) = rejected.popFirst() {
                continueRejected(pending, route, generation, now)
            } else if let route = released.last {
                guard let lane = lanes[route], lane.window.hasRoom, let next = lane.queue.popFirst() else {
                    released.removeLast()
                    continue
                }
                guard case .queued(let since) = next.phase else { continue }
                start(next, at: lane, route, queued: since, now)
            } else {
                break
            }
        }
        schedule.removeEndedPlans()
        loadDue(now)
    }

    /// Seconds that an envelope may wait in a queue.
    var patience: Int64 { max(1, limits.retry.patience.wholeSeconds) }

    /// How long the oldest envelope in the queue has waited, estimated from the next expiry: an envelope with a ttl
    /// shorter than the node's patience seems older than it is.
    func maximumWait(at lane: Lane, _ now: MonotonicTime) -> Duration {
        guard let expiry = lane.queue.nextExpiry() else { return .zero }
        return .seconds(max(0, patience - (expiry - now.wholeSeconds)))
    }
}
