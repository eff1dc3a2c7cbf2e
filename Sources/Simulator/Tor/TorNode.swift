// SPDX-License-Identifier: Apache-2.0

import EventLoop
import FoundationEssentials
import Time
import Tor

/// One tor process of ours: its directory, its configuration, its control connection.
final class TorNode {
    /// Which network it belongs to.
    enum Network { case isolated, everyones }

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
            network == .isolated ? always + Self.isolatedLines + ["Nickname \(name)", "SafeLogging 0"] : always
    }

    /// What every tor of a private network has in its configuration.
    static let isolatedLines = [
        "TestingTorNetwork 1", "PathsNeededToBuildCircuits 0.67",
        // With five relays the longer paths of vanguards use one link twice, and each time costs 40 ms.
        "VanguardsLiteEnabled 0",
    ]

    /// Gives a relay the past of one that moved 1 MB/s. Fresh relays claim nothing; as soon as one of them has measured
    /// anything at all, every path wants that one, and no circuit is ever finished.
    func seedBandwidth() throws {
        let end = Date(timeIntervalSinceNow: -900)
        let time = end.formatted(.iso8601.dateTimeSeparator(.space).timeZone(separator: .omitted)).dropLast()
        let lines = ["Read", "Write"].map { way in
            "BWHistory\(way)Ends \(time)\nBWHistory\(way)Interval 86400\n"
                + "BWHistory\(way)Values 86400000000\nBWHistory\(way)Maxima 1000000\n"
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

    /// Insists that the process still runs.
    /// - Throws: ``TorError`` with the last warnings of its log.
    func check() throws {
        guard let status = process?.endStatus else { return }
        let log = FileManager.default.contents(atPath: "\(directory)/log").map { String(decoding: $0, as: UTF8.self) }
        let warnings = (log ?? "").split(separator: "\n").filter { $0.contains("[warn]") || $0.contains("[err]") }
        throw TorError("tor (\(name)) ended: \(status)\n" + warnings.suffix(5).joined(separator: "\n"))
    }

    /// Asks over the control connection; nil while tor is not that far.
    func ask(_ command: String, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation) async -> [String]? {
        if control == nil {
            control = await TorControl.open(directory: directory, on: loop)
            // From here on tor ends when this connection does: it outlives us by nothing, however we end.
            _ = try? await control?.ask("TAKEOWNERSHIP")
        }
        do {
            return try await control?.ask(command)
        } catch {
            control = nil
            return nil
        }
    }

    /// Insists that all of `nodes` run, until `isTrue` or the deadline.
    /// - Throws: ``TorError``.
    static func wait(
        _ nodes: [TorNode], until deadline: MonotonicTime, on loop: EventLoop, for what: String,
        isolation: isolated (any Actor)? = #isolation, _ isTrue: () async -> Bool
    ) async throws {
        while true {
            for node in nodes { try node.check() }
            if await isTrue() { return }
            guard MonotonicTime.now < deadline else { throw TorError("waited too long for \(what)") }
            try Task.checkCancellation()
            await loop.sleep(for: .milliseconds(50))
        }
    }

    /// Waits until this node, which hosts an onion service in `directory/onion`, has built circuits and published the
    /// service's descriptor.
    /// - Returns: the onion's name.
    func published(
        until deadline: MonotonicTime, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws -> String {
        try await TorNode.wait([self], until: deadline, on: loop, for: "the onion service's tor") {
            // Named here and below, so that the closures run where the caller does (SE-0420).
            _ = isolation
            return await self.ask("SETEVENTS HS_DESC", on: loop) != nil
        }
        try await bootstrapped(until: deadline, on: loop)
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
    func bootstrapped(
        until deadline: MonotonicTime, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        try await TorNode.wait([self], until: deadline, on: loop, for: "circuits of the \(name)") {
            _ = isolation
            return await self.ask("GETINFO status/bootstrap-phase", on: loop)?.contains { $0.contains("PROGRESS=100 ") }
                ?? false
        }
    }

    /// Whether every upload of a descriptor that was announced has been answered, one of them well.
    private static func isPublished(_ events: [String]) -> Bool {
        func count(_ action: String) -> Int { events.filter { $0.hasPrefix("650 HS_DESC \(action) ") }.count }
        let uploaded = count("UPLOADED")
        return uploaded > 0 && uploaded + count("FAILED") >= count("UPLOAD")
    }

    func stop() async {
        await process?.end()
        control = nil
    }
}
