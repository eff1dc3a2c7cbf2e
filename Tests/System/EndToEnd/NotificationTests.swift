// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import EventLoop
import Foundation
import Logging
import StandIns
import Synchronization
import TNP
import TestSupport
import Testing
import TocsinClient
import TocsinPhone
import Tor

@testable import AdminPort
@testable import Cryptography
@testable import Ingress
@testable import NodeConfiguration
@testable import TocsinNode
@testable import tocsin

/// A node and the stand-ins for Apple and Google, in a temporary directory.
actor Stage {
    nonisolated let loop = EventLoop(name: "stage")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    nonisolated let services: SimulatedServices
    nonisolated let directory: String
    /// Phones whose keys must not appear in the log.
    private nonisolated let phones = Mutex<[Phone]>([])
    /// The node's log.
    nonisolated let log = LogRecorder()
    private let nodeLoop = EventLoop(name: "node")
    private var node: Node?
    /// Connections that the test does not read from.
    private var held: [ByteStream] = []
    private var occupiedPort: Listener?
    private let ports = PortReservations()

    init() {
        directory = URL.temporaryDirectory.appending(path: "tocsin-e2e-\(UUID().uuidString.prefix(8))").path()
        services = SimulatedServices(SimulatedServices.Options(directory: directory, seed: 1), on: loop)
    }

    nonisolated var socket: Endpoint { .unix(path: "\(directory)/tnp.sock") }
    nonisolated var httpSocket: Endpoint { .unix(path: "\(directory)/http.sock") }

    /// The configuration of a node that uses the stand-ins.
    nonisolated func configuration(
        _ endpoints: SimulatedServices.Endpoints, circuitIDs: Bool = false,
        gates: String = SimulatedConfiguration.unlimitedRates, limits: String = "",
        trust: String = "ca.pem", credential: String? = nil, alert: String = "New notification",
        http: String = "unix:http.sock", more: String = ""
    ) -> String {
        let key = """
            key_file = "apns.p8"
            key_id = "\(SimulatedServices.keyID)"
            team_id = "\(SimulatedServices.teamID)"
            """
        // Without it, the HTTP endpoint would turn sender keys off.
        let senders = "\(gates)\(limits)\(more)".contains("[senders]") ? "" : "[senders]\nmode = \"optional\""
        return """
            \(senders)
            [node]
            log = "trace"
            [listen]
            tnp = "unix:tnp.sock"
            http = "\(http)"
            circuit_ids = \(circuitIDs)
            \(gates)
            \(limits)
            [[app]]
            name = "bisq"
            [app.apns]
            topic = "bisqremote.joachimneumann.com"
            alert = "\(alert)"
            \(credential ?? key)
            [app.fcm]
            service_account_file = "service-account.json"
            [app.web]
            \(SimulatedConfiguration.webPush(at: endpoints.webPush))
            [apns]
            production = "https://\(endpoints.production)"
            development = "https://\(endpoints.development)"
            trust_file = "\(trust)"
            [fcm]
            endpoint = "https://\(endpoints.fcm)"
            trust_file = "\(trust)"
            \(more)
            """
    }

    @discardableResult
    func start(
        circuitIDs: Bool = false, gates: String = SimulatedConfiguration.unlimitedRates, limits: String = "",
        credential: String? = nil, http: String = "unix:http.sock", more: String = ""
    ) async throws -> SimulatedServices.Endpoints {
        let endpoints = try await services.start()
        try await startNode(
            configuration(
                endpoints, circuitIDs: circuitIDs, gates: gates, limits: limits, credential: credential, http: http,
                more: more))
        return endpoints
    }

    func startNode(_ text: String, whenReachable: (@Sendable (OnionAddress) -> Void)? = nil) async throws {
        let file = "\(directory)/tocsin.toml"
        try Data(text.utf8).write(to: URL(filePath: file))
        var configuration = try Configuration(text: text, file: file)
        // No tor unless the configuration enables it.
        configuration.decideTor(path: "")
        let node = Node(configuration, logger: log.logger, on: nodeLoop, whenReachable: whenReachable)
        _ = try await node.start()
        self.node = node
    }

    /// The number of connections that have sent HELLO.
    var identifiedCount: Int { get async { await node?.identifiedConnectionCount ?? 0 } }

    var connectionCount: Int { get async { await node?.connectionCount ?? 0 } }

    /// The reasons that `/readyz` gives if the node is not ready.
    var reasonsNotReady: [String] { get async { await node?.snapshot?.notReady.map(\.text) ?? [] } }

    /// The node's state, as the dashboard shows it.
    var snapshot: NodeSnapshot? { get async { await node?.snapshot } }

    /// The node's metrics, in the Prometheus text format.
    var metrics: String { get async { String(decoding: await node?.metricsText ?? [], as: UTF8.self) } }

    var torStatus: TorStatus? { get async { await node?.torStatus } }

    /// The address of the HTTP endpoint, also if the system chose its port.
    var httpEndpoint: Endpoint? { get async { await node?.httpEndpoint } }

    func stopNode() async -> Bool { await node?.stop() ?? true }

    /// Reserves a loopback port for this stage.
    func reservePort() throws -> UInt16 { try ports.reserve() }

    /// Listens on a reserved port, so that the node cannot.
    func occupyPort() throws -> UInt16 {
        let port = try ports.reserve()
        occupiedPort = try Listener(.tcp(host: "127.0.0.1", port: port), on: loop) { $0.close() }
        return port
    }

    func releasePort() { occupiedPort = nil }

    /// Reloads the running node with another configuration, as an operator would.
    func reload(_ text: String) async throws {
        try Data(text.utf8).write(to: URL(filePath: "\(directory)/tocsin.toml"))
        await node?.reload()
    }

    func end() async {
        _ = await node?.stop()
        await expectNothingLeaked()
        await services.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    nonisolated func client(_ options: TocsinClient.Options? = nil) -> TocsinClient {
        TocsinClient(options ?? TocsinClient.Options(nodes: [socket], patience: .zero), on: loop)
    }

    nonisolated func client(siteKey: Ed25519.PrivateKey) -> TocsinClient {
        client(TocsinClient.Options(nodes: [socket], patience: .zero, siteKey: siteKey))
    }

    nonisolated func envelope(for phone: Phone, title: String = "title") throws -> Envelope {
        phones.withLock { $0.append(phone) }
        return try Sealer(phone.pairing).seal(
            BisqNotification(kind: .trade, title: title, message: "Zpráva ✓", sentDate: 1).json)
    }

    /// Connects to the node, sends these bytes and reads nothing.
    func holdOpen(at endpoint: Endpoint? = nil, saying bytes: [UInt8] = []) async throws {
        let stream = try await loop.dial(endpoint ?? socket, timeout: .seconds(60))
        stream.write(bytes)
        held.append(stream)
    }

    /// Sends AUTH with a signature that names this onion.
    /// - Returns: AUTHED.
    func authenticate(_ key: Ed25519.PrivateKey, onion: SignedOnion, after prelude: [UInt8] = []) async throws
        -> SiteAuthenticationResult
    {
        let stream = try await loop.dial(socket, timeout: .seconds(60))
        let reader = StreamReader(stream)
        var bytes = prelude
        bytes.append(Hello())
        stream.write(bytes)
        guard case .welcome(let welcome) = try await nextMessage(of: reader) else { throw POSIXError(.EPROTO) }
        bytes = []
        bytes.append(SiteAuthentication(seed: welcome.puzzle.seed, onion: onion, by: key))
        stream.write(bytes)
        defer { stream.close() }
        guard case .authenticated(let result) = try await nextMessage(of: reader) else { throw POSIXError(.EPROTO) }
        return result
    }

    private func nextMessage(of reader: StreamReader) async throws -> Message {
        let length = try await reader.read(exactly: 4)
        var decoder = FrameDecoder(maximumLength: 65_536)
        decoder.append(length + (try await reader.read(exactly: length.reduce(0) { $0 << 8 | Int($1) })))
        return try Message(try #require(try decoder.next()))
    }

    /// Connects to the node, sends these bytes and returns the first message that it sends.
    func firstMessage(after bytes: [UInt8]) async throws -> Message {
        let stream = try await loop.dial(socket, timeout: .seconds(60))
        stream.write(bytes)
        defer { stream.close() }
        return try await nextMessage(of: StreamReader(stream))
    }

    /// Reads what the node sent on the first of those connections until it closed.
    func readFirstHeld() async -> [UInt8] { await StreamReader(held[0]).readToEnd() }

    func closeIdle() {
        for stream in held { stream.close() }
        held = []
    }

    /// Connects to the node, sends these bytes and returns what arrives until the node closes or the time is up.
    func raw(
        _ bytes: [UInt8], to endpoint: Endpoint? = nil, through proxy: Proxy? = nil,
        readingFor time: Duration = .seconds(10)
    ) async throws -> [UInt8] {
        let stream = try await loop.dial(
            endpoint ?? socket, through: proxy, timeout: proxy == nil ? .seconds(5) : time)
        let reader = StreamReader(stream)
        stream.write(bytes)
        let timer = Timer(on: loop) { stream.fail(.timedOut) }
        timer.start(after: time)
        let answer = await reader.readToEnd()
        timer.stop()
        return answer
    }
}

extension Stage {
    /// Checks that no log line, at any level, contains a part of an envelope, a device token, a key or a credential.
    /// Every test in this target ends with this check.
    private func expectNothingLeaked() async {
        var secrets = Set(await services.deviceTokens)
        for received in await services.received {
            secrets.insert(received.deviceToken)
            secrets.insert(received.encrypted)
            for part in received.encrypted.split(separator: "|").dropFirst() { secrets.insert(String(part)) }
        }
        for phone in phones.withLock(\.self) {
            secrets.insert(
                String(decoding: phone.key.withBytes { span in span.withUnsafeBytes { Array($0) } }, as: UTF8.self))
        }
        let files = ["apns.p8", "apns.p12.password", "service-account.json", "state/spool.key", "state/standing.key"]
        let tokens = (try? FileManager.default.contentsOfDirectory(atPath: "\(directory)/state"))?
            .filter { $0.hasSuffix(".token") }.map { "state/\($0)" }
        for file in files + (tokens ?? []) {
            guard let text = try? String(contentsOfFile: "\(directory)/\(file)", encoding: .utf8) else { continue }
            for line in text.split(whereSeparator: \.isNewline) where !line.contains("-----") {
                secrets.formUnion(line.split(separator: "\\n").map(String.init))
            }
        }
        // Compares only the first bytes, with all secrets at once: some tests have very many. Shorter secrets are
        // skipped: every log contains such text.
        let prefixes = Set(
            secrets.flatMap { [$0, Data($0.utf8).map { String(format: "%02x", $0) }.joined()] }
                .filter { $0.utf8.count >= Prefix.length }.map {
                    Prefix(Array($0.utf8.prefix(Prefix.length))[...])
                })
        for line in log.lines {
            let bytes = Array(line.utf8)
            guard bytes.count >= Prefix.length else { continue }
            for start in 0...(bytes.count - Prefix.length)
            where prefixes.contains(Prefix(bytes[start..<(start + Prefix.length)])) {
                // The message does not contain the secret itself.
                Issue.record("a log line contains a secret after: \(String(decoding: bytes[..<start], as: UTF8.self))")
                break
            }
        }
    }

    /// The first bytes of a secret.
    private struct Prefix: Hashable {
        static let length = 16
        private let first: UInt64
        private let second: UInt64

        init(_ bytes: ArraySlice<UInt8>) {
            first = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
            second = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// Sends these bytes to the HTTP endpoint and returns what arrives until it closes or the time is up.
    func http(_ bytes: [UInt8], readingFor time: Duration = .seconds(10)) async throws -> [UInt8] {
        try await raw(bytes, to: httpSocket, readingFor: time)
    }
}

/// The messages in these bytes.
func messages(_ bytes: [UInt8]) throws -> [Message] {
    var decoder = FrameDecoder(maximumLength: 65_536)
    decoder.append(bytes)
    var messages: [Message] = []
    while let frame = try decoder.next() { messages.append(try Message(frame)) }
    return messages
}

func goAwayCode(_ bytes: [UInt8]) throws -> GoAway.Code? {
    if case .goAway(let goAway)? = try messages(bytes).last { goAway.code } else { nil }
}

private let hello: [UInt8] = {
    var bytes: [UInt8] = []
    bytes.append(Hello())
    return bytes
}()

@Suite(.tags(.node)) struct NotificationTests {
    @Test(arguments: [false, true])
    func `a phone of each kind receives its notification and opens it`(_ hasCertificate: Bool) async throws {
        let stage = Stage()
        let certificate = "certificate_file = \"apns.p12\"\ncertificate_password_file = \"apns.p12.password\""
        try await stage.start(credential: hasCertificate ? certificate : nil)
        let client = stage.client()
        for magic in Magic.appleAndGoogle {
            let phone = Phone.new(magic, model: "test")
            await stage.services.register(phone)
            let envelope = try stage.envelope(for: phone, title: "for \(magic)")
            let outcome = try await client.submit(envelope, timeout: .seconds(60))
            #expect(outcome.kind == .delivered)
            let received = try #require(
                await stage.services.received.first { $0.deviceToken == phone.pairing.deviceToken })
            #expect(outcome.providerID == received.id)
            #expect(received.hasSound)
            #expect(try phone.open(received.encrypted).title == "for \(magic)")
            if magic != .android { #expect(received.id == String(decoding: envelope.apnsID, as: UTF8.self)) }
        }
        await client.close()
        await stage.end()
    }

    @Test func `Apple's answer about a device token reaches the sender`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0")
        let client = stage.client()
        let topic = "bisqremote.joachimneumann.com"
        let states: [(Device?, Outcome.Kind, Reason)] = [
            (nil, .rejected, .badDeviceToken),
            (Device(platform: .apnsProduction, app: topic, state: .unregistered(since: 77)), .gone, .unregistered),
            (Device(platform: .apnsDevelopment, app: topic), .delivered, .none),
            (Device(platform: .apnsProduction, app: "other"), .rejected, .badDeviceToken),
            (
                Device(
                    platform: .apnsProduction, app: topic,
                    state: .answers(status: 503, reason: "ServiceUnavailable", retryAfter: 7)), .retry,
                .providerUnreachable
            ),
        ]
        for (device, kind, reason) in states {
            let phone = Phone.new(.iOS, model: "test")
            await stage.services.set(device, for: phone.pairing.deviceToken)
            let outcome = try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60))
            #expect(outcome.kind == kind && outcome.reason == reason)
            if kind == .gone { #expect(outcome.goneSince == 77) }
            if kind == .retry { #expect(outcome.retryAfter == 7000) }
        }
        #expect(await stage.services.received.map(\.platform) == [.apnsDevelopment])
        await client.close()
        await stage.end()
    }

    @Test func `a thousand concurrent submissions on one connection are each delivered once`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.register(phone)
        let client = stage.client()
        let delivered = await withTaskGroup(returning: Int.self) { group in
            for index in 0..<1000 {
                group.addTask {
                    let envelope = try? stage.envelope(for: phone, title: "\(index)")
                    guard let envelope else { return 0 }
                    return (try? await client.submit(envelope, timeout: .seconds(60)))?.kind == .delivered ? 1 : 0
                }
            }
            return await group.reduce(0, +)
        }
        #expect(delivered == 1000)
        #expect(Set(await stage.services.received.map(\.id)).count == 1000)
        await client.close()
        await stage.end()
    }

    @Test func `malformed bytes get the right GOAWAY code, and other senders are still served`() async throws {
        let stage = Stage()
        try await stage.start(limits: "handshake_timeout = 1\nidle_timeout = 1")
        let cases: [(String, [UInt8], GoAway.Code)] = [
            ("length 0", hello + [0, 0, 0, 0], .protocolError),
            ("too long", hello + [0, 1, 0, 0, 3], .frameTooLarge),
            ("garbage", Array("GET / HTTP/1.1\r\n\r\n".utf8), .frameTooLarge),
            ("TLS", [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3], .frameTooLarge),
            ("PROXY", Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8), .protocolError),
            ("version", [0, 0, 0, 7, 1] + Array("TNP".utf8) + [9, 9, 0], .version),
            ("nothing", [], .handshakeTimeout), ("half a HELLO", Array(hello.prefix(6)), .handshakeTimeout),
            ("nothing after HELLO", hello, .idle), ("half a frame", hello + [0, 0, 0, 9, 5, 1, 2], .idle),
        ]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (name, bytes, code) in cases {
                group.addTask { () async throws -> Void in
                    let answer = try await stage.raw(bytes)
                    #expect(try goAwayCode(answer) == code, "\(name)")
                }
            }
            try await group.waitForAll()
        }
        let phone = Phone.new(.android, model: "test")
        await stage.services.register(phone)
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `immediate results follow WELCOME, and none is lost if the sender leaves at once`()
        async throws
    {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.register(phone)
        let envelope = try stage.envelope(for: phone)
        let client = stage.client()
        #expect(try await client.submit(envelope, timeout: .seconds(60)).kind == .delivered)
        await client.close()
        // One segment: HELLO, a submission that is rejected at once, one with a stored outcome, and GOAWAY.
        let ofUnknownApp = try Envelope(
            app: Array("nobody".utf8)[...], magic: .iOS, deviceToken: envelope.deviceToken, iv: envelope.iv,
            ciphertext: envelope.ciphertext, format: .pipe)
        var bytes = hello
        bytes.append(Submission(request: 1, envelope: ofUnknownApp))
        bytes.append(Submission(request: 2, envelope: envelope))
        bytes.append(GoAway(code: .shuttingDown))
        let heard = try messages(try await stage.raw(bytes))
        guard case .welcome? = heard.first else {
            Issue.record("WELCOME is not the first message: \(heard)")
            return
        }
        let results = heard.compactMap { message in
            if case .result(let result) = message { result } else { nil }
        }
        #expect(results.map(\.request).sorted() == [1, 2])
        #expect(results.first { $0.request == 1 }?.outcome.reason == .unknownApp)
        #expect(results.first { $0.request == 2 }?.outcome.kind == .delivered)
        await stage.end()
    }

    @Test func `back-pressure stops a sender that never reads its results`() async throws {
        let stage = Stage()
        try await stage.start(limits: "shutdown_timeout = 2")
        let hello = hello
        var bytes: [UInt8] = []
        // Each submission is rejected (it has no fields) and causes an answer.
        for request in UInt32(1)...5000 {
            bytes += [0, 0, 0, 5, 3] + withUnsafeBytes(of: request.bigEndian) { Array($0) }
        }
        let flood = bytes
        let unsent = try await LoopDomain(stage.loop).run { domain in
            let stream = try await domain.loop.dial(stage.socket, timeout: .seconds(60))
            final class Silent: ByteStreamHandler {
                func stream(_ stream: ByteStream, received bytes: RawSpan) {}
                func stream(_ stream: ByteStream, ended reason: StreamError) {}
            }
            let silent = Silent()
            stream.handler = silent
            stream.write(hello)
            // More than the buffers of the kernel hold.
            for _ in 0..<400 { stream.write(flood) }
            await domain.loop.sleep(for: .seconds(1))
            // The node has stopped reading, so that some bytes cannot be sent.
            let unsent = stream.unsent
            withExtendedLifetime(silent) {}
            stream.close()
            return unsent
        }
        #expect(unsent > 0)
        await stage.end()
    }

    @Test func `a connection over the limit gets GOAWAY busy`() async throws {
        let stage = Stage()
        try await stage.start(limits: "connections = 1")
        let first = stage.client()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.register(phone)
        _ = try await first.submit(try stage.envelope(for: phone), timeout: .seconds(60))
        let answer = try await stage.raw(hello)
        guard case .goAway(let goAway)? = try messages(answer).last else {
            Issue.record("no GOAWAY")
            return
        }
        #expect(goAway.code == .busy && goAway.retryAfter > 0)
        await first.close()
        await stage.end()
    }

    @Test func `a stopping node reports every envelope that it delivers`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.register(phone)
        let client = stage.client()
        _ = try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60))
        let outcomes = Task {
            await withTaskGroup(of: Outcome.Kind?.self, returning: [Outcome.Kind?].self) { group in
                for index in 0..<50 {
                    group.addTask {
                        guard let envelope = try? stage.envelope(for: phone, title: "\(index)") else { return nil }
                        return (try? await client.submit(envelope, timeout: .seconds(3)))?.kind
                    }
                }
                var kinds: [Outcome.Kind?] = []
                for await kind in group { kinds.append(kind) }
                return kinds
            }
        }
        try await Task.sleep(for: .milliseconds(5))
        #expect(await stage.stopNode())
        let kinds = await outcomes.value
        let delivered = kinds.filter { $0 == .delivered }.count
        // An envelope without an outcome was not accepted; every delivery is reported to the sender.
        #expect(await stage.services.received.count == delivered + 1)
        await client.close()
        await stage.end()
    }

    @Test func `an unreachable or untrusted push service yields RETRY, and the others still work`() async throws {
        let stage = Stage()
        let other = SimulatedServices(SimulatedServices.Options(directory: stage.directory + "-other"), on: stage.loop)
        let endpoints = try await stage.services.start()
        let otherEndpoints = try await other.start()
        let phones = (Phone.new(.iOS, model: "a"), Phone.new(.iOSDev, model: "b"), Phone.new(.android, model: "c"))
        for phone in [phones.0, phones.1, phones.2] { await stage.services.register(phone) }
        // Production: a port without a listener. Development: another authority's certificate.
        let text = stage.configuration(endpoints)
            .replacing("https://\(endpoints.production)", with: "https://127.0.0.1:1")
            .replacing("https://\(endpoints.development)", with: "https://\(otherEndpoints.development)")
        try await stage.startNode(text)
        let client = stage.client()
        for phone in [phones.0, phones.1] {
            let outcome = try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60))
            #expect(outcome.kind == .retry && outcome.reason == .providerUnreachable && outcome.retryAfter > 0)
        }
        #expect(try await client.submit(try stage.envelope(for: phones.2), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        await other.stop()
        try? FileManager.default.removeItem(atPath: stage.directory + "-other")
        await stage.end()
    }

    @Test func `WELCOME has the time rounded to the minute`() async throws {
        let stage = Stage()
        try await stage.start()
        let before = UInt64(Date.now.timeIntervalSince1970)
        guard case .welcome(let welcome) = try await stage.firstMessage(after: hello) else {
            Issue.record("no WELCOME")
            return
        }
        #expect(welcome.serverTime % 60_000 == 0)
        #expect((before - 60...before + 60).contains(welcome.serverTime / 1000))
        await stage.end()
    }

    @Test func `a node whose port is in use names the key and releases all it holds`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let port = try await stage.occupyPort()
        let text = stage.configuration(endpoints, http: "127.0.0.1:\(port)", more: "[spool]\nenabled = true")
        let error = await #expect(throws: PortError.self) { try await stage.startNode(text) }
        #expect(error?.key == "listen.http")
        #expect(error?.description.contains("another process listens there") == true)
        await stage.releasePort()
        // Lock, spool, standing and the other endpoint's socket are free again.
        try await stage.startNode(text)
        let phone = Phone.new(.iOS, model: "iPhone")
        await stage.services.register(phone)
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `a node with an unusable credential does not start, and says how to fix it`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        func problem(_ change: (String) -> String) async -> String {
            do {
                try await stage.startNode(change(stage.configuration(endpoints)))
                return "started"
            } catch {
                return "\(error)"
            }
        }
        chmod("\(stage.directory)/apns.p8", 0o644)
        #expect(await problem { $0 }.contains("chmod 600"))
        chmod("\(stage.directory)/apns.p8", 0o600)
        #expect(await problem { $0.replacing("apns.p8", with: "none.p8") }.contains("No such file"))
        #expect(
            await problem { $0.replacing("apns.p8", with: "service-account.json") }.contains(
                "is a JSON file: name a file of Google's"))
        let p12 = "certificate_file = \"apns.p12\"\ncertificate_password_file = \"apns.p8\""
        let wrongPassword = stage.configuration(endpoints, credential: p12)
        #expect(
            await problem { _ in wrongPassword }.contains("the password in certificate_password_file is wrong"))
        #expect(await problem { $0.replacing("service-account.json", with: "apns.p8") }.contains("Service accounts"))
        #expect(
            await problem { $0.replacing("\"ca.pem\"", with: "\"apns.p12.password\"") }.contains("no PEM certificate"))
        await stage.end()
    }

    @Test func `a client waits for the node to start, and reconnects after a restart`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.register(phone)
        // The node starts only after the client has begun to connect.
        let client = stage.client()
        let envelope = try stage.envelope(for: phone)
        async let outcome = client.submit(envelope, timeout: .seconds(60))
        try await Task.sleep(for: .milliseconds(300))
        try await stage.startNode(stage.configuration(endpoints))
        #expect(try await outcome.kind == .delivered)
        // The node restarts, and the client connects again.
        _ = await stage.stopNode()
        await stage.services.moveClock(by: 1500)
        async let second = client.submit(try stage.envelope(for: phone, title: "again"), timeout: .seconds(60))
        try await Task.sleep(for: .milliseconds(300))
        try await stage.startNode(stage.configuration(endpoints))
        #expect([.delivered, .retry].contains(try await second.kind))
        await client.close()
        await stage.end()
    }

    @Test func `a submission to an absent node fails as unreachable, with the reason`() async throws {
        let stage = Stage()
        let phone = Phone.new(.iOS, model: "test")
        let client = stage.client(TocsinClient.Options(nodes: [.tcp(host: "127.0.0.1", port: 1)]))
        await #expect(throws: ClientError.unreachable("Connection refused")) {
            _ = try await client.submit(try stage.envelope(for: phone), timeout: .seconds(5))
        }
        await client.close()
    }
}

@Suite(.tags(.tor), .serialized) struct OnionServiceTests {
    /// The command lines of the clients in other languages.
    private static let otherClients = [
        ["java", "-jar", "Clients/java/target/tocsin-client.jar"],
        ["env", "PYTHONPATH=Clients/python", "/usr/bin/python3", "-m", "tocsin_client"],
    ]

    /// One notification through tor with each client in another language.
    private func sendWithOtherClients(_ stage: Stage, _ access: PrivateTorNetwork.Access) async throws {
        for command in Self.otherClients {
            let phone = Phone.new(.android, model: "test")
            await stage.services.register(phone)
            let sent = try await ChildProcess.output(
                of: command[0],
                Array(command.dropFirst()) + [
                    "send", "-", "--node", "\(access.onion)", "--tor", "\(access.socks)", "--title", "Zpráva ✓",
                    "--timeout", "60",
                ], input: phone.pairingToken, timeout: .seconds(90))
            #expect(sent.isSuccess, "\(command[0]): \(sent.text)")
            #expect(sent.text.hasPrefix("delivered"))
            let received = await stage.services.received.first { $0.deviceToken == phone.pairing.deviceToken }
            #expect(try phone.open(try #require(received).encrypted).title == "Zpráva ✓")
            // An onion that does not exist gets a sentence.
            let wrong = try await ChildProcess.output(
                of: command[0],
                Array(command.dropFirst()) + [
                    "send", "-", "--node", "bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad.onion:7077",
                    "--tor", "\(access.socks)", "--timeout", "3",
                ], input: phone.pairingToken, timeout: .seconds(60))
            #expect(!wrong.isSuccess && wrong.text.contains("the node cannot be reached"), "\(wrong.text)")
        }
    }

    /// The same for clients that are sites, with the right key and a wrong one.
    private func sendAsSiteWithOtherClients(_ stage: Stage, to node: String, through socks: Endpoint, _ seed: [UInt8])
        async throws
    {
        for (name, content) in [("site.key", seed), ("other.key", SecureRandom.bytes(32))] {
            let file = "\(stage.directory)/\(name)"
            try PrivateFile.create(file, holding: content)
            for command in Self.otherClients {
                let phone = await stage.phone(.iOS)
                let sent = try await ChildProcess.output(
                    of: command[0],
                    Array(command.dropFirst()) + [
                        "send", "-", "--node", node, "--tor", "\(socks)", "--site-key", file, "--timeout", "60",
                    ], input: phone.pairingToken, timeout: .seconds(90))
                if content == seed {
                    #expect(sent.isSuccess && sent.text.hasPrefix("delivered"), "\(command[0]): \(sent.text)")
                } else {
                    #expect(sent.text.contains("does not know this site key"), "\(command[0]): \(sent.text)")
                }
            }
        }
    }

    @Test func `notifications go through a real onion service with circuit ids`() async throws {
        guard try await ChildProcess.output(of: "which", ["tor-gencert"]).isSuccess else {
            print("SKIPPED: tor is not installed; nothing was sent through an onion service")
            return
        }
        let stage = Stage()
        let endpoints = try await stage.start(circuitIDs: true)
        let (network, access) = try await network(for: stage)
        for magic in Magic.appleAndGoogle {
            let phone = Phone.new(magic, model: "test")
            await stage.services.register(phone)
            let label = SOCKS5.Credentials(user: "test", password: magic.rawValue)
            let client = stage.client(
                TocsinClient.Options(nodes: [access.onion], proxy: .socks5(access.socks, label)))
            let envelope = try stage.envelope(for: phone)
            #expect(try await client.submit(envelope, timeout: .seconds(60)).kind == .delivered)
            let received = await stage.services.received.first { $0.deviceToken == phone.pairing.deviceToken }
            #expect(try phone.open(try #require(received).encrypted).message == "Zpráva ✓")
            await client.close()
        }
        try await sendWithOtherClients(stage, access)
        // A port that the service does not have: the client reports the proxy's error.
        guard case .tcp(let onion, _) = access.onion else { return }
        let toWrongPort = stage.client(
            TocsinClient.Options(nodes: [.tcp(host: onion, port: 81)], proxy: .socks5(access.socks, nil)))
        let error = await #expect(throws: ClientError.self) {
            _ = try await toWrongPort.submit(
                try stage.envelope(for: Phone.new(.iOS, model: "x")), timeout: .seconds(5))
        }
        #expect(error.map { "\($0)".contains("proxy error") } == true, "\(String(describing: error))")
        await toWrongPort.close()
        _ = await stage.stopNode()
        try await checkManagedTor(stage, endpoints, network, access)
        await network.stop()
        await stage.end()
    }

    /// Starts a private network, with one retry: on a busy machine the first may not come up in time.
    private func network(for stage: Stage) async throws -> (PrivateTorNetwork, PrivateTorNetwork.Access) {
        func start() async throws -> (PrivateTorNetwork, PrivateTorNetwork.Access) {
            let network = try PrivateTorNetwork(on: stage.loop)
            let options = ["HiddenServiceExportCircuitID haproxy"]
            return (
                network, try await network.start(target: stage.socket, virtualPort: 80, serviceOptions: options)
            )
        }
        do {
            return try await start()
        } catch let error as TorError {
            print("a private Tor network did not come up; second try: \(error)")
            return try await start()
        }
    }

    /// The configuration of a node that runs the installed tor with the options of a private network.
    private func managedTor(of network: PrivateTorNetwork, in directory: String) async throws -> String {
        let program = "\(directory)/tor-of-this-network"
        try await network.writeMemberProgram(to: program)
        return """
            [tor]
            managed = true
            binary = "\(program)"
            """
    }

    /// Starts a node with a tor of its own, and waits until its onion can be reached.
    private func startReachable(_ stage: Stage, _ configuration: String) async throws -> OnionAddress {
        let reachable = AsyncStream.makeStream(of: OnionAddress.self)
        try await stage.startNode(configuration) { reachable.continuation.yield($0) }
        var addresses = reachable.stream.makeAsyncIterator()
        let giveUp = Task {
            try await Task.sleep(for: .seconds(120))
            reachable.continuation.finish()
        }
        defer { giveUp.cancel() }
        return try #require(await addresses.next())
    }

    @Test func `a desktop of today rings phones through a node without credentials and another node's onion`()
        async throws
    {
        let java = ["/usr/bin/java"].first { FileManager.default.isExecutableFile(atPath: $0) }
        guard let java, try await ChildProcess.output(of: "which", ["tor-gencert"]).isSuccess else {
            print("SKIPPED: java or tor is not installed; nothing was passed on through an onion service")
            return
        }
        let stage = Stage()
        try await stage.start(circuitIDs: true)
        let (network, access) = try await network(for: stage)
        let home = Stage()
        try FileManager.default.createDirectory(atPath: home.directory, withIntermediateDirectories: true)
        let configuration = """
            [listen]
            tnp = "on"
            http = "on"
            [spool]
            enabled = true
            [handles]
            enabled = true
            [[app]]
            name = "bisq"
            [app.upstream]
            node = "\(access.onion)"
            \(try await managedTor(of: network, in: home.directory))
            """
        let address = try await startReachable(home, configuration)
        let program = Repository.file("Tests/System/Desktop/BisqDesktop.java").path()
        func ring(_ phone: Phone, _ pairingToken: String) async throws {
            let sent = try await ChildProcess.output(
                of: java,
                [program, "\(access.socks)", "http://\(address):80", pairingToken, "TRADE", "title", "text"],
                timeout: .seconds(90))
            try #require(sent.isSuccess && sent.text == "success\n", "\(sent.text)")
            // The node may have answered when the notification was in its spool.
            for _ in 0..<6000 where await stage.received(phone.deviceToken).isEmpty {
                try await Task.sleep(for: .milliseconds(100))
            }
            let received = try #require(await stage.received(phone.deviceToken).first)
            #expect(try phone.open(received.encrypted).title == "title")
        }
        for magic in Magic.appleAndGoogle {
            let phone = Phone.new(magic, model: "test")
            await stage.services.register(phone)
            try await ring(phone, phone.pairingToken)
        }
        #expect(await stage.identifiedCount == 3, "each phone has a connection of its own")
        // By handle: the desktop keeps its pairing when the phone's device token changes.
        let owner = try #require(Ed25519.PrivateKey(seed: SecureRandom.bytes(32)))
        var phone = await stage.phone(.iOS)
        let client = home.client(
            TocsinClient.Options(
                nodes: [.tcp(host: "\(address)", port: 7077)], proxy: .socks5(access.socks, nil)))
        let handle = try await client.register(phone.handleRegistration(), owner: owner)
        // Bisq 1 checks the form of an iPhone's token.
        let pairing = phone.pairingToken(by: handle).replacing("iOS|", with: "android|")
        try await ring(phone, pairing)
        phone = await stage.services.giveNewDeviceToken(to: phone)
        try await client.rotate(handle, to: phone.handleRegistration(), owner: owner)
        try await ring(phone, pairing)
        await client.close()
        // The socket of tor's SOCKS port is for the node alone.
        let directory = try FileManager.default.attributesOfItem(atPath: "\(home.directory)/state/tor")
        #expect(directory[.posixPermissions] as? Int == 0o700)
        await home.end()
        await network.stop()
        await stage.end()
    }

    /// Tests the same node with a tor of its own, in the same network.
    private func checkManagedTor(
        _ stage: Stage, _ endpoints: SimulatedServices.Endpoints, _ network: PrivateTorNetwork,
        _ access: PrivateTorNetwork.Access
    ) async throws {
        await stage.services.moveClock(by: 1500)
        let siteSeed = SecureRandom.bytes(32)
        let site = try #require(Ed25519.PrivateKey(seed: siteSeed))
        let siteTable = """
            [sites]
            mode = "open"
            [[site]]
            name = "desk"
            key = "\(String(decoding: Base64.encode(site.publicKey), as: UTF8.self))"
            """
        let tor = try await managedTor(of: network, in: stage.directory)
        let more = [tor, "[handles]\nenabled = true", siteTable, Stage.sealed].joined(separator: "\n")
        let prosody = try await Prosody(in: stage)
        defer { prosody?.process.end() }
        var configuration = stage.configuration(endpoints, more: more)
        if let prosody {
            configuration = Stage.delivering(configuration, toPushServerAt: prosody.keys.port, onions: true)
        }
        let address = try await startReachable(stage, configuration)
        #expect(try OnionKeys.present(in: "\(stage.directory)/state/tor/onion")?.address == address)
        let pid = try #require(await stage.torStatus?.pid)
        let phone = await stage.phone(.iOS)
        let client = stage.client(
            TocsinClient.Options(
                nodes: [.tcp(host: "\(address)", port: 7077)], proxy: .socks5(access.socks, nil)))
        let outcome = try await client.submit(stage.envelope(for: phone), timeout: .seconds(60))
        #expect(outcome.kind == .delivered)
        let bound = await stage.phone(.android)
        let signed = try await client.submit(
            stage.envelope(for: bound), timeout: .seconds(60), signedBy: Ed25519.PrivateKey(ofSenderFor: bound.pairing))
        #expect(signed.kind == .delivered)
        let owner = try #require(Ed25519.PrivateKey(seed: siteSeed))
        let handle = try await client.register(phone.handleRegistration(), owner: owner)
        let byHandle = try PairingToken(phone.pairingToken(by: handle))
        let rung = try await client.submit(try Sealer(byHandle).seal(Array("{}".utf8)), timeout: .seconds(60))
        #expect(rung.kind == .delivered)
        let host = "\(address)"
        for phoneProtocol in PhoneProtocol.allCases {
            try await stage.runLibraryPhone(
                phoneProtocol, at: try #require(NodeHost(host)), http: .tcp(host: host, port: 80),
                tnp: .tcp(host: host, port: 7077),
                through: .socks5(access.socks, nil))
        }
        let desktop = TocsinClient.Options(
            nodes: [.tcp(host: host, port: 7077)], proxy: .socks5(access.socks, nil), schema: .tocsin)
        for (command, node) in [
            (Stage.phonePrograms[0], "\(host):80"), (Stage.phonePrograms[1], "\(host):80"),
            (Stage.phonePrograms[1], "tnp:\(host):7077"),
        ] {
            try await stage.runProgramPhone(
                command, node: node, tor: ["--tor", "\(access.socks)"], desktop: desktop)
        }
        if let prosody { try await ring(prosody, by: client, in: network, stage.directory) }
        await client.close()
        // A site's signature names the onion; a refused one would be an error.
        let desk = stage.client(
            TocsinClient.Options(
                nodes: [.tcp(host: "\(address)", port: 7077)], proxy: .socks5(access.socks, nil), siteKey: site))
        let fromSite = try await desk.submit(stage.envelope(for: phone, title: "site"), timeout: .seconds(60))
        #expect(fromSite.kind == .delivered)
        await desk.close()
        try await sendAsSiteWithOtherClients(stage, to: "\(address):7077", through: access.socks, siteSeed)
        // The same with a request of Bisq 1.
        let request = BisqRelayRequest(try stage.envelope(for: phone, title: "today")).bytes(host: "\(address)")
        let answer = try await stage.raw(
            request, to: .tcp(host: "\(address)", port: 80), through: .socks5(access.socks, nil),
            readingFor: .seconds(60))
        #expect(String(decoding: answer, as: UTF8.self).hasSuffix("\r\n\r\nsuccess"))
        #expect(stage.log.count(of: "the onion can be reached") == 1)
        #expect(await stage.stopNode())
        #expect(kill(pid, 0) != 0)
        try await move(stage, byHandle, bound, to: address, access, configuration)
    }

    /// Rings a phone whose push server is Prosody: by its name, and by an onion service that another tor has for it.
    private func ring(
        _ prosody: Prosody, by client: TocsinClient, in network: PrivateTorNetwork, _ directory: String
    ) async throws {
        let keys = prosody.keys
        let folder = "\(directory)/push-onion"
        let (endpoint, port) = (try #require(keys.endpoint), try #require(keys.httpPort))
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let lines =
            await network.memberTorrcLines + [
                "DataDirectory \(folder)", "SocksPort 0", "HiddenServiceDir \(folder)/service",
                "HiddenServicePort 80 127.0.0.1:\(port)",
            ]
        try Data(lines.joined(separator: "\n").utf8).write(to: URL(filePath: "\(folder)/torrc"))
        let tor = ChildProcess("tor", ["--quiet", "-f", "\(folder)/torrc"])
        for _ in 0..<6000 where !FileManager.default.fileExists(atPath: "\(folder)/service/hostname") {
            try await Task.sleep(for: .milliseconds(100))
        }
        let onion = try String(contentsOfFile: "\(folder)/service/hostname", encoding: .utf8).split(separator: "\n")[0]
        let path = try #require(endpoint.firstRange(of: "/push/")).lowerBound
        for (title, url) in [("By name", endpoint), ("By onion", "http://\(onion)\(endpoint[path...])")] {
            let pairing = try PairingToken(
                "web|Fairphone 5|0123456789abcdef0123456789abcdef|\(url)|\(keys.p256dh)|\(keys.auth)")
            let outcome = try await client.submit(Sealer(pairing).seal(Array(title.utf8)), timeout: .seconds(120))
            #expect(outcome.kind == .delivered, "\(title): \(outcome)")
        }
        let texts = try prosody.process.requests.compactMap(\.text)
        #expect(texts.map { $0.trimmingCharacters(in: .whitespaces) } == ["By name", "By onion"])
        await tor.terminate()
    }

    /// Moves the node's state into another directory, as to another machine: senders reach it at the same onion, and the
    /// phone stays bound to its sender.
    private func move(
        _ stage: Stage, _ byHandle: PairingToken, _ bound: Phone, to address: OnionAddress,
        _ access: PrivateTorNetwork.Access,
        _ configuration: String
    ) async throws {
        let (archive, passphrase) = ("\(stage.directory)/node.tocsin", "\(stage.directory)/passphrase")
        try Data("correct horse battery\n".utf8).write(to: URL(filePath: passphrase))
        let moved = configuration.replacing("[node]", with: "[node]\nstate = \"elsewhere\"")
        try Data(moved.utf8).write(to: URL(filePath: "\(stage.directory)/moved.toml"))
        let old = "\(stage.directory)/tocsin.toml"
        try await StateExportCommand.parse([archive, "--passphrase-file", passphrase, "--config", old]).run()
        try await StateImportCommand.parse([
            archive, "--passphrase-file", passphrase, "--config", "\(stage.directory)/moved.toml",
        ]).run()
        #expect(try await startReachable(stage, moved) == address)
        let client = stage.client(
            TocsinClient.Options(nodes: [.tcp(host: "\(address)", port: 7077)], proxy: .socks5(access.socks, nil)))
        let outcome = try await client.submit(
            try Sealer(byHandle).seal(Array("{}".utf8)), timeout: .seconds(60))
        #expect(outcome.kind == .delivered)
        let unsigned = try await client.submit(stage.envelope(for: bound), timeout: .seconds(60))
        #expect(unsigned.reason == .senderKeyRequired)
        await client.close()
        #expect(await stage.stopNode())
    }
}
