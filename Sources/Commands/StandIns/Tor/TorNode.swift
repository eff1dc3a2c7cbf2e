// SPDX-License-Identifier: Apache-2.0

import EventLoop
import FoundationEssentials
import Time
import Tor

/// A tor process with its directory, configuration and control connection.
final class TorNode {
    /// The network that the process joins.
    enum Network { case privateNetwork, everyones }

    let name: String
    let directory: String
    private let commonLines: [String]
    var lines: [String]
    private var process: ChildProcess?
    private var control: TorControl?

    init(name: String, directory: String, network: Network, lines: [String]) throws {
        self.name = name
        self.directory = directory
        self.lines = lines
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let always = [
            "DataDirectory \(directory)", "Log notice file \(directory)/log", "ControlSocket \(directory)/ctl",
            "CookieAuthentication 1", "__OwningControllerProcess \(ProcessInfo.processInfo.processIdentifier)",
            "ShutdownWaitLength 0", "AvoidDiskWrites 1",
        ]
        commonLines =
            network == .privateNetwork ? always + Self.isolatedLines + ["Nickname \(name)", "SafeLogging 0"] : always
    }

    /// The torrc lines of every tor in a private network.
    static let isolatedLines = [
        "TestingTorNetwork 1", "PathsNeededToBuildCircuits 0.67",
        // With five relays, the longer paths of vanguards use one link twice, and each use costs 40 ms.
        "VanguardsLiteEnabled 0",
    ]

    /// Writes a bandwidth history of 1 MB/s for a relay. New relays advertise no bandwidth; as soon as one has measured
    /// any, every path selects that relay, and no circuit can be completed.
    func seedBandwidth() throws {
        let end = Date(timeIntervalSinceNow: -900)
        let format = Date.ISO8601FormatStyle().year().month().day().dateTimeSeparator(.space)
        let time = end.formatted(format.time(includingFractionalSeconds: false))
        let lines = ["Read", "Write"].map { direction in
            "BWHistory\(direction)Ends \(time)\nBWHistory\(direction)Interval 86400\n"
                + "BWHistory\(direction)Values 86400000000\nBWHistory\(direction)Maxima 1000000\n"
        }
        try Data(lines.joined().utf8).write(to: URL(filePath: "\(directory)/state"))
    }

    func start(authority: String? = nil) throws {
        let text = (commonLines + [authority].compactMap { $0 } + lines).joined(separator: "\n") + "\n"
        try Data(text.utf8).write(to: URL(filePath: "\(directory)/torrc"))
        process = ChildProcess(
            "tor",
            ["--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", "\(directory)/torrc", "--quiet"])
    }

    /// Checks that the process still runs.
    /// - Throws: ``TorError`` with the last warnings of its log.
    func checkRunning() throws {
        guard let status = process?.terminationStatus else { return }
        let warnings = log.filter { $0.contains("[warn]") || $0.contains("[err]") }
        throw TorError("tor (\(name)) exited: \(status)\n" + warnings.suffix(5).joined(separator: "\n"))
    }

    /// The lines of its log.
    private var log: [Substring] {
        let bytes = FileManager.default.contents(atPath: "\(directory)/log") ?? Data()
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }

    /// Sends a command over the control connection; `nil` if that fails, e.g. while tor is still starting.
    func ask(_ command: String, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation) async -> [String]? {
        if control == nil {
            control = try? await TorControl.open(.unix(path: "\(directory)/ctl"), on: loop)
            // From here on, tor exits when this connection closes, so it cannot outlive this process.
            _ = try? await control?.send("TAKEOWNERSHIP")
        }
        do {
            return try await control?.send(command)
        } catch {
            control = nil
            return nil
        }
    }

    /// Waits until `isTrue` returns true.
    /// - Throws: ``TorError`` after the deadline, with the end of the log of a single node, or if one of `nodes` exits.
    static func wait(
        _ nodes: [TorNode], until deadline: MonotonicTime, on loop: EventLoop, for what: String,
        isolation: isolated (any Actor)? = #isolation, _ isTrue: () async -> Bool
    ) async throws {
        while true {
            for node in nodes { try node.checkRunning() }
            if await isTrue() { return }
            guard MonotonicTime.now < deadline else {
                let log = nodes.count == 1 ? nodes[0].log.suffix(12) : []
                throw TorError((["timed out waiting for \(what)"] + log).joined(separator: "\n"))
            }
            try Task.checkCancellation()
            await loop.sleep(for: .milliseconds(50))
        }
    }

    /// Waits until this node, which hosts an onion service in `directory/onion`, has built circuits and published the
    /// service's descriptor.
    /// - Returns: the onion's host name.
    func waitUntilPublished(
        until deadline: MonotonicTime, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws -> String {
        try await TorNode.wait([self], until: deadline, on: loop, for: "the onion service's tor") {
            // Captured here and below, so that the closures run in the caller's isolation (SE-0420).
            _ = isolation
            return await self.ask("SETEVENTS HS_DESC", on: loop) != nil
        }
        try await waitUntilBootstrapped(until: deadline, on: loop)
        try await TorNode.wait([self], until: deadline, on: loop, for: "the onion service's descriptor") {
            _ = isolation
            guard await self.ask("GETINFO version", on: loop) != nil else { return false }
            return Self.isPublished(self.control?.events ?? [])
        }
        guard let hostname = FileManager.default.contents(atPath: "\(directory)/onion/hostname") else {
            throw TorError("the onion service has no address")
        }
        return String(decoding: hostname, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined()
    }

    /// Waits until this node can build circuits.
    func waitUntilBootstrapped(
        until deadline: MonotonicTime, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        try await TorNode.wait([self], until: deadline, on: loop, for: "circuits of the \(name)") {
            _ = isolation
            return await self.ask("GETINFO status/bootstrap-phase", on: loop)?.contains { $0.contains("PROGRESS=100 ") }
                ?? false
        }
    }

    /// Whether every announced upload of a descriptor has been answered, at least one with success.
    private static func isPublished(_ events: [String]) -> Bool {
        func count(_ action: String) -> Int { events.filter { $0.hasPrefix("650 HS_DESC \(action) ") }.count }
        let uploaded = count("UPLOADED")
        return uploaded > 0 && uploaded + count("FAILED") >= count("UPLOAD")
    }

    /// Ends the process.
    func stop() async { await process?.terminate() }

    /// Closes the connection to its control port. Call it on the loop's thread only.
    func close() { control = nil }
}
