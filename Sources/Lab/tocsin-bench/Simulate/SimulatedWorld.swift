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

/// A node, Apple and Google, and senders, in one thread, under one seed.
final class SimulatedWorld: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    let simulation: Simulation
    let disk: SimulatedDisk
    let judge: DeliveryJudge
    let connections: ConnectionJudge
    let serviceJudge: ServiceJudge
    let services: SimulatedServices
    /// Decides what the world leaves open: the phones, and which connections a fault resets.
    var random: SimulatedRandomNumbers
    private let directory: String
    private let servicesProcess: SimulatedProcess
    private let servicesLoop: EventLoop
    let sendersProcess: SimulatedProcess
    let sendersLoop: EventLoop
    /// The running node; `nil` while there is none.
    private(set) var node: (process: SimulatedProcess, loop: EventLoop, node: Node)?
    private var starts = 0
    /// The number of failed starts in a row while the disk was in order.
    private var failedStarts = 0
    private(set) var kills = 0
    /// Tables added to the node's configuration.
    var additionalTables = SimulatedWorld.usualTables
    private(set) var phones: [SimulatedPhone] = []
    private let start: MonotonicTime

    private static let onionDirectory = "onion"
    /// Where the node listens, and by which name senders reach it: the network puts a PROXY line in front, as tor does.
    static let nodeEndpoint = Endpoint.tcp(host: "127.0.0.1", port: 7077)
    static let onion = Endpoint.tcp(host: address.description, port: 7077)
    /// The node's onion, which signatures of owners and sites name.
    static let signedOnion = SignedOnion(publicKey: address.publicKey)!
    private static let address = OnionAddress(publicKey: [UInt8](repeating: 0x0E, count: Ed25519.publicKeyLength))!
    /// The same for the HTTP endpoint.
    static let httpEndpoint = Endpoint.tcp(host: "127.0.0.1", port: 8080)
    static let httpOnion = Endpoint.tcp(host: "node.test", port: 80)
    static let endpointsForSenders = [nodeEndpoint, httpEndpoint]
    private static let ports: (production: UInt16, development: UInt16, fcm: UInt16, webPush: UInt16) = (
        2197, 2198, 443, 8443
    )
    static let pushServer = "https://localhost:\(ports.webPush)"
    private static let topic = "bisqremote.joachimneumann.com"

    /// The most connections that the node may have open.
    static let mostConnections = 200

    /// How many failed starts in a row break a rule. A fault of the disk may still have an effect on the first.
    private static let maximumFailedStarts = 3

    /// The key of the only site.
    static let siteKey = Ed25519.PrivateKey(seed: [UInt8](repeating: 0x51, count: 32))!

    /// Small efforts, because searches take real time.
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
        [puzzle]
        effort = 16
        max_effort = 4096
        [limits]
        connections = \(mostConnections)
        total_in_flight = 1000
        replay_entries = 3000
        circuits = 3000
        device_tokens = 20000
        """

    init(seed: UInt64, directory: String) throws {
        self.directory = directory
        simulation = Simulation(seed: seed)
        start = simulation.now
        disk = SimulatedDisk(in: simulation)
        judge = DeliveryJudge(simulation)
        connections = ConnectionJudge { [judge] in judge.violated($0) }
        serviceJudge = ServiceJudge(simulation) { [judge] in judge.violated($0) }
        random = simulation.random("senders and phones")
        servicesProcess = simulation.process("services")
        servicesLoop = simulation.loop(in: servicesProcess, name: "services")
        sendersProcess = simulation.process("senders")
        sendersLoop = simulation.loop(in: sendersProcess, name: "senders")
        var options = SimulatedServices.Options(directory: directory, ports: Self.ports, seed: random.next())
        // The simulated network has no ALPN.
        options.webPushProtocols = .http2
        services = SimulatedServices(options, on: servicesLoop)
        for (onion, endpoint) in [(Self.onion, Self.nodeEndpoint), (Self.httpOnion, Self.httpEndpoint)] {
            simulation.network.forwards[onion] = (endpoint, { TorCircuit(number: UInt32($0.number)).proxyLine })
            simulation.network.conditions[endpoint] = Self.torConditions
        }
        // The push server's name, as in device tokens.
        simulation.network.forwards[.tcp(host: "localhost", port: Self.ports.webPush)] =
            (Self.endpoint(of: .webPush), { _ in [] })
        simulation.network.observe = { [unowned self] connection, event in
            if connection.endpoint == Self.nodeEndpoint {
                connections.observe(connection, event)
            } else if connection.endpoint != Self.httpEndpoint {
                judge.answers.observe(connection, event)
            }
            trace?(connection, event)
        }
    }

    /// Sees all notifications that phones receive, with the names of their envelopes.
    var received: ((ReceivedNotification, String) -> Void)?
    /// Sees all events of the network.
    var trace: ((SimulatedConnection, SimulatedNetwork.Event) -> Void)?

    /// What connections through tor are like.
    static let torConditions = SimulatedNetwork.Conditions(latency: .milliseconds(80)...(.milliseconds(600)))
    /// What connections to Apple and Google are like.
    static let serviceConditions = SimulatedNetwork.Conditions(latency: .milliseconds(5)...(.milliseconds(60)))

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

    /// Starts the services, the phones and the node.
    func start(phones count: Int) throws {
        try FileManager.default.createDirectory(
            atPath: "\(directory)/\(Self.onionDirectory)", withIntermediateDirectories: true)
        try "\(Self.address)\n".write(
            toFile: "\(directory)/\(Self.onionDirectory)/hostname", atomically: false, encoding: .utf8)
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
            await services.observeRefusals { [self] status in
                if [400, 404, 410].contains(status) { serviceJudge.refused() }
            }
        }
        for index in 0..<count {
            let phone = SimulatedPhone(
                number: index, magic: [.iOS, .android, .iOSDev, .web][index % 4], using: &random)
            phones.append(phone)
            set(.registered, of: phone.deviceToken, phone.magic)
        }
        configurationText = { [self] in
            SimulatedConfiguration(
                endpoints: endpoints, tnp: "\(Self.nodeEndpoint)", http: "\(Self.httpEndpoint)", circuitIDs: true,
                tor: "managed = false\nonion_directory = \"\(Self.onionDirectory)\"", logLevel: logLevel,
                additionalTables: additionalTables
            ).text
        }
        startNode()
        check()
        simulation.run(for: .seconds(10))
    }

    private var configurationText: () -> String = { "" }

    /// The envelope that a notification carries: the iv is the envelope's number; with Web Push, the message's salt.
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

    /// Gives a phone a new device token; the old one has ended.
    func renewToken(ofPhone index: Int) {
        let old = phones[index]
        judge.ended(old.deviceToken)
        set(.unregistered(since: UInt64(max(0, UnixTime.milliseconds))), of: old.deviceToken, old.magic)
        phones[index] = SimulatedPhone(number: old.number, magic: old.magic, using: &random)
        set(.registered, of: phones[index].deviceToken, phones[index].magic)
        tokenChanged?(index)
    }

    /// Called when a phone has another device token, and when the node has ended without a graceful stop.
    var tokenChanged: ((Int) -> Void)?
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

    // MARK: The node

    /// Starts the node; tries again as a service manager does if it cannot start.
    func startNode() {
        starts += 1
        serviceJudge.nodeStarted(clockSkew: clockSkew)
        let process = simulation.process("node \(starts)")
        process.clockSkew = clockSkew
        let loop = simulation.loop(in: process, name: "node")
        do {
            try configurationText().write(toFile: "\(directory)/tocsin.toml", atomically: false, encoding: .utf8)
            let node = Node(
                try Configuration(file: "\(directory)/tocsin.toml"), disk: disk,
                logger: Logger(label: "node") { _ in log }, on: loop)
            self.node = (process, loop, node)
            simulation.run(as: process) {
                _ = Task(executorPreference: loop) { [self] in
                    do {
                        _ = try await node.start()
                        failedStarts = 0
                    } catch {
                        logged("the node cannot start: \(error)")
                        failedStarts = disk.isInOrder ? failedStarts + 1 : 0
                        if failedStarts == Self.maximumFailedStarts { judge.violated("the node cannot start") }
                        if self.node?.process === process { self.node = nil }
                        simulation.schedule(after: .seconds(5), in: simulation.background) { self.startNode() }
                    }
                }
            }
        } catch {
            judge.violated("the configuration is invalid: \(error)")
        }
    }

    /// Ends the node at once, and starts it again after `pause`.
    func killNode(losingPower: Bool, for pause: Duration) {
        guard let running = node else { return }
        node = nil
        kills += 1
        if losingPower {
            simulation.cutPower(of: running.process)
            disk.powerFailed()
        } else {
            simulation.kill(running.process)
            disk.processesEnded()
        }
        judge.nodeEnded(flush: certainFlush)
        nodeEnded?()
        replaceFiles()
        simulation.schedule(after: pause, in: simulation.background) { [self] in
            running.process.hasPower = true
            startNode()
        }
    }

    /// What the node had to store at this time is on the disk.
    private var certainFlush: MonotonicTime { disk.certainFlush(of: "\(directory)/state/spool.sqlite") }

    /// Lets the node write to the network or the disk `operations` more times, then ends it.
    func killNode(afterOperations operations: Int, losingPower: Bool, for pause: Duration) {
        guard let process = node?.process else { return }
        process.atOperation = { [self] in
            if node?.process === process { killNode(losingPower: losingPower, for: pause) }
        }
        process.operationsLeft = operations
    }

    /// Restarts the node gracefully.
    func restartNode(after pause: Duration) {
        guard let running = node else { return }
        simulation.run(as: running.process) {
            _ = Task(executorPreference: running.loop) { [self] in
                _ = await running.node.stop()
                guard node?.process === running.process else { return }
                node = nil
                simulation.kill(running.process)
                disk.processesEnded()
                judge.nodeEnded(flush: certainFlush)
                simulation.schedule(after: pause, in: simulation.background) { self.startNode() }
            }
        }
    }

    /// Writes the configuration again and makes the node read it.
    func reloadNode() {
        guard let running = node else { return }
        try? configurationText().write(toFile: "\(directory)/tocsin.toml", atomically: false, encoding: .utf8)
        simulation.run(as: running.process) {
            _ = Task(executorPreference: running.loop) { await running.node.reload() }
        }
    }

    /// Replaces the small files of the state directory by copies: an ended process may still hold locks on the old ones, and
    /// write to them.
    private func replaceFiles() {
        let state = "\(directory)/state"
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: state) else { return }
        for name in names {
            let path = "\(state)/\(name)"
            guard let bytes = FileManager.default.contents(atPath: path) else { continue }
            unlink(path)
            let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            _ = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            close(descriptor)
        }
    }

    // MARK: Checks

    /// Checks, once a minute, what no single event shows.
    func check() {
        let open = simulation.network.connections.count { connection in
            guard let node, Self.endpointsForSenders.contains(connection.endpoint) else { return false }
            return connection.listeningProcess === node.process
        }
        if open > Self.mostConnections {
            judge.violated("\(open) connections are open; the limit is \(Self.mostConnections)")
        }
        if let node {
            simulation.run(as: node.process) {
                _ = Task(executorPreference: node.loop) { [self] in
                    for table in await node.node.tables where table.entries > table.bound {
                        judge.violated("\(table.entries) \(table.name); the limit is \(table.bound)")
                    }
                }
            }
        }
        changeServices { [self] services in
            // The node uses one token in both environments: one may see it long after the other.
            let seen = await services.providerTokensSeen(.apnsProduction, .apnsDevelopment)
            serviceJudge.checkProviderTokens(seen: seen, clockSkew: clockSkew)
        }
        simulation.schedule(after: ServiceJudge.interval, in: simulation.background) { [self] in check() }
    }

    // MARK: Clocks and logs

    /// By how many milliseconds the wall clock of the node's machine is ahead.
    private var clockSkew: Int64 = 0 {
        didSet {
            node?.process.clockSkew = clockSkew
            judge.clockSkew = clockSkew / 1000
            serviceJudge.clockMoved()
        }
    }

    /// Moves the wall clock of the node's machine.
    func moveClock(by seconds: Int64) { clockSkew += seconds * 1000 }

    /// The level from which the node logs.
    var logLevel = "warning"
    /// Receives each log line.
    var showLog: ((String) -> Void)?
    private var log: SimulatedLog {
        var log = SimulatedLog { [unowned self] in logged($0) }
        log.logLevel = Logger.Level(rawValue: logLevel) ?? .warning
        return log
    }

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

    /// The length of an envelope's number.
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
    let take: @Sendable (String) -> Void
    var logLevel = Logger.Level.warning
    var metadata: Logger.Metadata = [:]

    init(_ take: @escaping @Sendable (String) -> Void) { self.take = take }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let details = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        take("\(event.level) \(event.message)\(details)")
    }
}

/// A value that a task leaves for its caller.
private final class Box<Value>: @unchecked Sendable {
    // Unchecked: a simulation has one thread.
    var value: Value?
}
