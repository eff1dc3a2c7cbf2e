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
        let isTooWide: Bool
    }

    private func open(
        _ keys: PushServerProcess.Keys, _ key: String, receiving text: String, registeringAt node: [String] = []
    ) async throws -> Report {
        let output = try await ChildProcess.output(
            of: "python3",
            [
                "Tests/System/Browser/push_page.py", "https://localhost:\(keys.port)/up/201", keys.p256dh, keys.auth,
                key, text,
            ] + node, timeout: .seconds(90))
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
        #expect(first.refusal.hasPrefix("Not done: ") && !first.isTooWide)
        #expect(first.key == key)
        #expect(first.notified == ["Paired/"])
        let pairing = try PairingToken(first.token)
        let client = stage.client()
        let notification = BisqNotification(
            kind: .trade, title: "Zpráva <1>", message: "Your trade needs you", actionRequired: "Confirm",
            sentDate: 1_700_000_000_000)
        let sealed = try Sealer(pairing).seal(notification, schema: .tocsin)
        let outcome = try await client.submit(sealed, timeout: .seconds(60))
        #expect(outcome.kind == .delivered)
        let text = try #require(try server.requests.last?.text)
        let second = try await open(keys, key, receiving: text)
        #expect(second.shown == "Zpráva <1>: Your trade needs you – Confirm")
        #expect(second.notified == ["Zpráva <1>/Your trade needs you\nConfirm"])
        await client.close()
        await stage.end()
    }

    @Test func `a browser registers a handle, by which a desktop rings it`() async throws {
        guard try await ChildProcess.output(of: "which", ["chromium"]).isSuccess else {
            print("SKIPPED: chromium is not installed; the example page registered no handle (make packages-test)")
            return
        }
        let ports = PortReservations()
        let (page, http) = (try ports.reserve(), try ports.reserve())
        let stage = Stage()
        try await stage.start(
            gates: "[puzzle]\nmode = \"always\"\neffort = 200", http: "127.0.0.1:\(http)",
            more: "\(HandleTests.enabled)\norigins = \"http://127.0.0.1:\(page)\"")
        let server = try PushServerProcess(in: stage.directory)
        defer { server.end() }
        let keys = try await server.keys()
        try await stage.deliver(toPushServerAt: keys.port)
        let report = try await open(
            keys, String(repeating: "A", count: 87), receiving: "{}",
            registeringAt: ["http://127.0.0.1:\(http)", "\(page)"])
        let pairing = try PairingToken(report.token)
        #expect(pairing.handle != nil && pairing.deviceToken.isEmpty)
        let client = TocsinClient(
            TocsinClient.Options(nodes: [stage.socket], patience: .zero, schema: .tocsin), on: stage.loop)
        let outcome = try await client.notify(
            pairing, BisqNotification(kind: .trade, title: "Paid", message: "", sentDate: 1), timeout: .seconds(60))
        #expect(outcome.kind == .delivered, "\(outcome)")
        #expect(try server.requests.last?.text?.contains("Paid") == true)
        await client.close()
        await stage.end()
    }
}
