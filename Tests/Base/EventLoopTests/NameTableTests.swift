// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Time

@testable import EventLoop

@Suite(.tags(.computing)) struct NameTableTests {
    private var table = NameTable(maximum: 2)
    private let now = MonotonicTime(nanoseconds: 1_000_000_000)
    private let one = [HostAddress(bytes: [192, 0, 2, 1])!]
    private let two = [HostAddress(bytes: [192, 0, 2, 2])!]
    private let gone = NameAnswer.failure("gone", isUnknown: true)
    private let failed = NameAnswer.failure("no name server", isUnknown: false)

    /// Looks a name up that leads to these addresses.
    private mutating func learn(_ host: String, _ addresses: [HostAddress], at now: MonotonicTime) {
        _ = table.ask(host, by: 0, within: .seconds(10), at: now)
        _ = table.ended(host, with: .addresses(addresses), at: now)
    }

    @Test mutating func `a host is looked up once for all who wait for it`() {
        #expect(
            table.ask("a", by: 1, within: .seconds(10), at: now) == .wait(startsLookup: true, patience: .seconds(10)))
        #expect(
            table.ask("a", by: 2, within: .seconds(5), at: now) == .wait(startsLookup: false, patience: .seconds(5)))
        #expect(table.callerCount == 2)
        let (callers, result) = table.ended("a", with: .addresses(one), at: now)
        #expect(callers == [1, 2] && result == .success(one) && table.callerCount == 0)
        let late = table.leave("a", 1, at: now)
        #expect(late == nil)
    }

    @Test mutating func `a name takes a place until the system has answered, also when nobody waits`() {
        for (caller, host) in ["a", "b"].enumerated() {
            _ = table.ask(host, by: UInt64(caller), within: .seconds(1), at: now)
            let result = table.leave(host, UInt64(caller), at: now)
            #expect(result == .failure(.timedOut))
        }
        #expect(table.callerCount == 0)
        let full = table.ask("c", by: 3, within: .seconds(1), at: now)
        #expect(full == .answer(.failure(.unknownHost("c: too many names are being looked up"))))
        // The lookup that runs serves again.
        #expect(
            table.ask("a", by: 4, within: .seconds(1), at: now) == .wait(startsLookup: false, patience: .seconds(1)))
        let (callers, result) = table.ended("a", with: failed, at: now)
        #expect(callers == [4] && result == .failure(.unknownHost("a: no name server")))
        #expect(table.ask("c", by: 5, within: .seconds(1), at: now) == .wait(startsLookup: true, patience: .seconds(1)))
    }

    @Test mutating func `callers are bounded`() {
        for caller in 0..<UInt64(NameTable.maximumCallers) {
            _ = table.ask("a", by: caller, within: .seconds(1), at: now)
        }
        let step = table.ask("a", by: 1 << 32, within: .seconds(1), at: now)
        #expect(step == .answer(.failure(.unknownHost("a: too many names are being looked up"))))
    }

    @Test mutating func `the last addresses serve for a day while a lookup fails or takes long`() {
        learn("a", one, at: now)
        #expect(
            table.ask("a", by: 1, within: .seconds(10), at: now)
                == .wait(startsLookup: true, patience: NameTable.patience))
        #expect(
            table.ask("a", by: 2, within: .seconds(2), at: now) == .wait(startsLookup: false, patience: .seconds(1)))
        let first = table.leave("a", 1, at: now)
        #expect(first == .success(one))
        let second = table.ended("a", with: failed, at: now)
        #expect(second == ([2], .success(one)))
        // Also if there is no place for a lookup.
        for host in ["b", "c"] { _ = table.ask(host, by: 3, within: .seconds(1), at: now) }
        let full = table.ask("a", by: 4, within: .seconds(1), at: now)
        #expect(full == .answer(.success(one)))
        _ = table.ended("b", with: failed, at: now)
        let tomorrow = now + NameTable.maximumMemory + .seconds(1)
        #expect(
            table.ask("a", by: 5, within: .seconds(10), at: tomorrow)
                == .wait(startsLookup: true, patience: .seconds(10)))
        let third = table.ended("a", with: failed, at: tomorrow)
        #expect(third == ([5], .failure(.unknownHost("a: no name server"))))
    }

    @Test mutating func `the addresses of a host that is gone are forgotten`() {
        learn("a", one, at: now)
        _ = table.ask("a", by: 1, within: .seconds(10), at: now)
        let result = table.ended("a", with: gone, at: now)
        #expect(result == ([1], .failure(.unknownHost("a: gone"))))
        #expect(
            table.ask("a", by: 2, within: .seconds(10), at: now) == .wait(startsLookup: true, patience: .seconds(10)))
    }

    @Test mutating func `the oldest addresses make room`() {
        for number in 0...NameTable.maximumRemembered {
            learn("\(number)", one, at: now + .seconds(Double(number)))
            learn("1", two, at: now + .seconds(Double(number)))
        }
        let later = now + .seconds(1000)
        #expect(
            table.ask("0", by: 1, within: .seconds(9), at: later) == .wait(startsLookup: true, patience: .seconds(9)))
        #expect(
            table.ask("1", by: 1, within: .seconds(9), at: later) == .wait(startsLookup: true, patience: .seconds(3)))
    }
}
