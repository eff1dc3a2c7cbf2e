// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Which addresses a dial may connect to, after it has resolved the host's name: a name that a stranger chose may lead
/// anywhere, and to another address with each lookup. Each policy has lookups of its own, so that the names of
/// strangers do not delay others. A proxy resolves names itself, so the policy does not apply to connections through a
/// proxy.
package enum AddressPolicy: Sendable, Hashable, CaseIterable {
    /// Any address.
    case any
    /// Addresses that are globally reachable (IANA IPv4 and IPv6 Special-Purpose Address Registries): none of this
    /// machine, of private networks, link-local, multicast or reserved, also where IPv6 embeds an IPv4 address.
    case publicOnly
    /// As ``publicOnly``, for a name that a stranger chose.
    case foreign

    /// How many names are looked up at a time, in a thread each. A name whose name servers do not answer takes a place
    /// until the system gives up. The names of all policies together make 144 questions (A and AAAA), fewer than the
    /// 150 that dnsmasq forwards at a time.
    var maximumLookups: Int {
        switch self {
        case .any: 24
        case .publicOnly: 16
        case .foreign: 32
        }
    }

    func allows(_ address: SocketAddress) -> Bool {
        if self == .any { return true }
        switch address {
        case .ipv4(let address): return Self.isPublic(UInt32(bigEndian: address.sin_addr.s_addr))
        case .ipv6(let address): return withUnsafeBytes(of: address.sin6_addr) { Self.isPublic(v6: Array($0)) }
        case .unix: return false
        }
    }

    /// A network: the first bits of its addresses, and their number.
    private typealias Network = (prefix: UInt32, length: UInt32)

    private static func network(_ a: UInt32, _ b: UInt32, _ c: UInt32, _ length: UInt32) -> Network {
        (a << 24 | b << 16 | c << 8, length)
    }

    /// The networks of the IPv4 registry that are not globally reachable, and multicast.
    private static let notPublic: [Network] = [
        network(0, 0, 0, 8), network(10, 0, 0, 8), network(100, 64, 0, 10), network(127, 0, 0, 8),
        network(169, 254, 0, 16), network(172, 16, 0, 12), network(192, 0, 0, 24), network(192, 0, 2, 24),
        network(192, 88, 99, 24), network(192, 168, 0, 16), network(198, 18, 0, 15), network(198, 51, 100, 24),
        network(203, 0, 113, 24), network(224, 0, 0, 4), network(240, 0, 0, 4),
    ]

    private static func isPublic(_ address: UInt32) -> Bool {
        notPublic.allSatisfy { (address ^ $0.prefix) >> (32 - $0.length) != 0 }
    }

    private static func isPublic(v6 bytes: [UInt8]) -> Bool {
        func begins(_ prefix: UInt8...) -> Bool { bytes.starts(with: prefix) }
        func embedded(at start: Int) -> UInt32 { bytes[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        // NAT64's well-known prefix (RFC 6052) and 6to4 (RFC 3056) lead to the IPv4 address in them.
        if begins(0x00, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0) { return isPublic(embedded(at: 12)) }
        if begins(0x20, 0x02) { return isPublic(embedded(at: 2)) }
        // Only 2000::/3 is assigned for global use. That leaves out IPv4-mapped and -compatible addresses, loopback,
        // unique local, link-local and multicast ones.
        guard bytes[0] & 0xE0 == 0x20 else { return false }
        // 2001::/23 are protocol assignments such as Teredo, 2001:db8::/32 and 3fff::/20 are for documentation.
        return !(begins(0x20, 0x01) && bytes[2] & 0xFE == 0) && !begins(0x20, 0x01, 0x0D, 0xB8)
            && !(begins(0x3F, 0xFF) && bytes[2] & 0xF0 == 0)
    }
}
