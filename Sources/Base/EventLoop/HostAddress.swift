// SPDX-License-Identifier: Apache-2.0

import Glibc

/// An address of a host, without a port.
package struct HostAddress: Hashable, Sendable {
    /// In network order: 4 bytes of IPv4 or 16 of IPv6.
    package let bytes: [UInt8]
    /// The index of the interface that a link-local IPv6 address belongs to; 0 for other addresses.
    package let scope: UInt32

    /// - Returns: `nil` unless there are 4 or 16 bytes.
    package init?(bytes: [UInt8], scope: UInt32 = 0) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
        self.scope = scope
    }

    /// - Returns: `nil` for an address of another family.
    init?(_ address: UnsafePointer<sockaddr>) {
        let address = UnsafeRawPointer(address)
        switch Int32(address.loadUnaligned(as: sockaddr.self).sa_family) {
        case AF_INET:
            let v4 = address.loadUnaligned(as: sockaddr_in.self)
            self.init(bytes: withUnsafeBytes(of: v4.sin_addr) { Array($0) })
        case AF_INET6:
            let v6 = address.loadUnaligned(as: sockaddr_in6.self)
            self.init(bytes: withUnsafeBytes(of: v6.sin6_addr) { Array($0) }, scope: v6.sin6_scope_id)
        default: return nil
        }
    }
}

extension SocketAddress {
    init(_ host: HostAddress, port: UInt16) {
        if host.bytes.count == 4 {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            withUnsafeMutableBytes(of: &address.sin_addr) { $0.copyBytes(from: host.bytes) }
            self = .ipv4(address)
        } else {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_scope_id = host.scope
            withUnsafeMutableBytes(of: &address.sin6_addr) { $0.copyBytes(from: host.bytes) }
            self = .ipv6(address)
        }
    }
}

extension [HostAddress] {
    /// Shuffles the addresses of each family among that family's positions, so that clients spread over a host's
    /// addresses and the order of families is preserved.
    func shuffledWithinFamilies(using generator: inout some RandomNumberGenerator) -> [HostAddress] {
        var families = Dictionary(grouping: shuffled(using: &generator), by: \.bytes.count)
        return compactMap { families[$0.bytes.count]?.popLast() }
    }
}
