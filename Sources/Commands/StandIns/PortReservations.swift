// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Synchronization
import Tor

/// Free loopback ports below the kernel's ephemeral range, from which the system takes the ports of outgoing
/// connections. An abstract unix socket named after the port reserves it; the kernel releases the socket when the
/// process exits for any reason. No other reservation gets the port until then, or until this value is released, even
/// while nothing listens there.
package final class PortReservations: Sendable {
    private let claims = Mutex<[Int32]>([])
    private static let range: Range<UInt16> = 12_000..<32_000

    package init() {}

    deinit { for claim in claims.withLock(\.self) { close(claim) } }

    /// Reserves a port.
    /// - Throws: `TorError` if 500 random ports are all in use.
    package func reserve() throws -> UInt16 {
        for _ in 0..<500 {
            let port = UInt16.random(in: Self.range)
            guard let claim = Self.claim(port) else { continue }
            if Self.isFree(port) {
                claims.withLock { $0.append(claim) }
                return port
            }
            close(claim)
        }
        throw TorError("no free loopback port in \(Self.range)")
    }

    /// A loopback address with a port that nobody else reserves.
    /// - Throws: `TorError` as ``reserve()``.
    package func endpoint() throws -> Endpoint { .tcp(host: "127.0.0.1", port: try reserve()) }

    private static func claim(_ port: UInt16) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = Array("\0tocsin-port-\(port)".utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let bound = withUnsafeBytes(of: &address) {
            bind(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, length)
        }
        guard bound == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafeBytes(of: &address) {
            bind(
                descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress,
                socklen_t(MemoryLayout<sockaddr_in>.size))
        } == 0
    }
}
