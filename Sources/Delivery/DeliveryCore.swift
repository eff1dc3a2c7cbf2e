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
/// ``AttemptHistory``, ``Breaker``, ``DevicePauses``, ``TokenHistory``, ``TokenRefusalSurge``, ``ReplayWindow``,
/// ``CollapseOrder``, ``EnvironmentSearch``.
struct DeliveryCore: ~Copyable {
    /// A pause between two attempts.
    struct Pause: Comparable {
        let until: MonotonicTime
        let sequence: UInt64
        let envelope: PendingEnvelope

        static func < (one: Self, other: Self) -> Bool { (one.until, one.sequence) < (other.until, other.sequence) }
        static func == (one: Self, other: Self) -> Bool { (one.until, one.sequence) == (other.until, other.sequence) }
    }

    private(set) var limits: DispatchLimits
    /// What to do, in this order.
    var actions: Deque<DeliveryAction> = []
    private var random: any RandomNumberGenerator

    private(set) var routes = RouteTable()
    /// The push servers of Web Push that have a lane, by app; `nil` if Web Push has one lane.
    private var origins: [OriginLanes?] = []
    /// The lane of each route; `nil` if the route is not served.
    var lanes: [Lane?] = []
    /// Number of envelopes of each route in memory.
    var inFlightByRoute: [Int] = []
    /// Number of envelopes of each app in memory that go to push servers.
    var webInFlight: [Int] = []
    private var lastGeneration = 0

    /// Every envelope without a final outcome, in memory or in the spool; excludes rows of the spool that this process
    /// has not read yet.
    var envelopes = Slab<PendingEnvelope>()
    var byDigest: [Digest256: PendingEnvelope] = [:]
    /// Number of pending envelopes in memory.
    private(set) var inFlight = 0
    var window: ReplayWindow
    var pauses: DevicePauses
    /// Histories of device tokens by app, because a device token of one app is invalid for another. Together they hold
    /// up to `limits.replayEntries` tokens.
    var tokens: [TokenHistory?] = []
    var tokensPerApp = 0
    var collapses: CollapseOrder
    /// The sequence number of the last accepted envelope. It starts above every row id of a spool, so that envelopes of
    /// an earlier process have lower numbers than those of this process.
    private var sequence: UInt64 = 1 << 63
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

    /// Envelopes that a queue has rejected during this event.
    var rejected: Deque<(envelope: PendingEnvelope, route: RouteTable.Number, lane: Int)> = []
    /// Routes whose window may have room for the next envelope of the queue.
    var released: [RouteTable.Number] = []

    /// From this length on, a stored envelope waits in the spool during a pause, and takes no memory.
    static let longestInMemory = Duration.seconds(2)
    /// Retry-after while the node is busy or shutting down, in milliseconds.
    static let busyRetry: UInt32 = 1000
    static let busy = Outcome.retry(.nodeBusy, after: busyRetry)
    /// Approximate bytes of a request without the ciphertext: part of an envelope's cost in the fair queue.
    static let requestOverhead = 512

    init(limits: DispatchLimits, random: any RandomNumberGenerator) {
        self.limits = limits
        self.random = random
        window = ReplayWindow(length: .seconds(limits.replaySeconds), capacity: limits.outcomes)
        pauses = DevicePauses(capacity: limits.replayEntries)
        collapses = CollapseOrder(capacity: limits.replayEntries)
    }

    // MARK: Actions

    /// When to call ``timeReached(_:)``, unless another event comes first; `nil` if never.
    var nextWake: MonotonicTime? {
        guard let pause = paused.min?.until else { return schedule.nextLoad }
        return schedule.nextLoad.map { min($0, pause) } ?? pause
    }

    mutating func draw() -> Double { Double.random(in: 0..<1, using: &random) }

    // MARK: Routes

    /// Adds the routes of an app if it is new.
    private mutating func add(app: String) {
        routes.add(app: app)
        while lanes.count < routes.routes.count {
            lanes.append(nil)
            inFlightByRoute.append(0)
        }
        while tokens.count <= routes.app(of: routes.routes.count - 1) {
            tokens.append(nil)
            origins.append(nil)
            webInFlight.append(0)
        }
    }

    /// The route of an envelope; for Web Push, that of its push server's lane, or the first if the server has no lane.
    mutating func route(of envelope: Envelope, app: String, at now: ClockReading) -> RouteTable.Number {
        add(app: app)
        let platform = platform(of: envelope, app: app)
        if platform == .web, case .found(let route) = webRoute(of: envelope, app: app, at: now.monotonic) {
            return route
        }
        return routes.number(app: app, magic: platform) ?? 0
    }

    /// The platform that delivers an envelope: Web Push also for a push endpoint under the magic `android`, as long as this
    /// node itself delivers to the app's push servers (PROTOCOL §15). An upstream node decides for itself.
    func platform(of envelope: Envelope, app: String) -> Magic {
        guard envelope.magic == .android, envelope.isForPushEndpoint, let first = routes.number(app: app, magic: .web),
            lanes[first] != nil, origins[routes.app(of: first)] != nil
        else { return envelope.magic }
        return .web
    }

    /// What serves an envelope of Web Push.
    enum Service {
        case found(RouteTable.Number)
        case notConfigured
        /// All lanes of Web Push carry envelopes of other push servers.
        case noLane
    }

    /// The route of the lane that serves the push server of an envelope.
    mutating func webRoute(of envelope: Envelope, app: String, at now: MonotonicTime) -> Service {
        // The first lane exists as long as the route is served.
        guard let first = routes.number(app: app, magic: .web), lanes[first] != nil,
            let endpoint = try? PushEndpoint(envelope.deviceToken)
        else { return .notConfigured }
        let (inFlight, lanes) = (inFlightByRoute, lanes)
        let lane = origins[routes.app(of: first)]?.lane(of: endpoint.origin) { index in
            if inFlight[first + index] > 0 { return .busy }
            let holds = lanes[first + index].map { !$0.heldRows.isEmpty || $0.probeRow != nil } ?? false
            return holds ? .holding : .idle
        }
        switch lane {
        case nil: return .found(first)
        case .kept(let lane): return .found(first + lane)
        case .noneFree: return .noLane
        case .new(let lane):
            close(first + lane, now)
            open(first + lane, now)
            return .found(first + lane)
        }
    }

    /// Serves these routes from now on. A route that is listed as replaced gets a new lane; a route that is not listed
    /// is no longer served.
    /// - Parameter pushServers: by app, the push servers that the operator has named, if each has a lane of its own.
    mutating func serve(
        _ served: [Route], replacing replaced: Set<Route>, pushServers: [String: Set<String>], limits: DispatchLimits,
        at now: ClockReading
    ) {
        self.limits = limits
        var current: Set<RouteTable.Number> = []
        for route in served {
            add(app: route.app)
            if !replaced.contains(route) { current.formUnion(routes.numbers(app: route.app, magic: route.magic)) }
        }
        let former = Set(lanes.indices.filter { lanes[$0] != nil })
        for number in former where !current.contains(number) { close(number, now.monotonic) }
        for route in served {
            let numbers = routes.numbers(app: route.app, magic: route.magic)
            guard let first = numbers.first, lanes[first] == nil else { continue }
            // A push server that had a lane gets a new one: envelopes refer to it.
            for number in numbers where number == first || former.contains(number) { open(number, now.monotonic) }
            actions.append(.observe(.serving(route)))
        }
        for route in served where route.magic == .web {
            guard let first = routes.number(app: route.app, magic: .web) else { continue }
            // Unless it was replaced, the same servers keep their lanes.
            guard replaced.contains(route) || !former.contains(first) else { continue }
            origins[routes.app(of: first)] = pushServers[route.app].map {
                OriginLanes(count: RouteTable.webLanes, named: $0)
            }
        }
        for number in lanes.indices { lanes[number]?.window.range = Lane.range(limits.concurrency) }
        tokensPerApp = limits.replayEntries / max(1, Set(served.map(\.app)).count)
        settle(now)
    }

    private mutating func open(_ route: RouteTable.Number, _ now: MonotonicTime) {
        lastGeneration += 1
        lanes[route] = Lane(generation: lastGeneration, concurrency: limits.concurrency, now: now)
    }

    private mutating func close(_ route: RouteTable.Number, _ now: MonotonicTime) {
        guard let lane = lanes[route] else { return }
        lanes[route] = nil
        if let row = lane.probeRow { lane.heldRows.append(row) }
        for row in lane.heldRows { schedule.add(row, at: now) }
        for waiting in lane.queue.removeAll() { rejected.append((waiting, route, lane.generation)) }
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
        let platform = platform(of: envelope, app: app)
        guard var route = routes.number(app: app, magic: platform), var lane = lanes[route] else {
            return .refused(.rejected(.platformNotConfigured))
        }
        guard !isDraining else { return .refused(.retry(.shuttingDown, after: Self.busyRetry)) }
        if byDigest[envelope.digest] != nil || window.outcome(of: envelope, now: now) != nil { return .resend }
        if let refusal = check(envelope, route) { return .refused(refusal) }
        if platform == .web {
            // Only now: a push server that the node does not deliver to must take no lane.
            guard case .found(let own) = webRoute(of: envelope, app: app, at: now), let ownLane = lanes[own] else {
                return .refused(Self.busy)
            }
            (route, lane) = (own, ownLane)
        }
        guard let held = lane.breaker.arrivalRefusal(now) else { return .new(route) }
        guard willStore(envelope, acceptsQueued) else {
            return .refused(AttemptResult.heldBack(held.reason, for: held.retryAfter, "breaker-open").outcome)
        }
        return .seconds(Int64(envelope.ttl)) <= held.retryAfter ? .refused(.rejected(.ttlRanOut)) : .new(route)
    }

    /// The hops of a pending envelope in memory; `nil` if there is none with this digest.
    func hops(ofPending digest: Digest256) -> UInt8? { byDigest[digest]?.envelope?.hops }

    /// Reports the outcome of a resend, at once or as soon as the outcome is known.
    mutating func repeatOutcome(
        of envelope: Envelope, to reply: Reply, isWanted: (Reply) -> Bool, at now: MonotonicTime
    ) {
        if let pending = byDigest[envelope.digest] {
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
            for: origin.circuit.rawValue, band: origin.band, now: now.seconds)
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
        guard let pair = window.claim(envelope, token, now: clock) else { return tell(reply, .rejected(.ivReused)) }
        let isToBeStored = willStore(envelope, reply.acceptsQueued)
        guard isToBeStored ? canStore : hasRoom(for: route) || makeRoom(on: route, for: origin, clock) else {
            window.finished(envelope.digest, envelope.magic, pair, Self.busy, now: clock)
            return tell(reply, Self.busy, .noCapacity)
        }
        sequence += 1
        let pending = PendingEnvelope(
            envelope, token: token, route: route, format: format, origin: origin,
            expiry: Expiry(ttl: envelope.ttl, takenAt: now.unix), taken: clock, sequence: sequence, pair: pair)
        pending.handle = envelopes.insert(pending)
        pending.attach(reply, isWanted: { _ in true }, &actions)
        byDigest[envelope.digest] = pending
        inFlight += 1
        if isToBeStored {
            pending.isToBeStored = true
            schedule.storing += 1
        }
        claimAndBegin(pending, now)
        settle(now)
    }

    /// Begins with an envelope that is in memory and claimed: stores it, looks it up, or delivers it.
    mutating func begin(_ pending: PendingEnvelope, _ now: ClockReading) {
        if pending.isToBeStored {
            pending.phase = .storing
            actions.append(.store(pending))
        } else if pending.row == nil, schedule.mayHoldResends(at: now.monotonic) {
            pending.phase = .lookingUp
            actions.append(.lookUp(pending))
        } else {
            deliver(pending, now)
        }
    }

    /// Whether memory has room for one more envelope of this route. A lane may hold only as many envelopes as it leaves
    /// free for other lanes, so that a hanging lane cannot take all the room. The push servers of an app are one lane to
    /// Apple and Google, and share its room: those that the operator has not named leave some to the named ones.
    func hasRoom(for route: RouteTable.Number) -> Bool {
        let left = limits.totalInFlight - (inFlight - schedule.storing - rejected.count)
        guard left > 0 else { return false }
        let app = routes.app(of: route)
        guard routes.routes[route].magic == .web, let servers = origins[app] else {
            return inFlightByRoute[route] <= left
        }
        let isNamed = servers.isNamed(
            route - (routes.numbers(app: routes.routes[route].app, magic: .web).first ?? route))
        return inFlightByRoute[route] + webInFlight[app] * (isNamed ? 1 : 2) <= left
    }

    /// Counts an envelope that begins or ends to use a lane.
    mutating func countInFlight(on route: RouteTable.Number, _ change: Int) {
        inFlightByRoute[route] += change
        if routes.routes[route].magic == .web { webInFlight[routes.app(of: route)] += change }
    }

    /// Evicts an envelope from a queue for a new one, if the queue's fairness allows that.
    private mutating func makeRoom(on route: RouteTable.Number, for origin: Origin, _ now: MonotonicTime) -> Bool {
        guard let lane = lanes[route],
            let victim = lane.queue.makeRoom(for: origin.circuit.rawValue, band: origin.band, now: now.seconds)
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

    /// Handles the time that ``nextWake`` named.
    mutating func timeReached(_ now: ClockReading) {
        while let first = paused.min, first.until <= now.monotonic {
            paused.removeMin()
            wake(first, now)
        }
        settle(now)
    }

    private mutating func wake(_ pause: Pause, _ now: ClockReading) {
        guard pause.envelope.phase == .paused(until: pause.until) else { return }
        pause.envelope.phase = .active
        if usesClaims, !pause.envelope.isClaimed { return claimAgain(pause.envelope, now) }
        // A stored envelope is claimed again when it is loaded.
        if pause.envelope.row != nil, !holdsClaim(pause.envelope, now) {
            return park(pause.envelope, for: .zero, Self.busy, now)
        }
        advance(pause.envelope, now)
    }

    /// Rejects envelopes that have waited in a queue for too long, and checks whether a full spool has room again. Call
    /// this once a second.
    /// - Parameter shortage: why the spool is full, as it reports itself.
    mutating func secondPassed(spoolShortage shortage: @autoclosure () -> SpoolShortage?, at now: ClockReading) {
        if schedule.shortage != nil { updateShortage(shortage()) }
        for route in lanes.indices {
            guard let lane = lanes[route], !lane.queue.isEmpty else { continue }
            for waiting in lane.queue.removeExpired(at: now.monotonic.seconds) {
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
        for route in lanes.indices { rejectWaiting(on: route) }
        settle(now)
    }

    // MARK: Ending

    /// Ends an envelope with its final outcome.
    mutating func finish(_ pending: PendingEnvelope, _ outcome: Outcome, _ now: ClockReading) {
        if pending.isRecovered { reportRecovered(pending, outcome) }
        if let row = pending.row {
            let keepUntil = outcome.isRepeated ? dates.wall(now.unix) + Int64(limits.replaySeconds) : nil
            actions.append(.erase(row: row, pending.digest, outcome, keepUntil: keepUntil))
        }
        if pending.isInMemory { leaveMemory(pending, now) }
        end(pending, outcome, now)
    }

    /// Reports the outcome of an envelope that this process has not accepted.
    mutating func reportRecovered(_ pending: PendingEnvelope, _ outcome: Outcome) {
        guard let envelope = pending.envelope else { return }
        actions.append(.observe(.recovered(envelope, app: routes.routes[pending.route].app, outcome)))
    }

    /// Reports the final outcome and forgets the pending envelope.
    /// - Parameter isRemembered: whether a resend gets the outcome, if it would not change it.
    mutating func end(
        _ pending: PendingEnvelope, _ outcome: Outcome, isRemembered: Bool = true, _ now: ClockReading
    ) {
        endProbe(pending, now)
        guard envelopes.remove(pending.handle) != nil else { return }
        window.finished(
            pending.digest, routes.routes[pending.route].magic, pending.pair, isRemembered ? outcome : Self.busy,
            now: now.monotonic)
        byDigest[pending.digest] = nil
        pending.finish(outcome, &actions)
    }

    /// Releases the envelope's memory.
    mutating func leaveMemory(_ pending: PendingEnvelope, _ now: ClockReading) {
        pending.envelope = nil
        inFlight -= 1
        if pending.isDelivering {
            pending.isDelivering = false
            countInFlight(on: pending.route, -1)
        }
        if pending.isLoaded {
            pending.isLoaded = false
            schedule.loadedRows -= 1
        }
        endProbe(pending, now)
    }

    /// Counts an envelope whose content has been read back from the spool.
    mutating func enterMemory(_ pending: PendingEnvelope, _ envelope: Envelope) {
        pending.envelope = envelope
        pending.isLoaded = true
        inFlight += 1
        schedule.loadedRows += 1
    }

    /// Handles what an event has left to do: envelopes that left a queue, room in windows, and room in memory.
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
        loadDue(now)
    }

    /// Seconds that an envelope may wait in a queue.
    var patience: Int64 { max(1, limits.retry.patience.wholeSeconds) }

    /// How long the oldest envelope in the queue has waited, estimated from the next expiry: an envelope with a ttl
    /// shorter than the node's patience seems older than it is.
    func longestWait(at lane: Lane, _ now: MonotonicTime) -> Duration {
        guard let expiry = lane.queue.nextExpiry() else { return .zero }
        return .seconds(max(0, patience - (expiry - now.seconds)))
    }
}

extension MonotonicTime {
    /// Whole seconds, as the fair queue counts time.
    var seconds: Int64 { Int64(nanoseconds / 1_000_000_000) }
}
