// SPDX-License-Identifier: Apache-2.0

import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import Logging
import NodeConfiguration
import StandIns
import Store
import TNP
import Time
import TocsinClient
import TocsinNode
import Tor
import World

/// A node, a chain or a cluster, with Apple, Google, a push server, phones and senders, in one thread and under one
/// seed.
final class SimulatedWorld: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    let simulation: Simulation
    let judge: DeliveryJudge
    let connections: ConnectionJudge
    let serviceJudge: ServiceJudge
    let services: SimulatedServices
    /// Random numbers for device tokens, the services' seed, and which connections a fault resets.
    var random: SimulatedRandomNumbers
    private let directory: String
    private let servicesProcess: SimulatedProcess
    private let servicesLoop: EventLoop
    let sendersProcess: SimulatedProcess
    let sendersLoop: EventLoop
    let layout: NodeLayout
    private let hasKeyHolders: Bool
    let nodes: [SimulatedNode]
    /// What the nodes of a cluster share; `nil` for a single node or a chain.
    let cluster: SimulatedCluster?
    var kills: Int { nodes.reduce(0) { $0 + $1.kills } }
    /// Tables added to the node's configuration.
    var additionalTables = SimulatedWorld.usualTables
    private(set) var phones: [SimulatedPhone] = []
    private let start: MonotonicTime

    /// Where the nodes listen for senders.
    let endpointsForSenders: [Endpoint]
    /// The onion of a single node, which signatures of owners and sites name.
    var signedOnion: SignedOnion { SignedOnion(publicKey: nodes[0].address.publicKey)! }
    private static let ports: (production: UInt16, development: UInt16, fcm: UInt16, webPush: UInt16) = (
        2197, 2198, 443, 8443
    )
    /// The machine of Apple, Google and the push server.
    static let servicesMachine = "services"
    static let pushServer = "https://localhost:\(ports.webPush)"
    private static let topic = "bisqremote.joachimneumann.com"

    /// The most connections that the node may have open.
    static let maximumConnections = 200

    /// The key of the only site.
    static let siteKey = Ed25519.PrivateKey(seed: [UInt8](repeating: 0x51, count: 32))!

    /// The tables that each node's configuration has by default. The puzzle's efforts are small, because the search for
    /// a proof takes real time.
    static let usualTables = """
        [handles]
        enabled = true
        [sites]
        mode = "open"
        [[site]]
        name = "market"
        key = "\(String(decoding: Base64.encode(siteKey.publicKey), as: UTF8.self))"
        [spool]
        enabled = true
        max_envelopes = 5000
        [senders]
        mode = "optional"
        [puzzle]
        effort = 16
        max_effort = 4096
        [limits]
        connections = \(maximumConnections)
        total_in_flight = 1000
        replay_entries = 3000
        circuits = 3000
        device_tokens = 20000
        """

    init(seed: UInt64, directory: String, layout: NodeLayout = .single) throws {
        self.directory = directory
        self.layout = layout
        hasKeyHolders = NodeLayout.hasKeyHolders(seed)
        simulation = Simulation(seed: seed)
        start = simulation.now
        let nodes = layout.upstreams.indices.map { [simulation] in SimulatedNode($0, of: simulation, in: directory) }
        self.nodes = nodes
        cluster = if case .cluster = layout { try SimulatedCluster(nodes, in: directory) } else { nil }
        endpointsForSenders = nodes.flatMap { [$0.endpoint, $0.httpEndpoint] }
        judge = DeliveryJudge(simulation)
        connections = ConnectionJudge(simulation) { [judge] in judge.violated($0) }
        serviceJudge = ServiceJudge(simulation) { [judge] in judge.violated($0) }
        if let cluster {
            judge.mayRepeat = { cluster.mayRepeat(in: $0) }
            judge.clocksApart = SimulatedCluster.clocksApart
            serviceJudge.cluster = cluster
        }
        random = simulation.random("senders and phones")
        servicesProcess = simulation.process("services", on: Self.servicesMachine)
        servicesLoop = simulation.loop(in: servicesProcess, name: "services")
        sendersProcess = simulation.process("senders")
        sendersLoop = simulation.loop(in: sendersProcess, name: "senders")
        var options = SimulatedServices.Options(directory: directory, ports: Self.ports, seed: random.next())
        // The simulated network has no ALPN.
        options.webPushProtocols = .http2
        services = SimulatedServices(options, on: servicesLoop)
        for node in nodes {
            for (onion, endpoint) in [
                (node.onion, node.endpoint), (node.directOnion, node.endpoint), (node.httpOnion, node.httpEndpoint),
            ] {
                simulation.network.forwards[onion] = (endpoint, { TorCircuit(number: UInt32($0.number)).proxyLine })
                simulation.network.conditions[endpoint] = Self.torConditions
            }
            simulation.network.forwards[node.attackedOnion] = (
                node.endpoint, { TorCircuit(number: Self.attackersCircuit(ofConnection: $0.number)).proxyLine }
            )
        }
        // The device tokens of Web Push name the push server `localhost`.
        simulation.network.forwards[.tcp(host: "localhost", port: Self.ports.webPush)] =
            (Self.endpoint(of: .webPush), { _ in [] })
        let tnp = Set(nodes.map(\.endpoint))
        let services = Set(Device.Platform.allCases.map(Self.endpoint(of:)))
        simulation.network.observe = { [unowned self] connection, event in
            if tnp.contains(connection.endpoint) {
                connections.observe(connection, event)
            } else if services.contains(connection.endpoint) {
                judge.answers.observe(connection, event)
            }
            trace?(connection, event)
        }
    }

    /// Called with each notification that a phone receives, and the name of its envelope.
    var received: ((ReceivedNotification, String) -> Void)?
    /// Called with each event of the network.
    var trace: ((SimulatedConnection, SimulatedNetwork.Event) -> Void)?

    /// The circuit of an attacker's connection: of 12 connections in a row, attackers' share one.
    private static func attackersCircuit(ofConnection number: Int) -> UInt32 { 1 << 30 + UInt32(number / 12) }

    /// What connections through tor are like.
    static let torConditions = SimulatedNetwork.Conditions(latency: .milliseconds(80)...(.milliseconds(600)))
    /// What connections to Apple, Google and the push server are like.
    static let serviceConditions = SimulatedNetwork.Conditions(latency: .milliseconds(5)...(.milliseconds(60)))

    /// The onions for a sender that prefers this node: its own, then those of its alternatives.
    func onions(for node: Int) -> [Endpoint] { layout.alternatives(to: node).map { nodes[$0].onion } }

    /// The upstream nodes that a node's configuration names at this moment.
    private func upstreams(of node: Int) -> [Int] {
        judge.isLoop && node == NodeLayout.loop.node ? [NodeLayout.loop.upstream] : layout.upstreams[node]
    }

    /// Makes two nodes each other's upstream, as an operator may by mistake, or corrects that.
    func setLoop(_ exists: Bool) {
        judge.isLoop = exists
        nodes[NodeLayout.loop.node].reload()
    }

    /// The time since the start.
    var elapsed: Duration { simulation.now - start }

    static func endpoint(of platform: Device.Platform) -> Endpoint {
        let port =
            switch platform {
            case .apnsProduction: ports.production
            case .apnsDevelopment: ports.development
            case .fcm: ports.fcm
            case .webPush: ports.webPush
            }
        return .tcp(host: "127.0.0.1", port: port)
    }

    // MARK: Running

    /// Runs `body` on a loop, and the simulation until it is done.
    func perform<Result: Sendable>(
        on loop: EventLoop, in process: SimulatedProcess, _ body: @escaping @Sendable () async throws -> Result
    ) throws -> Result {
        let box = Box<Swift.Result<Result, any Error>>()
        simulation.run(as: process) {
            _ = Task(executorPreference: loop) {
                do { box.value = .success(try await body()) } catch { box.value = .failure(error) }
                self.simulation.pause()
            }
        }
        while box.value == nil { simulation.run(for: .seconds(1)) }
        return try box.value!.get()
    }

    /// Starts the services, registers the phones, starts the nodes and begins ``check()``.
    func start(phones count: Int) throws {
        for node in nodes {
            let onion = "\(directory)/\(node.onionDirectory)"
            try FileManager.default.createDirectory(atPath: onion, withIntermediateDirectories: true)
            try "\(node.address)\n".write(toFile: "\(onion)/hostname", atomically: false, encoding: .utf8)
        }
        for platform in Device.Platform.allCases {
            simulation.network.conditions[Self.endpoint(of: platform)] = Self.serviceConditions
        }
        let endpoints = try perform(on: servicesLoop, in: servicesProcess) { [services] in
            let endpoints = try await services.start(identityValidFor: 86_400 * 365 * 10)
            await services.setStoresReceived(false)
            return endpoints
        }
        try perform(on: servicesLoop, in: servicesProcess) { [services, self] in
            await services.observe { [self] in
                let name = Self.name(of: $0)
                judge.received($0, named: name)
                received?($0, name)
            }
            await services.observeRefusals { [self] status, deviceToken in
                if [400, 404, 410].contains(status) { serviceJudge.refused(deviceToken) }
            }
        }
        for index in 0..<count {
            let phone = SimulatedPhone(
                number: index, magic: [.iOS, .android, .iOSDev, .web][index % 4], using: &random)
            phones.append(phone)
            set(.registered, of: phone.deviceToken, phone.magic)
        }
        for node in nodes {
            prepare(node, endpoints)
            node.start()
            guard let cluster else { continue }
            simulation.run(for: .seconds(10))
            // The caller sees the violation.
            guard judge.violation == nil else { return }
            try cluster.copyKeys(of: node)
        }
        check()
        simulation.run(for: .seconds(10))
    }

    /// Sets a node's configuration and log, and connects it to the judges.
    private func prepare(_ node: SimulatedNode, _ endpoints: SimulatedServices.Endpoints) {
        node.configurationText = { [self, unowned node] in
            SimulatedConfiguration(
                endpoints: endpoints, state: node.state, tnp: "\(node.endpoint)", http: "\(node.httpEndpoint)",
                upstream: upstreams(of: node.index).map { nodes[$0].directOnion },
                circuitIDs: true, tor: "managed = false\nonion_directory = \"\(node.onionDirectory)\"",
                logLevel: logLevel, additionalTables: additionalTables + (cluster?.table(for: node) ?? "")
            ).text
        }
        node.log = { [self, unowned node] in
            SimulatedLog(logLevel: cluster == nil ? level : min(level, .notice)) { [self] line, level in
                cluster?.logged(line, by: node)
                if level >= self.level { logged(cluster == nil ? line : "\(node.machine): \(line)") }
            }
        }
        // The judges need the ends of nodes with credentials only: these recognise what other nodes send again.
        let hasCredentials = layout.upstreams[node.index].isEmpty
        node.starting = { [self, unowned node] in
            if hasCredentials { serviceJudge.nodeStarted(clockSkew: node.clockSkew) }
            cluster?.started(node)
        }
        node.ended = { [self, unowned node] flush, isGraceful in
            if hasCredentials { judge.nodeEnded(flush: flush) }
            cluster?.ended(node)
            if !isGraceful { nodeEnded?() }
        }
        node.clockMoved = { [self, unowned node] in
            judge.clockMoved(to: node.clockSkew / 1000, of: node.index)
            if hasCredentials { serviceJudge.clockMoved() }
        }
        node.violated = { [judge] in judge.violated($0) }
        node.hasKeyHolder = hasCredentials && hasKeyHolders
    }

    /// The name of the envelope that a notification carries: its number, which is the iv or, with Web Push, the
    /// message's salt.
    private static func name(of notification: ReceivedNotification) -> String {
        if notification.platform == .webPush {
            let message = Base64.decode(Array(notification.encrypted.utf8)) ?? []
            return String(decoding: message.prefix(SimulatedPhone.numberLength), as: UTF8.self)
        }
        let parts = notification.encrypted.split(separator: "|", omittingEmptySubsequences: false)
        return parts.count > 1 ? String(parts[1]) : notification.encrypted
    }

    // MARK: Phones

    private func set(_ state: Device.State, of deviceToken: [UInt8], _ magic: Magic) {
        let device = TestBed.device(magic, state: state)
        simulation.run(as: servicesProcess) {
            _ = Task(executorPreference: servicesLoop) { [services] in
                await services.set(device, for: String(decoding: deviceToken, as: UTF8.self))
            }
        }
    }

    /// Decides what the push service of a phone says about it.
    func setPhone(_ state: Device.State, of phone: SimulatedPhone) { set(state, of: phone.deviceToken, phone.magic) }

    /// Gives a phone a new device token; the push service reports the old one as unregistered.
    func renewToken(ofPhone index: Int) {
        let old = phones[index]
        judge.ended(old.deviceToken)
        set(.unregistered(since: UInt64(max(0, UnixTime.milliseconds))), of: old.deviceToken, old.magic)
        phones[index] = SimulatedPhone(number: old.number, magic: old.magic, using: &random)
        set(.registered, of: phones[index].deviceToken, phones[index].magic)
        tokenChanged?(index)
    }

    /// Called with the number of a phone that has got another device token.
    var tokenChanged: ((Int) -> Void)?
    /// Called when a node has ended without a graceful stop.
    var nodeEnded: (() -> Void)?

    func apply(_ faults: Faults, to platform: Device.Platform) {
        simulation.run(as: servicesProcess) {
            _ = Task(executorPreference: servicesLoop) { [services] in try await services.set(faults, on: platform) }
        }
    }

    func changeServices(_ body: @escaping @Sendable (SimulatedServices) async throws -> Void) {
        simulation.run(as: servicesProcess) {
            _ = Task(executorPreference: servicesLoop) { [services] in try await body(services) }
        }
    }

    // MARK: Checks

    /// Checks what no single event shows (key holders, connections, tables, provider tokens), and schedules itself
    /// again in a minute.
    func check() {
        for node in nodes { node.checkKeyHolder() }
        for case let node? in nodes.map(\.running) {
            let open = simulation.network.connections.count { connection in
                endpointsForSenders.contains(connection.endpoint) && connection.listeningProcess === node.process
            }
            if open > Self.maximumConnections {
                judge.violated("\(open) connections are open; the limit is \(Self.maximumConnections)")
            }
            simulation.run(as: node.process) {
                _ = Task(executorPreference: node.loop) { [self] in
                    for table in await node.node.tables where table.entries > table.bound {
                        judge.violated("\(table.entries) \(table.name); the limit is \(table.bound)")
                    }
                }
            }
        }
        changeServices { [self] services in
            // The node uses one token in both environments, so they count together: one environment may see the token
            // long after the other.
            let seen = await services.providerTokensSeen(.apnsProduction, .apnsDevelopment)
            serviceJudge.checkProviderTokens(seen: seen, clockSkew: nodes[0].clockSkew)
        }
        simulation.schedule(after: ServiceJudge.interval, in: simulation.background) { [self] in check() }
    }

    // MARK: Logs

    /// The level from which the nodes log.
    var logLevel = "warning"
    private var level: Logger.Level { Logger.Level(rawValue: logLevel) ?? .warning }
    /// Receives each log line.
    var showLog: ((String) -> Void)?

    func logged(_ line: String) {
        // The directory's name differs from run to run.
        showLog?(line.replacing(directory, with: "."))
    }
}

/// A phone and its present device token.
struct SimulatedPhone {
    let number: Int
    let magic: Magic
    let deviceToken: [UInt8]

    init(number: Int = 0, magic: Magic, deviceToken: [UInt8]) {
        (self.number, self.magic, self.deviceToken) = (number, magic, deviceToken)
    }

    init(number: Int, magic: Magic, using random: inout SimulatedRandomNumbers) {
        self.number = number
        self.magic = magic
        let text = Hex.encode((0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) })
        deviceToken = Array((magic == .web ? "\(SimulatedWorld.pushServer)/push/\(text)" : text).utf8)
    }

    /// The length of an envelope's number in bytes.
    static let numberLength = 16
    /// An envelope for the phone.
    /// - Parameters:
    ///   - number: tells envelopes apart; ``numberLength`` characters.
    ///   - content: what stands for the encrypted notification, a multiple of 16 bytes, and at least 32.
    ///   - handle: addresses the phone in place of its device token.
    func envelope(
        numbered number: [UInt8], _ content: [UInt8], by handle: Handle? = nil, ttl: UInt32 = Envelope.maximumTTL,
        priority: DeliveryPriority = .immediate, collapseID: Bytes? = nil
    ) -> Envelope {
        let isWeb = magic == .web
        // The number takes the place of the salt.
        let ciphertext = isWeb ? WebPushContent.imitation(salt: number, content) : content
        do {
            return try Envelope(
                magic: magic, deviceToken: handle == nil ? deviceToken[...] : [], handle: handle,
                iv: isWeb ? [] : number[...], ciphertext: ciphertext[...], ttl: ttl, priority: priority,
                collapseID: collapseID, format: .pipe
            )
        } catch {
            // An error in the caller: the simulation cannot continue.
            fatalError("made an invalid envelope: \(error)")
        }
    }
}

/// Takes the log of a simulated node.
private struct SimulatedLog: LogHandler {
    var logLevel: Logger.Level
    let take: @Sendable (_ line: String, Logger.Level) -> Void
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        take("\(event.level) \(event.message)\(details)", event.level)
    }
}

/// A value that a task leaves for its caller.
private final class Box<Value>: @unchecked Sendable {
    // Unchecked: a simulation has one thread.
    var value: Value?
}
