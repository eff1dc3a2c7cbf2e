// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import StandIns
import TNP
import Tables
import Testing
import Time

@testable import Delivery
@testable import Providers

/// The fields of an envelope that a test submits: equal drafts give equal envelopes.
struct Draft: Hashable {
    var app = "one"
    var magic = Magic.android
    var device = 1
    /// Tells the envelopes for one device apart: the iv.
    var number = 1
    /// The content of the ciphertext.
    var text: UInt8 = 1
    var ttl: UInt32 = 600
    var priority = DeliveryPriority.immediate
    var collapseID: Int?
    /// Whether the sender named a handle.
    var isByHandle = false

    func envelope() throws -> Envelope {
        if magic == .web { return try webEnvelope() }
        let handle = isByHandle ? Handle([UInt8](repeating: UInt8(device), count: Handle.length)) : nil
        return try Envelope(
            app: Array(app.utf8)[...], magic: magic, deviceToken: Array(deviceToken.utf8)[...], handle: handle,
            iv: Array(String(1_000_000_000_000_000 + number).utf8)[...],
            ciphertext: [UInt8](repeating: text, count: 16)[...], ttl: ttl, priority: priority,
            collapseID: collapseID.map { Array("collapse-\($0)".utf8)[...] }, format: .pipe)
    }

    /// Some device tokens of Google are push endpoints (PROTOCOL §15).
    private var deviceToken: String {
        magic == .android && device % 5 == 3 ? endpoint : String(1_000_000_000 + device)
    }

    /// There are more push servers than lanes for them.
    private var endpoint: String { "https://server\(device % (RouteTable.serverLanes + 10)).example/\(device)" }

    private func webEnvelope() throws -> Envelope {
        try Envelope(
            app: Array(app.utf8)[...], magic: .web, deviceToken: Array(endpoint.utf8)[...],
            iv: [], ciphertext: Array("\(number) \(text)".utf8)[...], ttl: ttl, priority: priority,
            collapseID: collapseID.map { Array("collapse-\($0)".utf8)[...] }, format: .pipe)
    }

    /// Whether both drafts use the same iv for different content. Web Push has no iv.
    func reusesIV(of other: Draft) -> Bool {
        magic != .web && other.magic != .web && device == other.device && number == other.number && text != other.text
    }
}

/// Performs the actions of a ``DeliveryCore`` with providers, a spool and a clock that exist only in memory. Reports
/// each illegal step: an outcome too many or too few, QUEUED without a row on the disk, an envelope that is sent twice
/// at a time or again after delivery, more attempts than the window allows, a wrong count, a row that is removed twice,
/// an envelope that waits for nothing. Reports contain neither device tokens nor contents.
final class DeliveryCoreModel {
    private static let namedServers: Set = ["https://server3.example", "https://server4.example"]

    /// An attempt in flight.
    struct Attempt {
        /// The number under which a provider reports the result.
        let handle: UInt64
        let digest: Digest256
        let route: Route
        let number: RouteTable.Number
        /// The generation of the lane.
        let lane: Int
    }

    /// How the spool's disk treats a task.
    enum Disk { case works, fails, isFull }

    private enum SpoolTask {
        case store(PendingEnvelope, SpooledEnvelope?)
        case lookUp(PendingEnvelope)
        case load([DueRow])
        case purge

        var isStore: Bool { if case .store = self { true } else { false } }
        var isLookUp: Bool { if case .lookUp = self { true } else { false } }
        var isLoad: Bool { if case .load = self { true } else { false } }
        var isPurge: Bool { if case .purge = self { true } else { false } }
    }

    /// What a submission has received.
    private struct Submission {
        let digest: Digest256
        let acceptsQueued: Bool
        var isQueued = false
        var outcome: Outcome?
        var contact: ProviderContact?
    }

    /// Numbers of pending envelopes, in all and by state.
    private struct Census: Equatable {
        var inMemory = 0
        var storing = 0
        var lookingUp = 0
        var queued = 0
        var attempting = 0
        var parked = 0
        var loaded = 0
    }

    private let seed: UInt64
    private var limits: DispatchLimits
    private var core: DeliveryCore
    private var clock = MonotonicTime(nanoseconds: 1_000_000_000_000)
    /// The number of the current random event, for reports.
    var step = 0
    private(set) var isLegal = true

    /// The attempts in flight, in the order of sending.
    private(set) var attempts: [Attempt] = []
    /// If given, each provider gives this answer while the envelope is handed to it.
    var instantAnswer: Disposition?
    /// When the delivery of each delivered envelope is forgotten.
    private var delivered: [Digest256: MonotonicTime] = [:]
    private var drafts: [Digest256: Draft] = [:]

    /// Whether the node belongs to a cluster.
    let usesClaims: Bool
    /// The envelopes that the node has shared with the cluster.
    private var shared: Set<Digest256> = []
    /// The envelopes that wait for the decision of the cluster.
    private var claims: [PendingEnvelope] = []

    private var spool = MemorySpool()
    private var tasks: [SpoolTask] = []
    /// Rows of an earlier process that were not read yet.
    private var unreadRows = 0
    /// Why the spool reports that it is full.
    var shortage: SpoolShortage?

    private var submissions: [Submission] = []
    /// Submissions without a final outcome.
    private var unanswered: Set<Int> = []
    /// Submissions whose sender is gone.
    private var abandoned: Set<UInt64> = []
    /// The kinds of outcomes that submissions have received.
    private(set) var kinds: Set<Outcome.Kind> = []
    /// Number of outcomes reported for envelopes of an earlier process.
    private(set) var recovered = 0
    /// The submissions that were reported as parked, one entry for each report.
    private(set) var parkedReplies: [UInt64] = []

    /// Number of the core's actions that were examined.
    private var examined = 0
    /// Unix time at which the core last removed what had expired in its queues.
    private var lastSecond: Int64 = 0

    /// The routes of these apps on all platforms.
    static func routes(of apps: [String]) -> [Route] {
        apps.flatMap { app in Magic.allCases.map { Route(app: app, magic: $0) } }
    }

    init(
        limits: DispatchLimits = DispatchLimits(), routes: [Route] = DeliveryCoreModel.routes(of: ["one"]),
        seed: UInt64 = 0, usesClaims: Bool = false
    ) {
        self.seed = seed
        self.usesClaims = usesClaims
        self.limits = limits
        core = DeliveryCore(limits: limits, random: SplitMix64(seed: seed))
        core.usesClaims = usesClaims
        renewClaims(for: .seconds(30))
        serve(routes)
    }

    // MARK: State

    /// Unix time in seconds; its seconds begin with those of the monotonic clock.
    var unix: Int64 { 1_700_000_000 + Int64(clock.nanoseconds / 1_000_000_000) }
    private var now: ClockReading { ClockReading(monotonic: clock, unix: unix) }

    /// The final outcome of a submission.
    func outcome(of submission: Int) -> Outcome? { submissions[submission].outcome }
    func kind(of submission: Int) -> Outcome.Kind? { submissions[submission].outcome?.kind }
    func reason(of submission: Int) -> Reason? { submissions[submission].outcome?.reason }
    func contact(of submission: Int) -> ProviderContact? { submissions[submission].contact }
    func isQueued(_ submission: Int) -> Bool { submissions[submission].isQueued }

    /// The numbers of the drafts in flight, in the order of sending.
    var sent: [Int] { attempts.compactMap { drafts[$0.digest]?.number } }
    /// The routes of the attempts in flight, in the order of sending.
    var sentTo: [Route] { attempts.map(\.route) }
    var spoolTasks: Int { tasks.count }
    /// Number of outcomes that the spool remembers.
    var rememberedOutcomes: Int { spool.outcomes.count }
    var storedRows: [Int64] { spool.rows.keys.sorted() }
    /// Number of envelopes without a final outcome.
    var pending: Int { core.envelopes.count }
    /// Number of these in memory.
    var inFlight: Int { core.inFlight }
    /// Number of these only in the spool.
    var parked: Int { core.schedule.parked.count }

    func breaker(of route: Route) -> Breaker.State? { lane(of: route)?.breaker.state }

    /// Number of rows that wait for a probe of this route.
    func held(by route: Route) -> Int { lane(of: route).map { Array($0.heldRows).count } ?? 0 }

    /// The number of lanes with envelopes in memory.
    var lanesInUse: Int { core.lanes.inMemory.count { $0 > 0 } }

    private func lane(of route: Route) -> Lane? {
        core.lanes.routes.number(app: route.app, magic: route.magic).flatMap { core.lanes[$0] }
    }

    /// Whether an envelope was delivered and the core still remembers that.
    private func isRemembered(_ digest: Digest256) -> Bool { delivered[digest].map { $0 > clock } ?? false }

    private func isLookingUpRow(_ digest: Digest256) -> Bool {
        if case .lookingUpRow = core.envelopes[digest]?.phase { true } else { false }
    }

    // MARK: Submissions

    /// Submits an envelope as a sender does.
    /// - Returns: the number of the submission.
    @discardableResult func submit(
        _ draft: Draft, acceptsQueued: Bool = false, from origin: Origin = Origin(circuit: .tor(1))
    ) throws -> Int {
        let envelope = try draft.envelope()
        let reply = Reply(number: UInt64(submissions.count), acceptsQueued: acceptsQueued)
        submissions.append(Submission(digest: envelope.digest, acceptsQueued: acceptsQueued))
        let number = submissions.count - 1
        unanswered.insert(number)
        drafts[envelope.digest] = draft
        // While the spool looks it up, the outcome that the cluster knows is not told yet.
        let wasDelivered = isRemembered(envelope.digest) && !isLookingUpRow(envelope.digest)
        let arrival = core.arrival(
            of: envelope, app: draft.app, acceptsQueued: acceptsQueued, at: clock, check: { _, _ in nil })
        switch arrival {
        case .refused(let outcome):
            tell(reply, outcome, .notContacted)
            perform()
        case .resend:
            core.repeatOutcome(
                of: envelope, to: reply, isWanted: { !self.abandoned.contains($0.number) }, at: clock)
            perform()
            if wasDelivered, kind(of: number) != .delivered { report("a resend gets another outcome") }
        case .new(let route):
            if wasDelivered { report("a resend of a delivered envelope counts as new") }
            accept(envelope, of: draft, on: route, from: origin, reply)
        }
        return number
    }

    /// Lets the sender of a submission disappear: it no longer wants the outcome.
    func abandon(_ submission: Int) { abandoned.insert(UInt64(submission)) }

    private func accept(
        _ envelope: Envelope, of draft: Draft, on route: RouteTable.Number, from origin: Origin, _ reply: Reply
    ) {
        if core.envelopes[envelope.digest] != nil { report("a resend of a pending envelope counts as new") }
        let refusal = core.capacityRefusal(
            of: envelope, on: route, acceptsQueued: reply.acceptsQueued, from: origin, at: clock)
        if let refusal {
            tell(reply, refusal, .noCapacity)
            return perform()
        }
        let reusesIV = core.envelopes.all.contains { other in
            other.content.ivKey != nil && drafts[other.content.digest].map { draft.reusesIV(of: $0) } ?? false
        }
        let before = core.inFlight - core.schedule.storing
        core.submit(envelope, on: route, format: .pipe, from: origin, reply, at: now)
        perform()
        let number = Int(reply.number)
        if reusesIV, reason(of: number) != .ivReused { report("an iv is used for two contents") }
        if contact(of: number) == .noCapacity { report("an envelope is refused although there is room") }
        if core.inFlight - core.schedule.storing > max(limits.totalInFlight, before) {
            report("a submission takes more memory than there is")
        }
    }

    // MARK: Providers

    /// Serves these routes from now on.
    /// - Parameter lanePerServer: whether each push server has a lane of its own.
    func serve(
        _ routes: [Route], replacing replaced: Set<Route> = [], concurrency: Int? = nil, lanePerServer: Bool = true
    ) {
        if let concurrency { limits.concurrency = concurrency }
        core.serve(
            routes, replacing: replaced,
            namedServers: Dictionary(
                uniqueKeysWithValues: Set(lanePerServer ? routes.map(\.app) : []).map { ($0, Self.namedServers) }),
            limits: limits, at: now)
        perform()
    }

    /// Ends an attempt with an answer of the provider.
    func answer(_ disposition: Disposition, at index: Int = 0, retryAfter: UInt32? = nil, goneSince: UInt64? = nil) {
        guard attempts.indices.contains(index) else { return report("no attempt is in flight") }
        endAttempt(index, disposition, retryAfter: retryAfter, goneSince: goneSince)
        perform()
    }

    private func endAttempt(
        _ index: Int, _ disposition: Disposition, retryAfter: UInt32? = nil, goneSince: UInt64? = nil
    ) {
        let attempt = attempts.remove(at: index)
        if disposition.kind == .delivered { delivered[attempt.digest] = clock + .seconds(limits.replaySeconds) }
        let result = disposition.attemptResult(answer: "of a test", retryAfter: retryAfter, goneSince: goneSince)
        let times = times(of: attempt.handle)
        let ended = core.answered(attempt.handle, result, at: now)
        if let ended, ended.route != attempt.route { report("an attempt is observed on another route") }
        if ended?.waited != times?.waited || ended?.took != times?.took {
            report("an attempt is observed with other times")
        }
        examine()
    }

    /// The times of an attempt that ends now; `nil` if the envelope is not in one.
    private func times(of number: UInt64) -> (waited: Duration, took: Duration)? {
        guard case .attempting(let attempt) = core.envelopes[number: number]?.phase else { return nil }
        return (attempt.started - attempt.queued, clock - attempt.started)
    }

    // MARK: Claims

    /// The number of envelopes that wait for the decision of the cluster.
    var claimCount: Int { claims.count }

    /// Decides about one of them.
    func answerClaim(at index: Int = 0, _ result: ClaimResult = .granted(isProven: nil)) {
        let pending = claims.remove(at: index)
        if case .final(let outcome) = result, outcome.kind == .delivered {
            delivered[pending.content.digest] = clock + .seconds(limits.replaySeconds)
        }
        core.claimed(pending.slot.rawValue, result, at: now)
        perform()
    }

    /// Gives a heartbeat that the other nodes see.
    /// - Parameters:
    ///   - time: how long the claims hold without another one.
    ///   - isNew: whether other nodes may have taken over what this node had claimed.
    func renewClaims(for time: Duration, isNew: Bool = false) { core.lease.renew(until: clock + time, isNew: isNew) }

    /// Gives the node a stored envelope of another node that has ended.
    /// - Parameter age: how long ago that node has accepted it, in seconds.
    func adopt(_ draft: Draft, age: Int64 = 0) throws {
        let envelope = try draft.envelope()
        drafts[envelope.digest] = draft
        _ = core.adopt(
            SpooledEnvelope(
                app: draft.app, format: .pipe, envelope: envelope, expires: unix + Int64(draft.ttl) - age),
            at: now)
        perform()
    }

    /// How many such envelopes the node asks for.
    var roomToAdopt: Int { core.roomToAdopt }

    // MARK: Spool

    /// Begins to use the spool.
    /// - Parameters:
    ///   - stored: envelopes that an earlier process stored.
    ///   - delivered: envelopes that an earlier process stored and delivered.
    func openSpool(stored: [Draft] = [], delivered: [Draft] = []) throws {
        for draft in stored {
            let envelope = try draft.envelope()
            drafts[envelope.digest] = draft
            spool.add(
                SpooledEnvelope(
                    app: draft.app, format: .pipe, envelope: envelope, expires: unix + Int64(draft.ttl)))
        }
        for draft in delivered {
            let digest = try draft.envelope().digest
            spool.remember(digest, .delivered(), until: unix + Int64(limits.replaySeconds))
        }
        unreadRows = stored.count
        let rows = storedRows
        core.openSpool(rows, hasOutcomes: !delivered.isEmpty, at: now)
        perform()
    }

    /// Performs one task of the spool.
    /// - Parameter unreadable: the rows that cannot be read.
    func runSpoolTask(at index: Int = 0, disk: Disk = .works, unreadable: Set<Int64> = []) {
        guard tasks.indices.contains(index) else { return report("the spool has no such task") }
        switch tasks.remove(at: index) {
        case .store(let pending, let stored):
            let result = store(stored, disk)
            core.stored(pending, result, at: now)
        case .lookUp(let pending):
            let found: DeliveryCore.Found =
                disk == .fails ? .failed("the disk fails") : .known(spool.lookUp(pending.content.digest, at: unix))
            core.lookedUp(pending, found, at: now)
        case .load(let rows):
            if disk == .fails {
                core.loadFailed(rows, "the disk fails", at: now)
            } else {
                let found = spool.load(rows.map(\.row), unreadable: unreadable)
                unreadRows -= rows.count(where: \.isUnread)
                core.loaded(rows, found, dropped: spool.dropped, at: now)
            }
        case .purge:
            let rows = spool.purge(at: unix)
            core.expired(rows, at: now)
        }
        perform()
    }

    private func store(_ stored: SpooledEnvelope?, _ disk: Disk) -> StoreResult {
        guard disk != .isFull else { return .full(.bytes) }
        guard disk != .fails, let stored else { return .failed("the disk fails") }
        return spool.store(stored, at: unix)
    }

    /// Lets the time pass after which an unanswered envelope is stored.
    func storeOverdue() {
        advance(DeliveryCore.storeDelay)
        runSpool()
    }

    /// Performs all tasks of the spool, and those that follow from them.
    func runSpool(disk: Disk = .works, unreadable: Set<Int64> = []) {
        while isLegal, !tasks.isEmpty { runSpoolTask(disk: disk, unreadable: unreadable) }
        commitRemovals()
    }

    /// Lets the removals of rows reach the disk.
    func commitRemovals() { spool.commit(at: unix) }

    /// Lets the spool remove its expired rows.
    func purge() {
        let rows = spool.purge(at: unix)
        core.expired(rows, at: now)
        perform()
    }

    // MARK: Time

    /// Lets time pass; the timer fires whenever the core has asked for it.
    func advance(_ time: Duration) {
        let end = clock + time
        while isLegal, let wake = core.nextWake, wake <= end { wakeUp(at: wake) }
        clock = end
    }

    /// Lets time pass until the timer fires, or for a second if it is not set.
    func advanceToWake() {
        guard let wake = core.nextWake else { return advance(.seconds(1)) }
        wakeUp(at: wake)
    }

    /// Lets time pass; the timer fires late.
    func oversleep(_ time: Duration) { wakeUp(at: clock + time) }

    private func wakeUp(at time: MonotonicTime) {
        clock = max(clock, time)
        core.timeReached(now)
        perform()
    }

    /// Does what the node does once a second.
    func secondPassed() {
        lastSecond = unix
        core.secondPassed(spoolShortage: shortage, at: now)
        perform()
    }

    /// Begins to shut down.
    func drain() {
        core.drain(now)
        perform()
    }

    // MARK: Ends

    /// Whether nothing is left to do.
    var isIdle: Bool {
        core.envelopes.count == 0 && core.schedule.unreadRows == 0 && tasks.isEmpty && core.nextWake == nil
    }

    /// Reports what is left although each envelope could be delivered.
    func expectNothingLeft() {
        let left = core.envelopes.count + core.schedule.unreadRows
        if left > 0 { report("\(left) envelopes get no outcome") }
        if core.inFlight != 0 { report("\(core.inFlight) envelopes are in memory at the end") }
        if core.nextWake != nil || !tasks.isEmpty { report("something is due at the end") }
        if !spool.rows.isEmpty { report("\(spool.rows.count) rows are never removed") }
        if !unanswered.isEmpty { report("\(unanswered.count) submissions get no outcome") }
    }

    /// Reports what is in memory after a shutdown, and submissions that wait without having received QUEUED.
    func expectEverythingParked() {
        if core.inFlight != 0 { report("\(core.inFlight) envelopes are in memory after the shutdown") }
        if core.envelopes.count != core.schedule.parked.count { report("an envelope is not parked after the shutdown") }
        if core.nextWake != nil || !tasks.isEmpty { report("something is due after the shutdown") }
        if unanswered.contains(where: { !submissions[$0].isQueued }) {
            report("a submission gets no outcome at shutdown")
        }
    }

    // MARK: Actions

    private func perform() {
        examine()
        while let action = core.actions.popFirst() {
            examined -= 1
            perform(action)
        }
        check()
    }

    /// Checks the window of each lane on which the last event has sent something.
    private func examine() {
        for action in core.actions[examined...] {
            guard case .send(_, let route) = action, let lane = core.lanes[route] else { continue }
            if lane.window.inFlight > lane.window.limit { report("more attempts are in flight than the window allows") }
        }
        examined = core.actions.count
    }

    private func perform(_ action: DeliveryAction) {
        switch action {
        case .send(let pending, let route): send(pending, on: route)
        case .claim(let pending):
            if claims.contains(where: { $0 === pending }) { report("an envelope is claimed twice at a time") }
            claims.append(pending)
        case .tell(let reply, let outcome, let contact): tell(reply, outcome, contact)
        case .tellParked(let reply):
            parkedReplies.append(reply.number)
            if !unanswered.contains(Int(reply.number)) { report("a submission with a final outcome is parked") }
        case .observe(let event): if case .recovered = event { recovered += 1 }
        case .store(let pending): tasks.append(.store(pending, core.spooled(pending)))
        case .share(let stored):
            if !usesClaims || !spool.holds(stored.envelope.digest) {
                report("an envelope is shared that is not stored")
            }
            shared.insert(stored.envelope.digest)
        case .lookUp(let pending): tasks.append(.lookUp(pending))
        case .load(let rows):
            if rows.isEmpty || tasks.contains(where: \.isLoad) { report("two loads at a time, or an empty one") }
            tasks.append(.load(rows))
        case .erase(let row, let digest, let outcome, let keepUntil):
            if !spool.remove(row, digest, outcome, keepUntil: keepUntil) {
                report("a row is removed twice, or is not that of its envelope")
            }
        case .purgeSpool: if !tasks.contains(where: \.isPurge) { tasks.append(.purge) }
        }
    }

    private func send(_ pending: PendingEnvelope, on route: RouteTable.Number) {
        guard case .attempting(let attempt) = pending.phase, attempt.route == route, pending.custody.envelope != nil
        else {
            return report("an envelope is sent without an attempt")
        }
        let destination = core.lanes.routes[route]
        if attempts.contains(where: { $0.digest == pending.content.digest }) {
            report("an envelope is sent twice at a time")
        }
        if isRemembered(pending.content.digest) { report("a delivered envelope is sent again") }
        if usesClaims, pending.custody.row != nil, !pending.claim.isHeld {
            report("a stored envelope is sent without a claim")
        }
        // Apple's other environment may be asked after the expiry, because the first one answered late.
        if destination.magic == .android, pending.expiry.hasPassed(at: lastSecond) {
            report("an expired envelope is sent")
        }
        attempts.append(
            Attempt(
                handle: pending.slot.rawValue, digest: pending.content.digest, route: destination, number: route,
                lane: attempt.generation))
        if let instantAnswer { endAttempt(attempts.count - 1, instantAnswer) }
    }

    private func tell(_ reply: Reply, _ outcome: Outcome, _ contact: ProviderContact) {
        let number = Int(reply.number)
        if submissions[number].outcome != nil { report("an outcome follows the final one") }
        kinds.insert(outcome.kind)
        if outcome.kind == .queued {
            if !submissions[number].acceptsQueued { report("QUEUED for a sender that does not accept it") }
            if submissions[number].isQueued { report("QUEUED twice") }
            if !spool.holds(submissions[number].digest) { report("QUEUED for an envelope that is not stored") }
            submissions[number].isQueued = true
        } else {
            submissions[number].outcome = outcome
            submissions[number].contact = contact
            unanswered.remove(number)
        }
    }

    // MARK: Checks

    /// Checks what holds after each event.
    private func check() {
        guard isLegal else { return }
        checkEnvelopes()
        checkLanes()
        checkSubmissions()
        checkBounds()
        if let wake = core.nextWake, wake <= clock { report("the timer is set to a time that has passed") }
    }

    private func checkEnvelopes() {
        var census = Census()
        var planned = 0
        var byRoute = [Int](repeating: 0, count: core.lanes.inMemory.count)
        for pending in core.envelopes.all {
            if core.envelopes[pending.content.digest] !== pending
                || core.envelopes[number: pending.slot.rawValue] !== pending
            {
                report("an envelope is not where its digest and its handle say")
            }
            check(pending, &census)
            if pending.custody.use == .delivering { byRoute[pending.route] += 1 }
            if pending.custody.isPlanned { planned += 1 }
        }
        if core.envelopes.count != core.envelopes.all.count { report("envelopes and digests do not match") }
        if core.schedule.plansAndWrites != planned + tasks.count(where: \.isStore) {
            report("the count of planned and running writes is wrong")
        }
        if core.lanes.inMemory != byRoute { report("the counts by route are wrong") }
        var web = [Int](repeating: 0, count: core.lanes.inMemoryToServers.count)
        for (route, count) in byRoute.enumerated() where count > 0 && core.lanes.routes[route].magic == .web {
            web[core.lanes.routes.app(of: route)] += count
        }
        if core.lanes.inMemoryToServers != web { report("the counts of Web Push are wrong") }
        let expected = Census(
            inMemory: core.inFlight, storing: core.schedule.storing, lookingUp: tasks.count(where: \.isLookUp),
            queued: core.lanes.numbers.reduce(0) { $0 + (core.lanes[$1]?.queue.count ?? 0) },
            attempting: attempts.count,
            parked: core.schedule.parked.count, loaded: core.schedule.loadedRows)
        if census != expected { report("the counts are wrong: \(expected), but there are \(census)") }
    }

    /// Checks one pending envelope, and counts it.
    private func check(_ pending: PendingEnvelope, _ census: inout Census) {
        var isDelivering = true
        switch pending.phase {
        case .active: report("an envelope waits for nothing")
        case .claiming:
            if !claims.contains(where: { $0 === pending }) { report("an envelope waits for no claim") }
            isDelivering = false
        case .paused where usesClaims && !pending.claim.isHeld: isDelivering = false
        case .storing:
            if !isBeingStored(pending) { report("an envelope waits for no write") }
            // At shutdown, it was being delivered before.
            isDelivering = pending.custody.use == .delivering
        case .lookingUp, .lookingUpRow:
            census.lookingUp += 1
            isDelivering = false
        case .queued: census.queued += 1
        case .attempting: census.attempting += 1
        case .paused: break
        case .parked:
            census.parked += 1
            isDelivering = false
            guard let row = pending.custody.row, core.schedule.parked[row] === pending,
                spool.holds(pending.content.digest)
            else {
                return report("a parked envelope has no row")
            }
            if pending.claim.isHeld, !shared.contains(pending.content.digest), usesClaims {
                report("a parked envelope is not shared with the cluster")
            }
        }
        if pending.custody.use == .storing { census.storing += 1 }
        if (pending.custody.use == .delivering) != isDelivering {
            report("an envelope is counted on its route in the wrong state")
        }
        if (pending.custody.envelope == nil) != (pending.phase == .parked) {
            report("a parked envelope keeps its content")
        }
        if pending.custody.envelope != nil { census.inMemory += 1 }
        if pending.custody.isLoaded { census.loaded += 1 }
    }

    private func isBeingStored(_ pending: PendingEnvelope) -> Bool {
        tasks.contains { if case .store(let other, _) = $0 { other === pending } else { false } }
    }

    private func checkLanes() {
        for route in core.lanes.numbers {
            guard let lane = core.lanes[route] else { continue }
            let inFlight = attempts.count { $0.number == route && $0.lane == lane.generation }
            if lane.window.inFlight != inFlight { report("a window counts \(lane.window.inFlight), not \(inFlight)") }
            if inFlight == 0, !lane.queue.isEmpty { report("envelopes wait in a queue while nothing is in flight") }
            if let probe = lane.probeRow {
                if !core.envelopes.all.contains(where: { $0.custody.row == probe && $0.progress.probed == route }) {
                    report("a lane waits for a probe that does not come")
                }
            } else if !Array(lane.heldRows).isEmpty {
                report("held rows wait for no probe")
            }
        }
    }

    private func checkSubmissions() {
        for number in unanswered {
            let submission = submissions[number]
            guard let pending = core.envelopes[submission.digest] else {
                return report("a submission waits for an envelope that is gone")
            }
            if pending.phase == .parked, !submission.acceptsQueued {
                report("a sender that does not accept QUEUED waits for a parked envelope")
            }
            if submission.acceptsQueued, submission.isQueued != (pending.custody.row != nil) {
                report("an envelope is stored without QUEUED, or the reverse")
            }
        }
    }

    private func checkBounds() {
        if core.schedule.unreadRows != unreadRows || unreadRows < 0 { report("the count of unread rows is wrong") }
        if core.schedule.plansAndWrites > limits.totalInFlight { report("too many envelopes wait for the disk") }
        if core.schedule.loadedRows > max(1, limits.totalInFlight / 2) { report("too many rows are loaded") }
        if core.window.count + core.envelopes.count + unreadRows > core.window.capacity {
            report("the replay window has no room for an outcome")
        }
    }

    private func report(_ what: String) {
        guard isLegal else { return }
        isLegal = false
        Issue.record("seed \(seed), step \(step): \(what)")
    }
}
