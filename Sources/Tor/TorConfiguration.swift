// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// The torrc of the node's own tor: one onion service, and nothing else that anybody could reach.
package struct TorConfiguration: Equatable, Sendable {
    /// A port of the onion, and where it leads.
    package struct Port: Equatable, Sendable {
        /// 1–65535.
        package let number: UInt16
        /// A numeric address with its port, or a unix socket.
        package let target: Endpoint

        /// - Parameters: as the properties of the same names.
        package init(_ number: UInt16, _ target: Endpoint) {
            self.number = number
            self.target = target
        }
    }

    /// Introduction points: more than tor's 3, so that one that is flooded does not cut the onion off.
    private static let introductionPoints = 5
    /// Rendezvous a second before tor asks for more work, and how many at once. tor lets a client wait for some 20 s, so
    /// that the queue is 20 times the rate; a smaller rate turns honest clients away.
    private static let work = (rate: 50, burst: 200)
    /// What tor may hold in its queues.
    private static let memory = "512 MB"
    /// Of the longest name in the directory, with its slash.
    private static let longestName = "/socks".utf8.count

    /// All lines.
    package let text: String

    /// - Parameters:
    ///   - ports: where the onion leads.
    ///   - controller: the process without which tor ends.
    ///   - hasProofOfWork: whether this build of tor can ask clients for work.
    ///   - extra: lines at the end, as they are; for a network of one's own.
    /// - Throws: ``TorConfigurationError``.
    package init(
        _ settings: TorSettings, ports: [Port], controller: Int32, hasProofOfWork: Bool, extra: [String] = []
    ) throws(TorConfigurationError) {
        guard !ports.isEmpty else { throw .noPort }
        var seen: Set<UInt16> = []
        for port in ports where port.number == 0 || !seen.insert(port.number).inserted { throw .badPort(port.number) }
        let directory = settings.directory
        try Self.check(path: directory)
        let limit = Endpoint.longestUnixPath - Self.longestName
        guard directory.utf8.count <= limit else { throw .directoryTooLong(directory, limit: limit) }

        var lines = [
            "# Written by tocsin whenever it starts tor; changes are lost.",
            "DataDirectory \(Self.quoted(directory))",
            // To the node, which reads them.
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
            // Who shares a circuit shares its allowance: the node has to know.
            "HiddenServiceExportCircuitID haproxy",
            "HiddenServiceMaxStreams \(settings.maxStreams)",
            "HiddenServiceMaxStreamsCloseCircuit 1",
            "HiddenServiceNumIntroductionPoints \(Self.introductionPoints)",
            "HiddenServiceAllowUnknownPorts 0",
            // Bounds what an introduction point passes on. At tor's own rates and no lower: it turns honest clients away
            // together with the others.
            "HiddenServiceEnableIntroDoSDefense 1",
            "HiddenServiceEnableIntroDoSRatePerSec 25",
            "HiddenServiceEnableIntroDoSBurstPerSec 200",
        ]
        if hasProofOfWork {
            lines += [
                "HiddenServicePoWDefensesEnabled \(settings.asksForWork ? 1 : 0)",
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

    /// A path in quotes, in which all but the plainest characters are escaped as in C: tor knows comments and
    /// continued lines.
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
    /// The onion's ports, by where the node listens.
    /// - Parameters:
    ///   - tnp: where the node listens for TNP, with the port that the system chose.
    ///   - http: the same for HTTP; nil: nowhere.
    package func ports(tnp: Endpoint, http: Endpoint?) -> [TorConfiguration.Port] {
        tnpPorts.map { TorConfiguration.Port($0, tnp) }
            + (http.map { http in httpPorts.map { TorConfiguration.Port($0, http) } } ?? [])
    }
}
