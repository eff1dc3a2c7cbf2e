// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Why no torrc can be built from the settings, with the configuration key and the remedy.
package enum TorConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The onion has no port.
    case noPort
    /// A port of the onion is 0 or listed twice.
    case badPort(UInt16)
    /// The sockets' paths would be too long for the operating system.
    case directoryTooLong(String, limit: Int)
    /// A path is not absolute or contains a control character.
    case badPath(String)
    /// tor cannot connect to the target of a port.
    case badTarget(Endpoint)

    package var description: String {
        switch self {
        case .noPort: "the onion has no port: set tor.onion_ports"
        case .badPort(let port):
            "tor.onion_ports: port \(port) is 0 or listed twice: each port must be from 1 to 65535 and listed once"
        case .directoryTooLong(let directory, let limit):
            """
            \(directory) is too long for tor's sockets in it: choose a node.state or tor.directory of at most \(limit) \
            bytes
            """
        case .badPath(let path):
            "tor requires an absolute path without control characters, not \(path.debugDescription)"
        case .badTarget(let target):
            """
            tor cannot connect to \("\(target)".debugDescription): listen on an address like 127.0.0.1:7077, or on \
            unix:PATH
            """
        }
    }
}
