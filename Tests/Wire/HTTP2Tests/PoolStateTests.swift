// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import HTTP2
@testable import Time

@Suite(.tags(.sockets)) struct PoolStateTests {
    private let unreachable = PoolState.Placement.unavailable(because: CheckedPool.reason)

    // MARK: Growth

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
        pool.advance(.seconds(9))
        #expect(pool.dials == dials)
        pool.advance(.seconds(1))
        #expect(pool.dials == 2)
        // Its limit may still be raised.
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
            pool.advance(.seconds(10))
            #expect(pool.dials == id + 1)
            #expect((1...id).count { pool.phase(of: $0) == .open } == 1)
        }
    }

    // MARK: GOAWAY

    @Test func `GOAWAY drains the old connection while a new one takes over`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        pool.place()
        pool.open(1)
        pool.allow(10, on: 1)
        pool.place(2)
        pool.drain(1)
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
        pool.drain(1)
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
        pool.drain(1)
        pool.drain(1)
        pool.drain(99)
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
        pool.drainAll()
        #expect(pool.phase(of: 1) == .draining)
        #expect(pool.phase(of: 2) == .draining)
        #expect(pool.dials == 4)
        pool.place()
        pool.open(3)
        #expect(pool.running(on: 3) == [11])
    }

    // MARK: Failures

    @Test func `a failed dial makes requests fail at once until the backoff has passed`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 4))
        pool.place(3)
        pool.end(1, random: 0.5)
        #expect(pool.failed == [1, 2, 3])
        let refused = pool.place()
        #expect(refused == unreachable)
        pool.advance(.milliseconds(124))
        let stillRefused = pool.place()
        #expect(stillRefused == unreachable)
        pool.advance(.milliseconds(1))
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
            pool.advance(.milliseconds(milliseconds - 1))
            let refused = pool.place()
            #expect(refused == unreachable)
            pool.advance(.milliseconds(1))
        }
        #expect(pool.dials == 10)
    }

    @Test func `a proven connection resets the backoff`() {
        let pool = CheckedPool(PoolState.Rules(maximum: 1))
        for _ in 0..<6 {
            pool.place()
            pool.end(pool.dials, random: 0.5)
            pool.advance(.seconds(30))
        }
        pool.place()
        pool.open(7)
        pool.answer(on: 7)
        pool.end(7)
        pool.place()
        pool.end(8, random: 0.5)
        pool.advance(.milliseconds(125))
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
            pool.advance(.milliseconds(125))
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
            // A request refused by GOAWAY is sent again.
            pool.place()
            pool.advance(.milliseconds(10))
            guard let id = pool.dialling.first else { continue }
            pool.open(id)
            pool.drain(id)
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
        pool.advance(.milliseconds(124))
        #expect(pool.dials == 2)
        pool.advance(.milliseconds(1))
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
        pool.expire(1)
        pool.expire(3)
        pool.expire(99)
        pool.open(1)
        pool.allow(10, on: 1)
        #expect(pool.running(on: 1) == [2])
    }

    // MARK: Retirement

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
        pool.advance(.seconds(60))
        #expect(pool.dials == 2)
    }

    // MARK: Random events

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
                pool.performRandomEvent()
                steps += 1
            }
            guard pool.isLegal else { return }
            pool.finishEverything()
            guard pool.isLegal else { return }
        }
    }
}

// MARK: - A checked pool

/// Performs the decisions of a pool on connections and requests that are only numbers, and reports each illegal step:
/// a request that runs twice, out of order, or on a connection that is unknown, not open or full; a request that waits
/// although nothing can serve it; a dial too many or too early; a wake in the past.
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

    /// The reason given for each closed connection.
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
    private var startedRequests: Set<Int> = []
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
            if !waiting.isEmpty { report("a request overtakes waiting requests") }
            run(request, on: id)
        case .waiting: break
        case .unavailable(let reason):
            if canServe { report("a request is refused that could be served") }
            if reason != expectedReason { report("a request is refused because: \(reason ?? "the pool is retired")") }
        }
        check()
        return place
    }

    func place(_ count: Int) {
        for _ in 0..<count { place() }
    }

    func expire(_ request: Int) {
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

    /// Completes the oldest request on a connection, or the one at index `request`.
    func answer(on id: Int, isProof: Bool = true, request: Int = 0) {
        guard let index = index(of: id), !connections[index].running.isEmpty else {
            return report("nothing runs on connection \(id)")
        }
        connections[index].running.remove(at: request)
        if isProof, !connections[index].isProven {
            connections[index].isProven = true
            backoff.reset()
        }
        finish(on: id, isProof: isProof)
    }

    func drain(_ id: Int) {
        var actions: [PoolState.Action] = []
        pool.drain(id, now: now, &actions)
        perform(actions)
    }

    func drainAll() {
        var actions: [PoolState.Action] = []
        pool.drainAll(now: now, &actions)
        perform(actions)
    }

    /// Fails a dial or closes a connection; the requests that run on it finish afterwards.
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

    func advance(_ time: Duration) {
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

    // MARK: Random events

    func performRandomEvent() {
        switch Int.random(in: 0..<100, using: &generator) {
        case ..<34: place()
        case ..<37: if let request = waiting.randomElement(using: &generator) { expire(request) }
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
        case ..<89: if let id = pick(.open) { drain(id) }
        case ..<90: drainAll()
        case ..<93: if let id = pick(.open, .draining) { end(id, random: generator.unit()) }
        case ..<99: advance(.milliseconds(Int.random(in: 0..<2000, using: &generator)))
        default: advance(.seconds(12))
        }
    }

    /// Restores the server and adds no requests: every request must finish, and then the pool must become empty.
    func finishEverything() {
        for _ in 0..<100 where !waiting.isEmpty || connections.contains(where: { !$0.running.isEmpty }) {
            for id in connections.map(\.id) {
                if phase(of: id) == .dialling { open(id) }
                if phase(of: id) == .open { allow(5, on: id) }
                while !running(on: id).isEmpty { answer(on: id) }
            }
            advance(.seconds(1))
        }
        if !waiting.isEmpty { report("requests are lost: they neither run nor fail") }
        retire()
        for id in dialling { open(id) }
        for id in connections.map(\.id) { end(id) }
        if !pool.isEmpty { report("the pool is not empty after its last connection closed") }
    }

    private func ids(in phase: Phase) -> [Int] { connections.filter { $0.phase == phase }.map(\.id) }

    private func pick(_ phases: Phase...) -> Int? {
        connections.filter { phases.contains($0.phase) }.randomElement(using: &generator)?.id
    }

    // MARK: Checks

    private func perform(_ actions: [PoolState.Action]) {
        for action in actions { perform(action) }
        check()
    }

    private func perform(_ action: PoolState.Action) {
        switch action {
        case .dial(let id):
            if index(of: id) != nil { report("two connections have the id \(id)") }
            if isRetired { report("a dial after retirement") }
            if isBackingOff { report("a dial before the backoff has passed") }
            if usable.count(where: { !$0.isUseless(now) }) >= rules.maximum {
                report("more connections than the maximum")
            }
            if usable.count > rules.maximum { report("more than one connection beyond the maximum") }
            connections.append(Connection(id: id))
            dials += 1
        case .run(let request, let id):
            if waiting.first == request {
                waiting.removeFirst()
            } else {
                report("request \(request) runs out of order, or was not waiting")
            }
            run(request, on: id)
        case .fail(let request, let reason):
            if let index = waiting.firstIndex(of: request) {
                waiting.remove(at: index)
            } else {
                report("request \(request) fails but was not waiting")
            }
            if canServe { report("a request fails that could be served") }
            if reason != expectedReason { report("a request fails because: \(reason ?? "the pool is retired")") }
            failed.append(request)
        case .wake(let time):
            if time <= now { report("a wake in the past") }
            let barren = connections.filter(\.isBarren).map { ($0.barrenSince ?? now) + .seconds(10) }
            if time != nextDial, !barren.contains(time) { report("a wake at a time without an event") }
            wake = time
        case .drain(let id):
            if let index = index(of: id), connections[index].phase == .open {
                connections[index].phase = .draining
            } else {
                report("connection \(id) is drained but not open")
            }
        }
    }

    private func run(_ request: Int, on id: Int) {
        if !startedRequests.insert(request).inserted { report("request \(request) runs twice") }
        guard let index = index(of: id), connections[index].phase == .open else {
            return report("request \(request) runs on connection \(id), which is not open")
        }
        if room(connections[index]) < 1 { report("request \(request) runs on connection \(id), which is full") }
        connections[index].running.append(request)
    }

    /// Checks the invariants that hold after each event.
    private func check() {
        if pool.waitingCount != waiting.count { report("\(pool.waitingCount) wait instead of \(waiting.count)") }
        let openCount = connections.count { $0.phase == .open }
        if pool.openCount != openCount { report("\(pool.openCount) are open instead of \(openCount)") }
        guard !waiting.isEmpty else { return }
        for index in connections.indices where connections[index].isBarren && connections[index].barrenSince == nil {
            connections[index].barrenSince = now
        }
        if usable.isEmpty { report("requests wait although no connection can serve them") }
        let candidates = usable.filter { !$0.isUseless(now) }
        if candidates.contains(where: { $0.phase == .open && room($0) > 0 }) {
            report("requests wait although a stream is free")
        }
        if candidates.count < rules.maximum, candidates.allSatisfy({ $0.phase == .open && isSettled($0) }) {
            if wake.map({ $0 <= now }) ?? true { report("requests wait, and the pool does not grow") }
        }
    }

    private func room(_ connection: Connection) -> Int {
        let most = isSettled(connection) ? connection.limit ?? 1 : min(1, connection.limit ?? 1)
        return most - connection.running.count
    }

    /// Whether the number of streams that the connection can carry is known.
    private func isSettled(_ connection: Connection) -> Bool {
        connection.limit != nil && (connection.isProven || !rules.startsWithOneRequest)
    }

    private var expectedReason: String? { isRetired ? nil : Self.reason }
    private var usable: [Connection] { connections.filter { $0.phase != .draining } }
    private var isBackingOff: Bool { nextDial.map { $0 > now } ?? false }
    private var canServe: Bool { !isRetired && (!usable.isEmpty || !isBackingOff) }

    private func index(of id: Int) -> Int? { connections.firstIndex { $0.id == id } }

    private func report(_ what: String) {
        guard isLegal else { return }
        isLegal = false
        Issue.record("seed \(seed): \(what)")
    }
}
