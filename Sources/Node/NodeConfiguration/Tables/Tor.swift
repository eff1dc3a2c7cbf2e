// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Settings
import Tor

extension Configuration {
    /// `[tor]`
    package struct Tor: Sendable, Equatable {
        static var restartKeys: [RestartKey] { [RestartKey("tor", \.tor)] }

        /// Whether the node has its own tor; `nil` if the file does not set it, see ``Configuration/decideTor(path:)``.
        package var managed: Bool?
        /// Who starts the node's own tor.
        package var runner: TorSettings.Runner
        /// The data directory of the node's own tor; `nil` for the default.
        package var directory: String?
        /// The tor program: a path, or a name to look up in `PATH`.
        package var binary: String
        /// The `HiddenServiceDir` of an external tor.
        package var onionDirectory: String?
        /// Whether tor requires proof of work under a flood of introductions.
        package var proofOfWork: Bool
        /// Maximum concurrent streams of one circuit.
        package var maxStreams: Int
        /// The address of an OnionBalance that also leads to the onion.
        package var onionBalance: OnionAddress?
        /// The further onions of the node's own tor.
        package var onions: [TorSettings.Onion] = []
        /// Whether the node's own tor has a SOCKS port, for upstream nodes and the canary.
        package var hasSOCKSPort = false

        private static let program = "tor"
        /// The number of further onions is limited because tor keeps circuits for each.
        private static let maximumOnions = 16

        /// The settings of tor that this table describes.
        /// - Parameter state: the node's state directory.
        package func settings(state: String) -> TorSettings {
            let child = TorSettings.childDirectory(in: state)
            let directory = self.directory ?? (runner == .service ? TorSettings.systemDirectory : child)
            var settings = TorSettings(isManaged: managed ?? false, directory: directory)
            settings.runner = runner
            settings.statusFile = "\(child)/status"
            settings.binary = binary
            settings.externalServiceDirectory = onionDirectory
            settings.enablesProofOfWork = proofOfWork
            settings.maxStreams = UInt16(maxStreams)
            settings.onionBalance = onionBalance
            settings.onions = onions
            settings.hasSOCKSPort = hasSOCKSPort
            return settings
        }

        /// Reads `[tor]`.
        /// - Parameter http: the endpoint of the HTTP API; `nil` if it is disabled.
        init(_ root: TableReader, http: Endpoint?) {
            let table = root.table("tor", "The onion service; see quickstart.md.")
            managed = table.flag(
                "managed",
                "Use a tor that serves this node alone. If not set: true if `binary` is installed and `onion_directory` is not set"
            )
            runner = table.choice(
                "run_by", default: TorSettings.Runner.node,
                "Who starts the node's own tor. `service`: systemd, as a user whose keys the node cannot read; for the Debian package, see operations.md"
            )
            directory = table.string(
                "directory", expected: "a directory",
                "Data directory of the node's own tor, with the onions' keys. If not set: `tor` in `node.state`; with `run_by = \"service\"`: `/var/lib/tocsin-tor`"
            ).map(table.paths.absolute)
            binary = table.string(
                "binary", expected: "a program", default: Self.program,
                "The tor program: a path, or a name to look up in `PATH`")
            onionDirectory = table.string(
                "onion_directory", expected: "a directory",
                "HiddenServiceDir of an external tor (see the example `torrc`), for `tocsin onion` and `tocsin check`"
            ).map(table.paths.absolute)
            proofOfWork = table.boolean(
                "proof_of_work", default: true,
                "Enable tor's defence: it requires proof of work while more clients connect than it can serve")
            maxStreams = table.integer(
                "max_streams", in: 1...65_535, default: 64,
                "Maximum streams per circuit; tor closes a circuit that opens more")
            if runner == .service, binary != Self.program {
                table.note(
                    "binary",
                    "has no effect with run_by = \"service\": change it in the unit, systemctl edit tocsin-tor")
            }
            if let text = table.string(
                "onionbalance", expected: "an onion address",
                "Address of an OnionBalance that also leads to this node; see cluster.md. With an external tor, set it up there"
            ) {
                onionBalance = OnionAddress(text)
                if onionBalance == nil {
                    table.note("onionbalance", "must be an onion address of version 3, like \"ADDRESS.onion\"")
                }
            }
            onions = Self.onions(table, http: http)
        }

        private static func onions(_ tor: TableReader, http: Endpoint?) -> [TorSettings.Onion] {
            let tables = tor.tables(
                "onion",
                "A further onion of the node's own tor, e.g. for another kind of desktop, or to keep an old address; at most \(maximumOnions)."
            )
            var onions: [TorSettings.Onion] = []
            for table in tables {
                guard let onion = table.attempt({ try Self.onion(table, http: http) }) else { continue }
                if onions.contains(where: { $0.name == onion.name }) {
                    table.note("name", "another onion is named \(onion.name)")
                }
                onions.append(onion)
            }
            if tables.count > maximumOnions { tor.note("onion", "there are more than \(maximumOnions)") }
            return onions
        }

        private static func onion(_ table: TableReader, http: Endpoint?) throws -> TorSettings.Onion {
            let text = try table.requiredString(
                "name", expected: "a name", "Name of the onion, for `tocsin onion --name`: letters, digits, - and _"
            )
            guard let name = try? ClientName(text) else {
                throw table.problem("name", "must be 1 to 64 letters, digits, - and _")
            }
            let ports = table.ports(
                "ports", default: http == nil ? [7077] : [7077, 80, 8021],
                "Ports of the onion: 7077 leads to `listen.tnp`, any other to `listen.http`. Without `listen.http`: `[7077]` only"
            )
            if http == nil, ports.contains(where: { $0 != 7077 }) {
                table.note("ports", "a port other than 7077 leads to listen.http, which is not set")
            }
            let access = table.choice(
                "clients", default: OnionAccess.everyone,
                "`everyone`: open until a sender is authorised with `tocsin onion authorize --name`. `authorized`: tor closes the onion at its start if no sender is authorised"
            )
            table.finish()
            return TorSettings.Onion(name: name, ports: ports, isClosed: access == .authorized)
        }

        /// The values of `tor.onion.clients`.
        private enum OnionAccess: String, CaseIterable {
            case everyone, authorized
        }
    }
}
