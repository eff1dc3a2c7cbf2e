// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import Simulator
import TNP
import Testing

@testable import Tor

/// Desktops of today, written with what the JDK has and nothing of ours: `Tests/System/Desktop/BisqDesktop.java`.
@Suite(.serialized) struct DesktopTests {
    private static let java = ["/usr/bin/java", "\(ProcessInfo.processInfo.environment["JAVA_HOME"] ?? "")/bin/java"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }
    private static let microsocks = "/usr/bin/microsocks"
    private static let program = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "BisqDesktop.java").path()

    private struct NoEndpoint: Error {}

    /// A node whose endpoint is a port on loopback, and a SOCKS proxy before it.
    private struct Way {
        let stage = Stage()
        let httpPort: UInt16
        let proxy: UInt16
        let process: ChildProcess
        let java: String

        init(java: String) async throws {
            self.java = java
            proxy = try await stage.freePort()
            process = ChildProcess(microsocks, ["-i", "127.0.0.1", "-p", "\(proxy)"])
            try await stage.start(http: "127.0.0.1:0", more: Stage.profile(.bisqConnect))
            guard case .tcp(_, let port)? = await stage.httpEndpoint else { throw NoEndpoint() }
            httpPort = port
            // Until the proxy is up.
            for _ in 0..<50 where await !stage.reaches(.tcp(host: "127.0.0.1", port: proxy)) {
                try await Task.sleep(for: .milliseconds(100))
            }
        }

        /// Runs the desktop; the proxy resolves the name.
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

    /// Nil, with a word about it, where there is no Java.
    private func way() async throws -> Way? {
        guard let java = Self.java else {
            print("SKIPPED: java is not installed; no desktop of today was run (make packages-test installs it)")
            return nil
        }
        try #require(FileManager.default.fileExists(atPath: Self.microsocks), "make packages-test installs it")
        return try await Way(java: java)
    }

    @Test func `a Java desktop rings the phones of Bisq 1 through a SOCKS proxy`() async throws {
        guard let way = try await way() else { return }
        for (magic, model) in [(Magic.iOS, "iPhone 15"), (.iOSDev, "iPhone14,5"), (.android, "Google Pixel 8")] {
            let phone = Phone.new(magic, model: model)
            await way.stage.services.register(phone)
            for (type, title, text) in [
                ("SETUP_CONFIRMATION", "", ""), ("TRADE", "Trade 'x' <1> & 2 = 3", "line 1\nline \"2\" \\"),
                ("ERASE", "", ""),
            ] {
                let result = try await way.send(pairing: phone.pairingToken, type, title, text)
                #expect(result.isSuccess)
                #expect(result.text == "success\n")
                let received = try #require(await way.stage.received(phone.deviceToken).last)
                let shown = try phone.open(received.encrypted)
                #expect([shown.type, shown.title, shown.message] == [type, title, text])
                #expect(received.hasSound == (type != "ERASE"))
                if magic != .android { #expect(received.isContentAvailable == (magic == .iOS)) }
            }
            #expect(await way.stage.received(phone.deviceToken).count == 3)
        }
        await way.end()
    }

    @Test func `a Java desktop rings the phones of Bisq 2 through a SOCKS proxy`() async throws {
        guard let way = try await way() else { return }
        for magic in [Magic.iOS, .android] {
            let phone = await way.stage.phone(magic, .bisqConnect)
            let key = try #require(phone.registration).symmetricKeyBase64
            // Written like a pairing token, which this app has none of.
            let registration = "\(magic.rawValue)|test|\(key)|\(phone.deviceToken)"
            let result = try await way.send(
                ["--v1"], pairing: registration, "trade_update", "Obchod", "Zpráva ✓ 'x' <1>")
            #expect(result.isSuccess)
            #expect(result.text == "success\n")
            let received = try #require(await way.stage.received(phone.deviceToken).last)
            let shown = try phone.open(received.encrypted)
            #expect([shown.type, shown.title, shown.message] == ["trade_update", "Obchod", "Zpráva ✓ 'x' <1>"])
            #expect(received.hasSound)
        }
        await way.end()
    }

    @Test func `a Java desktop reports a rejected notification as a failure`() async throws {
        guard let way = try await way() else { return }
        let stranger = Phone.new(.iOS, model: "iPhone 15")
        let result = try await way.send(pairing: stranger.pairingToken, "TRADE", "a", "b")
        #expect(!result.isSuccess)
        #expect(result.text.hasPrefix("400 {"))
        #expect(result.text.contains("\"reason\":303"))
        #expect(await way.stage.services.received.isEmpty)
        await way.end()
    }

    @Test func `text that Bisq 1 cannot seal never leaves the desktop`() async throws {
        guard let way = try await way() else { return }
        let phone = await way.stage.phone(.iOS)
        // It pads by characters, and one of these takes two bytes: no whole blocks.
        let result = try await way.send(pairing: phone.pairingToken, "TRADE", "Zpráva", "ok")
        #expect(!result.isSuccess)
        #expect(result.text.contains("IllegalBlockSizeException"))
        #expect(await way.stage.services.requests(.apnsProduction) == 0)
        await way.end()
    }
}

extension Stage {
    /// Whether somebody listens there.
    fileprivate func reaches(_ endpoint: Endpoint) async -> Bool {
        guard let stream = try? await loop.dial(endpoint, timeout: .seconds(1)) else { return false }
        stream.close()
        return true
    }
}
