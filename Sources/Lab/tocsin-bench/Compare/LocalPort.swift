// SPDX-License-Identifier: Apache-2.0

import Glibc

/// TCP ports of 127.0.0.1.
enum LocalPort {
    /// Whether a server accepts connections on the port.
    static func isOpen(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafeBytes(of: &address) {
            connect(
                descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!,
                socklen_t(MemoryLayout<sockaddr_in>.size))
        } == 0
    }
}
