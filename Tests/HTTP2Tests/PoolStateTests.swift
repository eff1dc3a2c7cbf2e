// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Simulator
import Testing

@testable import HTTP2
@testable import Time

@Suite struct PoolStateTests {
    private let unreachable = PoolState.Placement.unavailable(because: CheckedPool.reason)

    // MARK: More connections

    @Test func `an initial burst opens one connection`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 8))
        pool.place(100)
        #expect(pool.dials == 1)
        pool.open(1)
        #expect(pool.running(on: 1) == [1])
        pool.allow(200, on: 1)
        #expect(pool.running(on: 1).count == 100)
        #expect(pool.dials == 1)
    }

    @Test func `the pool grows by one connection at a time up to the maximum`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 3))
        pool.place()
        pool.open(1)
        pool.allow(2, on: 1)
        pool.place()
        #expect(pool.dials == 1)
        pool.place()
        #expect(pool.dials == 2)
        pool.place()
        #expect(pool.dials == 2)
        pool.open(2)
        #expect(pool.running(on: 2) == [3])
        #expect(pool.dials == 2)
        pool.allow(1, on: 2)
        #expect(pool.dials == 3)
        pool.open(3)
        #expect(pool.running(on: 3) == [4])
        pool.allow(1, on: 3)
        pool.place()
        #expect(pool.dials == 3)
        #expect(pool.waiting == [5])
        pool.answer(on: 1)
        #expect(pool.running(on: 1) == [2, 5])
    }

    @Test func `the pool does not grow while a connection is dialling or awaits SETTINGS`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 8))
        pool.place(10)
        pool.open(1)
        pool.place(10)
        #expect(pool.dials == 1)
        pool.allow(3, on: 1)
        #expect(pool.dials == 2)
        pool.place(10)
        #expect(pool.dials == 2)
    }

    @Test func `the first request opens the minimum number of connections`() {
        let pool = CheckedPool(PoolState.Rules(minimum: 3, maximum: 5))
        #expect(pool.dials == 0)
        pool.place()
        #expect(pool.dials == 3)
        pool.open(2)
        #expect(pool.running(on: 2) == [1])
    }

    @Test func `the least loaded connection takes the next request`() {
        let pool = CheckedPool(PoolState.Rules(minimum: 3, maximum: 3))
        pool.place()
        for id in 1...3 {
            pool.open(id)
            pool.allow(100, on: id)
        }
        pool.place(29)
        for id in 1...3 { #expect(pool.running(on: id).count == 10) }
    }

    @Test func `a stream limit reduced to 1 opens another connection`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 4))
        pool.place()
        pool.open(1)
        pool.allow(500, on: 1)
        pool.place(4)
        pool.allow(1, on: 1)
        #expect(pool.running(on: 1).count == 5)
        #expect(pool.dials == 1)
        pool.place()
        #expect(pool.dials == 2)
        for _ in 0..<4 { pool.answer(on: 1) }
        #expect(pool.running(on: 1) == [5])
        #expect(pool.waiting == [6])
        pool.open(2)
        #expect(pool.running(on: 2) == [6])
    }

    @Test func `streams added by SETTINGS are used at once`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.allow(1, on: 1)
        pool.place(20)
        #expect(pool.waiting.count == 20)
        pool.allow(10, on: 1)
        #expect(pool.running(on: 1).count == 10)
        #expect(pool.waiting.count == 11)
    }

    // MARK: Proof

    @Test func `a new connection runs one stream until its first authenticated response`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 4, startsWithOneRequest: true))
        pool.place(20)
        pool.open(1)
        pool.allow(1000, on: 1)
        #expect(pool.running(on: 1) == [1])
        pool.answer(on: 1, isProof: false)
        #expect(pool.running(on: 1) == [2])
        #expect(pool.dials == 1)
        pool.answer(on: 1)
        #expect(pool.running(on: 1).count == 18)
        #expect(pool.waiting.isEmpty)
    }

    @Test func `each new connection must be proven by its own response`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 2, startsWithOneRequest: true))
        pool.place()
        pool.open(1)
        pool.allow(2, on: 1)
        pool.answer(on: 1)
        pool.place(10)
        #expect(pool.running(on: 1).count == 2)
        pool.open(2)
        pool.allow(100, on: 2)
        #expect(pool.running(on: 2).count == 1)
        pool.answer(on: 2)
        #expect(pool.running(on: 2).count == 7)
    }

    @Test func `a stream limit of zero set before the first response holds back requests`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1, startsWithOneRequest: true))
        pool.place(2)
        pool.open(1)
        pool.allow(0, on: 1)
        pool.answer(on: 1)
        #expect(pool.running(on: 1).isEmpty)
        pool.allow(1, on: 1)
        #expect(pool.running(on: 1) == [2])
    }

    @Test(arguments: [
        PoolState.Rules(maximum: 1), PoolState.Rules(maximum: 1, startsWithOneRequest: true),
        PoolState.Rules(maximum: 8, startsWithOneRequest: true),
    ])
    func `a connection that allows no streams is replaced after 10 s and drained once replaced`(
        _ rules: PoolState.Rules
    ) {
        let pool = CheckedPool(rules)
        pool.place(2)
        pool.open(1)
        pool.answer(on: 1)
        pool.allow(0, on: 1)
        if rules.maximum > 1 || !pool.running(on: 1).isEmpty { pool.answer(on: 1) }
        pool.place()
        let dials = pool.dials
        pool.pass(.seconds(9))
        #expect(pool.dials == dials)
        pool.pass(.seconds(1))
        #expect(pool.dials == 2)
        // It may still change its mind.
        #expect(pool.phase(of: 1) == .open)
        pool.open(2)
        pool.answer(on: 2)
        #expect(pool.phase(of: 1) == .draining)
        #expect(pool.waiting.isEmpty)
    }

    @Test func `one of several connections that allow no streams is kept`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        for id in 1...4 {
            pool.open(id)
            while !pool.running(on: id).isEmpty { pool.answer(on: id) }
            pool.allow(0, on: id)
            pool.place()
            pool.pass(.seconds(10))
            #expect(pool.dials == id + 1)
            #expect((1...id).count { pool.phase(of: $0) == .open } == 1)
        }
    }

    // MARK: Going away

    @Test func `GOAWAY drains the old connection while a new one takes over`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.allow(10, on: 1)
        pool.place(2)
        pool.leave(1)
        #expect(pool.phase(of: 1) == .draining)
        #expect(pool.dials == 2)
        let place = pool.place()
        #expect(place == .waiting)
        pool.open(2)
        #expect(pool.running(on: 2) == [4])
        for _ in 0..<3 { pool.answer(on: 1) }
        pool.end(1)
        #expect(pool.failed.isEmpty)
        #expect(pool.running(on: 2) == [4])
    }

    @Test func `an idle connection with GOAWAY is replaced only when there is work`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.answer(on: 1)
        pool.leave(1)
        pool.end(1)
        #expect(pool.dials == 1)
        let place = pool.place()
        #expect(place == .waiting)
        #expect(pool.dials == 2)
    }

    @Test func `a repeated GOAWAY dials only one replacement`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.leave(1)
        pool.leave(1)
        pool.leave(99)
        #expect(pool.dials == 2)
    }

    @Test func `draining all connections dials the minimum number of replacements`() {
        let pool = CheckedPool(PoolState.Rules(minimum: 2, maximum: 4))
        pool.place()
        for id in 1...2 {
            pool.open(id)
            pool.allow(10, on: id)
        }
        pool.place(9)
        pool.leaveAll()
        #expect(pool.phase(of: 1) == .draining)
        #expect(pool.phase(of: 2) == .draining)
        #expect(pool.dials == 4)
        pool.place()
        pool.open(3)
        #expect(pool.running(on: 3) == [11])
    }

    // MARK: Failing

    @Test func `a failed dial makes requests fail at once until the backoff has passed`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 4))
        pool.place(3)
        pool.end(1, random: 0.5)
        #expect(pool.failed == [1, 2, 3])
        let refused = pool.place()
        #expect(refused == unreachable)
        pool.pass(.milliseconds(124))
        let stillRefused = pool.place()
        #expect(stillRefused == unreachable)
        pool.pass(.milliseconds(1))
        let taken = pool.place()
        #expect(taken == .waiting)
        #expect(pool.dials == 2)
    }

    @Test func `the backoff between failed dials doubles up to 30 s`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 4))
        for milliseconds in [125, 250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000] {
            let taken = pool.place()
            #expect(taken == .waiting)
            pool.end(pool.dials, random: 0.5)
            pool.pass(.milliseconds(milliseconds - 1))
            let refused = pool.place()
            #expect(refused == unreachable)
            pool.pass(.milliseconds(1))
        }
        #expect(pool.dials == 10)
    }

    @Test func `a proven connection resets the backoff`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        for _ in 0..<6 {
            pool.place()
            pool.end(pool.dials, random: 0.5)
            pool.pass(.seconds(30))
        }
        pool.place()
        pool.open(7)
        pool.answer(on: 7)
        pool.end(7)
        pool.place()
        pool.end(8, random: 0.5)
        pool.pass(.milliseconds(125))
        let taken = pool.place()
        #expect(taken == .waiting)
    }

    @Test func `a connection that closes before it is proven counts as a failed dial`() {
        for provesFirst in [false, true] {
            let pool = CheckedPool(PoolState.Rules(maximum: 4, startsWithOneRequest: provesFirst))
            pool.place(2)
            pool.open(1)
            pool.allow(100, on: 1)
            pool.end(1, random: 0.5)
            let refused = pool.place()
            #expect(refused == unreachable)
            pool.pass(.milliseconds(125))
            let taken = pool.place()
            #expect(taken == .waiting)
        }
    }

    @Test func `responses that refuse the credential do not prove a connection`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.answer(on: 1, isProof: false)
        pool.end(1, random: 0.5)
        let refused = pool.place()
        #expect(refused == unreachable)
    }

    @Test func `a server that sends GOAWAY on every new connection is dialled with backoff`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        for _ in 0..<100 {
            // What was sent away is sent again.
            pool.place()
            pool.pass(.milliseconds(10))
            guard let id = pool.dialling.first else { continue }
            pool.open(id)
            pool.leave(id)
            pool.end(id, random: 0.5)
        }
        #expect(pool.dials < 20)
    }

    @Test func `a proven connection that closes is replaced without delay`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.allow(1, on: 1)
        pool.answer(on: 1)
        pool.place(2)
        pool.end(1)
        #expect(pool.dials == 2)
        #expect(pool.waiting == [3])
        pool.open(2)
        #expect(pool.running(on: 2) == [3])
        #expect(pool.failed.isEmpty)
    }

    @Test func `a failed dial beside a working connection fails no request and is retried`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 2))
        pool.place()
        pool.open(1)
        pool.allow(1, on: 1)
        pool.place(2)
        pool.end(2, random: 0.5)
        #expect(pool.failed.isEmpty)
        #expect(pool.wake == pool.now + .milliseconds(125))
        pool.pass(.milliseconds(124))
        #expect(pool.dials == 2)
        pool.pass(.milliseconds(1))
        #expect(pool.dials == 3)
        pool.open(3)
        #expect(pool.running(on: 3) == [2])
    }

    @Test func `events of a closed connection are ignored`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.allow(5, on: 1)
        pool.place(4)
        pool.end(1)
        pool.end(1)
        pool.allow(100, on: 1)
        #expect(pool.dials == 1)
    }

    // MARK: Requests

    @Test func `requests run in the order of arrival`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place(10)
        pool.open(1)
        pool.allow(1, on: 1)
        for request in 1...10 {
            #expect(pool.running(on: 1) == [request])
            pool.answer(on: 1)
        }
    }

    @Test func `an expired request is not run`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place(3)
        pool.giveUp(1)
        pool.giveUp(3)
        pool.giveUp(99)
        pool.open(1)
        pool.allow(10, on: 1)
        #expect(pool.running(on: 1) == [2])
    }

    // MARK: The end

    @Test func `a retired pool fails waiting requests and empties once running ones finish`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 3))
        pool.place()
        pool.open(1)
        pool.allow(1, on: 1)
        pool.place(3)
        pool.retire()
        #expect(pool.failed == [2, 3, 4])
        #expect(pool.phase(of: 1) == .draining)
        let refused = pool.place()
        #expect(refused == PoolState.Placement.unavailable(because: nil))
        pool.open(2)
        #expect(pool.phase(of: 2) == .draining)
        pool.end(2)
        #expect(!pool.isEmpty)
        pool.answer(on: 1)
        pool.end(1)
        #expect(pool.isEmpty)
        pool.pass(.seconds(60))
        #expect(pool.dials == 2)
    }

    // MARK: Anything

    @Test(arguments: [
        PoolState.Rules(), PoolState.Rules(startsWithOneRequest: true), PoolState.Rules(maximum: 4),
        PoolState.Rules(maximum: 8, startsWithOneRequest: true),
        PoolState.Rules(minimum: 2, maximum: 3, startsWithOneRequest: true),
        PoolState.Rules(minimum: 3, maximum: 3),
    ])
    func `no random sequence of events leads to an illegal step`(_ rules: PoolState.Rules) {
        for seed in 1...350 as ClosedRange<UInt64> {
            let pool = CheckedPool(rules, seed: seed)
            var steps = 0
            while pool.isLegal, steps < 60 {
                pool.doAnything()
                steps += 1
            }
            guard pool.isLegal else { return }
            pool.comeToRest()
            guard pool.isLegal else { return }
        }
    }
}

// MARK: - A pool that is watched

/// Performs what a pool decides on connections and requests that are only numbers, and reports each step that is not
/// legal: a request that is run twice, out of turn, on a connection that is not there, not open or full, or that waits
/// for nothing; a dial too many or too early; a wake in the past.
private final class CheckedPool {
    enum Phase { case dialling, open, draining }

    private struct Connection {
        let id: Int
        var phase = Phase.dialling
        var limit: Int?
        var isProven = false
        var running: [Int] = []
        var barrenSince: MonotonicTime?

        var isBarren: Bool { phase == .open && limit == 0 && running.isEmpty }

        func isUseless(_ now: MonotonicTime) -> Bool {
            isBarren && barrenSince.map { now - $0 >= .seconds(10) } ?? false
        }
    }

    /// Why connections end here.
    static let reason = "refused"

    private let rules: PoolState.Rules
    private let seed: UInt64
    private var generator: SplitMix64
    private var pool: PoolState
    private(set) var now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private var connections: [Connection] = []
    private(set) var waiting: [Int] = []
    private(set) var failed: [Int] = []
    private(set) var dials = 0
    private(set) var wake: MonotonicTime?
    private(set) var isLegal = true
    private var wereRun: Set<Int> = []
    private var nextRequest = 1
    private var backoff: Backoff
    private var nextDial: MonotonicTime?
    private var isRetired = false

    init(_ rules: PoolState.Rules, seed: UInt64 = 0) {
        self.rules = rules
        self.seed = seed
        generator = SplitMix64(seed: seed)
        pool = PoolState(rules: rules)
        backoff = rules.backoff
    }

    var isEmpty: Bool { pool.isEmpty }
    var dialling: [Int] { ids(in: .dialling) }

    func running(on id: Int) -> [Int] { connections.first { $0.id == id }?.running ?? [] }

    func phase(of id: Int) -> Phase? { connections.first { $0.id == id }?.phase }

    // MARK: Events

    @discardableResult func place() -> PoolState.Placement {
        let request = nextRequest
        nextRequest += 1
        var actions: [PoolState.Action] = []
        let place = pool.place(request: request, now: now, &actions)
        if place == .waiting { waiting.append(request) }
        for action in actions { perform(action) }
        switch place {
        case .connection(let id):
            if !waiting.isEmpty { fault("a request overtakes those that wait") }
            run(request, on: id)
        case .waiting: break
        case .unavailable(let reason):
            if canServe { fault("a request is refused that could be served") }
            if reason != expectedReason { fault("a request is refused because: \(reason ?? "this side has ended")") }
        }
        check()
        return place
    }

    func place(_ count: Int) {
        for _ in 0..<count { place() }
    }

    func giveUp(_ request: Int) {
        waiting.removeAll { $0 == request }
        pool.expire(request: request)
        check()
    }

    func open(_ id: Int) {
        if let index = index(of: id) { connections[index].phase = .open }
        var actions: [PoolState.Action] = []
        pool.opened(id, now: now, &actions)
        perform(actions)
    }

    func allow(_ streams: Int, on id: Int) {
        if let index = index(of: id) {
            connections[index].limit = streams
            if streams > 0 { connections[index].barrenSince = nil }
        }
        var actions: [PoolState.Action] = []
        pool.allows(streams, on: id, now: now, &actions)
        perform(actions)
    }

    /// The oldest request on a connection, or another one, has come to its end.
    func answer(on id: Int, isProof: Bool = true, request: Int = 0) {
        guard let index = index(of: id), !connections[index].running.isEmpty else {
            return fault("nothing runs on connection \(id)")
        }
        connections[index].running.remove(at: request)
        if isProof, !connections[index].isProven {
            connections[index].isProven = true
            backoff.reset()
        }
        finish(on: id, isProof: isProof)
    }

    func leave(_ id: Int) {
        var actions: [PoolState.Action] = []
        pool.drain(id, now: now, &actions)
        perform(actions)
    }

    func leaveAll() {
        var actions: [PoolState.Action] = []
        pool.drainAll(now: now, &actions)
        perform(actions)
    }

    /// A dial has failed or a connection has ended; what runs on it learns of it afterwards.
    func end(_ id: Int, random: Double = 0.5) {
        var orphans: [Int] = []
        if let index = index(of: id) {
            let connection = connections.remove(at: index)
            orphans = connection.running
            nextDial = connection.isProven ? nil : now + backoff.next(random: random)
        }
        var actions: [PoolState.Action] = []
        pool.ended(id, because: Self.reason, now: now, random: random, &actions)
        perform(actions)
        for _ in orphans { finish(on: id, isProof: false) }
    }

    func retire() {
        isRetired = true
        var actions: [PoolState.Action] = []
        pool.retire(&actions)
        perform(actions)
    }

    func pass(_ time: Duration) {
        let end = now + time
        if let wake, wake <= end {
            now = wake
            self.wake = nil
            var actions: [PoolState.Action] = []
            pool.timeReached(now, &actions)
            perform(actions)
        }
        now = max(now, end)
    }

    private func finish(on id: Int, isProof: Bool) {
        var actions: [PoolState.Action] = []
        pool.finished(on: id, isCredentialAccepted: isProof, now: now, &actions)
        perform(actions)
    }

    // MARK: Any events

    func doAnything() {
        switch Int.random(in: 0..<100, using: &generator) {
        case ..<34: place()
        case ..<37: if let request = waiting.randomElement(using: &generator) { giveUp(request) }
        case ..<47: if let id = pick(.dialling) { open(id) }
        case ..<51: if let id = pick(.dialling) { end(id, random: generator.unit()) }
        case ..<61:
            let streams = [0, 1, 1, 2, 3, 8, 100].randomElement(using: &generator) ?? 1
            if let id = pick(.open, .draining) { allow(streams, on: id) }
        case ..<85:
            let busy = connections.filter { !$0.running.isEmpty }
            guard let connection = busy.randomElement(using: &generator) else { return }
            let request = Int.random(in: connection.running.indices, using: &generator)
            answer(on: connection.id, isProof: Int.random(in: 0..<8, using: &generator) > 0, request: request)
        case ..<89: if let id = pick(.open) { leave(id) }
        case ..<90: leaveAll()
        case ..<93: if let id = pick(.open, .draining) { end(id, random: generator.unit()) }
        case ..<99: pass(.milliseconds(Int.random(in: 0..<2000, using: &generator)))
        default: pass(.seconds(12))
        }
    }

    /// The server and the way to it are in order again, and nothing new comes: every request has to come to its end, and
    /// then the pool to its own.
    func comeToRest() {
        for _ in 0..<100 where !waiting.isEmpty || connections.contains(where: { !$0.running.isEmpty }) {
            for id in connections.map(\.id) {
                if phase(of: id) == .dialling { open(id) }
                if phase(of: id) == .open { allow(5, on: id) }
                while !running(on: id).isEmpty { answer(on: id) }
            }
            pass(.seconds(1))
        }
        if !waiting.isEmpty { fault("requests are lost: they neither run nor fail") }
        retire()
        for id in dialling { open(id) }
        for id in connections.map(\.id) { end(id) }
        if !pool.isEmpty { fault("something is left when all is over") }
    }

    private func ids(in phase: Phase) -> [Int] { connections.filter { $0.phase == phase }.map(\.id) }

    private func pick(_ phases: Phase...) -> Int? {
        connections.filter { phases.contains($0.phase) }.randomElement(using: &generator)?.id
    }

    // MARK: What is legal

    private func perform(_ actions: [PoolState.Action]) {
        for action in actions { perform(action) }
        check()
    }

    private func perform(_ action: PoolState.Action) {
        switch action {
        case .dial(let id):
            if index(of: id) != nil { fault("two connections are called \(id)") }
            if isRetired { fault("a dial after the end") }
            if isBackingOff { fault("a dial before the backoff has passed") }
            if usable.count(where: { !$0.isUseless(now) }) >= rules.maximum {
                fault("more connections than the maximum")
            }
            if usable.count > rules.maximum { fault("more than one connection beyond the maximum") }
            connections.append(Connection(id: id))
            dials += 1
        case .run(let request, let id):
            if waiting.first == request {
                waiting.removeFirst()
            } else {
                fault("request \(request) is run out of turn, or does not wait")
            }
            run(request, on: id)
        case .fail(let request, let reason):
            if let index = waiting.firstIndex(of: request) {
                waiting.remove(at: index)
            } else {
                fault("request \(request) fails and does not wait")
            }
            if canServe { fault("a request fails that could be served") }
            if reason != expectedReason { fault("a request fails because: \(reason ?? "this side has ended")") }
            failed.append(request)
        case .wake(let time):
            if time <= now { fault("a wake in the past") }
            let barren = connections.filter(\.isBarren).map { ($0.barrenSince ?? now) + .seconds(10) }
            if time != nextDial, !barren.contains(time) { fault("a wake at no time that matters") }
            wake = time
        case .drain(let id):
            if let index = index(of: id), connections[index].phase == .open {
                connections[index].phase = .draining
            } else {
                fault("connection \(id) is to be drained and is not open")
            }
        }
    }

    private func run(_ request: Int, on id: Int) {
        if !wereRun.insert(request).inserted { fault("request \(request) is run twice") }
        guard let index = index(of: id), connections[index].phase == .open else {
            return fault("request \(request) is run on connection \(id), which is not open")
        }
        if room(connections[index]) < 1 { fault("request \(request) is run on connection \(id), which is full") }
        connections[index].running.append(request)
    }

    /// What holds after each event.
    private func check() {
        if pool.waitingCount != waiting.count { fault("\(pool.waitingCount) wait instead of \(waiting.count)") }
        let openCount = connections.count { $0.phase == .open }
        if pool.openCount != openCount { fault("\(pool.openCount) are open instead of \(openCount)") }
        guard !waiting.isEmpty else { return }
        for index in connections.indices where connections[index].isBarren && connections[index].barrenSince == nil {
            connections[index].barrenSince = now
        }
        if usable.isEmpty { fault("requests wait for nothing") }
        let candidates = usable.filter { !$0.isUseless(now) }
        if candidates.contains(where: { $0.phase == .open && room($0) > 0 }) { fault("requests wait beside a place") }
        if candidates.count < rules.maximum, candidates.allSatisfy({ $0.phase == .open && isSettled($0) }) {
            if wake.map({ $0 <= now }) ?? true { fault("requests wait, and it does not grow") }
        }
    }

    private func room(_ connection: Connection) -> Int {
        let most = isSettled(connection) ? connection.limit ?? 1 : min(1, connection.limit ?? 1)
        return most - connection.running.count
    }

    /// Whether it is known what the connection can carry.
    private func isSettled(_ connection: Connection) -> Bool {
        connection.limit != nil && (connection.isProven || !rules.startsWithOneRequest)
    }

    private var expectedReason: String? { isRetired ? nil : Self.reason }
    private var usable: [Connection] { connections.filter { $0.phase != .draining } }
    private var isBackingOff: Bool { nextDial.map { $0 > now } ?? false }
    private var canServe: Bool { !isRetired && (!usable.isEmpty || !isBackingOff) }

    private func index(of id: Int) -> Int? { connections.firstIndex { $0.id == id } }

    private func fault(_ what: String) {
        guard isLegal else { return }
        isLegal = false
        Issue.record("seed \(seed): \(what)")
    }
}
