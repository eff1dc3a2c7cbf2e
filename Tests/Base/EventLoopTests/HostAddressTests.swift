// SPDX-License-Identifier: Apache-2.0

import Glibc
import StandIns
import TestSupport
import Testing

@testable import EventLoop

@Suite(.tags(.computing)) struct HostAddressTests {
    private func v4(_ last: UInt8) -> HostAddress { HostAddress(bytes: [10, 0, 0, last])! }
    private func v6(_ last: UInt8) -> HostAddress { HostAddress(bytes: Array(repeating: 0, count: 15) + [last])! }

    /// The last byte of each address, prefixed with its family.
    private func names(_ addresses: [HostAddress]) -> [String] {
        addresses.map { "\($0.bytes.count == 4 ? 4 : 6)-\($0.bytes.last!)" }
    }

    @Test func `shuffling gives every order within a family and keeps the places of families`() {
        let given = [v4(1), v4(2), v6(1), v6(2), v4(3)]
        var generator = SplitMix64(seed: 1)
        var orders: Set<[String]> = []
        for _ in 0..<500 {
            let spread = names(given.shuffledWithinFamilies(using: &generator))
            orders.insert(spread)
            let families = spread.map { String($0.prefix(1)) }
            #expect(families == ["4", "4", "6", "6", "4"])
            #expect(spread.sorted() == ["4-1", "4-2", "4-3", "6-1", "6-2"])
        }
        // 3! orders of one family times 2! of the other.
        #expect(orders.count == 12)
    }

    @Test func `every address comes first equally often`() {
        let given = (1...4).map { v4($0) }
        var generator = SplitMix64(seed: 2)
        var first: [String: Int] = [:]
        for _ in 0..<4000 { first[names(given.shuffledWithinFamilies(using: &generator))[0], default: 0] += 1 }
        #expect(first.count == 4)
        #expect(first.values.allSatisfy { (850...1150).contains($0) })
    }

    @Test func `an empty list and a single address stay unchanged`() {
        var generator = SplitMix64(seed: 3)
        let none = [HostAddress]().shuffledWithinFamilies(using: &generator)
        #expect(none.isEmpty)
        let one = [v6(7)].shuffledWithinFamilies(using: &generator)
        #expect(one == [v6(7)])
    }

    @Test func `an address keeps its bytes, its interface and gets the port`() throws {
        guard case .ipv4(let four) = SocketAddress(v4(9), port: 443) else {
            Issue.record("no IPv4 address")
            return
        }
        #expect(four.sin_port == UInt16(443).bigEndian && four.sin_addr.s_addr == UInt32(0x0A00_0009).bigEndian)
        let local = try #require(HostAddress(bytes: [0xFE, 0x80] + Array(repeating: 1, count: 14), scope: 5))
        guard case .ipv6(let six) = SocketAddress(local, port: 7) else {
            Issue.record("no IPv6 address")
            return
        }
        #expect(six.sin6_scope_id == 5 && six.sin6_port == UInt16(7).bigEndian)
        #expect(HostAddress(bytes: [1, 2, 3]) == nil)
    }
}
