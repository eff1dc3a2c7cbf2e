// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Delivery

@Suite(.tags(.computing)) struct TokenHistoryTests {
    private func token(_ number: Int) -> TableKey {
        TableKey(DeviceIdentity(Array("token-\(number)".utf8)[...], of: .android))
    }

    @Test func `nothing is known of a device that was never seen`() {
        let history = TokenHistory(capacity: 10)
        #expect(history[token(1)] == TokenHistory.Record(environment: nil, accepted: 0, isRefused: false))
    }

    @Test func `the environment of a device and the time of its last acceptance are remembered`() {
        var history = TokenHistory(capacity: 10)
        history.accepted(token(1), by: .iOSDev, at: 1_700_000_000_000)
        history.accepted(token(2), by: nil, at: 1_700_000_001_000)
        #expect(
            history[token(1)]
                == TokenHistory.Record(environment: .iOSDev, accepted: 1_700_000_000_000, isRefused: false)
        )
        #expect(
            history[token(2)] == TokenHistory.Record(environment: nil, accepted: 1_700_000_001_000, isRefused: false))
        history.accepted(token(1), by: nil, at: 1_700_000_002_000)
        #expect(
            history[token(1)] == TokenHistory.Record(environment: nil, accepted: 1_700_000_002_000, isRefused: false))
    }

    @Test func `a device token is recognised at any position in a message`() {
        var history = TokenHistory(capacity: 10)
        history.accepted(token(1), by: .iOSDev, at: 1)
        let message = Array("...token-1...".utf8)
        #expect(history[TableKey(DeviceIdentity(message[3..<10], of: .android))].environment == .iOSDev)
    }

    @Test func `only the first refusal of a device is reported as new`() {
        var history = TokenHistory(capacity: 10)
        let first = history.refused(token(1))
        #expect(first)
        for _ in 0..<5 {
            let again = history.refused(token(1))
            #expect(!again)
        }
        let other = history.refused(token(2))
        #expect(other)
    }

    @Test func `a refused device has no environment but keeps the time of its last acceptance`() {
        var history = TokenHistory(capacity: 10)
        history.accepted(token(1), by: .iOSDev, at: 7)
        _ = history.refused(token(1))
        #expect(history[token(1)] == TokenHistory.Record(environment: nil, accepted: 7, isRefused: true))
    }

    @Test func `a refusal is new again after the device was accepted again`() {
        var history = TokenHistory(capacity: 10)
        _ = history.refused(token(1))
        history.accepted(token(1), by: nil, at: 7)
        #expect(!history[token(1)].isRefused)
        let isNew = history.refused(token(1))
        #expect(isNew)
    }

    @Test func `an acceptance after the reported time of GONE contradicts it`() {
        var history = TokenHistory(capacity: 10)
        for (since, isContradicted) in [(999, true), (1000, false), (1001, false), (0, true)] as [(UInt64, Bool)] {
            history.accepted(token(1), by: .iOSDev, at: 1000)
            let contradicts = history.contradicts(token(1), goneSince: since)
            #expect(contradicts == isContradicted, "\(since)")
        }
        let unknown = history.contradicts(token(2), goneSince: 0)
        #expect(!unknown)
    }

    @Test func `a repeated GONE is believed`() {
        var history = TokenHistory(capacity: 10)
        history.accepted(token(1), by: .iOSDev, at: 1000)
        _ = history.contradicts(token(1), goneSince: 1)
        let again = history.contradicts(token(1), goneSince: 1)
        #expect(!again)
        #expect(history[token(1)] == TokenHistory.Record(environment: .iOSDev, accepted: 0, isRefused: false))
        history.accepted(token(1), by: .iOSDev, at: 2000)
        let afterwards = history.contradicts(token(1), goneSince: 1)
        #expect(afterwards)
    }

    @Test func `the latest devices are remembered, at least half the capacity and at most all of it`() {
        var history = TokenHistory(capacity: 60)
        for number in 1...500 {
            history.accepted(token(number), by: nil, at: UInt64(number))
            guard number.isMultiple(of: 25) else { continue }
            let known = (1...500).filter { history[token($0)].accepted != 0 }
            #expect(known.count <= 60)
            #expect(known.suffix(min(30, number)).elementsEqual(max(1, number - 29)...number))
        }
    }

    @Test func `a device in use stays known, however many others arrive`() {
        var history = TokenHistory(capacity: 20)
        for number in 1...500 {
            history.accepted(token(number), by: nil, at: 1)
            if number.isMultiple(of: 5) { history.accepted(token(0), by: .iOSDev, at: 1) }
            if number >= 5 { #expect(history[token(0)].environment == .iOSDev) }
        }
    }

    @Test func `the smallest history knows the latest device`() {
        for capacity in 0...2 {
            var history = TokenHistory(capacity: capacity)
            for number in 1...10 {
                history.accepted(token(number), by: nil, at: 1)
                #expect(history[token(number)].accepted == 1)
            }
        }
    }
}
