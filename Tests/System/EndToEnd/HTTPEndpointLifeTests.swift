// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing

@testable import TocsinNode
@testable import tocsin

/// Connections of the HTTP endpoint when the node stops or reloads, a sender disconnects, or a circuit is blocked.
@Suite(.tags(.node)) struct HTTPEndpointLifeTests {
    private func request(_ phone: Phone, closes: Bool = true) -> [UInt8] {
        let magic = phone.pairing.magic == .android ? "BisqMessageAndroid" : "BisqMessageiOS"
        return RequestBytes.get(
            RequestBytes.relay(phone.pairing.magic.rawValue, token: phone.deviceToken, text: RequestBytes.pipe(magic)),
            closes: closes)
    }

    /// Waits until the node has no connections left.
    private func expectNoConnections(_ stage: Stage) async throws {
        for _ in 0..<6000 where await stage.connectionCount > 0 { try await Task.sleep(for: .milliseconds(50)) }
        #expect(await stage.connectionCount == 0)
    }

    @Test func `a stopping node answers pending requests and closes their connections`() async throws {
        let stage = Stage()
        try await stage.start(limits: "shutdown_timeout = 5")
        let phone = await stage.phone(.iOS)
        try await stage.services.apply(FaultDirective("apns-production stall"))
        async let answer = stage.http(request(phone, closes: false))
        try await Task.sleep(for: .milliseconds(500))
        #expect(await stage.stopNode())
        let answers = try HTTPAnswer.all(in: try await answer)
        #expect(answers.map(\.status) == [503])
        #expect(answers.first?.headers["connection"]?.lowercased() == "close")
        #expect(answers.first?.headers["retry-after"] != nil)
        await stage.end()
    }

    @Test func `with a spool a request succeeds while Apple does not answer`() async throws {
        let stage = Stage()
        try await stage.start(limits: "http_answer_timeout = 1", more: "[spool]\nenabled = true")
        let phone = await stage.phone(.iOS)
        try await stage.services.apply(FaultDirective("apns-production stall"))
        let answer = try await stage.ask(request(phone))
        #expect(answer.status == 200 && answer.text == "success")
        await stage.end()
    }

    @Test func `without a spool a request gets 503 in time while Apple does not answer`() async throws {
        let stage = Stage()
        try await stage.start(limits: "http_answer_timeout = 1")
        let phone = await stage.phone(.iOS)
        try await stage.services.apply(FaultDirective("apns-production stall"))
        let answer = try await stage.ask(request(phone))
        #expect(answer.status == 503 && answer.headers["retry-after"] == "5")
        await stage.end()
    }

    @Test func `a circuit blocked for abuse gets 429 on every connection, other circuits are served`() async throws {
        let stage = Stage()
        let gates = "[limits]\nabuse_burst = 5\nabuse_per_minute = 1\n"
        try await stage.start(circuitIDs: true, gates: gates)
        let proxyLine = Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8)
        let bad = RequestBytes.get("/relay?isAndroid=maybe", closes: false)
        let first = try HTTPAnswer.all(in: try await stage.http(proxyLine + Array(repeating: bad, count: 8).joined()))
        #expect(first.prefix(5).allSatisfy { $0.status == 400 })
        // Each answer belongs to a request that the node has read.
        #expect(first.count <= 8 && first.count >= 5)
        let again = try HTTPAnswer.all(in: try await stage.http(proxyLine + bad))
        #expect(again.map(\.status) == [429])
        // Nobody waits so long within a request.
        #expect(again.first?.headers["retry-after"] == nil)
        // Other circuits are served.
        let phone = await stage.phone(.iOS)
        let other = Array("PROXY TCP6 fc00:dead:beef:4dad::0:b8 ::1 184 80\r\n".utf8)
        #expect(try await stage.ask(other + request(phone)).text == "success")
        try await expectNoConnections(stage)
        await stage.end()
    }

    @Test func `a sender that disconnects before its answer leaves no connection behind`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.iOS)
        try await stage.services.apply(FaultDirective("apns-production latency=fixed:500"))
        _ = try await stage.http(request(phone), readingFor: .milliseconds(100))
        try await expectNoConnections(stage)
        for _ in 0..<6000 where await stage.received(phone.deviceToken).isEmpty {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(await stage.received(phone.deviceToken).count == 1)
        await stage.end()
    }

    @Test func `with circuit ids a stream without a PROXY line gets 400 and is closed`() async throws {
        let stage = Stage()
        try await stage.start(circuitIDs: true)
        let phone = await stage.phone(.iOS)
        let answer = try await stage.ask(request(phone))
        #expect(answer.status == 400 && answer.text.contains("PROXY line"))
        try await expectNoConnections(stage)
        await stage.end()
    }

    @Test func `a desktop without tor is served at direct_http beside the node's own tor, and limited by connection`()
        async throws
    {
        let stage = Stage()
        let direct = Endpoint.unix(path: "\(stage.directory)/direct.sock")
        let gates = "[limits]\nabuse_burst = 5\nabuse_per_minute = 1\n"
        let text = stage.configuration(try await stage.services.start(), circuitIDs: true, gates: gates)
            .replacing("[listen]\n", with: "[listen]\ndirect_http = \"unix:direct.sock\"\n")
        try await stage.startNode(text)
        let phone = await stage.phone(.iOS)
        func ask(_ bytes: [UInt8], at endpoint: Endpoint) async throws -> [HTTPAnswer] {
            try HTTPAnswer.all(in: try await stage.raw(bytes, to: endpoint, readingFor: .seconds(10)))
        }
        let bad = RequestBytes.get("/relay?isAndroid=maybe", closes: false)
        let first = try await ask(Array(repeating: bad, count: 8).joined() + [], at: direct)
        #expect(first.count >= 5 && first.prefix(5).allSatisfy { $0.status == 400 })
        #expect(try await ask(request(phone), at: direct).map(\.text) == ["success"])
        #expect(try await ask(request(phone), at: stage.httpSocket).map(\.status) == [400])
        try await expectNoConnections(stage)
        await stage.end()
    }

    @Test func `an unexpected PROXY line gets 400 with a hint to circuit_ids`() async throws {
        let stage = Stage()
        try await stage.start()
        let answer = try await stage.ask(
            Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8) + RequestBytes.get("/relay"))
        #expect(answer.status == 400 && answer.text.contains("circuit_ids"))
        try await expectNoConnections(stage)
        await stage.end()
    }

    @Test func `a connection over its rate limit gets 429 with Retry-After`() async throws {
        let stage = Stage()
        let gates = "[limits]\ncircuit_burst = 2\ncircuit_per_minute = 60\n"
        try await stage.start(gates: gates)
        let phone = await stage.phone(.iOS)
        let requests = (0..<3).map { _ in request(phone, closes: false) }
        let answers = try await stage.converse(requests)
        #expect(answers.map(\.status) == [200, 200, 429])
        #expect(answers[2].headers["retry-after"] == "1")
        await stage.end()
    }

    @Test func `a reload applies to the next request`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await stage.phone(.iOS)
        #expect(try await stage.ask(request(phone)).text == "success")
        try await stage.reload(stage.configuration(endpoints, alert: "Other words"))
        #expect(try await stage.ask(request(phone)).text == "success")
        #expect(await stage.received(phone.deviceToken).map(\.alert) == ["New notification", "Other words"])
        await stage.end()
    }

    @Test func `the node logs at startup which apps the HTTP endpoint cannot reach`() async throws {
        let stage = Stage()
        let second = """
            [[app]]
            name = "haveno"
            [app.fcm]
            service_account_file = "service-account.json"
            """
        try await stage.start(more: second)
        #expect(stage.log.count(of: "cannot reach the app haveno on android") == 1)
        await stage.end()
    }
}
