// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing

@testable import Tor

/// Today's desktops, simulated by `Tests/System/Desktop/BisqDesktop.java`, which uses only the JDK and none of our code.
@Suite(.tags(.extended), .serialized) struct DesktopTests {
    private static let java = ["/usr/bin/java", "\(ProcessInfo.processInfo.environment["JAVA_HOME"] ?? "")/bin/java"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }
    private static let microsocks = "/usr/bin/microsocks"
    private static let program = Repository.file("Tests/System/Desktop/BisqDesktop.java").path()

    private struct NoEndpoint: Error {}

    /// A node whose HTTP endpoint is a loopback port, behind a SOCKS proxy.
    private struct Setup {
        let stage = Stage()
        let httpPort: UInt16
        let proxy: UInt16
        let process: ChildProcess
        let java: String

        init(java: String) async throws {
            self.java = java
            proxy = try await stage.reservePort()
            process = ChildProcess(microsocks, ["-i", "127.0.0.1", "-p", "\(proxy)"])
            try await stage.start(http: "127.0.0.1:0", more: Stage.profile(.bisqConnect))
            guard case .tcp(_, let port)? = await stage.httpEndpoint else { throw NoEndpoint() }
            httpPort = port
            // Wait until the proxy is up.
            for _ in 0..<6000 where await !stage.reaches(.tcp(host: "127.0.0.1", port: proxy)) {
                try await Task.sleep(for: .milliseconds(100))
            }
        }

        /// Runs the desktop; the proxy resolves the node's name.
        func send(_ options: [String] = [], pairing: String, _ type: String, _ title: String, _ text: String)
            async throws -> (isSuccess: Bool, text: String)
        {
            try await ChildProcess.output(
                of: java,
                [DesktopTests.program] + options
                    + ["127.0.0.1:\(proxy)", "http://localhost:\(httpPort)", pairing, type, title, text])
        }

        func end() async {
            await process.terminate()
            await stage.end()
        }
    }

    /// `nil`, after a printed note, if Java is not installed.
    private func setup() async throws -> Setup? {
        guard let java = Self.java else {
            print("SKIPPED: java is not installed; no desktop was tested (make packages-test installs it)")
            return nil
        }
        try #require(FileManager.default.fileExists(atPath: Self.microsocks), "make packages-test installs it")
        return try await Setup(java: java)
    }

    @Test func `a Java desktop of today rings a phone without Google's services, with a fixed text alone`() async throws
    {
        guard let setup = try await setup() else { return }
        let server = try PushServerProcess(in: setup.stage.directory)
        defer { server.end() }
        let port = try await server.keys().port
        // Also where the app has no Google.
        let text = try String(contentsOfFile: "\(setup.stage.directory)/tocsin.toml", encoding: .utf8)
        let google = "[app.fcm]\nservice_account_file = \"service-account.json\"\n[app.web]"
        try #require(text.contains(google))
        try await setup.stage.reload(
            Stage.delivering(text, toPushServerAt: port).replacing(google, with: "[app.web]"))
        func send(_ url: String, _ title: String) async throws -> String {
            try await setup.send(
                pairing: "android|Fairphone 5|0123456789abcdef0123456789abcdef|\(url)", "TRADE", title, "text"
            ).text
        }
        #expect(try await send("https://localhost:\(port)/topic/201", "First") == "success\n")
        #expect(try await send("https://localhost:\(port)/%7Ctopic/200", "Second") == "success\n")
        // The query could make the push server send mail.
        let refused = try await send("https://localhost:\(port)/topic/201?email=a@b.example", "Third")
        #expect(refused.contains("query"), "\(refused)")
        let other = try await send("https://push.example/topic-of-mine/201", "Fourth")
        #expect(other.contains("does not deliver to this push server"), "\(other)")
        #expect(try await send("https://localhost:\(port)/topic/410", "Fifth") != "success\n")
        let requests = try server.requests
        #expect(requests.map(\.path) == ["/topic/201", "/%7Ctopic/200", "/topic/410"])
        #expect(requests.allSatisfy { $0.error == nil && $0.text == "Open the desktop app" && $0.encoding == nil })
        #expect(requests.allSatisfy { $0.urgency == "high" && $0.topic == nil })
        await setup.end()
    }

    @Test func `a Java desktop rings the phones of Bisq 1 through a SOCKS proxy`() async throws {
        guard let setup = try await setup() else { return }
        for (magic, model) in [(Magic.iOS, "iPhone 15"), (.iOSDev, "iPhone14,5"), (.android, "Google Pixel 8")] {
            let phone = Phone.new(magic, model: model)
            await setup.stage.services.register(phone)
            for (type, title, text) in [
                ("SETUP_CONFIRMATION", "", ""), ("TRADE", "Trade 'x' <1> & 2 = 3", "line 1\nline \"2\" \\"),
                ("ERASE", "", ""),
            ] {
                let result = try await setup.send(pairing: phone.pairingToken, type, title, text)
                #expect(result.isSuccess)
                #expect(result.text == "success\n")
                let received = try #require(await setup.stage.received(phone.deviceToken).last)
                let shown = try phone.open(received.encrypted)
                #expect([shown.type, shown.title, shown.message] == [type, title, text])
                #expect(received.hasSound == (type != "ERASE"))
                if magic != .android { #expect(received.isContentAvailable == (magic == .iOS)) }
            }
            #expect(await setup.stage.received(phone.deviceToken).count == 3)
        }
        await setup.end()
    }

    @Test func `a Java desktop rings the phones of Bisq 2 through a SOCKS proxy`() async throws {
        guard let setup = try await setup() else { return }
        for magic in [Magic.iOS, .android] {
            let phone = await setup.stage.phone(magic, .bisqConnect)
            let key = try #require(phone.registration).symmetricKeyBase64
            // In the format of a pairing token, which this app does not have.
            let registration = "\(magic.rawValue)|test|\(key)|\(phone.deviceToken)"
            let result = try await setup.send(
                ["--v1"], pairing: registration, "trade_update", "Obchod", "Zpráva ✓ 'x' <1>")
            #expect(result.isSuccess)
            #expect(result.text == "success\n")
            let received = try #require(await setup.stage.received(phone.deviceToken).last)
            let shown = try phone.open(received.encrypted)
            #expect([shown.type, shown.title, shown.message] == ["trade_update", "Obchod", "Zpráva ✓ 'x' <1>"])
            #expect(received.hasSound)
        }
        await setup.end()
    }

    @Test func `a Java desktop reports a rejected notification as a failure`() async throws {
        guard let setup = try await setup() else { return }
        let unregistered = Phone.new(.iOS, model: "iPhone 15")
        let result = try await setup.send(pairing: unregistered.pairingToken, "TRADE", "a", "b")
        #expect(!result.isSuccess)
        #expect(result.text.hasPrefix("400 {"))
        #expect(result.text.contains("\"reason\":303"))
        #expect(await setup.stage.services.received.isEmpty)
        await setup.end()
    }

    @Test func `text that Bisq 1 cannot seal never leaves the desktop`() async throws {
        guard let setup = try await setup() else { return }
        let phone = await setup.stage.phone(.iOS)
        // Bisq 1 pads by characters, and one of these takes two bytes, so the bytes do not fill whole blocks.
        let result = try await setup.send(pairing: phone.pairingToken, "TRADE", "Zpráva", "ok")
        #expect(!result.isSuccess)
        #expect(result.text.contains("IllegalBlockSizeException"))
        #expect(await setup.stage.services.requests(.apnsProduction) == 0)
        await setup.end()
    }
}

extension Stage {
    /// Whether a process listens at the endpoint.
    fileprivate func reaches(_ endpoint: Endpoint) async -> Bool {
        guard let stream = try? await loop.dial(endpoint, timeout: .seconds(1)) else { return false }
        stream.close()
        return true
    }
}
