// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Simulator
import Testing

@testable import Delivery
@testable import Time

@Suite struct ConcurrencyWindowTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    /// A window of this limit whose slow start has ended, and whose base latency is 100 ms.
    private func settled(at limit: Int, of range: ClosedRange<Int> = 1...1000) -> Simulation {
        let before = (limit * 10 + 6) / 7
        var simulation = Simulation(ConcurrencyWindow(range: range, start: before), SimulatedProvider())
        // Half of the window is used but for one, so that it does not grow.
        simulation.run(.milliseconds(2050), load: (before + 1) / 2 - 1)
        simulation.answerAtOnce(isOverload: true)
        return simulation
    }

    // MARK: Room

    @Test func `an abandoned attempt returns its slot and changes nothing else`() {
        var window = ConcurrencyWindow(range: 1...100, start: 2)
        let before = window.limit
        for _ in 0..<1000 {
            window.began()
            window.began()
            #expect(!window.hasRoom)
            window.abandoned()
            #expect(window.hasRoom)
            window.abandoned()
        }
        #expect(window.inFlight == 0)
        #expect(window.limit == before)
    }

    @Test func `there is room until the number in flight reaches the limit`() {
        var window = ConcurrencyWindow(range: 1...100, start: 3)
        #expect(window.limit == 3)
        for number in 1...3 {
            #expect(window.hasRoom)
            window.began()
            #expect(window.inFlight == number)
        }
        #expect(!window.hasRoom)
        window.ended(latency: .milliseconds(100), isOverload: true, now: start)
        #expect(window.inFlight == 2)
        #expect(window.limit == 2)
        #expect(!window.hasRoom)
    }

    @Test func `the initial limit is clamped to the range`() {
        #expect(ConcurrencyWindow(range: 4...100, start: 1).limit == 4)
        #expect(ConcurrencyWindow(range: 4...100, start: 50).limit == 50)
        #expect(ConcurrencyWindow(range: 4...100, start: 1000).limit == 100)
    }

    // MARK: Growth

    @Test func `until the first decrease the limit doubles each round`() {
        var simulation = Simulation(ConcurrencyWindow(range: 1...1000, start: 4), SimulatedProvider())
        for limit in [8, 16, 32, 64, 128, 256, 512, 1000, 1000] {
            simulation.run(.milliseconds(100))
            #expect(simulation.window.limit == limit)
        }
    }

    @Test func `after a decrease the limit grows by one each round`() {
        var simulation = settled(at: 20)
        #expect(simulation.window.limit == 20)
        simulation.run(.seconds(4))
        #expect((57...60).contains(simulation.window.limit), "\(simulation.window.limit)")
    }

    @Test func `attempts begun before a decrease do not raise the limit`() {
        var simulation = settled(at: 100)
        simulation.run(.milliseconds(1010))
        #expect(simulation.window.limit > 100)
        simulation.answerAtOnce(isOverload: true)
        let limit = simulation.window.limit
        let summary = simulation.run(.milliseconds(99))
        #expect(summary.answers > 70)
        #expect(summary.limits == limit...limit)
        simulation.run(.milliseconds(101))
        #expect(simulation.window.limit > limit)
    }

    @Test func `the limit grows only while at least half of it is in use`() {
        for (load, grows) in [(1, false), (24, false), (25, true), (50, true)] {
            var simulation = settled(at: 50)
            #expect(simulation.window.limit == 50)
            simulation.run(.seconds(20), load: load)
            #expect((simulation.window.limit > 50) == grows, "\(load) under way")
            #expect(simulation.window.limit >= 50)
        }
    }

    // MARK: Overload

    @Test func `an overload reduces the limit by 30 %`() {
        for (before, after) in [(1000, 700), (100, 70), (10, 7), (3, 2), (2, 1), (1, 1)] {
            var simulation = Simulation(ConcurrencyWindow(range: 1...1000, start: before), SimulatedProvider())
            simulation.answerAtOnce(isOverload: true)
            #expect(simulation.window.limit == after)
        }
    }

    @Test func `one overload among many simultaneous answers reduces the limit once`() {
        for place in [0, 20, 99] {
            var window = ConcurrencyWindow(range: 1...1000, start: 100)
            while window.hasRoom { window.began() }
            var (largest, decreases) = (100, 0)
            for number in 0..<100 {
                let before = window.limit
                window.ended(latency: .milliseconds(100), isOverload: number == place, now: start)
                // Those before it make it larger, but those after it have begun before it became smaller.
                largest = max(largest, window.limit)
                if window.limit < before { decreases += 1 }
            }
            #expect(decreases == 1, "\(place)")
            #expect(window.limit == largest * 7 / 10, "\(place)")
        }
    }

    @Test func `many simultaneous overloads reduce the limit once`() {
        var window = ConcurrencyWindow(range: 1...1000, start: 100)
        while window.hasRoom { window.began() }
        for _ in 0..<100 { window.ended(latency: .milliseconds(100), isOverload: true, now: start) }
        #expect(window.limit == 70)
    }

    @Test func `the limit falls at most once per round and once per 100 ms`() {
        for (latency, round) in [(1, 100), (50, 100), (100, 100), (101, 101), (400, 400), (2000, 2000)] {
            var simulation = Simulation(
                ConcurrencyWindow(range: 1...1000, start: 100), SimulatedProvider(way: .milliseconds(latency)))
            simulation.run(.seconds(30), load: 40)
            simulation.answerAtOnce(isOverload: true)
            #expect(simulation.window.limit == 70)
            simulation.run(.microseconds(round * 1000 - 1), load: 0)
            simulation.answerAtOnce(isOverload: true)
            #expect(simulation.window.limit == 70, "\(latency) ms")
            simulation.run(.microseconds(1), load: 0)
            simulation.answerAtOnce(isOverload: true)
            #expect(simulation.window.limit == 49, "\(latency) ms")
        }
    }

    @Test func `the latency of overloads is ignored`() {
        var simulation = settled(at: 50)
        simulation.provider.state = .refuses
        simulation.provider.way = .milliseconds(1)
        simulation.run(.seconds(10))
        simulation.provider.state = .isSilent
        simulation.run(.seconds(60))
        simulation.provider.state = .works
        simulation.provider.way = .milliseconds(100)
        simulation.run(.seconds(1))
        let summary = simulation.run(.seconds(30))
        #expect(summary.limits.lowerBound >= 4)
        #expect(summary.limits.upperBound == 1000)
    }

    // MARK: Latency

    @Test func `latency above three times the base plus 50 ms reduces the limit`() {
        for (latency, becomesSmaller) in [(100, false), (200, false), (340, false), (360, true), (1000, true)] {
            var simulation = settled(at: 50)
            simulation.run(.seconds(1), load: 24)
            simulation.provider.way = .milliseconds(latency)
            let summary = simulation.run(.seconds(5), load: 50)
            #expect((summary.limits.lowerBound < 50) == becomesSmaller, "\(latency) ms")
        }
    }

    @Test func `after a decrease only the latency of attempts begun since then counts`() {
        var simulation = settled(at: 100)
        simulation.provider.way = .milliseconds(1000)
        var limits = [100]
        for _ in 0..<100 {
            simulation.run(.milliseconds(50))
            if simulation.window.limit != limits.last { limits.append(simulation.window.limit) }
        }
        // The answers to what began before a step come within a second and count for nothing.
        #expect(limits == [100, 70, 49, 34])
    }

    @Test func `single slow answers are not congestion`() {
        var simulation = settled(at: 50)
        simulation.provider.delayed = (share: 0.05, by: .seconds(5))
        let summary = simulation.run(.seconds(50))
        #expect(summary.limits.lowerBound == 50)
    }

    @Test func `the first answers after a decrease are too few to cause another`() {
        var window = settled(at: 50).window
        let later = start + .seconds(60)
        while window.hasRoom { window.began() }
        for number in 0..<20 {
            window.ended(latency: .milliseconds(number < 2 ? 2000 : 100), isOverload: false, now: later)
            #expect(window.limit >= 50, "\(number)")
        }
    }

    @Test func `varying latency is not congestion, however many answers vary`() {
        var simulation = Simulation(ConcurrencyWindow(range: 1...500, start: 16), SimulatedProvider())
        simulation.run(.seconds(5))
        simulation.provider.delayed = (share: 0.1, by: .milliseconds(400))
        let summary = simulation.run(.seconds(40))
        #expect(summary.limits == 500...500)
    }

    @Test func `light load is never limited, whatever its latency`() {
        var simulation = settled(at: 40)
        for latency in [100, 20, 300, 100, 5000, 30, 100] {
            simulation.provider.way = .milliseconds(latency)
            let summary = simulation.run(.seconds(100), load: 4)
            #expect(summary.limits == 40...40, "\(latency) ms")
        }
    }

    @Test func `the base latency is that of the latest period without pressure`() {
        var simulation = settled(at: 40)
        simulation.provider.way = .milliseconds(1000)
        simulation.run(.seconds(30), load: 4)
        let pressed = simulation.run(.seconds(30))
        #expect(pressed.limits.lowerBound == 40)
        // And what is shorter is the base even under pressure.
        simulation.provider.way = .milliseconds(100)
        simulation.run(.seconds(5))
        simulation.provider.way = .milliseconds(500)
        let longer = simulation.run(.seconds(5))
        #expect(longer.limits.lowerBound < 40)
    }

    @Test func `under pressure the limit is lowered once a minute, for less than a second`() {
        var simulation = limited()
        simulation.run(.seconds(30))
        for _ in 0..<10 {
            var (low, tenths) = (0, 0)
            while tenths < 600 {
                tenths += 1
                if simulation.run(.milliseconds(100)).limits.lowerBound < 25 { low += 1 }
            }
            #expect((1...9).contains(low), "\(low) tenths of a second")
        }
    }

    @Test func `after a lasting rise of the latency the limit recovers within a minute`() {
        var simulation = Simulation(
            ConcurrencyWindow(range: 4...300, start: 16), SimulatedProvider(way: .milliseconds(200)))
        simulation.run(.seconds(70))
        #expect(simulation.window.limit == 300)
        simulation.provider.way = .milliseconds(1000)
        let lost = simulation.run(.seconds(50))
        #expect(lost.limits.lowerBound == 4)
        let found = simulation.run(.seconds(10))
        #expect(found.limits == 300...300)
    }

    // MARK: A provider that works on so many at a time

    /// 20 at a time, 80 ms each, so 250 in a second; with the way, 100 ms.
    private func limited(start: Int = 16, jitter: Double = 0.5) -> Simulation {
        Simulation(
            ConcurrencyWindow(range: 4...1000, start: start),
            SimulatedProvider(capacity: 20, service: .milliseconds(80), way: .milliseconds(20), jitter: jitter))
    }

    @Test func `the limit settles where the provider is busy and the latency is low`() {
        for start in [4, 16, 100, 1000] {
            var simulation = limited(start: start)
            simulation.run(.seconds(60))
            let summary = simulation.run(.seconds(120))
            #expect(summary.answers > 250 * 120 * 98 / 100, "\(summary.answers) from \(start)")
            #expect(summary.latency < .milliseconds(350), "\(summary.latency) from \(start)")
            #expect(summary.limits.upperBound < 120, "\(summary.limits) from \(start)")
        }
    }

    @Test func `the limit grows to the provider's capacity without a large overshoot`() {
        var simulation = limited(start: 4)
        let summary = simulation.run(.seconds(10))
        // At 70 an answer takes the 350 ms that are tolerated.
        #expect((50..<150).contains(summary.limits.upperBound), "\(summary.limits)")
        #expect(summary.latency < .milliseconds(350), "\(summary.latency)")
    }

    @Test func `the node's own queueing never becomes the base latency, however long the pressure lasts`() {
        var simulation = limited()
        for minute in 1...20 {
            let summary = simulation.run(.seconds(60))
            #expect(summary.latency < .milliseconds(350), "\(summary.latency) in minute \(minute)")
            #expect(summary.answers > 250 * 60 * 97 / 100, "\(summary.answers) in minute \(minute)")
        }
    }

    @Test func `with answers of 1 ms the latency stays below 200 ms`() {
        var simulation = Simulation(
            ConcurrencyWindow(range: 4...1000, start: 16),
            SimulatedProvider(capacity: 2, service: .milliseconds(1), way: .milliseconds(1)))
        for minute in 1...4 {
            let summary = simulation.run(.seconds(60))
            #expect(summary.latency < .milliseconds(200), "\(summary.latency) in minute \(minute)")
        }
    }

    @Test func `a base latency measured under load comes down`() {
        var simulation = limited()
        // For its first answers the provider is slow.
        simulation.provider.service = .milliseconds(1500)
        simulation.run(.seconds(10))
        simulation.provider.service = .milliseconds(80)
        simulation.run(.seconds(600))
        let summary = simulation.run(.seconds(300))
        #expect(summary.latency < .milliseconds(350), "\(summary.latency)")
    }

    @Test func `a provider that becomes four times slower gets less load, and more when it recovers`() {
        var simulation = limited()
        simulation.run(.seconds(30))
        simulation.provider.service = .milliseconds(380)
        simulation.run(.seconds(60))
        let slow = simulation.run(.seconds(300))
        #expect(slow.latency < .milliseconds(3 * 400 + 50), "\(slow.latency)")
        #expect(slow.answers > 300 * 20 * 1000 / 380 * 95 / 100, "\(slow.answers)")
        simulation.provider.service = .milliseconds(80)
        simulation.run(.seconds(30))
        let fast = simulation.run(.seconds(300))
        #expect(fast.latency < .milliseconds(350), "\(fast.latency)")
        #expect(fast.answers > 300 * 250 * 98 / 100, "\(fast.answers)")
    }

    @Test func `an outage reduces the limit to the minimum, and recovery takes seconds`() {
        for state in [SimulatedProvider.State.refuses, .isSilent] {
            var simulation = limited()
            simulation.run(.seconds(30))
            simulation.provider.state = state
            simulation.run(.seconds(300))
            #expect(simulation.window.limit == 4, "\(state)")
            simulation.provider.state = .works
            // What is still unanswered has to end first.
            simulation.run(.seconds(20))
            let summary = simulation.run(.seconds(30))
            #expect(summary.answers > 250 * 30 * 95 / 100, "\(summary.answers) after \(state)")
            #expect(summary.latency < .milliseconds(350), "\(summary.latency) after \(state)")
        }
    }

    // MARK: Anything

    @Test func `in any sequence of events the limit stays in its range and the count in flight is exact`() {
        var generator = SplitMix64(seed: 7)
        for _ in 0..<200 {
            let least = 1 + generator.below(10)
            let range = least...(least + generator.below(200))
            var window = ConcurrencyWindow(range: range, start: generator.below(300))
            var (now, underWay) = (start, 0)
            for _ in 0..<1000 {
                if generator.below(3) > 0 {
                    if window.hasRoom {
                        window.began()
                        underWay += 1
                    }
                } else if underWay > 0 {
                    underWay -= 1
                    window.ended(
                        latency: .milliseconds(generator.below([1, 100, 20_000][generator.below(3)])),
                        isOverload: generator.below(10) == 0, now: now)
                }
                if generator.below(4) == 0 { now = now + .milliseconds(generator.below(2000)) }
                if !range.contains(window.limit) { Issue.record("\(window.limit) is not in \(range)") }
                if window.inFlight != underWay { Issue.record("\(window.inFlight) of \(underWay)") }
                if window.hasRoom != (underWay < window.limit) { Issue.record("no room is room, or room none") }
            }
        }
    }
}

/// A provider that works on so many requests at a time, each for as long as the next; the others queue. All of them
/// travel, too.
private struct SimulatedProvider {
    enum State {
        case works
        /// It says 503 as soon as it has read the request.
        case refuses
        /// It says nothing, and the sender gives up.
        case isSilent
    }

    var state = State.works
    var capacity: Int
    var service: Duration
    /// There and back.
    var way: Duration
    /// The part of the service time that is left to chance.
    var jitter: Double
    /// The part of the answers, from 0 to 1, that take longer on their way, and how much longer.
    var delayed = (share: 0.0, by: Duration.zero)
    private var generator = SplitMix64(seed: 11)
    private var busyUntil: [MonotonicTime] = []

    static let patience = Duration.seconds(15)

    init(capacity: Int = .max, service: Duration = .zero, way: Duration = .milliseconds(100), jitter: Double = 0) {
        self.capacity = capacity
        self.service = service
        self.way = way
        self.jitter = jitter
    }

    /// A request is handed over.
    mutating func answer(_ now: MonotonicTime) -> (at: MonotonicTime, isOverload: Bool) {
        switch state {
        case .refuses: return (now + way, true)
        case .isSilent: return (now + Self.patience, true)
        case .works: break
        }
        let way = delayed.share > generator.unit() ? way + delayed.by : way
        guard capacity < .max else { return (now + way, false) }
        let arrival = now + way / 2
        let work = service * (1 + jitter * (2 * generator.unit() - 1))
        let done: MonotonicTime
        if busyUntil.count < capacity {
            done = arrival + work
        } else {
            done = max(busyUntil.removeFirst(), arrival) + work
        }
        busyUntil.insert(done, at: busyUntil.firstIndex { $0 > done } ?? busyUntil.endIndex)
        let answered = done + way / 2
        return answered - now > Self.patience ? (now + Self.patience, true) : (answered, false)
    }
}

/// A window at work: as many attempts are under way as it allows and there are, and time goes from answer to answer.
private struct Simulation {
    struct Summary {
        var answers = 0
        var totalLatency = Duration.zero
        var limits: ClosedRange<Int>
        var latency: Duration { answers == 0 ? .zero : totalLatency / answers }
    }

    var window: ConcurrencyWindow
    var provider: SimulatedProvider
    private(set) var now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    /// What comes first stands at the end.
    private var coming: [(at: MonotonicTime, begun: MonotonicTime, isOverload: Bool)] = []

    init(_ window: ConcurrencyWindow, _ provider: SimulatedProvider) {
        self.window = window
        self.provider = provider
    }

    /// - Parameter load: at most so many have something to send at a time.
    @discardableResult mutating func run(_ time: Duration, load: Int = .max) -> Summary {
        let end = now + time
        var summary = Summary(limits: window.limit...window.limit)
        while true {
            while window.hasRoom, window.inFlight < load { begin() }
            guard let next = coming.last, next.at <= end else { break }
            coming.removeLast()
            now = next.at
            window.ended(latency: next.at - next.begun, isOverload: next.isOverload, now: now)
            if !next.isOverload {
                summary.answers += 1
                summary.totalLatency += next.at - next.begun
            }
            summary.limits =
                min(summary.limits.lowerBound, window.limit)...max(summary.limits.upperBound, window.limit)
        }
        now = end
        return summary
    }

    /// One of those under way, or one that begins now, is answered this moment.
    mutating func answerAtOnce(latency: Duration = .milliseconds(100), isOverload: Bool) {
        window.began()
        window.ended(latency: latency, isOverload: isOverload, now: now)
    }

    private mutating func begin() {
        window.began()
        let answer = provider.answer(now)
        // Backwards, as most come last.
        let index = coming.firstIndex { $0.at <= answer.at } ?? coming.endIndex
        coming.insert((answer.at, now, answer.isOverload), at: index)
    }
}
