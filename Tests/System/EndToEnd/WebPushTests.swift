// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import Synchronization
import TNP
import TestSupport
import Testing
import TocsinClient
import Tor

@testable import NodeConfiguration

/// Notifications to phones without Google's services: from a client through a node to a push server.
@Suite(.tags(.node)) struct WebPushTests {
    private func authority(_ endpoint: Endpoint) -> String {
        guard case .tcp(_, let port) = endpoint else { return "" }
        return "localhost:\(port)"
    }

    private func envelope(
        to pairing: PairingToken, _ title: String = "Hello", ttl: UInt32 = 3600
    ) throws -> Envelope {
        try Sealer(pairing).seal(
            BisqNotification(kind: .trade, title: title, message: "Your trade needs you", sentDate: 1_700_000_000_000),
            ttl: ttl)
    }

    private func withCollapseID(_ envelope: Envelope) throws -> Envelope {
        try Envelope(
            magic: .web, deviceToken: envelope.deviceToken, iv: [], ciphertext: envelope.ciphertext,
            priority: .conservePower, collapseID: Array("trade".utf8)[...], format: .pipe)
    }

    @Test(arguments: [ServedProtocols.http2, .http1, .both])
    func `a phone opens what its push server delivers, over HTTP/2 and HTTP/1.1`(_ protocols: ServedProtocols)
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.start()
        try await stage.services.setProtocols(of: .webPush, to: protocols)
        let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5")
        await stage.services.register(phone)
        let client = stage.client()
        let envelope = try envelope(to: phone.pairing)
        #expect(try await client.submit(envelope, timeout: .seconds(60)).kind == .delivered)
        // A resend rings nobody.
        #expect(try await client.submit(envelope, timeout: .seconds(60)).kind == .delivered)
        let late = try withCollapseID(self.envelope(to: phone.pairing, "Later"))
        #expect(try await client.submit(late, timeout: .seconds(60)).kind == .delivered)
        let received = await stage.services.received
        #expect(received.count == 2 && received.allSatisfy { $0.platform == .webPush })
        #expect(try received.map { try phone.open($0.encrypted).title } == ["Hello", "Later"])
        #expect(received.map(\.isUrgent) == [true, false])
        #expect(received.map { $0.collapseID?.count } == [nil, 32])
        await client.close()
        await stage.end()
    }

    @Test(arguments: [ServedProtocols.http2, .http1])
    func `a push server's answers have the outcomes of the table`(_ protocols: ServedProtocols) async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        try await stage.services.setProtocols(of: .webPush, to: protocols)
        let client = stage.client()
        func outcome(_ state: Device.State?) async throws -> Outcome {
            let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5")
            if let state {
                await stage.services.set(Device(platform: .webPush, app: "", state: state), for: phone.deviceToken)
            }
            return try await client.submit(envelope(to: phone.pairing), timeout: .seconds(60))
        }
        #expect(try await outcome(nil).kind == .gone)
        #expect(try await outcome(.unregistered(since: 1)).kind == .gone)
        #expect(try await outcome(.answers(status: 413, reason: "", retryAfter: nil)).reason == .tooLarge)
        #expect(try await outcome(.answers(status: 400, reason: "", retryAfter: nil)).reason == .payloadRefused)
        let busy = try await outcome(.answers(status: 429, reason: "", retryAfter: 900))
        #expect(busy.kind == .retry && busy.reason == .providerThrottles && busy.retryAfter == 900_000)
        #expect(try await outcome(.answers(status: 307, reason: "", retryAfter: nil)).reason == .badDeviceToken)
        await client.close()
        await stage.end()
    }

    @Test func `a push server that fails over HTTP/1.1 gets each notification, and twice only if its answer was lost`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.start()
        try await stage.services.setProtocols(of: .webPush, to: .http1)
        var faults = Faults()
        faults.goAwayEvery = 4
        faults.resetPerMille = 100
        faults.closePerMille = 100
        faults.errors = [Faults.ErrorAnswer(perMille: 100, status: 503, retryAfter: 1)]
        try await stage.services.set(faults, on: .webPush)
        let lost = Mutex<[String]>([])
        await stage.services.observeLostAnswers { notification in lost.withLock { $0.append(notification.encrypted) } }
        let client = stage.client()
        var envelopes: [Envelope] = []
        for number in 0..<16 {
            let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone \(number)")
            await stage.services.register(phone)
            envelopes.append(try envelope(to: phone.pairing))
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for envelope in envelopes {
                group.addTask {
                    var outcome = try await client.submit(envelope, timeout: .seconds(60))
                    while outcome.kind == .retry {
                        try await Task.sleep(for: .milliseconds(100))
                        outcome = try await client.submit(envelope, timeout: .seconds(60))
                    }
                    #expect(outcome.kind == .delivered, "\(outcome)")
                }
            }
            try await group.waitForAll()
        }
        let sent = envelopes.map { String(decoding: Base64.encode(Array($0.ciphertext)), as: UTF8.self) }
        let received = await stage.services.received.map(\.encrypted)
        let lostAnswers = lost.withLock(\.self)
        for message in sent {
            let (rings, losses) = (received.count { $0 == message }, lostAnswers.count { $0 == message })
            #expect((1...1 + losses).contains(rings))
        }
        await client.close()
        await stage.end()
    }

    @Test func `a server that is not listed, or leads into the node's network, gets nothing`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let server = authority(endpoints.webPush)
        guard case .tcp(_, let port) = endpoints.webPush else { return }
        let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5")
        await stage.services.register(phone)
        let client = stage.client()
        func outcome(_ text: String) async throws -> Outcome {
            let pairing = phone.pairingToken.replacing("https://\(server)/", with: text)
            return try await client.submit(envelope(to: PairingToken(pairing)), timeout: .seconds(60))
        }
        // Another port of a server, and a server that is not listed.
        #expect(try await outcome("https://localhost:\(port - 1)/").reason == .deviceTokenFormat)
        #expect(try await outcome("https://push.example/").reason == .deviceTokenFormat)
        #expect(try await outcome("http://\(String(repeating: "a", count: 56)).onion/").reason == .deviceTokenFormat)
        // The server is allowed by name, and its name leads to this machine.
        let text = try String(contentsOfFile: "\(stage.directory)/tocsin.toml", encoding: .utf8)
        try await stage.reload(
            text.replacing("local_servers = [\"\(server)\"]", with: "servers = [\"localhost\"]\nports = [\(port)]"))
        let refused = try await outcome("https://\(server)/")
        #expect(refused.kind == .retry && refused.reason == .providerUnreachable)
        #expect(await stage.services.connectionsAccepted(.webPush) == 0)
        #expect(stage.log.lines.contains { $0.contains("not public") })
        #expect(!stage.log.lines.contains { $0.contains("localhost:\(port)") })
        await client.close()
        await stage.end()
    }

    @Test func `a push server that speaks HTTP/2 instead of HTTP/1.1 is reached without a restart`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0")
        let server = try PushServerProcess(in: stage.directory)
        let keys = try await server.keys()
        try await stage.deliver(toPushServerAt: keys.port)
        let client = stage.client()
        func outcome(_ title: String) async throws -> Outcome {
            let pairing = try PairingToken(
                "web|Fairphone 5|0123456789abcdef0123456789abcdef|https://localhost:\(keys.port)/up/201|"
                    + "\(keys.p256dh)|\(keys.auth)")
            return try await client.submit(envelope(to: pairing, title), timeout: .seconds(60))
        }
        #expect(try await outcome("First").kind == .delivered)
        server.end()
        let certificate = "\(stage.directory)/push.pem"
        let other = ChildProcess(
            "nghttpd", ["--address=127.0.0.1", "\(keys.port)", "\(certificate).key", certificate])
        // The other server knows no paths: 404.
        var last: Outcome?
        for number in 0..<120 where last?.kind != .gone {
            try await Task.sleep(for: .milliseconds(500))
            last = try await outcome("\(number)")
        }
        #expect(last?.kind == .gone)
        await other.terminate()
        await client.close()
        await stage.end()
    }

    @Test func `independent libraries open the message and verify VAPID, over HTTP/1.1`() async throws {
        let stage = Stage()
        try await stage.start()
        let server = try PushServerProcess(in: stage.directory)
        let keys = try await server.keys()
        try await stage.deliver(toPushServerAt: keys.port)
        let client = stage.client()
        func outcome(_ status: Int, _ title: String) async throws -> Outcome {
            let pairing = try PairingToken(
                "web|Fairphone 5|0123456789abcdef0123456789abcdef|https://localhost:\(keys.port)/up/\(status)|"
                    + "\(keys.p256dh)|\(keys.auth)")
            return try await client.submit(envelope(to: pairing, title), timeout: .seconds(60))
        }
        #expect(try await outcome(201, "First").kind == .delivered)
        #expect(try await outcome(200, "Second").kind == .delivered)
        #expect(try await outcome(410, "Third").kind == .gone)
        let busy = try await outcome(429, "Fourth")
        #expect(busy.kind == .retry && busy.reason == .providerThrottles, "\(busy)")
        #expect(try await outcome(307, "Fifth").reason == .badDeviceToken)
        let requests = try server.requests
        #expect(requests.allSatisfy { $0.error == nil && $0.vapid == true }, "\(requests)")
        #expect(zip(requests, ["First", "Second", "Third"]).allSatisfy { $0.text?.contains($1) == true })
        #expect(!requests.contains { $0.path?.contains("elsewhere") == true })
        let first = try #require(requests.first)
        #expect(first.ttl == "3600" && first.urgency == "high" && first.encoding == "aes128gcm" && first.topic == nil)
        #expect(first.host == "localhost:\(keys.port)")
        #expect(first.claims?.aud == "https://localhost:\(keys.port)")
        #expect(first.claims?.sub == "mailto:operator@example.org")
        // One connection carries them all.
        #expect(Set(requests.map(\.port)).count == 1)
        await client.close()
        server.end()
        await stage.end()
    }

    @Test func `an independent library makes and opens the vectors of Web Push`() async throws {
        let checked = try await ChildProcess.output(
            of: "env",
            [
                "PYTHONPATH=.build/python", "/usr/bin/python3", "Tests/System/WebPush/check_vectors.py",
                "Tests/Conformance/vectors/tnp1.json",
            ])
        #expect(checked.text == "4 ok\n")
    }

    /// The oracle in the other direction: what others send, with the node's key.
    @Test func `the simulated push server and phone take what pywebpush sends`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5")
        await stage.services.register(phone)
        let parts = phone.pairingToken.split(separator: "|").map(String.init)
        func send(_ auth: String) async throws -> String {
            try await ChildProcess.output(
                of: "env",
                [
                    "PYTHONPATH=.build/python", "/usr/bin/python3", "Tests/System/WebPush/pywebpush_send.py",
                    stage.directory, phone.deviceToken, parts[4], auth, "\(stage.directory)/state/vapid.pem",
                    #"{"type":"TRADE","title":"Zpráva","message":"x"}"#,
                ]
            ).text
        }
        let first = try await send(parts[5])
        #expect(first == "2 201\n")
        let received = try #require(await stage.services.received.last)
        #expect(try phone.open(received.encrypted).title == "Zpráva")
        // Encrypted for somebody else: the server cannot know, but the phone does.
        #expect(try await send(String(repeating: "A", count: 22)) == "2 201\n")
        let other = try #require(await stage.services.received.last)
        #expect(throws: (any Error).self) { try phone.open(other.encrypted) }
        await stage.end()
    }

    @Test(.tags(.foreign)) func `a phone with Conversations is rung through Prosody`() async throws {
        let stage = Stage()
        try await stage.start()
        let prosody = try #require(try await Prosody(in: stage), "make packages-test-all installs it")
        let (server, keys) = (prosody.process, prosody.keys)
        defer { server.end() }
        try await stage.deliver(toPushServerAt: keys.port)
        let client = stage.client()
        func outcome(_ title: String, _ endpoint: String) async throws -> Outcome {
            let pairing = try PairingToken(
                "web|Fairphone 5|0123456789abcdef0123456789abcdef|\(endpoint)|\(keys.p256dh)|\(keys.auth)")
            return try await client.submit(envelope(to: pairing, title), timeout: .seconds(60))
        }
        let endpoint = try #require(keys.endpoint)
        #expect(try await outcome("First", endpoint).kind == .delivered)
        #expect(try await outcome("UNREGISTER", endpoint).kind == .delivered)
        // Prosody 0.12 with this module fails (500) when a phone answers that the app has unregistered.
        #expect(try await outcome("Third", endpoint).reason == .providerUnreachable)
        #expect(try await outcome("Fourth", "https://localhost:\(keys.port)/push/unknown").kind == .gone)
        let texts = try server.requests.map(\.text)
        #expect(texts.count == 2 && texts[0]?.contains("First") == true)
        await client.close()
        await stage.end()
    }

    @Test(arguments: HandleTests.commandLines)
    func `every command line rings the phone, by endpoint and by handle`(_ command: [String]) async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let port = try await stage.reservePort()
        let text = stage.configuration(endpoints, more: HandleTests.enabled)
        try await stage.startNode(text.replacing("unix:tnp.sock", with: "127.0.0.1:\(port)"))
        let phone = Phone.withWebPush(at: endpoints.webPush, model: "Fairphone 5")
        await stage.services.register(phone)
        func run(_ arguments: [String], input: String) async throws -> (isSuccess: Bool, text: String) {
            try await ChildProcess.output(
                of: command[0],
                Array(command.dropFirst()) + arguments + [
                    "--node", "127.0.0.1:\(port)", "--direct", "--timeout", "20",
                ],
                input: input, timeout: .seconds(60))
        }
        let owner = "\(stage.directory)/owner.key"
        let registered = try await run(["register", "-", "--owner", owner], input: phone.pairingToken)
        try #require(registered.isSuccess, "\(registered.text)")
        for (title, pairing) in [("Zpráva", phone.pairingToken), ("Druhá", registered.text)] {
            let sent = try await run(["send", "-", "--title", title], input: pairing)
            #expect(sent.text.hasPrefix("delivered"), "\(sent.text)")
            let received = try #require(await stage.services.received.last)
            #expect(try phone.open(received.encrypted).title == title)
        }
        await stage.end()
    }
}
