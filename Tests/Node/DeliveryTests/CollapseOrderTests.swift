// SPDX-License-Identifier: Apache-2.0

import StandIns
import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct CollapseOrderTests {
    private func makeEnvelope(_ collapseID: String?, to token: String = "0f0f") throws -> Envelope {
        try Envelope(
            magic: .android, deviceToken: Array(token.utf8)[...], iv: Array("0123456789abcdef".utf8)[...],
            ciphertext: [UInt8](repeating: 0x41, count: 16)[...], collapseID: collapseID.map { Array($0.utf8)[...] },
            format: .pipe)
    }

    @Test func `a newer envelope replaces an older one, and never the reverse`() throws {
        var order = CollapseOrder(capacity: 10)
        let trade = try makeEnvelope("trade")
        order.accepted(trade, 1)
        #expect(!order.isReplaced(trade, 1))
        order.accepted(trade, 2)
        #expect(order.isReplaced(trade, 1))
        #expect(!order.isReplaced(trade, 2))
    }

    @Test func `an older envelope that is accepted later does not become the newest`() throws {
        var order = CollapseOrder(capacity: 10)
        let trade = try makeEnvelope("trade")
        order.accepted(trade, 1)
        order.accepted(trade, 2)
        order.accepted(trade, 1)
        #expect(order.isReplaced(trade, 1))
        #expect(!order.isReplaced(trade, 2))
    }

    @Test func `an envelope without a collapse id is never replaced`() throws {
        var order = CollapseOrder(capacity: 10)
        let plain = try makeEnvelope(nil)
        for sequence in 1...5 as ClosedRange<UInt64> { order.accepted(plain, sequence) }
        #expect(!order.isReplaced(plain, 1))
    }

    @Test func `envelopes with another collapse id or device do not replace each other`() throws {
        var order = CollapseOrder(capacity: 10)
        let trade = try makeEnvelope("trade")
        let others = [
            try makeEnvelope("offer"), try makeEnvelope("trade", to: "0f0e"), try makeEnvelope("rade", to: "0f0ft"),
            try makeEnvelope(nil),
        ]
        order.accepted(trade, 1)
        for other in others { order.accepted(other, 2) }
        #expect(!order.isReplaced(trade, 1))
        order.accepted(trade, 3)
        for other in others { #expect(!order.isReplaced(other, 2)) }
    }

    @Test func `an envelope that was never accepted replaces nothing`() throws {
        let order = CollapseOrder(capacity: 10)
        let trade = try makeEnvelope("trade")
        #expect(!order.isReplaced(trade, 1))
    }

    @Test func `the latest collapse ids are remembered, at least half the capacity`() throws {
        var order = CollapseOrder(capacity: 60)
        var envelopes: [Envelope] = []
        for number in 1...300 {
            let envelope = try makeEnvelope("trade-\(number)")
            envelopes.append(envelope)
            order.accepted(envelope, UInt64(number))
            guard number.isMultiple(of: 25) else { continue }
            let known = envelopes.filter { order.isReplaced($0, 0) }
            #expect(known.count <= 60)
            #expect(known.count >= min(30, number))
            #expect(known.suffix(30).map(\.collapseID) == envelopes.suffix(30).map(\.collapseID))
        }
    }

    @Test func `in any order only the newest envelope of a collapse id is not replaced`() throws {
        var generator = SplitMix64(seed: 1)
        let ids = try (0..<8).map { try makeEnvelope("trade-\($0)") }
        var order = CollapseOrder(capacity: 1000)
        var newest = [UInt64](repeating: 0, count: ids.count)
        for sequence in 1...1000 as ClosedRange<UInt64> {
            let id = generator.below(ids.count)
            order.accepted(ids[id], sequence)
            newest[id] = sequence
            let checked = generator.below(ids.count)
            let other = UInt64(generator.below(Int(sequence))) + 1
            #expect(order.isReplaced(ids[checked], other) == (newest[checked] > other))
        }
    }
}

extension CollapseOrder {
    /// Records that a provider accepted the envelope with this sequence number.
    fileprivate mutating func accepted(_ envelope: Envelope, _ sequence: UInt64) {
        if let key = Self.key(of: envelope, TableKey(envelope.phone)) { accepted(key, sequence) }
    }

    /// Whether a provider has accepted a newer envelope with the same device token and collapse id.
    fileprivate func isReplaced(_ envelope: Envelope, _ sequence: UInt64) -> Bool {
        Self.key(of: envelope, TableKey(envelope.phone)).map { isReplaced($0, sequence) } ?? false
    }
}
