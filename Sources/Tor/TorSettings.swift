// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc

/// What an operator decides about the node's tor: `[tor]` of the configuration.
package struct TorSettings: Equatable, Sendable {
    /// Whether the node runs a tor of its own.
    package var isManaged: Bool
    /// The program: a path, or a name to be found in `PATH`.
    package var binary = "tor"
    /// Where the node's own tor keeps what it has: keys, circuits' guards, control socket. Absolute.
    package var directory: String
    /// The `HiddenServiceDir` of a tor that is not the node's own. Absolute.
    package var foreignServiceDirectory: String?
    /// Ports of the onion that lead to `listen.tnp`.
    package var tnpPorts: [UInt16] = [7077]
    /// Ports of the onion that lead to `listen.http`: 80 for Bisq 1, 8021 for Bisq 2.
    package var httpPorts: [UInt16] = [80, 8021]
    /// Whether clients are asked for work while more of them come than tor can serve.
    package var asksForWork = true
    /// Streams of one circuit at a time; a circuit that opens more is closed. 0: as many as it likes.
    package var maxStreams: UInt16 = 64
    /// Whether the node's tor also has a SOCKS socket, through which the node reaches others.
    package var servesSOCKS = false

    /// Settings with their defaults.
    /// - Parameters:
    ///   - isManaged: see ``isManagedByDefault(binary:foreignServiceDirectory:path:)``.
    ///   - directory: absolute; `tor` in the state directory.
    package init(isManaged: Bool, directory: String) {
        self.isManaged = isManaged
        self.directory = directory
    }

    /// The `HiddenServiceDir`, which holds the onion's keys.
    package var serviceDirectory: String {
        isManaged ? "\(directory)/onion" : foreignServiceDirectory ?? "\(directory)/onion"
    }

    /// Where a running tor of the node's takes commands.
    package var controlSocket: Endpoint { .unix(path: "\(directory)/ctl") }

    /// Where it serves the node as a SOCKS proxy, with ``servesSOCKS``.
    package var socksSocket: Endpoint { .unix(path: "\(directory)/socks") }

    /// What `tor.managed` is where the configuration does not say: true where there is a tor to run, and no other tor's
    /// onion is named.
    /// - Parameter path: the environment's `PATH`.
    package static func isManagedByDefault(binary: String, foreignServiceDirectory: String?, path: String?) -> Bool {
        foreignServiceDirectory == nil && isInstalled(binary, path: path)
    }

    /// Whether there is such a program.
    /// - Parameter path: the environment's `PATH`.
    package static func isInstalled(_ binary: String, path: String?) -> Bool {
        func isProgram(_ file: String) -> Bool {
            var status = stat()
            return stat(file, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && access(file, X_OK) == 0
        }
        if binary.contains("/") { return isProgram(binary) }
        return (path ?? "/usr/local/bin:/usr/bin:/bin").split(separator: ":").contains { isProgram("\($0)/\(binary)") }
    }
}
