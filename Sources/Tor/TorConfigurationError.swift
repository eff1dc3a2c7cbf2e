// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Why no torrc can be made of the settings: which key, and what to do.
package enum TorConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The onion has no port at all.
    case noPort
    /// A port of the onion stands twice, or is 0.
    case badPort(UInt16)
    /// The sockets' paths would be too long for the operating system.
    case directoryTooLong(String, limit: Int)
    /// A path that is not absolute, or has a character that no path needs.
    case badPath(String)
    /// tor cannot connect to where the onion is to lead.
    case badTarget(Endpoint)

    package var description: String {
        switch self {
        case .noPort: "the onion has no port: name one in tor.onion_ports"
        case .badPort(let port): "tor.onion_ports: each port must be from 1 to 65535 and stand there once, not \(port)"
        case .directoryTooLong(let directory, let limit):
            "\(directory) is too long for tor's sockets in it: choose a node.state or tor.directory of at most \(limit) bytes"
        case .badPath(let path):
            "tor can only use an absolute path without control characters, not \(path.debugDescription)"
        case .badTarget(let target):
            "tor cannot connect to \("\(target)".debugDescription): listen on an address like 127.0.0.1:7077, or on unix:PATH"
        }
    }
}
