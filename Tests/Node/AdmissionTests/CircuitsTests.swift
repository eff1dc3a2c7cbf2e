// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import Admission
@testable import TNP
@testable import Time

@Suite(.tags(.computing)) struct CircuitsTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let rate = Rate(burst: 20, perMinute: 2)

    private func connect(_ circuits: inout Circuits, _ id: UInt32, capacity: Int = 100, at now: MonotonicTime? = nil)
        -> Bool
    {
        circuits.connected(.tor(id), capacity: capacity, now: now ?? start)
    }

    // MARK: IDs

    @Test func `ids of tor circuits, connections and stored envelopes never collide`() {
        let numbers: [UInt64] = [0, 1, 2, 0xFFFF_FFFF, 1 << 62, 1 << 63, .max]
        let circuits = Set([0, 1, 2, UInt32.max].map { CircuitID.tor($0) })
        let connections = Set(numbers.map { CircuitID.connection($0) })
        let phones = Set(([0, 1, -1, .min, .max] as [Int]).map { CircuitID.storedEnvelopes(phone: $0) })
        #expect(circuits.count == 4)
        #expect(circuits.isDisjoint(with: connections))
        #expect(circuits.isDisjoint(with: phones))
        #expect(connections.isDisjoint(with: phones))
        let sites = Set([0, 1, UInt32.max].map { CircuitID.site($0) })
        #expect(sites.isDisjoint(with: circuits.union(connections).union(phones)))
        #expect(sites.compactMap(\.site).sorted() == [0, 1, UInt32.max])
        #expect(circuits.union(connections).union(phones).allSatisfy { $0.site == nil })
    }

    @Test func `successive connections have distinct ids`() {
        #expect(Set((0..<1000).map { CircuitID.connection($0) }).count == 1000)
    }

    // MARK: Connections

    @Test func `a circuit's connections are counted`() {
        var circuits = Circuits()
        #expect(circuits[.tor(1)] == nil)
        for number: Int32 in 1...3 {
            #expect(connect(&circuits, 1))
            #expect(circuits[.tor(1)]?.connections == number)
        }
        for number: Int32 in [2, 1, 0, 0] {
            circuits.disconnected(.tor(1), now: start)
            #expect(circuits[.tor(1)]?.connections == number)
        }
        #expect(circuits.count == 1)
    }

    @Test func `disconnecting, updating or purging an unknown circuit changes nothing`() {
        var circuits = Circuits()
        circuits.disconnected(.tor(1), now: start)
        #expect(circuits.update(.tor(1)) { $0.unproven += 1 } == nil)
        circuits.purge(now: start + .seconds(1000))
        #expect(circuits.count == 0)
    }

    @Test func `one circuit's use does not affect another circuit`() {
        var circuits = Circuits()
        for id in [1, 2] as [UInt32] { #expect(connect(&circuits, id)) }
        circuits.update(.tor(1)) { known in
            known.unproven += 1
            known.submissions.take(rate, now: start)
            known.abuseAccount.take(rate, now: start)
        }
        #expect(circuits[.tor(2)]?.unproven == 0)
        #expect(circuits[.tor(2)]?.submissions == Allowance())
        #expect(circuits[.tor(2)]?.abuseAccount == Allowance())
    }

    // MARK: Forgetting

    @Test func `a circuit without connections is forgotten after one minute`() {
        var circuits = Circuits()
        #expect(connect(&circuits, 1))
        circuits.purge(now: start + .seconds(1000))
        #expect(circuits.count == 1)
        circuits.disconnected(.tor(1), now: start + .seconds(1000))
        circuits.purge(now: start + .seconds(1059))
        #expect(circuits.count == 1)
        circuits.purge(now: start + .seconds(1060))
        #expect(circuits.count == 0)
    }

    @Test func `a circuit that reconnects is kept`() {
        var circuits = Circuits()
        #expect(connect(&circuits, 1))
        circuits.disconnected(.tor(1), now: start)
        #expect(connect(&circuits, 1, at: start + .seconds(30)))
        circuits.purge(now: start + .seconds(60))
        #expect(circuits[.tor(1)]?.connections == 1)
        // It is forgotten after the next disconnect.
        circuits.disconnected(.tor(1), now: start + .seconds(90))
        circuits.purge(now: start + .seconds(150))
        #expect(circuits.count == 0)
    }

    @Test func `a circuit is kept while it is blocked or its allowances are not full`() {
        let reasons: [(change: (inout Circuits.Circuit) -> Void, seconds: Int)] = [
            ({ $0.blockedUntil = self.start + .seconds(600) }, 600),
            ({ $0.abuseAccount.take(Rate(burst: 20, perMinute: 1), now: self.start) }, 60),
            ({ for _ in 0..<10 { $0.abuseAccount.take(Rate(burst: 20, perMinute: 1), now: self.start) } }, 600),
            ({ for _ in 0..<100 { $0.submissions.take(Rate(burst: 100, perMinute: 60), now: self.start) } }, 100),
        ]
        for (change, seconds) in reasons {
            var circuits = Circuits()
            #expect(connect(&circuits, 1))
            circuits.update(.tor(1), change)
            circuits.disconnected(.tor(1), now: start)
            for second in 0..<seconds {
                circuits.purge(now: start + .seconds(second))
                #expect(circuits.count == 1)
            }
            for second in 0...60 { circuits.purge(now: start + .seconds(seconds + second)) }
            #expect(circuits.count == 0)
        }
    }

    @Test func `a circuit is kept until the outcomes of its unproven device tokens are known`() {
        var circuits = Circuits()
        #expect(connect(&circuits, 1))
        circuits.update(.tor(1)) { $0.unproven = 2 }
        circuits.disconnected(.tor(1), now: start)
        #expect(circuits[.tor(1)]?.unproven == 2)
        for minute in 1...10 {
            circuits.purge(now: start + .seconds(60 * minute))
            #expect(circuits[.tor(1)]?.unproven == 2)
        }
        circuits.update(.tor(1)) { $0.unproven = 0 }
        circuits.purge(now: start + .seconds(660))
        #expect(circuits.count == 0)
    }

    @Test func `repeated connecting and disconnecting uses no additional entries`() {
        var circuits = Circuits()
        for number in 0..<10_000 {
            #expect(connect(&circuits, UInt32(number % 3)))
            circuits.disconnected(.tor(UInt32(number % 3)), now: start + .milliseconds(number))
        }
        #expect(circuits.count == 3)
        #expect(circuits.idleCount == 3)
        circuits.purge(now: start + .seconds(1000))
        #expect(circuits.count == 0)
        #expect(circuits.idleCount == 0)
    }

    @Test func `a clock that goes back forgets no circuit`() {
        var circuits = Circuits()
        #expect(connect(&circuits, 1))
        circuits.disconnected(.tor(1), now: start)
        circuits.purge(now: MonotonicTime(nanoseconds: 0))
        #expect(circuits.count == 1)
        circuits.purge(now: start + .seconds(60))
        #expect(circuits.count == 0)
    }

    // MARK: Capacity

    @Test func `no more circuits are known than the capacity allows`() {
        var circuits = Circuits()
        for id in 0..<10 as Range<UInt32> { #expect(connect(&circuits, id, capacity: 10)) }
        #expect(!connect(&circuits, 10, capacity: 10))
        #expect(circuits[.tor(10)] == nil)
        // A known circuit may open more connections.
        #expect(connect(&circuits, 0, capacity: 10))
        #expect(circuits.count == 10)
    }

    @Test func `the circuit that has been idle longest is evicted first`() {
        var circuits = Circuits()
        for id in 0..<10 as Range<UInt32> { #expect(connect(&circuits, id, capacity: 10)) }
        circuits.disconnected(.tor(7), now: start)
        circuits.disconnected(.tor(3), now: start + .seconds(1))
        #expect(connect(&circuits, 10, capacity: 10, at: start + .seconds(2)))
        #expect(circuits[.tor(7)] == nil)
        #expect(circuits[.tor(3)] != nil)
        #expect(connect(&circuits, 11, capacity: 10, at: start + .seconds(2)))
        #expect(circuits[.tor(3)] == nil)
        #expect(!connect(&circuits, 12, capacity: 10, at: start + .seconds(2)))
        #expect(circuits.count == 10)
    }

    @Test func `a circuit with a connection is never evicted`() {
        var circuits = Circuits()
        for id in 0..<10 as Range<UInt32> {
            #expect(connect(&circuits, id, capacity: 10))
            circuits.disconnected(.tor(id), now: start)
            #expect(connect(&circuits, id, capacity: 10))
        }
        for id in 10..<100 as Range<UInt32> { #expect(!connect(&circuits, id, capacity: 10)) }
        for id in 0..<10 as Range<UInt32> { #expect(circuits[.tor(id)]?.connections == 1) }
        // Circuits that were not evicted then are evicted or forgotten once disconnected.
        for id in 0..<10 as Range<UInt32> { circuits.disconnected(.tor(id), now: start) }
        #expect(connect(&circuits, 10, capacity: 10))
        #expect(circuits.count == 10)
        circuits.purge(now: start + .seconds(60))
        #expect(circuits.count == 1)
    }

    @Test func `a reduced capacity takes effect at the next connection`() {
        var circuits = Circuits()
        for id in 0..<100 as Range<UInt32> {
            #expect(connect(&circuits, id))
            circuits.disconnected(.tor(id), now: start)
        }
        #expect(connect(&circuits, 1000, capacity: 10))
        #expect(circuits.count == 10)
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func `random connects, disconnects and purges match a model and stay within the capacity`(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        var circuits = Circuits()
        var connections: [UInt32: Int] = [:]
        var now = start
        for _ in 0..<5000 {
            now = now + .milliseconds(generator.below(500))
            let id = UInt32(generator.below(60))
            switch generator.below(4) {
            case 0:
                let isKnown = circuits[.tor(id)] != nil
                let hasRoom = isKnown || connections.count { $0.value > 0 } < 40
                #expect(connect(&circuits, id, capacity: 40, at: now) == hasRoom)
                if hasRoom { connections[id, default: 0] += 1 }
            case 1, 2:
                guard connections[id, default: 0] > 0 else { continue }
                connections[id, default: 0] -= 1
                circuits.disconnected(.tor(id), now: now)
            default: circuits.purge(now: now)
            }
            #expect(circuits.count <= 40)
            #expect(circuits.idleCount <= circuits.count)
            #expect(circuits[.tor(id)]?.connections ?? 0 == connections[id, default: 0])
        }
        circuits.purge(now: now + .seconds(60))
        #expect(circuits.count == connections.count { $0.value > 0 })
        for (id, count) in connections { #expect(circuits[.tor(id)]?.connections ?? 0 == count) }
    }
}
