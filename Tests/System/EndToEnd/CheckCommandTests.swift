// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Cryptography
import EventLoop
import Foundation
import Providers
import Settings
import StandIns
import TNP
import TestSupport
import Testing

@testable import Console
@testable import Diagnostics
@testable import NodeConfiguration
@testable import TocsinClient
@testable import TocsinNode
@testable import Tor
@testable import tocsin

/// `tocsin check` against the stand-ins, as an operator runs it.
@Suite(.tags(.node)) struct CheckCommandTests {
    private static let certificate = """
        certificate_file = "apns.p12"
        certificate_password_file = "apns.p12.password"
        """

    /// The findings of a check of this configuration.
    private func findings(_ text: String, on stage: Stage, online: Bool = true) async throws -> [Finding] {
        let checkup = try checkup(text, on: stage)
        let offline = await checkup.offline()
        return online ? offline + (await checkup.online()) : offline
    }

    private func checkup(_ text: String, on stage: Stage) throws -> NodeCheck {
        let file = "\(stage.directory)/check.toml"
        var configuration = try Configuration(text: text, file: file)
        configuration.decideTor(path: "/nowhere")
        return NodeCheck(configuration, searchPath: "/nowhere", on: EventLoop(name: "check"))
    }

    private func summary(_ findings: [Finding]) -> String {
        findings.map { "\($0.grade) \($0.area) \($0.subject): \($0.text)" }.joined(separator: "\n")
    }

    @Test(arguments: [nil, certificate])
    func `with good credentials every online check passes, and no phone rings`(
        _ credential: String?
    ) async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let found = try await findings(stage.configuration(endpoints, credential: credential), on: stage)
        let online = found.filter { [.network, .apple, .google].contains($0.area) || $0.subject == "127.0.0.1" }
        #expect(online.allSatisfy { $0.grade == .ok }, "\(summary(online))")
        #expect(online.count { $0.area == .apple } == 2 && online.count { $0.area == .google } == 1)
        #expect(
            online.contains { $0.area == .clock } && online.contains { $0.text.contains("its certificate expires in") })
        #expect(!found.hasFailure, "\(summary(found))")
        #expect(await stage.services.received.isEmpty)
        await stage.end()
    }

    @Test func `a wrong key id or team fails with Apple's reason and a hint to team_id`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        for (right, wrong) in [(SimulatedServices.keyID, "WRONGKEY01"), (SimulatedServices.teamID, "WRONGTEAM1")] {
            let text = stage.configuration(endpoints).replacing(right, with: wrong)
            let apple = try await findings(text, on: stage).filter { $0.area == .apple }
            #expect(apple.map(\.grade) == [.failed, .failed])
            #expect(apple.allSatisfy { $0.text.contains("InvalidProviderToken") && $0.text.contains("team_id") })
        }
        await stage.end()
    }

    @Test func `a topic or a signing key that Apple does not know fails`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let topic = stage.configuration(endpoints).replacing("bisqremote.joachimneumann.com", with: "com.example.none")
        let disallowed = try await findings(topic, on: stage).filter { $0.area == .apple }
        #expect(disallowed.allSatisfy { $0.grade == .failed && $0.text.contains("com.example.none") })
        #expect(disallowed.count == 2)
        try rewrite("apns.p8", with: SigningKey.generate(.es256).pem, on: stage)
        // A provider token of the earlier key is not valid for this one.
        let apple = try await findings(stage.configuration(endpoints), on: stage).filter { $0.area == .apple }
        #expect(apple.map(\.grade) == [.failed, .failed])
        await stage.end()
    }

    private func rewrite(_ name: String, with bytes: [UInt8], on stage: Stage) throws {
        let file = "\(stage.directory)/\(name)"
        try Data(bytes).write(to: URL(filePath: file))
        try #require(chmod(file, 0o600) == 0)
    }

    @Test func `an expired or foreign certificate fails offline, and one that expires soon is a warning`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = stage.configuration(endpoints, credential: Self.certificate)
        let authority = CertificateAuthority(name: "test")
        let cases: [(Int, String, Finding.Grade, String)] = [
            (-60, "bisqremote.joachimneumann.com", .failed, "expired on"),
            (86_400 * 20 + 3600, "bisqremote.joachimneumann.com", .warning, "expires in 20 days"),
            (86_400 * 40, "com.example.other", .failed, "com.example.other"),
        ]
        for (validFor, topic, grade, word) in cases {
            let issued = authority.issue(
                subject: "Apple Push Services: \(topic)", purpose: .client, validFor: validFor)
            try rewrite(
                "apns.p12", with: PKCS12.pack(issued, password: SimulatedServices.certificatePassword), on: stage)
            let found = try await findings(text, on: stage, online: false)
            #expect(found.contains { $0.grade == grade && $0.text.contains(word) }, "\(word): \(summary(found))")
        }
        try rewrite("apns.p12.password", with: Array("wrong".utf8), on: stage)
        let wrong = try await findings(text, on: stage, online: false)
        #expect(wrong.contains { $0.grade == .failed && $0.text.contains("certificate_password_file") })
        await stage.end()
    }

    @Test func `a readable, broken or missing credential fails, and the others are still checked`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = stage.configuration(endpoints)
        try #require(chmod("\(stage.directory)/apns.p8", 0o640) == 0)
        let readable = try await findings(text, on: stage)
        #expect(readable.contains { $0.area == .credentials && $0.grade == .failed && $0.text.contains("chmod 600") })
        #expect(readable.contains { $0.area == .google && $0.grade == .ok })
        #expect(!readable.contains { $0.area == .apple })
        try rewrite("apns.p8", with: SigningKey.generate(.rs256).pem, on: stage)
        try rewrite("service-account.json", with: Array("{\"type\":\"authorized_user\"}".utf8), on: stage)
        let broken = try await findings(text, on: stage, online: false).filter { $0.area == .credentials }
        #expect(broken.map(\.grade) == [.failed, .failed, .ok])
        #expect(broken[0].text.contains("P-256") && broken[1].text.contains("authorized_user"))
        try FileManager.default.removeItem(atPath: "\(stage.directory)/apns.p8")
        let missing = try await findings(text, on: stage, online: false)
        #expect(missing.contains { $0.grade == .failed && $0.text.contains("No such file") })
        await stage.end()
    }

    @Test func `the public key of Web Push is shown, and a readable one fails`() async throws {
        let stage = Stage()
        let text = stage.configuration(try await stage.services.start())
        func finding() async throws -> Finding? {
            try await findings(text, on: stage, online: false).first { $0.subject.hasSuffix("vapid.pem") }
        }
        #expect(try await finding()?.text.contains("when it starts") == true)
        let file = "\(stage.directory)/state/vapid.pem"
        try FileManager.default.createDirectory(
            atPath: "\(stage.directory)/state", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        let key = try VAPIDKey(readingOrCreating: file, subject: "mailto:a@b.example")
        #expect(try await finding()?.text.hasSuffix(key.publicKey) == true)
        try #require(chmod(file, 0o644) == 0)
        #expect(try await finding()?.grade == .failed)
        await stage.end()
    }

    @Test func `an unknown Google account, a wrong clock and a bad TLS certificate are reported`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = stage.configuration(endpoints)
        await stage.services.moveClock(by: 400)
        let clock = try await findings(text, on: stage).filter { $0.area == .clock }
        #expect(clock.contains { $0.grade == .failed && $0.text.contains("behind") }, "\(summary(clock))")
        await stage.services.moveClock(by: -400)
        try await stage.services.setCertificate(of: .apnsProduction, to: .expired)
        try await stage.services.setCertificate(of: .apnsDevelopment, to: .otherName)
        let account = String(
            decoding: try Data(contentsOf: URL(filePath: "\(stage.directory)/service-account.json")), as: UTF8.self)
        try rewrite("service-account.json", with: Array(account.replacing("node@", with: "nobody@").utf8), on: stage)
        let found = try await findings(text, on: stage)
        #expect(found.count { $0.area == .network && $0.grade == .failed && $0.text.contains("TLS") } == 2)
        #expect(found.contains { $0.area == .google && $0.grade == .failed && $0.text.contains("access token") })
        await stage.services.kill(.fcm)
        let dead = try await findings(text, on: stage)
        #expect(dead.contains { $0.area == .network && $0.grade == .failed && $0.text.contains("refused") })
        await stage.end()
    }

    @Test func `the check recognizes the running node and its ports, and reuses its provider token`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = Phone.new(.iOS, model: "test")
        await stage.services.register(phone)
        let client = stage.client()
        #expect(try await client.submit(try stage.envelope(for: phone), timeout: .seconds(60)).kind == .delivered)
        await client.close()
        let found = try await findings(stage.configuration(endpoints), on: stage)
        #expect(found.contains { $0.area == .state && $0.text.contains("pid \(getpid())") })
        #expect(
            found.count { $0.area == .ports && $0.text.contains("the running node listens") } == 2, "\(summary(found))")
        #expect(!found.hasFailure, "\(summary(found))")
        #expect(await stage.services.providerTokensSeen(.apnsProduction) == 1)
        #expect(await stage.stopNode())
        let stopped = try await findings(stage.configuration(endpoints), on: stage, online: false)
        #expect(stopped.contains { $0.area == .state && $0.text.contains("no node uses it") })
        #expect(stopped.count { $0.area == .ports && $0.text == "free" } == 2)
        #expect(stopped.contains { $0.subject.hasSuffix("standing.sqlite") && $0.grade == .ok })
        await stage.end()
    }

    @Test func `a second node on the state directory fails with the first one's pid`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let text = stage.configuration(endpoints).replacing("tnp.sock", with: "second.sock")
        let second = Node(
            try Configuration(text: text, file: "\(stage.directory)/second.toml"), logger: stage.log.logger,
            on: EventLoop(name: "second"))
        let error = await #expect(throws: ConfigurationError.self) { _ = try await second.start() }
        #expect(error?.description.contains("process \(getpid())") == true)
        await stage.end()
    }

    @Test func `a missing tor binary fails if the node manages tor`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = stage.configuration(endpoints, more: "[tor]\nmanaged = true\nbinary = \"/nowhere/tor\"")
        let found = try await findings(text, on: stage, online: false)
        #expect(found.contains { $0.area == .tor && $0.grade == .failed && $0.text.contains("/nowhere/tor") })
        let checkup = try checkup(text, on: stage)
        let nowhere = Endpoint.tcp(host: "127.0.0.1", port: 1)
        #expect(await checkup.onion(through: nowhere, isWanted: true).map(\.grade) == [.warning])
        await stage.end()
    }

    @Test func `an OnionBalance cannot lead to a closed onion`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let text = stage.configuration(
            endpoints,
            more: """
                [tor]
                managed = true
                onionbalance = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"
                """)
        let service = "\(stage.directory)/state/tor/onion"
        try FileManager.default.createDirectory(
            atPath: service, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        // RFC 8032's first test key, which is no secret.
        let key =
            Array("== ed25519v1-secret: type0 ==".utf8) + [0, 0, 0]
            + (Hex.decode(
                "307c83864f2833cb427a2ef1c00a013cfdff2768d980c0a3a520f006904de94f"
                    + "9b4f0afe280b746a778684e75442502057b7473a03f08f96f5a38e9287e01f8f") ?? [])
        try PrivateFile.create("\(service)/hs_ed25519_secret_key", holding: key)
        let checkup = try checkup(text, on: stage)
        let nowhere = Endpoint.tcp(host: "127.0.0.1", port: 1)
        let open = await checkup.onion(through: nowhere, isWanted: true)
        #expect(open.last?.text.contains("no tor at 127.0.0.1:1") == true, "\(summary(open))")
        try AuthorizedClients(serviceDirectory: service).authorize(
            [UInt8](repeating: 9, count: 32), as: ClientName("alice"))
        let closed = await checkup.onion(through: nowhere, isWanted: true)
        #expect(closed.last?.grade == .failed, "\(summary(closed))")
        #expect(closed.last?.text.contains("OnionBalance cannot lead to an onion") == true)
        await stage.end()
    }

    @Test func `a test notification goes through the node to the operator's phone`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = Phone.new(.android, model: "test")
        let loop = EventLoop(name: "check")
        func phoneCheck(
            _ pairing: PairingToken, _ address: (node: Endpoint, proxy: Endpoint?)?
        ) -> PhoneCheck {
            PhoneCheck(pairing: pairing, app: nil, format: nil, schema: .bisq, address: address, loop: loop)
        }
        let unknown = await phoneCheck(phone.pairing, (stage.socket, nil)).finding()
        #expect(unknown.grade == .failed)
        let own = Phone.new(.iOS, model: "test")
        await stage.services.register(own)
        let rung = await phoneCheck(own.pairing, (stage.socket, nil)).finding()
        #expect(rung.grade == .ok, "\(rung.text)")
        let received = try #require(await stage.services.received.first { $0.deviceToken == own.pairing.deviceToken })
        #expect(try own.open(received.encrypted).title == "Tocsin")
        #expect(await phoneCheck(own.pairing, nil).finding().grade == .failed)
        await stage.end()
    }

    @Test func `findings contain no secrets, even if a credential is broken`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        var secrets: [String] = [SimulatedServices.certificatePassword]
        for name in ["apns.p8", "service-account.json"] {
            let text = try String(contentsOfFile: "\(stage.directory)/\(name)", encoding: .utf8)
            secrets += text.split { $0 == "\n" || $0 == "\\" || $0 == "\"" }.map(String.init)
                .filter { $0.count > 40 && !$0.contains(" ") && !$0.contains("@") && !$0.contains("/token") }
        }
        try #require(secrets.count > 3)
        var all: [Finding] = []
        for text in [
            stage.configuration(endpoints), stage.configuration(endpoints, credential: Self.certificate),
            stage.configuration(endpoints).replacing(SimulatedServices.keyID, with: "WRONGKEY01"),
            stage.configuration(endpoints, credential: Self.certificate.replacing("p12.password", with: "p8")),
        ] {
            all += try await findings(text, on: stage)
        }
        let summary = summary(all) + all.json
        let leaks = secrets.count { summary.contains($0) }
        #expect(leaks == 0)
        await stage.end()
    }

    @Test func `the command exits with 0, 1, 64 or 78`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let file = "\(stage.directory)/tocsin.toml"
        let off = "[tor]\nmanaged = false"
        try Data(stage.configuration(endpoints, more: off).utf8).write(to: URL(filePath: file))
        func check(_ arguments: [String]) async throws {
            try await CheckCommand.parse(arguments + ["--config", file]).run()
        }
        try await check(["--online", "--json"])
        await #expect(throws: ExitCode.usage) { try await check(["--tor", "x"]) }
        await #expect(throws: ExitCode.usage) { try await check(["--phone", "iOS|x"]) }
        try #require(chmod("\(stage.directory)/apns.p8", 0o644) == 0)
        await #expect(throws: ExitCode.failure) { try await check([]) }
        try Data("[node".utf8).write(to: URL(filePath: file))
        await #expect(throws: ExitCode.configuration) { try await check(["--json"]) }
        await stage.end()
    }

    @Test func `each finding is one line without control characters, coloured only for terminals`() {
        let findings = [
            Finding(.tor, "a\u{1B}[2Jb", .failed, "c\nd"), Finding(.clock, "x", .warning, "y"),
            Finding(.machine, "x", .ok, "y"),
        ]
        let plain = FindingLines(findings: findings, isColoured: false)
        #expect(plain.lines.allSatisfy { !$0.contains("\u{1B}") && !$0.contains("\n") })
        #expect(plain.summary == "1 ok, 1 warning, 1 failed")
        #expect(plain.lines[0].hasPrefix("failed   tor"))
        let coloured = FindingLines(findings: findings, isColoured: true)
        #expect(coloured.lines.map { $0.prefix(5) } == ["\u{1B}[31m", "\u{1B}[33m", "\u{1B}[32m"])
    }
}
