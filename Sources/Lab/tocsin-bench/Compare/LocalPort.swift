// SPDX-License-Identifier: Apache-2.0

import Glibc

/// TCP ports of 127.0.0.1.
enum LocalPort {
    /// A port on which nothing listens.
    static func free() -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var target = address(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutableBytes(of: &target) {
            let pointer = $0.assumingMemoryBound(to: sockaddr.self).baseAddress!
            _ = bind(descriptor, pointer, length)
            _ = getsockname(descriptor, pointer, &length)
        }
        return UInt16(bigEndian: target.sin_port)
    }

    /// Whether a server accepts connections on the port.
    static func isOpen(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var target = address(port)
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutableBytes(of: &target) {
            connect(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, length)
        } == 0
    }

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}
