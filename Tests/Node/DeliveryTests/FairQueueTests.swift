// SPDX-License-Identifier: Apache-2.0

import StandIns
import TestSupport
import Testing

@testable import Admission
@testable import Delivery

@Suite(.tags(.computing)) struct FairQueueTests {
    @Test func `the next expiry is known, even after elements with an earlier one have left`() {
        var queue = FairQueue<Int>(quantum: 1)
        #expect(queue.nextExpiry() == nil)
        for (element, expiry) in [(1, 50), (2, 40), (3, 60), (4, Int64.max)] {
            queue.append(element, flow: 1, band: 0, cost: 1, expiresAt: expiry)
        }
        #expect(queue.nextExpiry() == 40)
        #expect(queue.popFirst() == 1)
        #expect(queue.popFirst() == 2)
        #expect(queue.nextExpiry() == 60)
        #expect(queue.popFirst() == 3)
        #expect(queue.nextExpiry() == nil)
    }

    /// Pops until nothing is left.
    private func drain<Element>(_ queue: inout FairQueue<Element>) -> [Element] {
        var all: [Element] = []
        while let next = queue.popFirst() { all.append(next) }
        return all
    }

    /// Jain's fairness index: 1 if all shares are equal, 1/n if one flow has everything.
    private func fairness(_ shares: [Int]) -> Double {
        let sum = shares.reduce(0.0) { $0 + Double($1) }
        let squares = shares.reduce(0.0) { $0 + Double($1) * Double($1) }
        return sum * sum / (Double(shares.count) * squares)
    }

    // MARK: Turns

    @Test func `an empty queue has nothing to serve, expire or evict`() {
        var queue = FairQueue<Int>(quantum: 1)
        #expect(queue.isEmpty)
        #expect(queue.popFirst() == nil)
        #expect(queue.removeExpired(at: .max).isEmpty)
        #expect(queue.makeRoom(for: 1, band: 0, now: .max) == nil)
        #expect(queue.removeAll().isEmpty)
    }

    @Test func `a single flow is served in order of arrival`() {
        var queue = FairQueue<Int>(quantum: 3)
        for number in 0..<100 { queue.add(number, flow: 7, band: 5, cost: 1 + number % 9) }
        #expect(queue.count == 100)
        #expect(drain(&queue) == Array(0..<100))
        #expect(queue.isEmpty)
    }

    @Test func `a flow with 10 000 elements does not delay the others`() {
        var queue = FairQueue<Int>(quantum: 1)
        for number in 0..<10_000 { queue.add(number, flow: 1, band: 0) }
        for other in 2...5 { queue.add(-other, flow: UInt64(other), band: 0) }
        var served: [Int] = []
        for _ in 0..<8 { if let next = queue.popFirst() { served.append(next) } }
        #expect(served == [0, -2, -3, -4, -5, 1, 2, 3])
    }

    @Test func `equal flows alternate`() {
        var queue = FairQueue<String>(quantum: 1)
        for number in 1...3 {
            for flow in ["a", "b", "c"] { queue.add("\(flow)\(number)", flow: UInt64(flow.utf8.first ?? 0), band: 0) }
        }
        #expect(drain(&queue) == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"])
    }

    @Test func `a flow is served its quantum in each turn`() {
        var queue = FairQueue<Int>(quantum: 3)
        for number in 0..<6 { queue.add(number, flow: 1, band: 0) }
        for number in 10..<16 { queue.add(number, flow: 2, band: 0) }
        #expect(drain(&queue) == [0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15])
    }

    @Test func `the rest of a quantum carries over to the next turn`() {
        var queue = FairQueue<Int>(quantum: 3)
        for number in 0..<6 { queue.add(number, flow: 1, band: 0, cost: 2) }
        for number in 10..<19 { queue.add(number, flow: 2, band: 0, cost: 1) }
        #expect(drain(&queue) == [0, 10, 11, 12, 1, 2, 13, 14, 15, 3, 16, 17, 18, 4, 5])
    }

    @Test func `flows of unequal costs get equal bytes`() {
        var queue = FairQueue<(flow: Int, cost: Int)>(quantum: 1000)
        let costs = [100, 250, 400, 999, 1000]
        for (flow, cost) in costs.enumerated() {
            for _ in 0..<(400_000 / cost) { queue.add((flow, cost), flow: UInt64(flow), band: 0, cost: cost) }
        }
        var shares = [Int](repeating: 0, count: costs.count)
        while shares.max() ?? 0 < 300_000, let next = queue.popFirst() { shares[next.flow] += next.cost }
        #expect((shares.max() ?? 0) - (shares.min() ?? 0) <= 2000, "\(shares)")
    }

    @Test func `an element that costs more than the quantum is served after enough rounds`() {
        var queue = FairQueue<Int>(quantum: 10)
        queue.add(-1, flow: 1, band: 0, cost: 35)
        for number in 0..<50 { queue.add(number, flow: 2, band: 0, cost: 10) }
        #expect(drain(&queue).firstIndex(of: -1) == 3)
    }

    @Test func `a flow that becomes empty loses the rest of its quantum`() {
        var queue = FairQueue<String>(quantum: 10)
        queue.add("small", flow: 1, band: 0, cost: 1)
        #expect(queue.popFirst() == "small")
        queue.add("large", flow: 1, band: 0, cost: 15)
        queue.add("other", flow: 2, band: 0, cost: 10)
        // With the remaining 9 it would be served first.
        #expect(drain(&queue) == ["other", "large"])
    }

    @Test func `a flow that returns goes to the end of the round`() {
        var queue = FairQueue<String>(quantum: 1)
        for flow in 1...3 { queue.add("first of \(flow)", flow: UInt64(flow), band: 0) }
        #expect(queue.popFirst() == "first of 1")
        queue.add("second of 1", flow: 1, band: 0)
        #expect(drain(&queue) == ["first of 2", "first of 3", "second of 1"])
    }

    // MARK: Bands

    @Test func `a higher band is served first`() {
        var queue = FairQueue<UInt8>(quantum: 1)
        for band in [0, 63, 5, 62, 1, 5] as [UInt8] { queue.add(band, flow: 1, band: band) }
        #expect(drain(&queue) == [63, 62, 5, 5, 1, 0])
    }

    @Test func `a higher band is served first, even if it arrives late and costs more`() {
        var queue = FairQueue<String>(quantum: 1)
        for number in 0..<3 { queue.add("low \(number)", flow: 1, band: 2) }
        #expect(queue.popFirst() == "low 0")
        queue.add("high", flow: 2, band: 3, cost: 1000)
        #expect(drain(&queue) == ["high", "low 1", "low 2"])
    }

    @Test func `band 0 is served when the higher bands are empty`() {
        var queue = FairQueue<String>(quantum: 1)
        queue.add("low", flow: 1, band: 0)
        for round in 0..<3 {
            queue.add("high", flow: 1, band: 40)
            #expect(queue.popFirst() == "high", "round \(round)")
        }
        #expect(queue.popFirst() == "low")
    }

    @Test func `a flow has its own turn in each band`() {
        var queue = FairQueue<String>(quantum: 1)
        for number in 1...2 {
            queue.add("a\(number)", flow: 1, band: 1)
            queue.add("A\(number)", flow: 1, band: 2)
            queue.add("b\(number)", flow: 2, band: 1)
        }
        #expect(drain(&queue) == ["A1", "A2", "a1", "b1", "a2", "b2"])
    }

    // MARK: Expiry

    @Test func `expired elements are removed from their second on, earliest expiry first`() {
        var queue = FairQueue<Int>(quantum: 1)
        for (number, expiresAt) in [30, 10, 20, 10, 40].enumerated() {
            queue.add(number, flow: UInt64(number % 2), band: UInt8(number), expiresAt: Int64(expiresAt))
        }
        #expect(queue.removeExpired(at: 9).isEmpty)
        #expect(queue.removeExpired(at: 10) == [1, 3])
        #expect(queue.removeExpired(at: 10).isEmpty)
        #expect(queue.removeExpired(at: 30) == [2, 0])
        #expect(queue.count == 1)
        #expect(drain(&queue) == [4])
    }

    @Test func `an element without expiry never expires, and an expiry may be before 1970`() {
        var queue = FairQueue<Int>(quantum: 1)
        queue.add(1, flow: 1, band: 0, expiresAt: .max)
        queue.add(2, flow: 1, band: 0, expiresAt: .max - 1)
        queue.add(3, flow: 1, band: 0, expiresAt: .min)
        #expect(queue.removeExpired(at: -1) == [3])
        #expect(queue.removeExpired(at: .max) == [2])
        #expect(queue.count == 1)
    }

    @Test func `a served element does not expire, nor does the next one in its slot`() {
        var queue = FairQueue<Int>(quantum: 1)
        for number in 0..<500 {
            queue.add(number, flow: 1, band: 0, expiresAt: 10)
            #expect(queue.popFirst() == number)
        }
        queue.add(500, flow: 1, band: 0, expiresAt: 20)
        #expect(queue.removeExpired(at: 19).isEmpty)
        #expect(queue.removeExpired(at: 20) == [500])
    }

    @Test func `after many elements were served all remaining ones expire`() {
        var queue = FairQueue<Int>(quantum: 1)
        for number in 0..<2000 { queue.add(number, flow: 1, band: 0, expiresAt: Int64(number % 50)) }
        for number in 0..<1800 { #expect(queue.popFirst() == number) }
        for second in 0..<50 {
            #expect(queue.removeExpired(at: Int64(second)) == [0, 50, 100, 150].map { 1800 + second + $0 })
        }
        #expect(queue.isEmpty)
    }

    @Test func `popFirst returns an element even if it has expired`() {
        var queue = FairQueue<Int>(quantum: 1)
        queue.add(1, flow: 1, band: 0, expiresAt: 10)
        #expect(queue.popFirst() == 1)
    }

    // MARK: Room

    @Test func `expired elements are evicted first, whatever their band`() {
        var queue = FairQueue<String>(quantum: 1)
        queue.add("low", flow: 1, band: 0)
        queue.add("late", flow: 2, band: 9, expiresAt: 100)
        queue.add("later", flow: 3, band: 9, expiresAt: 99)
        #expect(queue.makeRoom(for: 4, band: 0, now: 98) == nil)
        #expect(queue.makeRoom(for: 4, band: 0, now: 100) == "later")
        #expect(queue.makeRoom(for: 4, band: 0, now: 100) == "late")
        #expect(queue.makeRoom(for: 4, band: 0, now: 100) == nil)
        #expect(queue.count == 1)
    }

    @Test func `a newcomer evicts from the lowest band, longest flow and newest element first`() {
        var queue = FairQueue<String>(quantum: 1)
        for number in 1...3 { queue.add("low a\(number)", flow: 1, band: 3) }
        for number in 1...2 { queue.add("low b\(number)", flow: 2, band: 3) }
        for number in 1...9 { queue.add("high \(number)", flow: 3, band: 4) }
        #expect(queue.makeRoom(for: 1, band: 63, now: 0) == "low a3")
        let next = [queue.makeRoom(for: 9, band: 4, now: 0), queue.makeRoom(for: 9, band: 4, now: 0)]
        #expect(next == ["low a2", "low b2"] || next == ["low b2", "low a2"])
        let last = [queue.makeRoom(for: 9, band: 4, now: 0), queue.makeRoom(for: 9, band: 4, now: 0)]
        #expect(last == ["low a1", "low b1"] || last == ["low b1", "low a1"])
        #expect(queue.count == 9)
    }

    @Test func `a newcomer of a lower band is refused, however long the other flow is`() {
        var queue = FairQueue<Int>(quantum: 1)
        for number in 0..<1000 { queue.add(number, flow: 1, band: 4) }
        #expect(queue.makeRoom(for: 2, band: 3, now: 0) == nil)
        #expect(queue.count == 1000)
    }

    @Test func `within a band the longest flow loses its newest element`() {
        var queue = FairQueue<String>(quantum: 1)
        for number in 1...3 { queue.add("short \(number)", flow: 1, band: 1) }
        for number in 1...5 { queue.add("long \(number)", flow: 2, band: 1) }
        for number in 1...2 { queue.add("shortest \(number)", flow: 3, band: 1) }
        #expect(queue.makeRoom(for: 9, band: 1, now: 0) == "long 5")
        #expect(queue.makeRoom(for: 1, band: 1, now: 0) == nil)
        #expect(queue.popFirst() == "short 1")
        #expect(queue.makeRoom(for: 1, band: 1, now: 0) == "long 4")
        #expect(queue.count == 7)
    }

    @Test func `a newcomer is refused unless another flow has at least two more elements than its own`() {
        for own in 0...4 {
            for other in 1...6 {
                var queue = FairQueue<Int>(quantum: 1)
                for number in 0..<own { queue.add(number, flow: 1, band: 0) }
                for number in 0..<other { queue.add(100 + number, flow: 2, band: 0) }
                let victim = queue.makeRoom(for: 1, band: 0, now: 0)
                #expect(victim == (other >= own + 2 ? 99 + other : nil), "\(own) of its own, \(other) of the other")
                #expect(queue.count == own + other - (victim == nil ? 0 : 1))
            }
        }
    }

    @Test func `only elements in the same band count towards the newcomer's flow`() {
        var queue = FairQueue<Int>(quantum: 1)
        for number in 0..<3 { queue.add(number, flow: 1, band: 1) }
        for number in 10..<30 { queue.add(number, flow: 2, band: 2) }
        for number in 30..<32 { queue.add(number, flow: 3, band: 1) }
        #expect(queue.makeRoom(for: 2, band: 1, now: 0) == 2)
    }

    @Test func `removal keeps the order of the other elements`() {
        var queue = FairQueue<Int>(quantum: 1)
        for number in 0..<10 { queue.add(number, flow: 1, band: 0, expiresAt: number % 3 == 1 ? 10 : 20) }
        for number in 10..<13 { queue.add(number, flow: 2, band: 0, expiresAt: number == 10 ? 10 : 20) }
        #expect(queue.removeExpired(at: 10) == [1, 4, 7, 10])
        #expect(queue.makeRoom(for: 3, band: 0, now: 10) == 9)
        #expect(drain(&queue) == [0, 11, 2, 12, 3, 5, 6, 8])
    }

    @Test func `if the flow whose turn it is vanishes, the next flow has the turn`() {
        var queue = FairQueue<Int>(quantum: 2)
        for number in 0..<3 { queue.add(number, flow: 1, band: 0, expiresAt: 10) }
        for number in 10..<13 { queue.add(number, flow: 2, band: 0) }
        for number in 20..<23 { queue.add(number, flow: 3, band: 0) }
        #expect(queue.popFirst() == 0)
        #expect(queue.removeExpired(at: 10) == [1, 2])
        #expect(drain(&queue) == [10, 11, 20, 21, 12, 22])
    }

    @Test func `removeAll returns all elements in order of arrival and leaves an empty, usable queue`() {
        var queue = FairQueue<Int>(quantum: 2)
        for number in 0..<100 {
            queue.add(number, flow: UInt64(number % 7), band: UInt8(number % 5), expiresAt: Int64(100 - number))
        }
        for _ in 0..<10 { _ = queue.popFirst() }
        let left = queue.removeAll()
        #expect(left.count == 90)
        #expect(left == left.sorted())
        #expect(queue.isEmpty)
        #expect(queue.removeExpired(at: 1000).isEmpty)
        for number in 0..<4 { queue.add(number, flow: UInt64(number % 2), band: 0) }
        #expect(drain(&queue) == [0, 2, 1, 3])
    }

    @Test func `the queue retains no element that has left`() {
        final class Thing {}
        weak var (served, expired, pushedOut, left): (Thing?, Thing?, Thing?, Thing?)
        var queue = FairQueue<Thing>(quantum: 1)
        do {
            let things = [Thing(), Thing(), Thing(), Thing()]
            (served, expired, pushedOut, left) = (things[0], things[1], things[2], things[3])
            queue.add(things[0], flow: 1, band: 9)
            queue.add(things[1], flow: 1, band: 9, expiresAt: 10)
            queue.add(things[2], flow: 1, band: 1)
            queue.add(things[3], flow: 1, band: 2)
        }
        #expect(served != nil && expired != nil && pushedOut != nil && left != nil)
        _ = queue.popFirst()
        #expect(served == nil)
        _ = queue.removeExpired(at: 10)
        #expect(expired == nil)
        _ = queue.makeRoom(for: 2, band: 9, now: 10)
        #expect(pushedOut == nil)
        #expect(left != nil)
        _ = queue.removeAll()
        #expect(left == nil)
    }

    // MARK: Anything

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func `random operations match a simple reference queue`(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        let quantum = 1 + generator.below(5)
        let (flows, bands, capacity) = (1 + generator.below(8), 1 + generator.below(4), 1 + generator.below(60))
        var queue = FairQueue<Int>(quantum: quantum)
        var reference = ReferenceQueue(quantum: quantum)
        var now: Int64 = 0
        for number in 0..<1000 {
            switch generator.below(12) {
            case 0..<6:
                let flow = UInt64(generator.below(flows))
                let band = UInt8(generator.below(bands))
                if reference.waiting.count >= capacity {
                    let victim = queue.makeRoom(for: flow, band: band, now: now)
                    let expected = reference.victims(for: flow, band: band, now: now)
                    if let victim {
                        if !expected.contains(victim) {
                            Issue.record("\(victim) was evicted instead of one of \(expected)")
                        }
                        reference.remove(victim)
                    } else {
                        if !expected.isEmpty { Issue.record("no element was evicted instead of one of \(expected)") }
                        continue
                    }
                }
                let cost = 1 + generator.below(9)
                let expiresAt = generator.below(3) == 0 ? .max : now + Int64(generator.below(60))
                queue.add(number, flow: flow, band: band, cost: cost, expiresAt: expiresAt)
                reference.append(
                    ReferenceQueue.Item(number: number, flow: flow, band: band, cost: cost, expiresAt: expiresAt))
            case 6..<10:
                let (next, expected) = (queue.popFirst(), reference.popFirst())
                if next != expected {
                    Issue.record("\(String(describing: next)) instead of \(String(describing: expected))")
                }
            case 10:
                let (expired, expected) = (queue.removeExpired(at: now), reference.removeExpired(at: now))
                if expired != expected { Issue.record("\(expired) expired instead of \(expected)") }
            default:
                // The clock may be set back.
                now += Int64(generator.below(20)) - 4
            }
            if queue.count != reference.waiting.count || queue.isEmpty != reference.waiting.isEmpty {
                Issue.record("\(queue.count) elements instead of \(reference.waiting.count)")
            }
        }
        #expect(queue.removeAll() == reference.waiting.map(\.number))
    }

    @Test func `with 10 000 waiting elements none is lost or repeated, and each flow keeps its order`() {
        struct Item {
            let number: Int
            let flow: UInt64
            let band: UInt8
        }
        struct Line: Hashable {
            let flow: UInt64
            let band: UInt8
        }
        var generator = SplitMix64(seed: 3)
        var queue = FairQueue<Item>(quantum: 100)
        var (hasLeft, last) = ([Bool](), [Line: Int]())
        var (lost, outOfOrder) = (0, 0)
        func recordRemoval(_ item: Item) {
            if hasLeft[item.number] { Issue.record("\(item.number) was removed twice") }
            hasLeft[item.number] = true
        }
        func recordService(_ item: Item) {
            recordRemoval(item)
            let line = Line(flow: item.flow, band: item.band)
            if let before = last.updateValue(item.number, forKey: line), before > item.number { outOfOrder += 1 }
        }
        for number in 0..<60_000 {
            // One in three belongs to one flow, the others to ten thousand flows.
            let flow = generator.below(3) == 0 ? 0 : UInt64(1 + generator.below(10_000))
            let item = Item(number: number, flow: flow, band: UInt8(generator.below(64) * generator.below(2)))
            hasLeft.append(false)
            if queue.count == 10_000 {
                guard let victim = queue.makeRoom(for: item.flow, band: item.band, now: Int64(number)) else {
                    recordRemoval(item)
                    continue
                }
                recordRemoval(victim)
            }
            queue.add(
                item, flow: item.flow, band: item.band, cost: 1 + generator.below(100),
                expiresAt: Int64(number + 1 + generator.below(100_000)))
            if number % 1000 == 999 { queue.removeExpired(at: Int64(number)).forEach(recordRemoval) }
            if generator.below(3) == 0, let next = queue.popFirst() { recordService(next) }
        }
        #expect(queue.count == 10_000)
        while let next = queue.popFirst() { recordService(next) }
        lost = hasLeft.count { !$0 }
        #expect(lost == 0)
        #expect(outOfOrder == 0)
    }

    // MARK: Fairness

    @Test func `busy flows differ by at most a quantum and twice the largest cost`() {
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            let (quantum, largest) = (1 + generator.below(200), 100)
            var queue = FairQueue<(flow: Int, cost: Int)>(quantum: quantum)
            func append(_ flow: Int) {
                // Each flow has its own mix of costs.
                let cost = 1 + generator.below(1 + (flow * 37) % largest)
                queue.add((flow, cost), flow: UInt64(flow), band: 0, cost: cost)
            }
            for flow in 0..<10 { for _ in 0..<3 { append(flow) } }
            var shares = [Int](repeating: 0, count: 10)
            for _ in 0..<5000 {
                guard let next = queue.popFirst() else { break }
                shares[next.flow] += next.cost
                append(next.flow)
                let difference = (shares.max() ?? 0) - (shares.min() ?? 0)
                if difference > quantum + 2 * largest { Issue.record("\(difference) with seed \(seed)") }
            }
        }
    }

    @Test func `equal senders have a fairness index of 0.99 beside one that sends 100 times as much`() {
        for seed in 1...3 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            var queue = FairQueue<(flow: Int, cost: Int)>(quantum: 2000)
            var shares = [Int](repeating: 0, count: 21)
            for turn in 0..<10_000 {
                // Twenty senders together send slightly more than can be served, and the last one 100 times the share
                // of one.
                for _ in 0..<7 {
                    let flow = generator.below(6) == 0 ? generator.below(20) : 20
                    let cost = 200 + generator.below(1800)
                    if queue.count >= 500, queue.makeRoom(for: UInt64(flow), band: 0, now: 0) == nil { continue }
                    queue.add((flow, cost), flow: UInt64(flow), band: 0, cost: cost)
                }
                if let next = queue.popFirst(), turn >= 1000 { shares[next.flow] += next.cost }
            }
            #expect(fairness(shares.dropLast()) >= 0.99, "\(shares)")
            let fair = shares.reduce(0, +) / shares.count
            #expect(shares[20] < fair * 11 / 10, "\(shares)")
        }
    }
}

extension FairQueue {
    /// Appends an element, by default with cost 1 and without expiry.
    fileprivate mutating func add(
        _ element: Element, flow: UInt64, band: UInt8, cost: Int = 1, expiresAt: Int64 = .max
    ) {
        append(element, flow: flow, band: band, cost: cost, expiresAt: expiresAt)
    }
}

/// A slow reference implementation of the same rules.
private struct ReferenceQueue {
    struct Item {
        let number: Int
        let flow: UInt64
        let band: UInt8
        let cost: Int
        let expiresAt: Int64
    }

    let quantum: Int
    /// In order of arrival.
    private(set) var waiting: [Item] = []
    /// The flows of each band in the order of their turns; the first has received its quantum.
    private var turns: [UInt8: [(flow: UInt64, deficit: Int)]] = [:]

    init(quantum: Int) { self.quantum = quantum }

    mutating func append(_ item: Item) {
        waiting.append(item)
        if turns[item.band, default: []].contains(where: { $0.flow == item.flow }) { return }
        let isFirst = turns[item.band, default: []].isEmpty
        turns[item.band, default: []].append((item.flow, isFirst ? quantum : 0))
    }

    mutating func popFirst() -> Int? {
        guard let band = waiting.map(\.band).max(), var order = turns[band] else { return nil }
        while true {
            guard let next = waiting.first(where: { $0.band == band && $0.flow == order[0].flow }) else { return nil }
            if next.cost <= order[0].deficit {
                order[0].deficit -= next.cost
                turns[band] = order
                remove(next.number)
                return next.number
            }
            order.append(order.removeFirst())
            order[0].deficit += quantum
        }
    }

    mutating func removeExpired(at now: Int64) -> [Int] {
        let expired = self.expired(at: now)
        for number in expired { remove(number) }
        return expired
    }

    /// The elements of which any may be evicted for a newcomer; empty if the newcomer is refused.
    func victims(for flow: UInt64, band: UInt8, now: Int64) -> [Int] {
        if let first = expired(at: now).first { return [first] }
        guard let lowest = waiting.map(\.band).min(), lowest <= band else { return [] }
        let flows = Dictionary(grouping: waiting.filter { $0.band == lowest }, by: \.flow)
        let longest = flows.values.map(\.count).max() ?? 0
        if lowest == band, longest < (flows[flow]?.count ?? 0) + 2 { return [] }
        return flows.values.filter { $0.count == longest }.compactMap(\.last?.number)
    }

    mutating func remove(_ number: Int) {
        guard let index = waiting.firstIndex(where: { $0.number == number }) else { return }
        let item = waiting.remove(at: index)
        guard !waiting.contains(where: { $0.band == item.band && $0.flow == item.flow }),
            var order = turns[item.band], let place = order.firstIndex(where: { $0.flow == item.flow })
        else { return }
        order.remove(at: place)
        if place == 0, !order.isEmpty { order[0].deficit += quantum }
        turns[item.band] = order
    }

    /// The expired elements, earliest expiry first.
    private func expired(at now: Int64) -> [Int] {
        // The sort is stable: of equal expiries the older element comes first.
        waiting.filter { $0.expiresAt <= now && $0.expiresAt < .max }.sorted { $0.expiresAt < $1.expiresAt }
            .map(\.number)
    }
}
