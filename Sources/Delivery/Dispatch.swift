import Cryptography
import EventLoop
import HeapModule
import Providers
import TNP

/// Owns what has been taken until it has an outcome: the attempts and the pauses between them, the breakers, the
/// duplicates, and what lies in the spool. Each envelope gets exactly one final outcome.
///
/// The decisions are value types (``Attempts``, ``Breaker``, ``DevicePauses``, ``TokenMemory``, ``RefusalWave``,
/// ``ReplayWindow``, ``CollapseOrder``); this performs them.
public actor Dispatch {
    /// Providers that go from one actor of the loop to another.
    public struct Providers: @unchecked Sendable {
        // Unchecked: made, passed and used on one loop's thread.
        let byRoute: [Route: any Provider]

        /// - Parameter byRoute: who serves which route.
        public init(_ byRoute: [Route: any Provider]) { self.byRoute = byRoute }
    }

    private nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private var lanes: [Route: Lane] = [:]
    private var limits: DispatchLimits
    private let observer: @Sendable (DispatchEvent) -> Void
    private let now: @Sendable () -> Int64

    /// Everything without a final outcome, in memory or in the spool, as far as this process knows it.
    private var parcels: [Digest256: Parcel] = [:]
    /// Of them, those whose envelope is in memory.
    public private(set) var inFlight = 0
    private var window: ReplayWindow
    private var pauses: DevicePauses
    private var tokens: TokenMemory
    private var collapses: CollapseOrder
    private var sequence: UInt64 = 0
    private var sleepers: [ObjectIdentifier: Sleeper] = [:]
    private var isDraining = false
    /// The dispatch itself while it runs: what hangs on the loop must not be let go of on another thread.
    private var whileRunning: Dispatch?

    private var spool: Spool?
    private var due: Heap<DueRow> = []
    private var parked: [Int64: Parcel] = [:]
    private var pump: Timer?
    private var isLoading = false
    /// Until when a resend may be of what an earlier process has stored or finished.
    private var recoversUntil = MonotonicTime(nanoseconds: 0)

    /// Rows that are read from the spool at a time.
    private static let rowsPerLoad = 256
    /// A pause longer than this is spent in the spool rather than in memory, by who can.
    private static let longestInMemory = Duration.seconds(2)
    private static let pauseAfterFailedLoad = Duration.seconds(1)
    /// What senders are told to wait where there is no room.
    private static let busyRetry: UInt32 = 1000

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
        window = ReplayWindow(length: .seconds(limits.replaySeconds), capacity: limits.replayEntries)
        pauses = DevicePauses(capacity: limits.replayEntries)
        tokens = TokenMemory(capacity: limits.replayEntries)
        collapses = CollapseOrder(capacity: limits.replayEntries)
    }

    // MARK: Life cycle

    /// Starts to deliver, what lies in the spool first of all.
    /// - Throws: ``SpoolError`` where the spool cannot be read.
    public func start(_ providers: Providers, spool: Spool?) async throws {
        whileRunning = self
        serve(providers.byRoute)
        guard let spool else { return }
        self.spool = spool
        for entry in try await spool.index() {
            due.insert(DueRow(time: MonotonicTime(nanoseconds: 0), row: entry.id))
        }
        recoversUntil = .now + .seconds(limits.replaySeconds)
        pump = Timer(on: loop) { [unowned self] in assumeIsolated { $0.loadDue() } }
        loadDue()
    }

    /// Takes other providers in the place of the present ones, by route; a route without one is no longer served. What
    /// is under way at the old ones is still answered.
    public func replace(_ providers: Providers, limits: DispatchLimits) {
        self.limits = limits
        serve(providers.byRoute)
    }

    private func serve(_ providers: [Route: any Provider]) {
        for (route, lane) in lanes where providers[route] !== lane.provider {
            lane.provider.retire()
            lanes[route] = nil
        }
        for (route, provider) in providers where lanes[route] == nil {
            lanes[route] = Lane(route, provider, now: .now)
        }
    }

    /// The routes that are served, in the order of their names.
    public var routes: [Route] { lanes.keys.sorted { $0.description < $1.description } }

    /// The breaker's state of each route.
    public var breakers: [Route: Breaker.State] { lanes.mapValues(\.breaker.state) }

    /// Whether envelopes can be stored durably.
    public nonisolated var canQueue: Bool { assumeIsolated { $0.spool != nil } }

    /// Takes nothing more, and lets nothing wait for another attempt: what is not in the spool is answered RETRY 400,
    /// what is there stays there. What is under way at a provider goes on.
    public func drain() {
        isDraining = true
        pump = nil
        for sleeper in sleepers.values { sleeper.wake() }
    }

    /// Ends the connections to all providers and closes the spool; what is under way gets an outcome at once.
    public func close() async {
        drain()
        for lane in lanes.values { lane.provider.close() }
        // Attempts that have just failed are answered in this loop's next turns.
        while inFlight > 0 { await loop.sleep(for: .milliseconds(1)) }
        await spool?.close()
        spool = nil
        whileRunning = nil
    }

    // MARK: Taking

    /// Takes an envelope for an app, or says why not. The reply is told one final outcome.
    /// - Parameters:
    ///   - app: the name of its profile; the envelope's own may be empty.
    ///   - format: of that profile.
    ///   - acceptsQueued: whether QUEUED may come first, once it is stored durably.
    public nonisolated func submit(
        _ envelope: Envelope, app: String, format: EnvelopeFormat, acceptsQueued: Bool, _ reply: Reply
    ) {
        assumeIsolated { $0.take(envelope, app: app, format: format, acceptsQueued: acceptsQueued, reply) }
    }

    private func take(
        _ envelope: Envelope, app: String, format: EnvelopeFormat, acceptsQueued: Bool, _ reply: Reply
    ) {
        let route = Route(app: app, magic: envelope.magic)
        guard lanes[route] != nil else { return reply.tell(.rejected(.platformNotConfigured)) }
        guard !isDraining else { return reply.tell(.retry(.shuttingDown, after: Self.busyRetry)) }
        let clock = MonotonicTime.now
        if let parcel = parcels[envelope.digest] {
            parcel.replies.append(reply)
            if acceptsQueued, parcel.row != nil { reply.tell(Outcome(.queued)) }
            return
        }
        if let outcome = window.outcome(of: envelope, now: clock) { return reply.tell(outcome) }
        guard window.claim(envelope, now: clock) else { return reply.tell(.rejected(.ivReused)) }
        let parcel = Parcel(
            envelope, route: route, format: format, expiry: Expiry(ttl: envelope.ttl, takenAt: now()), taken: clock,
            sequence: nextSequence())
        parcel.replies = [reply]
        let isToBeStored = acceptsQueued && spool != nil && envelope.ttl > 0
        guard isToBeStored || hasRoom(for: route) else {
            window.finished(envelope, .retry(.nodeBusy, after: 0), now: clock)
            return reply.tell(.retry(.nodeBusy, after: Self.busyRetry))
        }
        parcels[parcel.digest] = parcel
        inFlight += 1
        collapses.took(envelope, parcel.sequence)
        if isToBeStored {
            Task(executorPreference: loop) { await self.store(parcel, envelope) }
        } else if clock < recoversUntil {
            Task(executorPreference: loop) { await self.recover(parcel, envelope) }
        } else {
            Task(executorPreference: loop) { await self.carry(parcel, envelope) }
        }
    }

    private func nextSequence() -> UInt64 {
        sequence += 1
        return sequence
    }

    /// No lane takes more than what it leaves to the others, so that one that hangs never takes all there is.
    private func hasRoom(for route: Route) -> Bool {
        inFlight < limits.totalInFlight && (lanes[route]?.inFlight ?? 0) <= limits.totalInFlight - inFlight
    }

    // MARK: The spool

    private func store(_ parcel: Parcel, _ envelope: Envelope) async {
        guard let spool, case .at(let expires) = parcel.expiry else { return await carry(parcel, envelope) }
        let result = await spool.store(
            SpooledEnvelope(app: parcel.route.app, format: parcel.format, envelope: envelope, expires: expires))
        switch result {
        case .stored(let row):
            parcel.row = row
            for reply in parcel.replies { reply.tell(Outcome(.queued)) }
            if hasRoom(for: parcel.route) {
                await carry(parcel, envelope)
            } else {
                park(parcel, until: .now)
            }
        case .alreadyStored(let row):
            // By an earlier process.
            for reply in parcel.replies { reply.tell(Outcome(.queued)) }
            join(parcel, row)
        case .alreadyFinal(let outcome): finish(parcel, envelope, outcome)
        case .full: finish(parcel, envelope, refusedBySpool("it is full: spool.max_bytes"))
        case .failed(let reason): finish(parcel, envelope, refusedBySpool(reason))
        }
    }

    private func refusedBySpool(_ reason: String) -> Outcome {
        observer(.spoolRefused(reason))
        return .retry(.nodeBusy, after: 60_000, text: "the node's store takes no more at present")
    }

    /// What is not to be stored may still be a resend of what an earlier process stored, or delivered.
    private func recover(_ parcel: Parcel, _ envelope: Envelope) async {
        let known: Spool.Known
        do {
            known = try await spool?.lookup(envelope.digest) ?? .nothing
        } catch {
            return finish(parcel, envelope, refusedBySpool("\(error)"))
        }
        switch known {
        case .nothing: await carry(parcel, envelope)
        case .stored(let row): join(parcel, row)
        case .final(let outcome): finish(parcel, envelope, outcome)
        }
    }

    /// The row of an earlier process is on its way through this one, or has just been loaded for this very parcel.
    private func join(_ parcel: Parcel, _ row: Int64) {
        guard parcel.row == nil else { return }
        parcel.row = row
        park(parcel, until: nil)
    }

    /// Lets go of the envelope until its time comes: the spool has it.
    /// - Parameter time: nil where the row is on the list of those to come already.
    private func park(_ parcel: Parcel, until time: MonotonicTime?) {
        guard let row = parcel.row else { return }
        parcel.envelope = nil
        inFlight -= 1
        parked[row] = parcel
        if let time { due.insert(DueRow(time: time, row: row)) }
        loadDue()
    }

    /// Brings rows whose time has come back into memory, as far as there is room.
    private func loadDue() {
        guard !isDraining, !isLoading, let spool, let pump, let next = due.min else { return }
        let clock = MonotonicTime.now
        guard next.time <= clock else { return pump.start(after: next.time - clock) }
        let room = min(Self.rowsPerLoad, limits.totalInFlight / 2 - inFlight)
        // Whoever finishes next calls again.
        guard room > 0 else { return pump.start(after: .milliseconds(100)) }
        var rows: [Int64] = []
        while rows.count < room, let first = due.min, first.time <= clock { rows.append(due.removeMin().row) }
        isLoading = true
        Task {
            await load(rows, from: spool)
            isLoading = false
            loadDue()
        }
    }

    private func load(_ rows: [Int64], from spool: Spool) async {
        do {
            let found = try await spool.load(rows)
            for (row, stored) in found { resume(row, stored) }
            if found.count < rows.count { forget(Set(rows).subtracting(found.map(\.id))) }
        } catch {
            observer(.spoolRefused("\(error)"))
            for row in rows { due.insert(DueRow(time: .now + Self.pauseAfterFailedLoad, row: row)) }
        }
    }

    private func resume(_ row: Int64, _ stored: SpooledEnvelope) {
        let envelope = stored.envelope
        // A resend may have come while the row was being read: then it is already known by its digest.
        let parcel =
            parked.removeValue(forKey: row) ?? parcels[envelope.digest]
            ?? Parcel(
                envelope, route: Route(app: stored.app, magic: envelope.magic), format: stored.format,
                expiry: .at(stored.expires), taken: .now, sequence: nextSequence())
        if parcels[parcel.digest] == nil || parcel.envelope == nil { inFlight += 1 }
        parcel.row = row
        parcel.envelope = envelope
        parcels[parcel.digest] = parcel
        _ = window.claim(envelope, now: .now)
        collapses.took(envelope, parcel.sequence)
        Task(executorPreference: loop) { await self.carry(parcel, envelope) }
    }

    /// Rows that cannot be read, or that a crash of the disk has taken.
    private func forget(_ rows: Set<Int64>) {
        observer(.spoolUnreadable(rows.count))
        for row in rows { end(row, .retry(.internalError, after: Self.busyRetry)) }
    }

    /// Rows that were removed to make room, their time being over.
    public func expired(_ rows: [Int64]) {
        for row in rows { end(row, .rejected(.ttlRanOut)) }
    }

    private func end(_ row: Int64, _ outcome: Outcome) {
        guard let parcel = parked.removeValue(forKey: row) else { return }
        parcels[parcel.digest] = nil
        observer(.finished(parcel.route, outcome))
        for reply in parcel.replies { reply.tell(outcome) }
    }

    // MARK: Delivering

    private func carry(_ parcel: Parcel, _ envelope: Envelope) async {
        guard let own = lanes[parcel.route] else {
            return finish(parcel, envelope, .rejected(.platformNotConfigured))
        }
        own.inFlight += 1
        defer { own.inFlight -= 1 }
        if parcel.home == nil { parcel.home = tokens[envelope.deviceToken].home }
        while true {
            if let outcome = ended(parcel, envelope) { return finish(parcel, envelope, outcome) }
            if isDraining, parcel.row != nil { return park(parcel, until: .now) }
            let verdict = await attempt(parcel, envelope)
            switch step(parcel, after: verdict) {
            case .finish where parcel.row != nil && verdict.outcome.kind == .retry && isDraining:
                return park(parcel, until: .now)
            case .finish: return finish(parcel, envelope, verdict.outcome)
            case .expire: return finish(parcel, envelope, .rejected(.ttlRanOut))
            case .again(let delay) where parcel.row != nil && delay > Self.longestInMemory:
                return park(parcel, until: .now + delay)
            case .again(let delay) where delay == .zero: break
            case .again(let delay):
                await sleep(delay)
                if isDraining, parcel.row == nil {
                    return finish(parcel, envelope, .retry(.shuttingDown, after: Self.busyRetry))
                }
            }
        }
    }

    /// What ends an envelope before it is tried, or tried again.
    private func ended(_ parcel: Parcel, _ envelope: Envelope) -> Outcome? {
        if parcel.expiry.hasPassed(at: now()) { return .rejected(.ttlRanOut) }
        if parcel.attempts.counted > 0 || parcel.row != nil, collapses.isReplaced(envelope, parcel.sequence) {
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
        while true {
            let route = Route(app: parcel.route.app, magic: parcel.home ?? parcel.route.magic)
            guard let lane = lanes[route] else {
                return Verdict(.rejected(.platformNotConfigured), ruling: .notSent, answer: "not-configured")
            }
            let verdict = await attempt(envelope, expiry: parcel.expiry, at: lane)
            guard verdict.ruling.token == .unknownHere, let other = route.magic.otherEnvironment,
                lanes[Route(app: route.app, magic: other)] != nil, !parcel.isUnknownElsewhere,
                !tokens[envelope.deviceToken].isRefused
            else { return learn(verdict, parcel, envelope, from: route.magic) }
            parcel.isUnknownElsewhere = true
            parcel.home = other
        }
    }

    private func attempt(_ envelope: Envelope, expiry: Expiry, at lane: Lane) async -> Verdict {
        let clock = MonotonicTime.now
        if let left = pauses.left(envelope.deviceToken, now: clock) {
            return .held(back: .providerThrottles, for: left, "device-paused")
        }
        let admission = lane.breaker.admit(clock)
        if case .refused(let reason, let after) = admission { return .held(back: reason, for: after, "breaker-open") }
        let verdict = await lane.provider.attempt(envelope, expiry: expiry)
        observer(.attempt(lane.route, envelope, verdict))
        let before = lane.breaker.state
        lane.breaker.record(
            verdict.ruling, wish: verdict.wish, wasProbe: admission == .probe, now: .now,
            random: Double.random(in: 0..<1))
        if lane.breaker.state != before || admission == .probe {
            observer(.breaker(lane.route, lane.breaker.state, answer: verdict.answer))
        }
        return verdict
    }

    /// Remembers what the verdict says of the device token, and what the sender is told in view of what was known.
    private func learn(_ verdict: Verdict, _ parcel: Parcel, _ envelope: Envelope, from magic: Magic) -> Verdict {
        guard let lane = lanes[parcel.route] else { return verdict }
        let wasActive = lane.wave.isActive
        defer {
            if lane.wave.isActive != wasActive { observer(.wave(lane.route, isActive: lane.wave.isActive)) }
        }
        let token = envelope.deviceToken
        let known = tokens[token]
        switch verdict.ruling.token {
        case .none: break
        case .accepted:
            let home = magic == parcel.route.magic ? nil : magic
            tokens.accepted(token, by: home, at: UInt64(max(0, now())) * 1000)
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
            if tokens.refused(token) { lane.wave.refused(.now) }
            if lane.wave.isActive { return .duringWave(verdict) }
        case .gone:
            // Apple's time is when it last found the token dead: one that was good later has come back to life.
            if let since = verdict.outcome.goneSince, known.accepted > since { return .contradicted(verdict) }
            if lane.wave.isActive { return .duringWave(verdict) }
        }
        return verdict
    }

    private func finish(_ parcel: Parcel, _ envelope: Envelope, _ outcome: Outcome) {
        window.finished(envelope, outcome, now: .now)
        if let row = parcel.row {
            let keepUntil = ReplayWindow.isRepeated(outcome) ? now() + Int64(limits.replaySeconds) : nil
            spool?.finish(id: row, digest: parcel.digest, outcome: outcome, keepUntil: keepUntil)
        }
        parcels[parcel.digest] = nil
        inFlight -= 1
        observer(.finished(parcel.route, outcome))
        for reply in parcel.replies { reply.tell(outcome) }
        if !due.isEmpty { loadDue() }
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
        timer = nil
        let waiting = continuation
        continuation = nil
        waiting?.resume()
    }
}

extension Magic {
    /// The other one of Apple's two environments.
    fileprivate var otherEnvironment: Magic? {
        switch self {
        case .iOS: .iOSDev
        case .iOSDev: .iOS
        case .android: nil
        }
    }
}
