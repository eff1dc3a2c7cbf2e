// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc

/// The settings of the node's tor: the table `[tor]` of the configuration.
package struct TorSettings: Equatable, Sendable {
    /// A further onion of the node's own tor, beside the first: a table `[[tor.onion]]`.
    package struct Onion: Equatable, Sendable {
        /// Its name, which is part of the name of its `HiddenServiceDir`.
        package var name: ClientName
        /// Its ports: those of ``TorSettings/tnpPorts`` lead to `listen.tnp`, the others to `listen.http`.
        package var ports: [UInt16]
        /// Whether it stays closed to everyone while no sender is authorised.
        package var isClosed: Bool

        package init(name: ClientName, ports: [UInt16], isClosed: Bool) {
            self.name = name
            self.ports = ports
            self.isClosed = isClosed
        }
    }

    /// Who starts the node's own tor, and as which user.
    package enum Runner: String, CaseIterable, Sendable {
        /// The node, as a child process and as its own user.
        case node
        /// systemd, as a user of its own, whose keys the node cannot read: `tocsin-tor.service`.
        case service
    }

    /// Whether the node has its own tor.
    package var isManaged: Bool
    /// Who starts the node's own tor.
    package var runner = Runner.node
    /// The tor program: a path, or a name to look up in `PATH`.
    package var binary = "tor"
    /// The data directory of the node's own tor: keys, guards, control socket. Absolute.
    package var directory: String
    /// The file from which `tocsin onion show` reads the states of the onions' descriptors; the node writes it.
    package var statusFile: String
    /// The `HiddenServiceDir` of another tor that serves the onion. Absolute.
    package var externalServiceDirectory: String?
    /// Ports of the onion that lead to `listen.tnp`.
    package var tnpPorts: [UInt16] = [7077]
    /// Ports of the onion that lead to `listen.http`: 80 for Bisq 1, 8021 for Bisq 2.
    package var httpPorts: [UInt16] = [80, 8021]
    /// Whether tor requires proof of work from clients while it is under load.
    package var enablesProofOfWork = true
    /// Maximum concurrent streams per circuit; a circuit that exceeds it is closed. 0: unlimited.
    package var maxStreams: UInt16 = 64

    /// Whether tor has a SOCKS port for this node: a unix socket that only the node's user can open; if systemd runs
    /// tor, tor's group.
    package var hasSOCKSPort = false

    /// The address of an OnionBalance that also leads to the first onion; `nil` if there is none.
    package var onionBalance: OnionAddress?

    /// The further onions.
    package var onions: [Onion] = []
    /// The name of the further onion that ``serviceDirectory`` is about; `nil` for the first onion.
    package var selected: ClientName?

    /// Creates settings with default values.
    /// - Parameter directory: the data directory; absolute.
    package init(isManaged: Bool, directory: String) {
        self.isManaged = isManaged
        self.directory = directory
        statusFile = "\(directory)/status"
    }

    /// Who starts the node's own tor; `nil` if the node has none.
    package var runnerInUse: Runner? { isManaged ? runner : nil }

    /// The data directory of a tor that the node runs as its child process, unless the configuration names another one.
    /// - Parameter state: the node's state directory.
    package static func childDirectory(in state: String) -> String { "\(state)/tor" }

    /// The directory of the sockets on which the node listens for its own tor. No other user of the machine can reach
    /// it: such a user could invent circuit ids.
    /// - Parameter state: the node's state directory.
    package func senderSocketDirectory(state: String) -> String {
        switch runner {
        case .node: state
        // The `RuntimeDirectory=` of tocsin.service, which the group of tocsin-tor.service can enter.
        case .service: "/run/tocsin"
        }
    }

    /// The data directory of the tor that `tocsin-tor.service` runs, unless the configuration names another one.
    package static let systemDirectory = "/var/lib/tocsin-tor"

    /// The `HiddenServiceDir`, which holds the onion's keys.
    package var serviceDirectory: String {
        if let selected { return directory(of: selected) }
        return isManaged ? "\(directory)/onion" : externalServiceDirectory ?? "\(directory)/onion"
    }

    /// The `HiddenServiceDir` of a further onion.
    func directory(of onion: ClientName) -> String { "\(directory)/\(Self.directoryName(of: onion))" }

    /// The name of an onion's directory in ``directory``.
    /// - Parameter onion: the name of a further onion; `nil` for the first one.
    private static func directoryName(of onion: ClientName?) -> String { onion.map { "onion-\($0)" } ?? "onion" }

    /// The names of all onions, `nil` for the first one, and of their directories in ``directory``.
    package var onionDirectories: [(onion: ClientName?, directory: String)] {
        ([nil] + onions.map(\.name)).map { ($0, Self.directoryName(of: $0)) }
    }

    /// The socket of tor's SOCKS port, if ``hasSOCKSPort`` is set.
    package var socksSocket: Endpoint { .unix(path: "\(directory)/socks") }

    /// Where the node and the operator's commands connect to tor's control port: at a ``ControlRelay`` if tor runs as another
    /// user.
    var controlSocket: Endpoint { .unix(path: "\(directory)/ctl") }

    /// The socket of tor's control port itself. If tor runs as another user, only that user can reach it.
    var ownControlSocket: Endpoint {
        runner == .service ? .unix(path: "\(controlDirectory)/ctl") : controlSocket
    }

    /// The directory of ``ownControlSocket`` if tor runs as another user.
    var controlDirectory: String { "\(directory)/control" }

    /// Removes ``controlDirectory``, so that no ``ControlRelay`` waits for a tor that will not start.
    package func removeControlDirectory() {
        unlink("\(controlDirectory)/ctl")
        rmdir(controlDirectory)
    }

    /// The cookie file with which a controller authenticates at tor's control port.
    var cookieFile: String { "\(directory)/control_auth_cookie" }

    /// tor's configuration file.
    package var torrc: String { "\(directory)/torrc" }

    /// Whether the program exists and is executable.
    /// - Parameter path: the environment's `PATH`.
    package static func isInstalled(_ binary: String, path: String?) -> Bool { program(binary, path: path) != nil }

    /// Where the program is; `nil` if it does not exist or is not executable.
    /// - Parameter path: the environment's `PATH`.
    package static func program(_ binary: String, path: String?) -> String? {
        func isProgram(_ file: String) -> Bool {
            var status = stat()
            return stat(file, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && access(file, X_OK) == 0
        }
        if binary.contains("/") { return isProgram(binary) ? binary : nil }
        return (path ?? "/usr/local/bin:/usr/bin:/bin").split(separator: ":").map { "\($0)/\(binary)" }
            .first(where: isProgram)
    }
}
