// SPDX-License-Identifier: Apache-2.0

import HeapModule
import Providers
import TNP
import Tables
import Time

/// Attempts: from memory to an outcome or to the spool, by way of a lane's queue and its provider.
extension DeliveryCore {
    // MARK: From one attempt to the next

    /// Begins the delivery of an envelope that is in memory: attempts follow until it has an outcome or is parked in the
    /// spool.
    mutating func deliver(_ pending: PendingEnvelope, _ now: ClockReading) {
        pending.phase = .active
        guard let envelope = pending.custody.envelope else { return }
        // The envelope counts in memory under its route, which may change below.
        count(pending, as: .none)
        switch apply(lanes.chooseAgain(for: envelope, on: pending.route, at: now.monotonic), now.monotonic) {
        case .found(let route, _): pending.route = route
        case .notConfigured: break
        case .noneFree where !pending.custody.isForSpool: return finish(pending, Self.busy, now)
        case .noneFree where pending.custody.row == nil: return waitForStore(pending)
        case .noneFree: return park(pending, for: .seconds(1), Self.busy, now)
        }
        let route = pending.route
        guard lanes[route] != nil else {
            guard pending.custody.isForSpool else { return finish(pending, .rejected(.platformNotConfigured), now) }
            return parkUnserved(pending, now)
        }
        count(pending, as: .delivering)
        pending.progress.search.begin(
            at: devices.record(of: pending.content.token, app: lanes.routes.app(of: route))?.environment)
        advance(pending, now)
    }

    /// Makes the next attempt, unless the envelope has to end or to wait.
    mutating func advance(_ pending: PendingEnvelope, _ now: ClockReading) {
        if let outcome = earlyOutcome(of: pending, now) { return finish(pending, outcome, now) }
        if isDraining { return stop(pending, now) }
        if pending.custody.isForSpool, lanes[pending.route] == nil { return parkUnserved(pending, now) }
        attempt(pending, now)
    }

    /// Parks an envelope whose app is no longer configured: a reload may bring it back.
    private mutating func parkUnserved(_ pending: PendingEnvelope, _ now: ClockReading) {
        guard pending.custody.row != nil else { return waitForStore(pending) }
        park(pending, for: SpoolSchedule.unservedPause, .retry(.credentialsRefused, after: 300_000), now)
    }

    /// Ends the delivery of an envelope at shutdown.
    mutating func stop(_ pending: PendingEnvelope, _ now: ClockReading) {
        let refusal = Outcome.retry(.shuttingDown, after: Self.busyRetry)
        if pending.custody.row != nil {
            park(pending, for: .zero, refusal, now)
        } else if pending.custody.isForSpool {
            waitForStore(pending)
        } else {
            finish(pending, refusal, now)
        }
    }

    /// The outcome of an envelope that expired or was replaced before its next attempt; `nil` if neither happened.
    private func earlyOutcome(of pending: PendingEnvelope, _ now: ClockReading) -> Outcome? {
        if pending.expiry.hasPassed(at: now.unix) { return .rejected(.ttlRanOut) }
        guard devices.isReplaced(pending.content) else { return nil }
        return .rejected(.ttlRanOut, text: "replaced by a newer notification with the same collapse id")
    }

    /// Makes an attempt in the environment that probably knows the device token.
    private mutating func attempt(_ pending: PendingEnvelope, _ now: ClockReading) {
        let own = lanes.routes[pending.route].magic
        // A reload may have removed the other environment.
        if lanes[lanes.routes.number(pending.route, on: pending.progress.search.environment(for: own))] == nil {
            pending.progress.search.reset()
        }
        let magic = pending.progress.search.environment(for: own)
        let route = lanes.routes.number(pending.route, on: magic)
        guard lanes[route] != nil else {
            let result = AttemptResult(
                .rejected(.platformNotConfigured), disposition: .notSent, answer: "not-configured")
            return handleResult(pending, result, from: magic, now)
        }
        enter(pending, route, now)
    }

    /// Waits for a turn on this route, or begins the attempt at once.
    private mutating func enter(_ pending: PendingEnvelope, _ route: RouteTable.Number, _ now: ClockReading) {
        pending.progress.heldBy = nil
        guard pending.custody.isInMemory else { return }
        let clock = now.monotonic
        if let left = devices.admit(pending.content.token, now: clock) {
            let result = AttemptResult.heldBack(.providerThrottles, for: left, "device-paused")
            return handleResult(pending, result, from: lanes.routes[route].magic, now)
        }
        // Checked before the queue, so that an envelope that would be held back does not wait for its turn.
        guard let lane = lanes[route] else { return }
        if let refusal = lane.breaker.refusal(clock) { return hold(pending, on: route, refusal, now) }
        if lane.queue.isEmpty, lane.window.hasRoom { return start(pending, at: lane, route, queued: clock, now) }
        // On the monotonic clock, because the wall clock may be corrected during the wait.
        let expiresAt: Int64 =
            switch pending.expiry {
            case .nowOrNever: clock.wholeSeconds + patience
            case .at(let time): clock.wholeSeconds + min(max(0, time - now.unix), patience)
            }
        let origin = pending.origin
        pending.phase = .queued(since: clock)
        lane.queue.append(
            pending, flow: origin.circuit.rawValue, band: origin.band,
            cost: pending.content.size + Self.requestOverhead, expiresAt: expiresAt)
    }

    /// Begins an attempt, for which the window has room, unless the breaker refuses it or another phone's envelope is
    /// to probe the lane first.
    mutating func start(
        _ pending: PendingEnvelope, at lane: Lane, _ route: RouteTable.Number, queued: MonotonicTime,
        _ now: ClockReading
    ) {
        if lane.breaker.state != .closed, lane.lastFailed == pending.content.token, pending.progress.probed != route,
            !lane.heldRows.isEmpty || lane.probeRow != nil
        {
            return hold(pending, on: route, (lane.breaker.reason, Self.probePause), now)
        }
        let admission = lane.breaker.admit(now.monotonic)
        if case .refused(let reason, let after) = admission { return hold(pending, on: route, (reason, after), now) }
        lane.window.began()
        pending.phase = .attempting(
            PendingEnvelope.Attempt(
                route: route, generation: lane.generation, isProbe: admission == .probe, queued: queued,
                started: now.monotonic))
        actions.append(.send(pending, route))
    }

    private mutating func hold(
        _ pending: PendingEnvelope, on route: RouteTable.Number, _ refusal: Breaker.Refusal, _ now: ClockReading
    ) {
        pending.phase = .active
        pending.progress.heldBy = route
        let result = AttemptResult.heldBack(refusal.reason, for: refusal.retryAfter, "breaker-open")
        handleResult(pending, result, from: lanes.routes[route].magic, now)
    }

    /// Handles the result of an attempt that ``DeliveryAction/send(_:_:)`` began.
    /// - Parameter number: the number of the envelope.
    /// - Returns: the attempt, for the observer; `nil` if the result is of no attempt in flight.
    @discardableResult
    mutating func answered(_ number: UInt64, _ result: AttemptResult, at now: ClockReading) -> EndedAttempt? {
        guard let pending = envelopes[number: number], case .attempting(let attempt) = pending.phase,
            let phone = pending.custody.envelope?.phone
        else { return nil }
        pending.phase = .active
        let route = lanes.routes[attempt.route]
        let took = now.monotonic - attempt.started
        if result.disposition.mayHaveReachedProvider { pending.progress.contact = .contacted }
        if let lane = lanes[attempt.route], lane.generation == attempt.generation {
            switch note(result, of: pending, attempt, in: lane, now) {
            case .none: lane.window.abandoned()
            case .success: lane.window.ended(latency: took, isOverload: false, now: now.monotonic)
            case .failure, .trip: lane.window.ended(latency: took, isOverload: true, now: now.monotonic)
            }
            released.append(attempt.route)
        }
        handleResult(pending, result, from: route.magic, now)
        settle(now)
        return EndedAttempt(
            route: route, phone: phone, waited: attempt.started - attempt.queued, took: took)
    }

    /// The effect of a result on the lane, given what the node knows about throttled devices and refused subscriptions;
    /// records the result in both.
    /// - Parameter isPaused: whether delivery to the device was paused before the result.
    private static func laneEffect(
        of disposition: Disposition, on pending: PendingEnvelope, isPaused: Bool, in lane: Lane, _ now: MonotonicTime
    ) -> Disposition.LaneEffect {
        if disposition.mayRefuseCredential {
            // The server answers, so it is no failure of the lane.
            let isRefused = lane.refusedSubscriptions.refused(
                pending.content.token, isProven: pending.origin.isProven, now: now)
            return isRefused ? .trip : .success
        }
        guard disposition.token == .paused else {
            if disposition.token == .accepted { lane.refusedSubscriptions.accepted() }
            if disposition.lane == .success { _ = lane.deviceThrottling.record(isThrottled: false) }
            return disposition.lane
        }
        // Results of attempts that were in flight when the device was paused tell nothing new, and must not stop
        // delivery to other devices.
        if isPaused, disposition.lane == .failure || disposition.mayThrottleLane { return .none }
        guard disposition.mayThrottleLane else { return disposition.lane }
        return lane.deviceThrottling.record(isThrottled: true) ? .failure : disposition.lane
    }

    /// Records the result in the lane.
    /// - Returns: the effect of the result on the lane, adjusted by what the node already knows.
    private mutating func note(
        _ result: AttemptResult, of pending: PendingEnvelope, _ attempt: PendingEnvelope.Attempt,
        in lane: Lane, _ now: ClockReading
    ) -> Disposition.LaneEffect {
        let (route, wasProbe, clock) = (attempt.route, attempt.isProbe, now.monotonic)
        var disposition = result.disposition
        if disposition.retry == .atOnce, pending.progress.attempts.isOutOfReplays { disposition.lane = .failure }
        // A lost connection fails all its requests, which together count as one failure. A failed probe counts
        // separately, and so does an envelope that is lost a second time, on another connection.
        if disposition.retry == .onceMore, disposition.lane == .none,
            wasProbe || pending.progress.attempts.hasUnknownFate
                || lane.connectionFailures.isNew(clock)
        {
            disposition.lane = .failure
        }
        disposition.lane = Self.laneEffect(
            of: disposition, on: pending, isPaused: devices.pause(of: pending.content.token, now: clock) != nil,
            in: lane,
            clock)
        let before = lane.breaker.state
        lane.breaker.record(
            disposition, retryAfter: result.retryAfter, wasProbe: wasProbe, now: clock, random: draw())
        let state = lane.breaker.state
        if state == .open, before != .open || wasProbe { lane.lastFailed = pending.content.token }
        if state != before || wasProbe {
            actions.append(.observe(.breaker(lanes.routes[route], state, answer: result.answer)))
        }
        if state == .open { rejectWaiting(on: route) }
        if pending.progress.probed == route {
            endProbe(pending, now)
        } else if !lane.heldRows.isEmpty {
            sendProbe(on: route, now)
        }
        return disposition.lane
    }

    /// Continues after the result of an attempt: once more in Apple's other environment if the first one does not know
    /// the device token, or as the history of attempts decides.
    private mutating func handleResult(
        _ pending: PendingEnvelope, _ result: AttemptResult, from magic: Magic, _ now: ClockReading
    ) {
        guard pending.custody.isInMemory else { return }
        let (route, token) = (pending.route, pending.content.token)
        let result = mayBeOutdated(pending) && result.disposition.token == .gone ? .contradicted(result) : result
        if result.disposition.token != .accepted {
            let switches = pending.progress.search.switches(after: result.disposition.token, from: magic) { other in
                lanes[lanes.routes.number(route, on: other)] != nil
                    && devices.record(of: token, app: lanes.routes.app(of: route))?.isRefused != true
            }
            if switches { return advance(pending, now) }
        }
        // `learn` returns nothing for the usual result, so that the usual result is not copied.
        if let learned = learn(result, pending, from: magic, now) {
            proceed(pending, after: learned, now)
        } else {
            proceed(pending, after: result, now)
        }
    }

    /// Whether another node of the cluster may know a newer device token of the phone's handle, because this node could
    /// not ask when it looked up the handle or claimed the envelope. GONE would then end a pairing that works. A stored
    /// envelope keeps its device token, so a resend would not help it.
    private func mayBeOutdated(_ pending: PendingEnvelope) -> Bool {
        guard !pending.custody.isForSpool, pending.custody.envelope?.handle != nil else { return false }
        if case .held(generation: nil) = pending.claim { return true }
        return pending.origin.isLookedUpAlone
    }

    /// Ends the envelope, or waits for the next attempt or begins it.
    private mutating func proceed(_ pending: PendingEnvelope, after learned: AttemptResult, _ now: ClockReading) {
        switch step(pending, after: learned, now) {
        case .finish where learned.outcome.kind == .retry && isDraining: stop(pending, now)
        case .finish: finish(pending, learned.outcome, now)
        case .expire: finish(pending, .rejected(.ttlRanOut), now)
        case .again(let delay) where waitsInSpool(pending, delay, learned.outcome, now): break
        case .again(let delay) where delay > .zero && !isDraining:
            store(pending)
            let until = now.monotonic + delay
            pending.phase = .paused(until: until)
            paused.insert(Pause(until: until, sequence: pending.content.sequence, envelope: pending))
        case .again: advance(pending, now)
        }
    }

    private mutating func step(
        _ pending: PendingEnvelope, after result: AttemptResult, _ now: ClockReading
    ) -> AttemptHistory.Step {
        if result.disposition.retry == .never { return .finish }
        let left: Duration?
        switch pending.expiry {
        case .nowOrNever: left = nil
        case .at(let time): left = .seconds(max(0, time - now.unix))
        }
        let bounds = AttemptHistory.Bounds(
            policy: limits.retry, isStored: pending.custody.isForSpool,
            age: now.monotonic - pending.content.acceptedAt, timeLeft: left)
        return pending.progress.attempts.next(after: result, bounds, random: draw())
    }

    /// Records what the result says about the device token.
    /// - Returns: the result for the sender, if what the node already knew about the token changes it.
    private mutating func learn(
        _ result: AttemptResult, _ pending: PendingEnvelope, from magic: Magic, _ now: ClockReading
    ) -> AttemptResult? {
        let route = pending.route
        guard let lane = lanes[route], result.disposition.token != .none else { return nil }
        let (content, origin, isStored) = (pending.content, pending.origin, pending.custody.isForSpool)
        let subject = DeviceKnowledge.Subject(
            token: content.token, collapse: content.collapse, sequence: content.sequence, isProven: origin.isProven,
            isStored: isStored, app: lanes.routes.app(of: route), magic: lanes.routes[route].magic)
        let wasActive = lane.surge.isActive
        let lesson = devices.learn(
            result, subject, from: magic, &lane.surge, at: now.monotonic, wall: dates.wall(now.unix), random: &random)
        var changed: AttemptResult?
        switch lesson {
        case .usual: break
        case .changed(let other): changed = other
        case .surge(let other, let searchesAgain):
            if !origin.isProven { actions.append(.observe(.unprovenTokenRefused(origin.circuit))) }
            if searchesAgain { pending.progress.search.reset() }
            changed = other
        }
        if lane.surge.isActive != wasActive {
            actions.append(.observe(.tokenRefusalSurge(lanes.routes[route], isActive: lane.surge.isActive)))
        }
        return changed
    }

    // MARK: Fair queue

    mutating func rejectWaiting(on route: RouteTable.Number) {
        guard let lane = lanes[route], !lane.queue.isEmpty else { return }
        for waiting in lane.queue.removeAll() { rejected.append((waiting, route, lane.generation)) }
    }

    /// Makes room in memory: parks the envelope if it is stored; otherwise lets it wait until it is.
    private mutating func leaveForSpool(_ pending: PendingEnvelope, _ now: ClockReading) {
        if pending.custody.row != nil { return park(pending, for: .seconds(1), Self.busy, now) }
        count(pending, as: .none)
        waitForStore(pending)
    }

    /// Continues with an envelope that a queue has rejected.
    mutating func continueRejected(
        _ pending: PendingEnvelope, _ route: RouteTable.Number, _ generation: Int, _ now: ClockReading
    ) {
        pending.phase = .active
        let magic = lanes.routes[route].magic
        // The lane was replaced: continue in the new one.
        if let lane = lanes[route], lane.generation != generation, !isDraining { return enter(pending, route, now) }
        if pending.expiry.hasPassed(at: now.unix) {
            let result = AttemptResult(.rejected(.ttlRanOut), disposition: .notSent, answer: "expired")
            return handleResult(pending, result, from: magic, now)
        }
        // If the breaker opened during the wait, report its reason rather than a lack of room.
        if let refusal = lanes[route]?.breaker.refusal(now.monotonic) { return hold(pending, on: route, refusal, now) }
        if pending.custody.isForSpool, !isDraining { return leaveForSpool(pending, now) }
        if pending.progress.contact == .notContacted, !isDraining { pending.progress.contact = .noCapacity }
        let reason: Reason = isDraining ? .shuttingDown : .nodeBusy
        handleResult(pending, .heldBack(reason, for: .seconds(1), "no-room"), from: magic, now)
    }
}
