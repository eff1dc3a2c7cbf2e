// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// The torrc of the node's own tor: its onion services, and no other service reachable over the network.
package struct TorConfiguration: Equatable, Sendable {
    /// A virtual port of the onion and its target.
    package struct Port: Equatable, Sendable {
        /// The virtual port, 1–65535.
        package let number: UInt16
        /// A numeric address with its port, or a unix socket.
        package let target: Endpoint
    }

    /// An onion service.
    package struct Service: Equatable, Sendable {
        /// Its `HiddenServiceDir`.
        package let directory: String
        /// Its ports and their targets.
        package let ports: [Port]
        /// The address of an OnionBalance. The service also accepts introductions for this address.
        var onionBalance: OnionAddress?

        /// The path of the file from which tor reads the address of an OnionBalance, and its content.
        var onionBalanceFile: (path: String, text: String)? {
            onionBalance.map { ("\(directory)/ob_config", "MasterOnionAddress \($0)\n") }
        }
    }

    /// Number of introduction points: more than tor's default of 3, so that flooding one does not cut off the onion.
    private static let introductionPoints = 5
    /// Rendezvous requests per second that tor serves before it raises the effort, and their burst. The length of tor's
    /// queue is proportional to the rate (tor's hs_service.c, `pqueue_high_level`), so a lower rate rejects honest
    /// clients.
    private static let work = (rate: 50, burst: 200)
    /// Limit of tor's queues in memory.
    private static let memory = "512 MB"

    /// The complete torrc.
    package let text: String

    /// Builds the torrc.
    /// - Parameters:
    ///   - services: the onion services, from ``TorSettings/services(tnp:http:)``.
    ///   - controller: the pid of the owning process; tor exits if that process does not exist. `nil` if it has none.
    ///   - hasProofOfWork: whether this build of tor supports proof of work.
    ///   - extra: lines appended unchanged, e.g. for a private network.
    /// - Throws: ``TorProblem/badSettings(_:)``, with the configuration key and the remedy.
    package init(
        _ settings: TorSettings, services: [Service], controller: Int32?, hasProofOfWork: Bool, extra: [String] = []
    ) throws(TorProblem) {
        for service in services { try Self.check(service) }
        let directory = settings.directory
        try Self.check(path: directory)
        let maximumNameLength = settings.runner == .service ? "/control/ctl" : "/socks"
        let limit = Endpoint.maximumUnixPathLength - maximumNameLength.utf8.count
        guard directory.utf8.count <= limit else {
            throw .badSettings(
                """
                \(directory) is too long for tor's sockets in it: choose a node.state or tor.directory of at most \
                \(limit) bytes
                """)
        }

        let isOfGroup = settings.runner == .service
        var lines = [
            "# Written by tocsin before each start of tor; manual changes are lost.",
            "DataDirectory \(Self.quoted(directory))",
            // The node reads the output of a child process; systemd writes that of a service to the journal.
            "Log notice stdout",
            "SafeLogging 1",
            "NoExec 1",
            "DisableDebuggerAttachment 1",
            "MaxMemInQueues \(Self.memory)",
            "VanguardsLiteEnabled auto",
            // Both sockets are in tor's directory, which only tor's user and the node's can enter.
            "SocksPort \(settings.hasSOCKSPort ? Self.socket(settings.socksSocket, isOfGroup: isOfGroup) : "0")",
            "ControlPort \(Self.socket(settings.ownControlSocket))",
            "CookieAuthentication 1",
        ]
        if isOfGroup {
            // The node is a member of tor's group. Only tor's user can read the keys.
            lines += ["DataDirectoryGroupReadable 1", "CookieAuthFileGroupReadable 1"]
        }
        if let controller { lines.append("__OwningControllerProcess \(controller)") }
        for service in services { lines += try Self.lines(of: service, settings, hasProofOfWork: hasProofOfWork) }
        text = (lines + extra).joined(separator: "\n") + "\n"
    }

    private static func check(_ service: Service) throws(TorProblem) {
        guard !service.ports.isEmpty else {
            throw .badSettings(
                "the onion in \(service.directory) has no port: set ports in its [[tor.onion]], or listen.http")
        }
        var seen: Set<UInt16> = []
        for port in service.ports where port.number == 0 || !seen.insert(port.number).inserted {
            throw .badSettings(
                """
                the onion in \(service.directory): port \(port.number) is 0 or listed twice: list each port from 1 to \
                65535 once
                """)
        }
    }

    private static func lines(
        of service: Service, _ settings: TorSettings, hasProofOfWork: Bool
    ) throws(TorProblem) -> [String] {
        var lines = ["HiddenServiceDir \(quoted(service.directory))", "HiddenServiceVersion 3"]
        for port in service.ports { lines.append("HiddenServicePort \(port.number) \(try target(port.target))") }
        lines += [
            // The node applies rate limits per circuit, so it needs the circuit id.
            "HiddenServiceExportCircuitID haproxy",
            "HiddenServiceMaxStreams \(settings.maxStreams)",
            "HiddenServiceMaxStreamsCloseCircuit 1",
            "HiddenServiceNumIntroductionPoints \(introductionPoints)",
            "HiddenServiceAllowUnknownPorts 0",
            // Limits what an introduction point relays, at tor's default rates. Lower rates would reject more honest
            // clients, because the limit does not distinguish them from attackers.
            "HiddenServiceEnableIntroDoSDefense 1",
            "HiddenServiceEnableIntroDoSRatePerSec 25",
            "HiddenServiceEnableIntroDoSBurstPerSec 200",
        ]
        if settings.runner == .service { lines.append("HiddenServiceDirGroupReadable 1") }
        if service.onionBalance != nil { lines.append("HiddenServiceOnionBalanceInstance 1") }
        if hasProofOfWork {
            lines += [
                "HiddenServicePoWDefensesEnabled \(settings.enablesProofOfWork ? 1 : 0)",
                "HiddenServicePoWQueueRate \(work.rate)",
                "HiddenServicePoWQueueBurst \(work.burst)",
            ]
        }
        return lines
    }

    private static func target(_ endpoint: Endpoint) throws(TorProblem) -> String {
        switch endpoint {
        case .unix(let path):
            try check(path: path)
            return unix(path)
        case .tcp(let host, let port):
            let isHost = host.utf8.allSatisfy { isPlain($0) && $0 != UInt8(ascii: "/") || $0 == UInt8(ascii: ":") }
            guard port > 0, !host.isEmpty, isHost else {
                throw .badSettings(
                    """
                    tor cannot connect to \("\(endpoint)".debugDescription): listen on an address like 127.0.0.1:7077, \
                    or on unix:PATH
                    """)
            }
            return "\(endpoint)"
        }
    }

    private static func check(path: String) throws(TorProblem) {
        guard path.hasPrefix("/"), path.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            throw .badSettings("tor requires an absolute path without control characters, not \(path.debugDescription)")
        }
    }

    private static func unix(_ path: String) -> String { "unix:\(quoted(path))" }

    /// One of tor's own sockets, as an option of the torrc names it.
    /// - Parameter isOfGroup: whether tor's group may connect to it.
    private static func socket(_ endpoint: Endpoint, isOfGroup: Bool = false) -> String {
        guard case .unix(let path) = endpoint else { preconditionFailure("tor's own sockets are unix sockets") }
        return unix(path) + (isOfGroup ? " GroupWritable" : "")
    }

    /// Quotes a path, and escapes all but plain characters as in C: others could begin a comment or continue the line.
    static func quoted(_ path: String) -> String {
        var text = "\""
        for byte in path.utf8 {
            if isPlain(byte) {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }
        return text + "\""
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        let character = Character(Unicode.Scalar(byte))
        return character.isASCII && (character.isLetter || character.isNumber || "/.-_".contains(character))
    }
}

extension TorSettings {
    /// Maps the first onion's ports to the node's listeners.
    /// - Parameters:
    ///   - tnp: where the node listens for TNP, with the port that the system chose.
    ///   - http: where the node listens for HTTP; `nil` if it does not.
    package func ports(tnp: Endpoint, http: Endpoint?) -> [TorConfiguration.Port] {
        let tnpPorts = tnpPorts.map { TorConfiguration.Port(number: $0, target: tnp) }
        guard let http else { return tnpPorts }
        return tnpPorts + httpPorts.map { TorConfiguration.Port(number: $0, target: http) }
    }

    /// All onion services of the node's own tor, the first one first.
    /// - Parameters: the same as those of ``ports(tnp:http:)``.
    package func services(tnp: Endpoint, http: Endpoint?) -> [TorConfiguration.Service] {
        let further = onions.map { onion in
            TorConfiguration.Service(
                directory: directory(of: onion.name),
                ports: onion.ports.compactMap { port in
                    (tnpPorts.contains(port) ? tnp : http).map { TorConfiguration.Port(number: port, target: $0) }
                })
        }
        let first = TorConfiguration.Service(
            directory: "\(directory)/onion", ports: ports(tnp: tnp, http: http), onionBalance: onionBalance)
        return [first] + further
    }
}
