// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import Delivery
@testable import Time

@Suite(.tags(.computing)) struct ConcurrencyWindowTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    /// A window with this limit after its slow start, with a base latency of 100 ms.
    private func settled(at limit: Int, of range: ClosedRange<Int> = 1...1000) -> Simulation {
        let before = (limit * 10 + 6) / 7
        var simulation = Simulation(ConcurrencyWindow(range: range, start: before), SimulatedProvider())
        // One less than half of the window is in use, so that it does not grow.
        simulation.run(.milliseconds(2050), load: (before + 1) / 2 - 1)
        simulation.answerImmediately(isOverload: true)
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
        simulation.answerImmediately(isOverload: true)
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
            #expect((simulation.window.limit > 50) == grows, "\(load) in flight")
            #expect(simulation.window.limit >= 50)
        }
    }

    // MARK: Overload

    @Test func `an overload reduces the limit by 30 %`() {
        for (before, after) in [(1000, 700), (100, 70), (10, 7), (3, 2), (2, 1), (1, 1)] {
            var simulation = Simulation(ConcurrencyWindow(range: 1...1000, start: before), SimulatedProvider())
            simulation.answerImmediately(isOverload: true)
            #expect(simulation.window.limit == after)
        }
    }

    @Test func `one overload among many simultaneous answers reduces the limit once`() {
        for position in [0, 20, 99] {
            var window = ConcurrencyWindow(range: 1...1000, start: 100)
            while window.hasRoom { window.began() }
            var (largest, decreases) = (100, 0)
            for number in 0..<100 {
                let before = window.limit
                window.ended(latency: .milliseconds(100), isOverload: number == position, now: start)
                // Answers before the overload raise the limit; those after it began before the decrease and do not
                // count.
                largest = max(largest, window.limit)
                if window.limit < before { decreases += 1 }
            }
            #expect(decreases == 1, "\(position)")
            #expect(window.limit == largest * 7 / 10, "\(position)")
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
                ConcurrencyWindow(range: 1...1000, start: 100), SimulatedProvider(roundTrip: .milliseconds(latency)))
            simulation.run(.seconds(30), load: 40)
            simulation.answerImmediately(isOverload: true)
            #expect(simulation.window.limit == 70)
            simulation.run(.microseconds(round * 1000 - 1), load: 0)
            simulation.answerImmediately(isOverload: true)
            #expect(simulation.window.limit == 70, "\(latency) ms")
            simulation.run(.microseconds(1), load: 0)
            simulation.answerImmediately(isOverload: true)
            #expect(simulation.window.limit == 49, "\(latency) ms")
        }
    }

    @Test func `the latency of overloads is ignored`() {
        var simulation = settled(at: 50)
        simulation.provider.state = .refuses
        simulation.provider.roundTrip = .milliseconds(1)
        simulation.run(.seconds(10))
        simulation.provider.state = .isSilent
        simulation.run(.seconds(60))
        simulation.provider.state = .works
        simulation.provider.roundTrip = .milliseconds(100)
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
            simulation.provider.roundTrip = .milliseconds(latency)
            let summary = simulation.run(.seconds(5), load: 50)
            #expect((summary.limits.lowerBound < 50) == becomesSmaller, "\(latency) ms")
        }
    }

    @Test func `after a decrease only the latency of attempts begun since then counts`() {
        var simulation = settled(at: 100)
        simulation.provider.roundTrip = .milliseconds(1000)
        var limits = [100]
        for _ in 0..<100 {
            simulation.run(.milliseconds(50))
            if simulation.window.limit != limits.last { limits.append(simulation.window.limit) }
        }
        // Answers to attempts begun before a decrease arrive within a second and do not count.
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
            simulation.provider.roundTrip = .milliseconds(latency)
            let summary = simulation.run(.seconds(100), load: 4)
            #expect(summary.limits == 40...40, "\(latency) ms")
        }
    }

    @Test func `the base latency is that of the latest period without pressure`() {
        var simulation = settled(at: 40)
        simulation.provider.roundTrip = .milliseconds(1000)
        simulation.run(.seconds(30), load: 4)
        let pressed = simulation.run(.seconds(30))
        #expect(pressed.limits.lowerBound == 40)
        // A lower latency becomes the base even under pressure.
        simulation.provider.roundTrip = .milliseconds(100)
        simulation.run(.seconds(5))
        simulation.provider.roundTrip = .milliseconds(500)
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
            ConcurrencyWindow(range: 4...300, start: 16), SimulatedProvider(roundTrip: .milliseconds(200)))
        simulation.run(.seconds(70))
        #expect(simulation.window.limit == 300)
        simulation.provider.roundTrip = .milliseconds(1000)
        let lost = simulation.run(.seconds(50))
        #expect(lost.limits.lowerBound == 4)
        let found = simulation.run(.seconds(10))
        #expect(found.limits == 300...300)
    }

    // MARK: A provider of limited capacity

    /// 20 requests at a time of 80 ms each, so 250 per second; with the round trip, 100 ms.
    private func limited(start: Int = 16, jitter: Double = 0.5) -> Simulation {
        Simulation(
            ConcurrencyWindow(range: 4...1000, start: start),
            SimulatedProvider(capacity: 20, service: .milliseconds(80), roundTrip: .milliseconds(20), jitter: jitter))
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
        // At a limit of 70 the latency is 350 ms, the most that is tolerated.
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
            SimulatedProvider(capacity: 2, service: .milliseconds(1), roundTrip: .milliseconds(1)))
        for minute in 1...4 {
            let summary = simulation.run(.seconds(60))
            #expect(summary.latency < .milliseconds(200), "\(summary.latency) in minute \(minute)")
        }
    }

    @Test func `a base latency measured under load comes down`() {
        var simulation = limited()
        // The provider is slow at first.
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
            // Attempts still in flight must end first.
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
            var (now, inFlight) = (start, 0)
            for _ in 0..<1000 {
                if generator.below(3) > 0 {
                    if window.hasRoom {
                        window.began()
                        inFlight += 1
                    }
                } else if inFlight > 0 {
                    inFlight -= 1
                    window.ended(
                        latency: .milliseconds(generator.below([1, 100, 20_000][generator.below(3)])),
                        isOverload: generator.below(10) == 0, now: now)
                }
                if generator.below(4) == 0 { now = now + .milliseconds(generator.below(2000)) }
                if !range.contains(window.limit) { Issue.record("\(window.limit) is not in \(range)") }
                if window.inFlight != inFlight { Issue.record("\(window.inFlight) instead of \(inFlight) in flight") }
                if window.hasRoom != (inFlight < window.limit) {
                    Issue.record("hasRoom is wrong: \(inFlight) of \(window.limit) in flight")
                }
            }
        }
    }
}

/// A provider that processes `capacity` requests at a time, each for the same time on average, and queues the others.
/// Every request also takes a network round trip.
private struct SimulatedProvider {
    enum State {
        case works
        /// It answers 503 as soon as it has read the request.
        case refuses
        /// It never answers, and the sender's request times out.
        case isSilent
    }

    var state = State.works
    var capacity: Int
    var service: Duration
    /// The network round trip.
    var roundTrip: Duration
    /// The random share of the service time.
    var jitter: Double
    /// The share of answers that are delayed, from 0 to 1, and their delay.
    var delayed = (share: 0.0, by: Duration.zero)
    private var generator = SplitMix64(seed: 11)
    private var busyUntil: [MonotonicTime] = []

    static let timeout = Duration.seconds(15)

    init(capacity: Int = .max, service: Duration = .zero, roundTrip: Duration = .milliseconds(100), jitter: Double = 0)
    {
        self.capacity = capacity
        self.service = service
        self.roundTrip = roundTrip
        self.jitter = jitter
    }

    /// Sends a request, and returns when and how it is answered.
    mutating func answer(_ now: MonotonicTime) -> (at: MonotonicTime, isOverload: Bool) {
        switch state {
        case .refuses: return (now + roundTrip, true)
        case .isSilent: return (now + Self.timeout, true)
        case .works: break
        }
        let roundTrip = delayed.share > generator.unit() ? roundTrip + delayed.by : roundTrip
        guard capacity < .max else { return (now + roundTrip, false) }
        let arrival = now + roundTrip / 2
        let work = service * (1 + jitter * (2 * generator.unit() - 1))
        let done: MonotonicTime
        if busyUntil.count < capacity {
            done = arrival + work
        } else {
            done = max(busyUntil.removeFirst(), arrival) + work
        }
        busyUntil.insert(done, at: busyUntil.firstIndex { $0 > done } ?? busyUntil.endIndex)
        let answered = done + roundTrip / 2
        return answered - now > Self.timeout ? (now + Self.timeout, true) : (answered, false)
    }
}

/// A simulation of a window: as many attempts are in flight as the limit and the load allow, and time advances from
/// answer to answer.
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
    /// Sorted by time, the next answer last.
    private var pending: [(at: MonotonicTime, begun: MonotonicTime, isOverload: Bool)] = []

    init(_ window: ConcurrencyWindow, _ provider: SimulatedProvider) {
        self.window = window
        self.provider = provider
    }

    /// - Parameter load: the maximum number of attempts in flight.
    @discardableResult mutating func run(_ time: Duration, load: Int = .max) -> Summary {
        let end = now + time
        var summary = Summary(limits: window.limit...window.limit)
        while true {
            while window.hasRoom, window.inFlight < load { begin() }
            guard let next = pending.last, next.at <= end else { break }
            pending.removeLast()
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

    /// Begins an attempt and answers it at the same time.
    mutating func answerImmediately(latency: Duration = .milliseconds(100), isOverload: Bool) {
        window.began()
        window.ended(latency: latency, isOverload: isOverload, now: now)
    }

    private mutating func begin() {
        window.began()
        let answer = provider.answer(now)
        // In reverse, because most are answered last.
        let index = pending.firstIndex { $0.at <= answer.at } ?? pending.endIndex
        pending.insert((answer.at, now, answer.isOverload), at: index)
    }
}
