// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Admission
@testable import Ingress
@testable import TocsinNode

@Suite(.tags(.computing)) struct ConnectionRegistryTests {
    private typealias Limits = ConnectionRegistry.Limits

    private func registry(
        _ connections: Int, halfOpen: Int = 1000, servesHTTP: Bool = true
    ) -> ConnectionRegistry {
        ConnectionRegistry(Limits(connections: connections, halfOpen: halfOpen, servesHTTP: servesHTTP))
    }

    /// Opens an unidentified connection, as the node does.
    @discardableResult
    private func open(
        _ number: UInt64, at senderProtocol: ConnectionRegistry.SenderProtocol = .tnp,
        in registry: inout ConnectionRegistry,
        use: (UInt64) -> ConnectionRegistry.Use = { _ in .busy }
    ) -> ConnectionRegistry.Placement {
        let placement = registry.place(at: senderProtocol, use: use)
        if case .reject = placement { return placement }
        registry.opened(number, at: senderProtocol)
        return placement
    }

    @Test func `the oldest unidentified connection is evicted when half are unidentified`() {
        var registry = registry(10, servesHTTP: false)
        for number in 1...5 as ClosedRange<UInt64> { #expect(open(number, in: &registry) == .accept) }
        #expect(open(6, in: &registry) == .acceptEvicting(1))
        registry.identified(2)
        #expect(open(7, in: &registry) == .accept)
        #expect(open(8, in: &registry) == .acceptEvicting(3))
        registry.closed(4)
        #expect(open(9, in: &registry) == .accept)
        #expect(open(10, in: &registry) == .acceptEvicting(5))
        #expect(registry.count == 6)
    }

    @Test func `half_open limits the unidentified connections of each endpoint`() {
        var registry = registry(1000, halfOpen: 2)
        open(1, in: &registry)
        open(2, in: &registry)
        #expect(open(3, in: &registry) == .acceptEvicting(1))
        #expect(open(4, at: .http, in: &registry) == .accept)
    }

    @Test(arguments: [500, 871, 1100, 10_000])
    func `a flood of silent connections never blocks a sender`(_ connections: Int) {
        var registry = registry(connections)
        var number: UInt64 = 0
        // Honest senders hold connections at both endpoints.
        for senderProtocol in [ConnectionRegistry.SenderProtocol.tnp, .http] {
            for _ in 0..<connections / 4 {
                number += 1
                open(number, at: senderProtocol, in: &registry)
                registry.identified(number)
            }
        }
        for turn in 0..<20_000 {
            number += 1
            let placement = open(number, at: turn.isMultiple(of: 2) ? .tnp : .http, in: &registry)
            if case .reject = placement { Issue.record("rejected after \(turn)") }
            if case .acceptEvicting(let old) = placement { #expect(old > UInt64(connections / 4 * 2)) }
            #expect(registry.count <= connections)
        }
        // A connection survives as many new ones as may be unidentified: long enough for the node to read its HELLO.
        number += 1
        let honest = number
        open(honest, in: &registry)
        for _ in 1..<min(1000, connections / 4) {
            number += 1
            #expect(open(number, in: &registry) != .acceptEvicting(honest))
        }
    }

    @Test(arguments: [(ConnectionRegistry.SenderProtocol.tnp, ConnectionRegistry.SenderProtocol.http), (.http, .tnp)])
    func `each endpoint keeps a quarter of the connections while the other is flooded`(
        _ flooded: ConnectionRegistry.SenderProtocol, _ other: ConnectionRegistry.SenderProtocol
    ) {
        var registry = registry(100)
        var number: UInt64 = 0
        while number < 75 {
            number += 1
            #expect(open(number, at: flooded, in: &registry) == .accept)
            registry.identified(number)
        }
        #expect(open(1000, at: flooded, in: &registry) == .reject)
        for number in 101...125 as ClosedRange<UInt64> {
            #expect(open(number, at: other, in: &registry) == .accept)
            registry.identified(number)
        }
        #expect(open(1001, at: other, in: &registry) == .reject)
    }

    @Test func `an idle connection without deliveries is evicted first, a busy one never`() {
        var registry = registry(6, servesHTTP: false)
        for number in 1...6 as ClosedRange<UInt64> {
            open(number, in: &registry)
            registry.identified(number)
        }
        let uses: [UInt64: ConnectionRegistry.Use] = [
            1: .busy, 2: .idleAfterSuccess, 3: .idleAfterSuccess, 4: .idle, 5: .idle, 6: .busy,
        ]
        var evicted: [UInt64] = []
        for number in 7...10 as ClosedRange<UInt64> {
            guard case .acceptEvictingIdle(let idle) = open(number, in: &registry, use: { uses[$0] ?? .busy }) else {
                Issue.record("nothing was evicted")
                return
            }
            evicted.append(idle)
            registry.identified(number)
            #expect(registry.count == 6)
        }
        #expect(evicted.prefix(2) == [4, 5])
        #expect(Set(evicted.suffix(2)) == [2, 3])
        #expect(open(11, in: &registry, use: { uses[$0] ?? .busy }) == .reject)
    }

    @Test func `a full node evicts an idle connection before one that may be about to send HELLO`() {
        var registry = registry(4, servesHTTP: false)
        for number in 1...4 as ClosedRange<UInt64> {
            open(number, in: &registry)
            if number < 4 { registry.identified(number) }
        }
        var uses: [UInt64: ConnectionRegistry.Use] = [1: .idleAfterSuccess, 2: .idle]
        #expect(open(5, in: &registry, use: { uses[$0] ?? .busy }) == .acceptEvictingIdle(2))
        #expect(open(6, in: &registry, use: { uses[$0] ?? .busy }) == .acceptEvicting(4))
        registry.identified(5)
        uses[5] = .idle
        #expect(open(7, in: &registry, use: { uses[$0] ?? .busy }) == .acceptEvictingIdle(5))
        registry.identified(6)
        registry.identified(7)
        #expect(open(8, in: &registry, use: { uses[$0] ?? .busy }) == .acceptEvictingIdle(1))
    }

    @Test func `a flood of silent connections evicts none that is idle`() {
        var registry = registry(10, servesHTTP: false)
        for number in 1...5 as ClosedRange<UInt64> {
            open(number, in: &registry)
            registry.identified(number)
        }
        for number in 6...10 as ClosedRange<UInt64> { open(number, in: &registry) }
        for number in 11...100 as ClosedRange<UInt64> {
            #expect(open(number, in: &registry, use: { _ in .idle }) == .acceptEvicting(number - 5))
        }
        #expect(registry.identifiedCount == 5 && registry.count == 10)
    }

    @Test func `neither unidentified connections nor closed ones keep an idle one from being found`() {
        var registry = registry(100, servesHTTP: false)
        for number in 1...100 as ClosedRange<UInt64> {
            open(number, in: &registry)
            if number > 40 { registry.identified(number) }
        }
        for number in 41...80 as ClosedRange<UInt64> { registry.closed(number) }
        for number in 101...140 as ClosedRange<UInt64> {
            #expect(open(number, in: &registry) == .accept)
            registry.identified(number)
            // Each request over HTTP says so again.
            registry.identified(number)
        }
        #expect(registry.count == 100)
        var examined: [UInt64] = []
        let placement = registry.place(at: .tnp) {
            examined.append($0)
            return $0 == 90 ? .idle : .busy
        }
        #expect(placement == .acceptEvictingIdle(90))
        #expect(examined == Array(81...90))
    }

    @Test func `an idle connection of the other endpoint makes room only within this endpoint's share`() {
        var registry = registry(8)
        for number in 1...6 as ClosedRange<UInt64> {
            open(number, in: &registry)
            registry.identified(number)
        }
        for number in 7...8 as ClosedRange<UInt64> {
            open(number, at: .http, in: &registry)
            registry.identified(number)
        }
        let idleAtHTTP: (UInt64) -> ConnectionRegistry.Use = { $0 > 6 ? .idle : .busy }
        #expect(open(9, in: &registry, use: idleAtHTTP) == .reject)
        registry.closed(1)
        open(10, at: .http, in: &registry)
        registry.identified(10)
        #expect(open(11, in: &registry, use: idleAtHTTP) == .acceptEvictingIdle(7))
    }

    @Test func `the search for an idle connection is bounded`() {
        var registry = registry(1000, servesHTTP: false)
        for number in 1...1000 as ClosedRange<UInt64> {
            open(number, in: &registry)
            registry.identified(number)
        }
        var examined: [UInt64] = []
        for _ in 0..<2 {
            let placement = registry.place(at: .tnp) {
                examined.append($0)
                return .busy
            }
            #expect(placement == .reject)
        }
        // Connections examined before have moved to the end of the queue.
        #expect(examined == Array(1...UInt64(2 * ConnectionRegistry.examinedForEviction)))
    }
}
