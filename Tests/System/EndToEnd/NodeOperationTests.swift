// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import Settings
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import AdminPort
@testable import NodeConfiguration
@testable import TocsinNode
@testable import Tor

/// How an operator changes a running node: settings, credentials, a proxy.
@Suite(.tags(.node)) struct NodeOperationTests {
    @Test func `unbind says what it has found, and repeats no secret`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.iOS)
        let client = stage.client()
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 3, count: 32)))
        let outcome = try await client.submit(try stage.envelope(for: phone), signedBy: key)
        #expect(outcome.kind == .delivered)
        let file = "\(stage.directory)/pairing"
        try Data("\(phone.pairingToken)\n".utf8).write(to: URL(filePath: file))
        let command = ["--config", "\(stage.directory)/tocsin.toml"]
        func unbind(_ argument: String) async throws -> (isSuccess: Bool, text: String) {
            try await ChildProcess.output(of: Program.path, ["unbind", argument] + command)
        }
        let first = try await unbind(file)
        #expect(first.isSuccess && first.text.hasPrefix("removed"), "\(first.text)")
        let second = try await unbind(file)
        #expect(second.isSuccess && second.text.hasPrefix("nothing to remove"), "\(second.text)")
        try Data("hello\n".utf8).write(to: URL(filePath: file))
        let third = try await unbind(file)
        #expect(!third.isSuccess && third.text.contains("neither a pairing token nor a device token"))
        let handle = try #require(Handle([UInt8](repeating: 7, count: Handle.length)))
        let pairing = try PairingToken(phone.pairingToken).text(by: handle)
        try Data("\(pairing)\n".utf8).write(to: URL(filePath: file))
        let byHandle = try await unbind(file)
        #expect(!byHandle.isSuccess && byHandle.text.contains("has a handle"), "\(byHandle.text)")
        // The token itself, in place of a file that contains it.
        let mistaken = try await unbind("\(phone.pairingToken)")
        #expect(!mistaken.isSuccess && mistaken.text.contains("not shown") && !mistaken.text.contains("|"))
        await client.close()
        await stage.end()
    }

    @Test func `the status says what users get`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = stage.configuration(endpoints).replacing("[listen]", with: "[listen]\nadmin = \"unix:admin.sock\"")
            // Its lanes are those of many servers.
            .replacing("[app.web]\n\(SimulatedConfiguration.webPush(at: endpoints.webPush))", with: "")
        try await stage.startNode(text)
        func status(_ option: String...) async throws -> (isSuccess: Bool, text: String) {
            try await ChildProcess.output(
                of: Program.path, ["status", "--config", "\(stage.directory)/tocsin.toml"] + option)
        }
        let untried = try await status()
        #expect(untried.isSuccess && untried.text.hasPrefix("untried: "), "\(untried.text)")

        let (apple, google) = (await stage.phone(.iOS), await stage.phone(.android))
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: google)).kind == .delivered)
        let delivered = try await status()
        #expect(delivered.isSuccess && delivered.text.hasPrefix("good: Everything works that was tried"))
        #expect(delivered.text.contains("bisq/android  working, last delivery "), "\(delivered.text)")

        // Apple and Google refuse the credentials; nobody has ever used Apple's other environment.
        try await stage.services.set(Self.refusing(403, "InvalidProviderToken"), on: .apnsProduction)
        try await stage.services.set(Self.refusing(403, "PERMISSION_DENIED"), on: .fcm)
        for phone in [apple, google] {
            let outcome = try? await client.submit(
                try stage.envelope(for: phone), timeout: .seconds(2), returnsWhenQueued: false)
            #expect(outcome?.kind != .delivered)
        }
        let shut = try await status()
        #expect(!shut.isSuccess && shut.text.hasPrefix("bad: The node is not ready"), "\(shut.text)")
        #expect(shut.text.contains("bisq/iOS is shut after the answer InvalidProviderToken since "))
        #expect(shut.text.contains("bisq/iOSDev   not tried; its credential does not work on another route"))
        let json = try await status("--json")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.text.utf8)) as? [String: Any])
        #expect(object["ready"] as? Bool == false)
        await client.close()
        _ = await stage.stopNode()
        let stopped = try await status()
        #expect(!stopped.isSuccess && stopped.text.contains("no node answers at listen.admin"))
        await stage.end()
    }

    @Test func `a restart forgets no delivery`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        _ = await stage.stopNode()
        let file = "\(stage.directory)/state/history.json"
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(text.contains("bisq\\/iOS") && !text.contains(phone.deviceToken))
        try await stage.startNode(stage.configuration(endpoints))
        let snapshot = try #require(await stage.snapshot)
        #expect(snapshot.starts.count == 2)
        #expect(snapshot.day.reduce(0) { $0 + $1.delivered } == 1 && snapshot.hour.reduce(0) { $0 + $1.delivered } == 0)
        let route = try #require(snapshot.routes.first { $0.name == "bisq/iOS" })
        #expect(route.day.reduce(0) { $0 + $1.delivered } == 1 && route.record.lastDelivery.map { $0 % 600 } == 0)
        // Its credential may be another one now.
        #expect(route.record.lastAnswer == nil)
        await stage.end()
    }

    @Test func `a wrong credential shows before the first notification, and rings no phone`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        try await stage.services.set(Self.refusing(403, "InvalidProviderToken"), on: .apnsProduction)
        try await stage.startNode(
            stage.configuration(endpoints).replacing("[listen]", with: "[listen]\nadmin = \"unix:admin.sock\""))
        // The first probes are ten seconds after the start.
        for _ in 0..<3000 where stage.log.count(of: "answers a probe") < 3 {
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(stage.log.lines.contains { $0.hasPrefix("warning") && $0.contains("answer=InvalidProviderToken") })
        #expect(
            stage.log.lines.contains { $0.hasPrefix("info") && $0.contains("answer=BadDeviceToken route=bisq/iOSDev") })
        let status = try await ChildProcess.output(
            of: Program.path, ["status", "--config", "\(stage.directory)/tocsin.toml"])
        #expect(
            status.text.hasPrefix("warning: The node is ready, but bisq/iOS fails a probe (InvalidProviderToken)\n"),
            "\(status.text)")
        #expect(status.text.contains("bisq/iOS      answered a probe with InvalidProviderToken, at "))
        #expect(status.text.contains("bisq/android  not tried yet; it answers a probe"))
        #expect(await stage.services.received.isEmpty)
        await stage.end()
    }

    /// Answers every request like this.
    private static func refusing(_ status: Int, _ reason: String) -> Faults {
        var faults = Faults()
        faults.errors = [Faults.ErrorAnswer(perMille: 1000, status: status, reason: reason)]
        return faults
    }

    @Test func `the canary rings the operator's phone, and tells when it cannot`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phone = await stage.phone(.iOS)
        let file = "\(stage.directory)/canary"
        try Data("\(phone.pairingToken)\n".utf8).write(to: URL(filePath: file))
        let text = stage.configuration(endpoints, more: "[canary]\nphone_file = \"canary\"\nevery = 10")
        // The token rings a phone: other users must not read it, and no message repeats it.
        let open = await #expect(throws: ConfigurationError.self) { try await stage.startNode(text) }
        #expect(open?.description.contains("chmod 600") == true)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
        try Data("iOS|x".utf8).write(to: URL(filePath: file))
        let short = await #expect(throws: ConfigurationError.self) { try await stage.startNode(text) }
        #expect(short?.key == "canary.phone_file" && short?.description.contains("iOS|x") == false)
        try Data("\(phone.pairingToken)\n".utf8).write(to: URL(filePath: file))
        try await stage.startNode(text)
        #expect(await stage.snapshot?.canary?.last == nil)
        for _ in 0..<6000 where await stage.snapshot?.canary?.last == nil {
            try await Task.sleep(for: .milliseconds(100))
        }
        let received = try #require(await stage.received(phone.deviceToken).first)
        #expect(try phone.open(received.encrypted).title == "Tocsin" && !received.hasSound)
        #expect(await stage.snapshot?.canary?.last?.isDelivered == true)
        #expect(await stage.metrics.contains("tocsin_canary_success 1\n"))
        #expect(stage.log.count(of: "the canary has rung the operator's phone") == 1)
        // It has bound the phone to no key.
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        await stage.services.set(nil, for: phone.deviceToken)
        for _ in 0..<6000 where await stage.snapshot?.canary?.last?.isDelivered == true {
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(await stage.snapshot?.canary?.last?.text == Reason.badDeviceToken.description)
        #expect(await stage.metrics.contains("tocsin_canary_success 0\n"))
        #expect(stage.log.count(of: "the canary could not ring the operator's phone") == 1)
        // A reload without it ends it.
        try await stage.reload(stage.configuration(endpoints))
        #expect(await stage.snapshot?.canary == nil)
        #expect(await !stage.metrics.contains("tocsin_canary"))
        await stage.end()
    }

    @Test func `the canary of a node that serves sites only rings as a site`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let phone = await stage.phone(.iOS)
        try PrivateFile.create("\(stage.directory)/canary", holding: Array(phone.pairingToken.utf8))
        let seed = [UInt8](repeating: 3, count: 32)
        try PrivateFile.create("\(stage.directory)/site.key", holding: seed)
        let key = try #require(Ed25519.PrivateKey(seed: seed)).publicKey
        func configuration(_ siteKey: String) -> String {
            stage.configuration(
                endpoints,
                more: """
                    [sites]
                    mode = "required"
                    [[site]]
                    name = "canary"
                    key = "\(String(decoding: Base64.encode(key), as: UTF8.self))"
                    [canary]
                    phone_file = "canary"
                    every = 10
                    \(siteKey)
                    """)
        }
        let missing = await #expect(throws: ConfigurationError.self) { try await stage.startNode(configuration("")) }
        #expect(missing?.key == "canary.phone_file")
        try PrivateFile.create("\(stage.directory)/other.key", holding: [UInt8](repeating: 4, count: 32))
        let other = await #expect(throws: ConfigurationError.self) {
            try await stage.startNode(configuration("site_key = \"other.key\""))
        }
        #expect(other?.key == "canary.site_key")
        try await stage.startNode(configuration("site_key = \"site.key\""))
        for _ in 0..<6000 where await stage.snapshot?.canary?.last == nil {
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(await stage.snapshot?.canary?.last?.isDelivered == true)
        await stage.end()
    }

    @Test func `a second node on the same state directory fails and names the first one's process`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.start()
        let text = stage.configuration(endpoints).replacing("tnp.sock", with: "tnp2.sock")
            .replacing("http.sock", with: "http2.sock")
        let configuration = try Configuration(text: text, file: "\(stage.directory)/tocsin.toml")
        let second = Node(configuration, logger: stage.log.logger, on: EventLoop(name: "second"))
        let error = await #expect(throws: ConfigurationError.self) { _ = try await second.start() }
        #expect(error?.key == "node.state")
        #expect(error?.problem.contains("process \(getpid())") == true)
        // The first node keeps running; after it stops, another one can start.
        let phone = await stage.phone(.iOS)
        let client = stage.client()
        #expect(try await client.submit(stage.envelope(for: phone)).kind == .delivered)
        await client.close()
        #expect(await stage.stopNode())
        await stage.services.moveClock(by: 1500)
        try await stage.startNode(text)
        await stage.end()
    }

    @Test func `the node warns of a state directory that other users can read`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let state = "\(stage.directory)/state"
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: state)
        try await stage.startNode(stage.configuration(endpoints))
        #expect(stage.log.count(of: "other users can read the state directory") == 1)
        await stage.end()
    }

    private func phone(_ magic: Magic, on stage: Stage) async -> Phone {
        let phone = Phone.new(magic, model: "test")
        await stage.services.register(phone)
        return phone
    }

    @Test func `a reload applies changes and drops neither a connection nor an envelope`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOS, on: stage)
        var slow = Faults()
        slow.latency = .fixed(400)
        try await stage.services.set(slow, on: .apnsProduction)
        let connected = Counter()
        let client = TocsinClient(TocsinClient.Options(nodes: [stage.socket]), on: stage.loop) { progress in
            if case .connected = progress { connected.increment() }
        }
        let pending = Task { try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)) }
        try await Task.sleep(for: .milliseconds(200))
        try await stage.reload(stage.configuration(endpoints, alert: "Other words"))
        #expect(try await pending.value.kind == .delivered)
        let after = try await client.submit(try stage.envelope(for: phone, title: "2"), timeout: .seconds(60))
        #expect(after.kind == .delivered)
        #expect(await stage.services.received.map(\.alert) == ["New notification", "Other words"])
        #expect(connected.value == 1)
        // Both of Apple's environments get a new provider, Google's is unchanged, and the provider token stays in use.
        #expect(stage.log.count(of: "routes_replaced=2") == 1)
        #expect(await stage.services.providerTokensSeen(.apnsProduction) == 1)
        await client.close()
        await stage.end()
    }

    @Test func `a reload takes another token of the dashboard, and closes who came with the former one`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let port = try await stage.reservePort()
        let (file, former, other) = (
            "\(stage.directory)/admin.token", String(repeating: "a", count: 32), String(repeating: "b", count: 32)
        )
        try PrivateFile.create(file, holding: Array(former.utf8))
        let text = stage.configuration(endpoints).replacing(
            "[listen]\n", with: "[listen]\nadmin = \"127.0.0.1:\(port)\"\nadmin_token_file = \"admin.token\"\n")
        try await stage.startNode(text)
        func curl(_ path: String, _ token: String, _ options: [String]) async throws -> (isSuccess: Bool, text: String)
        {
            let output = try await ChildProcess.output(
                of: "curl",
                ["-sS", "--max-time", "60", "-H", "Authorization: Bearer \(token)"] + options
                    + ["http://127.0.0.1:\(port)\(path)"])
            return (output.isSuccess, output.text)
        }
        func status(_ token: String) async throws -> String {
            try await curl("/status.json", token, ["-o", "/dev/null", "-w", "%{http_code}"]).text
        }
        #expect(try await status(former) == "200")
        #expect(try await status(other) == "401")
        // The same token leaves it open: the stream ends by its own time limit.
        async let short = curl("/events", former, ["-N", "--max-time", "2"])
        try await stage.reload(text)
        #expect(try await !short.isSuccess)
        let events = Task { try await curl("/events", former, ["-N"]) }
        try FileManager.default.removeItem(atPath: file)
        try PrivateFile.create(file, holding: Array(other.utf8))
        try await Task.sleep(for: .seconds(1))
        try await stage.reload(text)
        #expect(try await events.value.isSuccess)
        #expect(try await status(former) == "401")
        #expect(try await status(other) == "200")
        await stage.end()
    }

    @Test(arguments: ["listen = 7", "[limits]\nattempts = 0", "[[app]]\nname = \"second\"", "nonsense = true", "["])
    func `a reload rejects an invalid configuration and keeps the old one`(_ text: String) async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOS, on: stage)
        try await stage.reload(stage.configuration(endpoints).replacing("[node]", with: "\(text)\n[node]"))
        #expect(stage.log.count(of: "keeps the old one") == 1)
        let broken = try #require(await stage.snapshot)
        #expect(
            Health(broken).summary.contains("the configuration on disk, or a file that it names, cannot be used")
                && broken.notReady.isEmpty)
        #expect(await stage.metrics.contains("tocsin_reload_failed{file=\"configuration\"} 1\n"))
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `a reload rejects a credential that others can read and keeps the old one`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOS, on: stage)
        #expect(chmod("\(stage.directory)/apns.p8", 0o640) == 0)
        try await stage.reload(stage.configuration(endpoints, alert: "Other words"))
        #expect(stage.log.lines.contains { $0.hasPrefix("error") && $0.contains("chmod 600") })
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        #expect(await stage.services.received.first?.alert == "New notification")
        await client.close()
        await stage.end()
    }

    @Test func `a reload names each setting that takes effect after a restart`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        try await stage.reload(
            stage.configuration(endpoints, more: "[spool]\nenabled = true").replacing("tnp.sock", with: "other.sock"))
        #expect(stage.log.lines.contains { $0.contains("takes effect after a restart") && $0.contains("key=listen") })
        #expect(stage.log.lines.contains { $0.contains("takes effect after a restart") && $0.contains("key=spool") })
        let pending = try #require(await stage.snapshot)
        #expect(Health(pending).concerns.contains { $0.text == "settings wait for a restart: listen, spool" })
        #expect(await stage.metrics.contains("tocsin_restart_pending 2\n"))
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        await stage.end()
    }

    @Test func `a changed credential file is reloaded without a signal`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let file = URL(filePath: "\(stage.directory)/apns.p8")
        // The same key in a changed file: the test is whether the node reads it again.
        var pem = try Data(contentsOf: file)
        pem.append(contentsOf: Array("\n".utf8))
        try pem.write(to: file)
        #expect(chmod(file.path(), 0o600) == 0)
        for _ in 0..<6000 where stage.log.count(of: "credentials reloaded") == 0 {
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(stage.log.count(of: "routes_replaced=2") == 1)
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        #expect(await stage.services.providerTokensSeen(.apnsProduction) == 1)
        await client.close()
        await stage.end()
    }

    // MARK: Outbound proxy

    private static let proxies = [("/usr/bin/microsocks", "socks5"), ("/usr/bin/tinyproxy", "http")]

    @Test(arguments: proxies.indices)
    func `the node reaches Apple and Google through a proxy that resolves their names`(_ index: Int) async throws {
        let (program, scheme) = Self.proxies[index]
        try #require(FileManager.default.fileExists(atPath: program), "make packages-test installs it")
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let port = try await stage.reservePort()
        let process: ChildProcess
        if scheme == "socks5" {
            process = ChildProcess(program, ["-i", "127.0.0.1", "-p", "\(port)"])
        } else {
            let allowed = [endpoints.production, endpoints.development, endpoints.fcm].map { endpoint in
                "ConnectPort \(endpoint.description.split(separator: ":").last ?? "")"
            }
            let text = "Port \(port)\nListen 127.0.0.1\nTimeout 60\nMaxClients 10\n" + allowed.joined(separator: "\n")
            try Data(text.utf8).write(to: URL(filePath: "\(stage.directory)/tinyproxy.conf"))
            process = ChildProcess(program, ["-d", "-c", "\(stage.directory)/tinyproxy.conf"])
        }
        // A host name, which only the proxy can resolve if the node has no name server.
        let configuration = stage.configuration(
            endpoints, more: "[outbound]\nproxy = \"\(scheme)://127.0.0.1:\(port)\""
        )
        .replacing("https://127.0.0.1", with: "https://localhost")
        try await stage.startNode(configuration)
        let client = stage.client()
        for magic in Magic.appleAndGoogle {
            let phone = await phone(magic, on: stage)
            var outcome: Outcome?
            // Retry until the proxy is up.
            for attempt in 0..<50 where outcome?.kind != .delivered {
                outcome = try await client.submit(
                    try stage.envelope(for: phone, title: "\(attempt)"), timeout: .seconds(20))
                if outcome?.kind != .delivered { try await Task.sleep(for: .milliseconds(100)) }
            }
            #expect(outcome?.kind == .delivered)
        }
        await client.close()
        await process.terminate()
        await stage.end()
    }
}

/// A counter that a closure on another thread increments.
private final class Counter: @unchecked Sendable {
    // Unchecked: incremented on one loop only, and read after the last increment.
    private(set) var value = 0
    func increment() { value += 1 }
}
