// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// The torrc of the node's own tor: one onion service, and no other service reachable over the network.
package struct TorConfiguration: Equatable, Sendable {
    /// A virtual port of the onion and its target.
    package struct Port: Equatable, Sendable {
        /// The virtual port, 1–65535.
        package let number: UInt16
        /// A numeric address with its port, or a unix socket.
        package let target: Endpoint

        /// Creates a port.
        /// - Parameters: as the properties of the same names.
        package init(_ number: UInt16, _ target: Endpoint) {
            self.number = number
            self.target = target
        }
    }

    /// Number of introduction points: more than tor's default of 3, so that flooding one does not cut off the onion.
    private static let introductionPoints = 5
    /// Rendezvous requests per second that tor serves before it raises the effort, and their burst. tor lets a client
    /// wait for about 20 s, so the queue is 20 times the rate; a lower rate rejects honest clients.
    private static let work = (rate: 50, burst: 200)
    /// Limit of tor's queues in memory.
    private static let memory = "512 MB"
    /// Length of the longest socket name in the directory, with its slash.
    private static let longestName = "/socks".utf8.count

    /// The complete torrc.
    package let text: String

    /// Builds the torrc.
    /// - Parameters:
    ///   - ports: the onion's ports and their targets.
    ///   - controller: the pid of the owning process; tor exits if that process does not exist.
    ///   - hasProofOfWork: whether this build of tor supports proof of work.
    ///   - extra: lines appended unchanged, e.g. for a private network.
    /// - Throws: ``TorConfigurationError``.
    package init(
        _ settings: TorSettings, ports: [Port], controller: Int32, hasProofOfWork: Bool, extra: [String] = []
    ) throws(TorConfigurationError) {
        guard !ports.isEmpty else { throw .noPort }
        var seen: Set<UInt16> = []
        for port in ports where port.number == 0 || !seen.insert(port.number).inserted { throw .badPort(port.number) }
        let directory = settings.directory
        try Self.check(path: directory)
        let limit = Endpoint.maxUnixPathLength - Self.longestName
        guard directory.utf8.count <= limit else { throw .directoryTooLong(directory, limit: limit) }

        var lines = [
            "# Written by tocsin each time it starts tor; manual changes are lost.",
            "DataDirectory \(Self.quoted(directory))",
            // The node reads the log from tor's output.
            "Log notice stdout",
            "SafeLogging 1",
            "NoExec 1",
            "DisableDebuggerAttachment 1",
            "MaxMemInQueues \(Self.memory)",
            "VanguardsLiteEnabled auto",
            "SocksPort " + (settings.servesSOCKS ? Self.unix("\(directory)/socks") : "0"),
            "ControlPort \(Self.unix("\(directory)/ctl"))",
            "CookieAuthentication 1",
            "__OwningControllerProcess \(controller)",
            "HiddenServiceDir \(Self.quoted("\(directory)/onion"))",
            "HiddenServiceVersion 3",
        ]
        for port in ports { lines.append("HiddenServicePort \(port.number) \(try Self.target(port.target))") }
        lines += [
            // The node applies rate limits per circuit, so it needs the circuit id.
            "HiddenServiceExportCircuitID haproxy",
            "HiddenServiceMaxStreams \(settings.maxStreams)",
            "HiddenServiceMaxStreamsCloseCircuit 1",
            "HiddenServiceNumIntroductionPoints \(Self.introductionPoints)",
            "HiddenServiceAllowUnknownPorts 0",
            // Limits what an introduction point relays, at tor's default rates. Lower rates would reject more honest
            // clients, because the limit does not distinguish them from attackers.
            "HiddenServiceEnableIntroDoSDefense 1",
            "HiddenServiceEnableIntroDoSRatePerSec 25",
            "HiddenServiceEnableIntroDoSBurstPerSec 200",
        ]
        if hasProofOfWork {
            lines += [
                "HiddenServicePoWDefensesEnabled \(settings.enablesProofOfWork ? 1 : 0)",
                "HiddenServicePoWQueueRate \(Self.work.rate)",
                "HiddenServicePoWQueueBurst \(Self.work.burst)",
            ]
        }
        text = (lines + extra).joined(separator: "\n") + "\n"
    }

    private static func target(_ endpoint: Endpoint) throws(TorConfigurationError) -> String {
        switch endpoint {
        case .unix(let path):
            try check(path: path)
            return unix(path)
        case .tcp(let host, let port):
            guard port > 0, !host.isEmpty, host.utf8.allSatisfy(isOfHost) else { throw .badTarget(endpoint) }
            return "\(endpoint)"
        }
    }

    private static func isOfHost(_ byte: UInt8) -> Bool {
        isPlain(byte) && byte != UInt8(ascii: "/") || byte == UInt8(ascii: ":")
    }

    private static func check(path: String) throws(TorConfigurationError) {
        guard path.hasPrefix("/"), path.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { throw .badPath(path) }
    }

    private static func unix(_ path: String) -> String { "unix:\(quoted(path))" }

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
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"),
            UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

extension TorSettings {
    /// Maps the onion's ports to the node's listeners.
    /// - Parameters:
    ///   - tnp: where the node listens for TNP, with the port that the system chose.
    ///   - http: where the node listens for HTTP; `nil` if it does not.
    package func ports(tnp: Endpoint, http: Endpoint?) -> [TorConfiguration.Port] {
        tnpPorts.map { TorConfiguration.Port($0, tnp) }
            + (http.map { http in httpPorts.map { TorConfiguration.Port($0, http) } } ?? [])
    }
}
