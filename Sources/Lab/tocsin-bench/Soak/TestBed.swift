// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import FoundationEssentials
import Glibc
import StandIns
import TNP
import Time

/// Stand-ins for Apple, Google and a push server in this process, and nodes in processes of their own, which can be
/// killed.
actor TestBed {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Where the nodes run, and what they use.
    struct Surroundings {
        /// The address of the stand-ins.
        var servicesHost = "127.0.0.1"
        /// The lines of `[tor]` in each node's configuration.
        var tor = "managed = false"
        /// Whether each node listens on a Unix socket. A single one always does.
        var usesUnixSockets = false
        /// The command that runs a node's program; the program and its arguments follow it.
        var launcher: @Sendable (_ node: Int) -> [String] = { _ in [] }
        /// The number of device tokens of each kind.
        var devicesPerKind = 500
        /// The program with which the nodes start; `nil` for the one in this program's directory.
        var program: String?
    }

    /// The stand-ins.
    nonisolated let services: SimulatedServices
    /// Counts the deliveries to phones.
    nonisolated let tally = Tally()
    /// The directory of all files.
    nonisolated let directory: String
    private let newProgram: String
    /// The program of each node.
    private var programs: [String]
    private let descriptors: Int?
    private let surroundings: Surroundings
    private var nodes: [MeasuredProcess?]
    private nonisolated let usesUnixSockets: Bool
    private nonisolated let reservations: PortReservations
    /// The TCP ports of the nodes.
    private nonisolated let ports: [UInt16]
    private let endpoints: SimulatedServices.Endpoints
    /// The origin of the stand-in for push servers.
    nonisolated let pushServer: String
    /// Device tokens of each kind, registered with the stand-ins.
    nonisolated let tokens: [Magic: [[UInt8]]]

    /// Starts the stand-ins, and makes new device tokens.
    private init(name: String, nodes: Int, descriptors: Int?, surroundings: Surroundings) async throws {
        self.nodes = Array(repeating: nil, count: nodes)
        let reservations = PortReservations()
        self.reservations = reservations
        ports = try (0..<nodes).map { _ in try reservations.reserve() }
        usesUnixSockets = nodes == 1 || surroundings.usesUnixSockets
        self.surroundings = surroundings
        self.descriptors = descriptors
        loop = EventLoop(name: "services")
        directory = URL.temporaryDirectory.appending(path: "tocsin-\(name)-\(getpid())").path()
        let program = try Executables.tocsin()
        newProgram = program
        programs = Array(repeating: surroundings.program ?? program, count: nodes)
        services = SimulatedServices(
            SimulatedServices.Options(directory: directory, host: surroundings.servicesHost), on: loop)
        endpoints = try await services.start()
        guard case .tcp(_, let port) = endpoints.webPush else { throw fail("the push server has no port", .failure) }
        let pushServer = "https://localhost:\(port)"
        self.pushServer = pushServer
        var tokens: [Magic: [[UInt8]]] = [:]
        for magic in Magic.allCases {
            tokens[magic] = (0..<surroundings.devicesPerKind).map { _ in
                let text = Hex.encode(SecureRandom.bytes(32))
                return Array((magic == .web ? "\(pushServer)/push/\(text)" : text).utf8)
            }
        }
        self.tokens = tokens
    }

    /// Starts a test bed, runs `body` and stops the test bed. On an error, prints all nodes' logs.
    /// - Parameters:
    ///   - nodes: the number of nodes.
    ///   - more: further tables of each node's configuration, in TOML; `{node}` stands for the name of the node.
    ///   - circuitIDs: whether connections begin with a PROXY line that names the circuit, as tor sends it.
    ///   - servesHTTP: whether the first node also has an HTTP endpoint.
    ///   - descriptors: each node's limit of open files; `nil` for that of this process.
    ///   - surroundings: where the nodes run.
    static func run(
        _ name: String, nodes: Int = 1, more: String, circuitIDs: Bool = false, servesHTTP: Bool = false,
        descriptors: Int? = nil, surroundings: Surroundings = Surroundings(),
        _ body: (TestBed) async throws -> Void
    ) async throws {
        let bed = try await TestBed(name: name, nodes: nodes, descriptors: descriptors, surroundings: surroundings)
        do {
            try await bed.start(more: more, circuitIDs: circuitIDs, servesHTTP: servesHTTP)
            try await body(bed)
        } catch {
            Terminal.endProgress()
            Terminal.error(await bed.log)
            await bed.stop()
            throw error
        }
        await bed.stop()
    }

    /// The TNP endpoint of the first node.
    nonisolated var endpoint: Endpoint { endpoint(of: 0) }

    /// The TNP endpoint of a node. Several nodes listen on TCP, for clients of any kind, unless their surroundings use
    /// unix sockets; a single one listens on a unix socket.
    nonisolated func endpoint(of index: Int) -> Endpoint {
        usesUnixSockets
            ? .unix(path: "\(directory)/tnp\(index).sock") : .tcp(host: "127.0.0.1", port: ports[index])
    }

    /// The HTTP endpoint of the first node, if it has one.
    nonisolated var httpEndpoint: Endpoint { .unix(path: "\(directory)/http.sock") }

    /// A device as Apple, Google or a push server knows it.
    static func device(_ magic: Magic, state: Device.State = .registered) -> Device {
        switch magic {
        case .iOS: Device(platform: .apnsProduction, app: "bisqremote.joachimneumann.com", state: state)
        case .iOSDev: Device(platform: .apnsDevelopment, app: "bisqremote.joachimneumann.com", state: state)
        case .android: Device(platform: .fcm, app: "bisqnotifications", state: state)
        case .web: Device(platform: .webPush, app: "", state: state)
        }
    }

    /// Registers the device tokens, and configures and starts the nodes.
    private func start(more: String, circuitIDs: Bool, servesHTTP: Bool) async throws {
        await services.setStoresReceived(false)
        await services.observe { [tally] in tally.delivered($0) }
        await services.observeAnswers { [tally] in tally.answered($0) }
        await services.observeLostAnswers { [tally] in tally.unanswered($0) }
        for (magic, tokens) in tokens {
            for token in tokens {
                await services.set(Self.device(magic), for: String(decoding: token, as: UTF8.self))
            }
        }
        _ = try KeyFile.readOrCreate("\(directory)/cluster.key")
        for index in nodes.indices {
            let configuration = SimulatedConfiguration(
                endpoints: endpoints, state: "state\(index)", tnp: "\(endpoint(of: index))",
                http: servesHTTP && index == 0 ? "unix:http.sock" : nil, circuitIDs: circuitIDs, tor: surroundings.tor,
                logLevel: "notice",
                additionalTables: more.replacing("{node}", with: "node\(index)"))
            try Data(configuration.text.utf8).write(to: URL(filePath: "\(directory)/tocsin\(index).toml"))
            try await startNode(index)
        }
    }

    /// Starts a node and waits until it listens.
    func startNode(_ index: Int = 0) async throws {
        let limit = descriptors.map { ["prlimit", "--nofile=\($0):\($0)"] } ?? []
        nodes[index] = try MeasuredProcess(
            limit + surroundings.launcher(index) + [
                programs[index], "run", "--config", "\(directory)/tocsin\(index).toml",
            ], directory: directory,
            errors: logFile(of: index))
        for _ in 0..<200 {
            if let stream = try? await loop.dial(endpoint(of: index), timeout: .seconds(1)) {
                stream.close()
                return
            }
            await loop.sleep(for: .milliseconds(50))
        }
        throw fail("the node did not start:\n\(log.suffix(2000))", .failure)
    }

    /// Restarts a node without credentials, with another node as its upstream.
    /// - Parameters:
    ///   - upstream: the endpoint of the upstream node.
    ///   - socks: the SOCKS port of a tor through which the node reaches the upstream; `nil` to connect directly.
    func makeRelay(_ index: Int, to upstream: Endpoint, socks: Endpoint?) async throws {
        let configuration = """
            [node]
            sandbox = "kill"
            state = "relay\(index)"
            log = "notice"
            [listen]
            tnp = "\(endpoint(of: index))"
            http = "unix:http.sock"
            [tor]
            managed = false
            [spool]
            enabled = true
            [handles]
            enabled = true
            [[app]]
            name = "bisq"
            [app.upstream]
            node = "\(upstream)"
            direct = \(socks == nil)
            [outbound]
            \(socks.map { "proxy = \"socks5://\($0)\"" } ?? "")
            \(SimulatedConfiguration.unlimitedRates)
            """
        await killNode(index)
        try Data(configuration.utf8).write(to: URL(filePath: "\(directory)/tocsin\(index).toml"))
        try await startNode(index)
    }

    /// Ends a node with SIGTERM, and starts it again.
    func restartNode(_ index: Int = 0) async throws {
        await nodes[index]?.stop(on: loop)
        try await startNode(index)
    }

    /// Restarts a node with the program in this program's directory.
    func upgradeNode(_ index: Int) async throws {
        programs[index] = newProgram
        try await restartNode(index)
    }

    /// The onion of a node's own tor; `nil` until tor has made it.
    private func onion(of index: Int) -> Endpoint? {
        let file = "\(directory)/state\(index)/tor/onion/hostname"
        let name = FileManager.default.contents(atPath: file).map { String(decoding: $0, as: UTF8.self) }
        return name.map { .tcp(host: $0.split(whereSeparator: \.isWhitespace).joined(), port: 7077) }
    }

    /// Waits until a sender reaches the onion of a node's own tor, for two minutes at most.
    func reachableOnion(of index: Int = 0, through proxy: Proxy) async throws -> Endpoint {
        let deadline = MonotonicTime.now + .seconds(120)
        while MonotonicTime.now < deadline {
            if let onion = onion(of: index),
                let stream = try? await loop.dial(onion, through: proxy, timeout: .seconds(20))
            {
                stream.close()
                return onion
            }
            await loop.sleep(for: .milliseconds(500))
        }
        throw fail("the onion of node \(index) cannot be reached", .failure)
    }

    /// Kills a node with SIGKILL.
    func killNode(_ index: Int = 0) async {
        let before = MonotonicTime.now
        await nodes[index]?.stop(by: SIGKILL, on: loop)
        nodes[index] = nil
        // Gives the peers time to read what the node has sent.
        await loop.sleep(for: .milliseconds(50))
        tally.answersLost(after: before, before: .now)
    }

    /// Resident memory of the first node in kilobytes.
    var nodeKilobytes: Int { nodePID.map(ProcessUsage.residentKilobytes) ?? 0 }

    /// The first node's process; `nil` if it is not running.
    var nodePID: pid_t? { nodes[0]?.pid }

    /// The resource usage of the first node's process; `nil` if it is not running.
    var nodeFigures: ProcessUsage? { nodes[0].map { ProcessUsage(of: $0.pid) } }

    /// The file of a node's log.
    nonisolated func logFile(of index: Int) -> String { "\(directory)/node\(index).log" }

    /// The logs of the nodes.
    var log: String {
        let logs = nodes.indices.map { FileManager.default.contents(atPath: logFile(of: $0)) ?? Data() }
        return logs.map { String(decoding: $0, as: UTF8.self) }.joined()
    }

    /// Stops the nodes and the stand-ins, and deletes the directory.
    func stop() async {
        for node in nodes { await node?.stop(on: loop) }
        await services.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }
}

extension Envelope {
    /// The name of this envelope in a ``Tally``.
    var tallyName: Int {
        if magic == .web { return Tally.name(String(decoding: Base64.encode(Array(ciphertext)), as: UTF8.self)) }
        var text: [UInt8] = []
        let messageMagic = magic == .android ? "BisqMessageAndroid" : "BisqMessageiOS"
        appendDeliveredJSON(format: .pipe, messageMagic: Array(messageMagic.utf8), to: &text)
        return Tally.name(String(decoding: text, as: UTF8.self))
    }
}
