// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient
import Tor

@testable import NodeConfiguration

/// The example page that pairs a browser: `Docs/examples/browser`.
@Suite(.tags(.browser)) struct WebPushPageTests {
    /// What `push_page.py` reports.
    private struct Report: Decodable {
        let refusal: String
        let token: String
        let key: String
        let shown: String
        let notified: [String]
    }

    private func open(_ keys: PushServerProcess.Keys, _ key: String, receiving text: String) async throws -> Report {
        let output = try await ChildProcess.output(
            of: "python3",
            [
                "Tests/System/Browser/push_page.py", "https://localhost:\(keys.port)/up/201", keys.p256dh, keys.auth,
                key, text,
            ], timeout: .seconds(90))
        try #require(output.isSuccess, "\(output.text)")
        return try JSONDecoder().decode(Report.self, from: Data(output.text.utf8))
    }

    /// The push server of the test decrypts in the browser's stead, which has no push service without the internet.
    @Test func `a browser pairs, and shows what a desktop sends`() async throws {
        guard try await ChildProcess.output(of: "which", ["chromium"]).isSuccess else {
            print("SKIPPED: chromium is not installed; the example page was not opened (make packages-test)")
            return
        }
        let stage = Stage()
        try await stage.start()
        let server = try PushServerProcess(in: stage.directory)
        defer { server.end() }
        let keys = try await server.keys()
        try await stage.deliver(toPushServerAt: keys.port)
        let key = String(repeating: "A", count: 87)
        let first = try await open(keys, key, receiving: #"{"title":"","message":"","type":"SETUP_CONFIRMATION"}  "#)
        #expect(first.refusal.hasPrefix("Not paired: "))
        #expect(first.key == key)
        #expect(first.notified == ["Paired/"])
        let pairing = try PairingToken(first.token)
        let client = stage.client()
        let notification = BisqNotification(
            kind: .trade, title: "Zpráva <1>", message: "Your trade needs you", sentDate: 1_700_000_000_000)
        let outcome = try await client.submit(Sealer(pairing).seal(notification), timeout: .seconds(60))
        #expect(outcome.kind == .delivered)
        let text = try #require(try server.requests.last?.text)
        let second = try await open(keys, key, receiving: text)
        #expect(second.shown == "Zpráva <1>: Your trade needs you")
        #expect(second.notified == ["Zpráva <1>/Your trade needs you"])
        await client.close()
        await stage.end()
    }
}
