// SPDX-License-Identifier: Apache-2.0

import EventLoop
import FoundationEssentials
import Glibc
import Time
import Tor

/// A private Tor network on loopback with one onion service and one client: by default seven tor processes, isolated
/// from the internet. It takes about ten seconds to start and leaves nothing behind.
package actor PrivateTorNetwork {
    /// The endpoints of a running network.
    package struct Access: Sendable {
        /// The onion service with its virtual port.
        package let onion: Endpoint
        /// The client's SOCKS port.
        package let socks: Endpoint
    }

    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Default number of relays in addition to the authority. With fewer than four, startup is less reliable.
    package static let defaultRelays = 4
    private static let timeout = Duration.seconds(180)
    /// How often at most the network is started: sometimes a descriptor of a new network is not uploaded in time.
    private static let maximumStarts = 3

    private let relayCount: Int
    private let votingInterval: Int
    private let host: String
    private let directory: String
    private let ports = PortReservations()
    private var nodes: [TorNode] = []
    private var authorityLine = ""

    /// Creates a network that is not started yet.
    /// - Parameters:
    ///   - host: the address of the relays: on loopback, or in a network namespace.
    ///   - relays: the number of relays in addition to the authority.
    ///   - votingInterval: the seconds between two consensuses. The keys of descriptors change every 24 intervals,
    ///     which by default is longer than a network lives.
    /// - Throws: ``TorError``.
    package init(
        host: String = "127.0.0.1", relays: Int = defaultRelays, votingInterval: Int = 1800, on loop: EventLoop
    ) throws {
        self.host = host
        relayCount = relays
        self.votingInterval = votingInterval
        self.loop = loop
        // A short path, because the path of a unix socket is limited.
        var template = Array("/tmp/tocsin-tor-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw TorError("cannot create a directory in /tmp: \(String(cString: strerror(errno)))")
        }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Starts the network and its onion service.
    /// - Parameters:
    ///   - target: the target of the onion service.
    ///   - virtualPort: the port of the onion service.
    ///   - serviceOptions: further torrc lines for the service, e.g. `HiddenServiceExportCircuitID haproxy`.
    ///   - progress: called at each stage.
    /// - Throws: ``TorError``, after stopping everything that was started.
    package func start(
        target: Endpoint, virtualPort: UInt16, serviceOptions: [String] = [],
        progress: @Sendable (String) -> Void = { _ in }
    ) async throws -> Access {
        var starts = 1
        while true {
            do {
                return try await bringUp(target, virtualPort, serviceOptions, progress)
            } catch {
                await stop()
                guard starts < Self.maximumStarts, !Task.isCancelled else { throw error }
                starts += 1
                progress("starting once more: \(error)")
                try makeDirectory()
            }
        }
    }

    private func makeDirectory() throws {
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }

    /// The torrc lines with which another tor joins the network, once it is running.
    package var memberTorrcLines: [String] { TorNode.isolatedLines + [authorityLine] }

    /// Writes a program that runs tor as a member of the network: `tor.binary` of a node's configuration.
    /// - Parameter path: a new file.
    package func writeMemberProgram(to path: String) throws {
        let options = memberTorrcLines.map { line in
            let parts = line.split(separator: " ", maxSplits: 1)
            return "--\(parts[0]) '\(parts.dropFirst().joined())'"
        }
        let script = """
            #!/bin/sh
            case "$1" in --version | --list-modules) exec tor "$@" ;; esac
            exec tor "$@" \(options.joined(separator: " "))

            """
        try Data(script.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
    }

    /// The control port of the tor that serves the network's onion.
    package nonisolated var serviceControl: Endpoint { .unix(path: "\(directory)/service/ctl") }

    /// The control port of the network's client.
    package nonisolated var clientControl: Endpoint { .unix(path: "\(directory)/client/ctl") }

    /// Stops the network's processes, by their pids, and deletes its directory.
    package func stop() async {
        await withTaskGroup { group in
            for node in nodes {
                let ending = Ending(node: node)
                group.addTask { await ending.node.stop() }
            }
        }
        for node in nodes { node.close() }
        nodes = []
        try? FileManager.default.removeItem(atPath: directory)
    }

    struct Ending: @unchecked Sendable {
        // Unchecked: the actor waits for all nodes and does not use them meanwhile.
        let node: TorNode
    }

    private func bringUp(
        _ target: Endpoint, _ virtualPort: UInt16, _ serviceOptions: [String], _ progress: @Sendable (String) -> Void
    ) async throws -> Access {
        let deadline = MonotonicTime.now + Self.timeout
        progress("generating the keys of a directory authority")
        let authority = try await makeAuthority()
        var relays = [authority]
        for index in 0..<relayCount {
            relays.append(
                try add(
                    "relay\(index)",
                    ["SocksPort 0", "Address \(host)", "ORPort \(host):\(try ports.reserve())"] + Self.relayLines))
        }
        for relay in relays {
            // Prevents requests for a consensus that does not exist yet: each failure lengthens the pause before the
            // next request.
            if relay !== authority { relay.lines.append("FetchServerDescriptors 0") }
            try relay.seedBandwidth()
            try relay.start(authority: authorityLine)
        }
        progress("starting 1 authority and \(relayCount) relays")
        try await wait(until: deadline, for: "the relays' descriptors") {
            let reply = await authority.ask("GETINFO desc/all-recent", on: self.loop) ?? []
            return reply.filter { $0.hasPrefix("router ") || $0.contains("=router ") }.count >= relays.count
        }
        // The first vote takes place only now, because a consensus without relays would be valid for a whole interval.
        // The authority votes every 5 s; the offset schedules the next vote in two seconds.
        progress("voting on a consensus")
        let offset = (Int(time(nil)) + 2) % 5
        _ = await authority.ask(
            "SETCONF TestingV3AuthInitialVotingInterval=5 TestingV3AuthVotingStartOffset=\(offset)", on: loop)
        try await waitForConsensus(of: authority, until: deadline)
        for relay in relays.dropFirst() { _ = await relay.ask("SETCONF FetchServerDescriptors=1", on: loop) }
        for relay in relays.dropFirst() { try await waitForConsensus(of: relay, until: deadline) }

        progress("starting the onion service and a client")
        let service = try add(
            "service",
            [
                "SocksPort 0", "HiddenServiceDir \(directory)/service/onion",
                "HiddenServicePort \(virtualPort) \(target)",
            ] + serviceOptions)
        let socksPort = try ports.reserve()
        let client = try add("client", ["SocksPort 127.0.0.1:\(socksPort) ExtendedErrors"])
        try service.start(authority: authorityLine)
        try client.start(authority: authorityLine)
        try await client.waitUntilBootstrapped(until: deadline, on: loop)
        progress("publishing the onion service's descriptor")
        let onion = try await service.waitUntilPublished(until: deadline, on: loop)
        return Access(
            onion: .tcp(host: onion, port: virtualPort), socks: .tcp(host: "127.0.0.1", port: socksPort))
    }

    private func add(_ name: String, _ lines: [String]) throws -> TorNode {
        let node = try TorNode(name: name, directory: "\(directory)/\(name)", network: .privateNetwork, lines: lines)
        nodes.append(node)
        return node
    }

    private static let relayLines = ["ExitRelay 0", "AssumeReachable 1", "ContactInfo nobody@localhost.invalid"]

    private func makeAuthority() async throws -> TorNode {
        let orPort = try ports.reserve()
        let directoryPort = try ports.reserve()
        // Schedules the first vote half an interval ahead; bringUp then moves it forward.
        let interval = votingInterval
        let farOffset = (Int(time(nil)) + interval / 2) % interval
        let node = try add(
            "authority",
            [
                "SocksPort 0", "Address \(host)", "ORPort \(host):\(orPort)",
                "DirPort \(host):\(directoryPort)", "AuthoritativeDirectory 1", "V3AuthoritativeDirectory 1",
                "TestingV3AuthInitialVotingInterval \(interval)", "TestingV3AuthInitialVoteDelay 2",
                "TestingV3AuthInitialDistDelay 2", "TestingV3AuthVotingStartOffset \(farOffset)",
                "V3AuthVotingInterval \(interval)", "V3AuthVoteDelay 2", "V3AuthDistDelay 2",
                "V3AuthNIntervalsValid 20", "TestingDirAuthVoteGuard *", "TestingDirAuthVoteHSDir *",
                "TestingDirAuthVoteExit *", "TestingMinExitFlagThreshold 0", "MinUptimeHidServDirectoryV2 0",
            ] + Self.relayLines)
        let keys = "\(node.directory)/keys"
        try FileManager.default.createDirectory(
            atPath: keys, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let (isMade, complaint) = try await ChildProcess.output(
            of: "tor-gencert",
            [
                "--create-identity-key", "--passphrase-fd", "0", "-i", "\(keys)/authority_identity_key", "-s",
                "\(keys)/authority_signing_key", "-c", "\(keys)/authority_certificate", "-m", "1", "-a",
                "\(host):\(directoryPort)",
            ], input: "private network only\n")
        guard isMade else { throw TorError("tor-gencert failed: \(complaint)") }
        let (isListed, listing) = try await ChildProcess.output(
            of: "tor",
            [
                "--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", "/nonexistent", "--quiet",
                "--list-fingerprint", "--ORPort", "\(orPort)", "--Nickname", node.name, "--DataDirectory",
                node.directory,
            ])
        guard isListed else { throw TorError("tor --list-fingerprint failed: \(listing)") }
        func text(_ file: String) -> String {
            String(decoding: FileManager.default.contents(atPath: "\(node.directory)/\(file)") ?? Data(), as: UTF8.self)
        }
        let certificate = text("keys/authority_certificate").split(separator: "\n")
        guard let fingerprint = text("fingerprint").split(whereSeparator: \.isWhitespace).dropFirst().first,
            let identity = certificate.first(where: { $0.hasPrefix("fingerprint ") })?.dropFirst("fingerprint ".count)
        else { throw TorError("tor generated no keys for the authority") }
        authorityLine =
            "DirAuthority \(node.name) orport=\(orPort) no-v2 v3ident=\(identity) \(host):\(directoryPort)"
            + " \(fingerprint)"
        return node
    }

    private func waitForConsensus(of node: TorNode, until deadline: MonotonicTime) async throws {
        try await wait(until: deadline, for: "a consensus at \(node.name)") {
            await node.ask("GETINFO status/enough-dir-info", on: self.loop)?.contains {
                $0.contains("enough-dir-info=1")
            } ?? false
        }
    }

    private func wait(until deadline: MonotonicTime, for what: String, _ isTrue: () async -> Bool) async throws {
        try await TorNode.wait(nodes, until: deadline, on: loop, for: what, isTrue)
    }
}
