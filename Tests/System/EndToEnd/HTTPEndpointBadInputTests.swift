// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing

/// Malformed and oversized requests at the HTTP endpoint.
@Suite(.tags(.node)) struct HTTPEndpointBadInputTests {
    private static let target =
        "/relay?token=\(String(repeating: "ab", count: 32))&msg="
        + RequestBytes.hex(RequestBytes.pipe("BisqMessageiOS"))
    private static let device = "/v1/apns/device/\(String(repeating: "ab", count: 32))"

    private static func chunked(_ chunks: String) -> [UInt8] {
        RequestBytes.request("POST", device, fields: ["Transfer-Encoding: chunked"]) + Array(chunks.utf8)
    }

    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// Name, bytes, status.
    private static let cases: [(String, [UInt8], Int)] = [
        ("an endless request line", text("GET /" + String(repeating: "a", count: 100_000)), 414),
        ("a parameter of 11 kB", RequestBytes.get("/relay?x=" + String(repeating: "a", count: 11_000)), 414),
        (
            "a field of 64 kB",
            RequestBytes.get("/relay", fields: ["X-Long: " + String(repeating: "a", count: 65_536)]), 431
        ),
        ("10 000 fields", RequestBytes.get("/relay", fields: (0..<10_000).map { "X-\($0): 1" }), 431),
        ("101 short fields", RequestBytes.get("/relay", fields: (0..<101).map { "X-\($0): 1" }), 431),
        (
            "a body of 1 MB",
            RequestBytes.request("POST", device, fields: ["Content-Length: 1048576"])
                + [UInt8](repeating: 0x20, count: 65_536), 413
        ),
        (
            "a body of 1 MB in chunks",
            chunked(String(repeating: "4000\r\n\(String(repeating: " ", count: 0x4000))\r\n", count: 64)), 413
        ),
        (
            "a Content-Length beyond the integers",
            RequestBytes.request("POST", device, fields: ["Content-Length: 99999999999999999999999"]), 400
        ),
        ("a negative Content-Length", RequestBytes.request("POST", device, fields: ["Content-Length: -1"]), 400),
        (
            "two Content-Length fields",
            RequestBytes.request("POST", device, fields: ["Content-Length: 2", "Content-Length: 3"]), 400
        ),
        (
            "both Content-Length and chunked coding",
            RequestBytes.request("POST", device, fields: ["Content-Length: 5", "Transfer-Encoding: chunked"])
                + text("0\r\n\r\n"), 400
        ),
        ("a chunk without a length", chunked("xyz\r\n"), 400),
        ("a chunk of 17 digits", chunked("11111111111111111\r\n"), 400),
        ("an unknown transfer coding", RequestBytes.request("POST", device, fields: ["Transfer-Encoding: gzip"]), 501),
        ("an unknown expectation", RequestBytes.get("/relay", fields: ["Expect: a miracle"]), 417),
        ("NUL in the target", text("GET /relay?token=a\u{0}b HTTP/1.1\r\n\r\n"), 400),
        ("a control byte in the target", text("GET /relay?token=a\u{7F}b HTTP/1.1\r\n\r\n"), 400),
        ("NUL in a field", RequestBytes.get("/relay", fields: ["X-Nul: a\u{0}b"]), 400),
        ("a space before the colon", RequestBytes.get("/relay", fields: ["X-Space : a"]), 400),
        ("no version, as before 1.0", text("GET /relay\r\n\r\n"), 505),
        ("an unknown HTTP version", RequestBytes.get(target, version: "3.7"), 505),
        ("the preface of HTTP/2", text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505),
        ("a TLS ClientHello", [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3] + [UInt8](repeating: 7, count: 508), 400),
        ("SSH", text("SSH-2.0-OpenSSH_9.2\r\n"), 400),
        ("SOCKS", [5, 1, 0], 400),
        ("random bytes", [0xFF, 0x80, 0x13, 0x99, 0x00, 0x0A, 0x0D, 0xF0], 400),
        ("lower-case", text("get / http/1.1\r\n\r\n"), 400),
        ("half a line", text("GET /rel"), 408),
        ("half a head", text("GET /relay HTTP/1.1\r\nHost: "), 408),
        ("half a body", RequestBytes.request("POST", device, fields: ["Content-Length: 100"]) + text("{\"enc"), 408),
        ("half a chunk", chunked("40\r\n{\"enc"), 408),
    ]

    @Test
    func `bad input gets a clear status and closes its connection, others are still served`()
        async throws
    {
        let stage = Stage()
        try await stage.start(limits: "http_request_timeout = 1", more: Stage.sealed)
        let phone = await stage.phone(.iOS)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (name, bytes, status) in Self.cases {
                group.addTask { () async throws -> Void in
                    let answers = try HTTPAnswer.all(in: try await stage.http(bytes))
                    #expect(answers.map(\.status) == [status], "\(name)")
                    #expect(answers.first?.headers["connection"]?.lowercased() == "close", "\(name)")
                    #expect(answers.first?.json?["status"] as? Int == status, "\(name)")
                    #expect((answers.first?.json?["error"] as? String)?.isEmpty == false, "\(name)")
                }
            }
            try await group.waitForAll()
        }
        let good = RequestBytes.relay(
            "iOS", token: phone.deviceToken, text: RequestBytes.pipe("BisqMessageiOS"))
        #expect(try await stage.ask(RequestBytes.get(good)).text == "success")
        // No bad input reached a push service or the log.
        #expect(await stage.services.received.count == 1)
        let words = ["X-Long", "OpenSSH", "miracle", "aaaaaaaa", String(repeating: "ab", count: 32)]
        #expect(stage.log.lines.count { line in words.contains { line.contains($0) } } == 0)
        await stage.end()
    }

    @Test func `a silent connection gets 408 or no answer`() async throws {
        let stage = Stage()
        try await stage.start(limits: "http_request_timeout = 1\nidle_timeout = 1\nhandshake_timeout = 1")
        let answers = try HTTPAnswer.all(in: try await stage.http([]))
        #expect(answers.allSatisfy { $0.status == 408 })
        await stage.end()
    }

    @Test func `a TNP client at the HTTP endpoint gets GOAWAY with an explanation`() async throws {
        let stage = Stage()
        try await stage.start()
        var bytes: [UInt8] = []
        bytes.append(Hello())
        guard case .goAway(let goAway)? = try messages(try await stage.http(bytes)).last else {
            Issue.record("no GOAWAY received")
            return
        }
        #expect(goAway.code == .protocolError)
        #expect(goAway.text.contains("HTTP"))
        await stage.end()
    }

    @Test func `a body may be chunked, or follow 100 Continue`() async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        let phone = await stage.phone(.android)
        let path = "/v1/fcm/device/\(phone.deviceToken)"
        let body = RequestBytes.push(RequestBytes.sealed())
        let half = body.utf8.count / 2
        let chunks =
            "\(String(half, radix: 16));name=value\r\n\(body.prefix(half))\r\n"
            + "\(String(body.utf8.count - half, radix: 16))\r\n\(body.dropFirst(half))\r\n0\r\nX-Trailer: 1\r\n\r\n"
        let inChunks = try await stage.ask(
            RequestBytes.request("POST", path, fields: ["Transfer-Encoding: chunked"]) + Array(chunks.utf8))
        #expect(inChunks.status == 200)

        let other = RequestBytes.push(RequestBytes.sealed())
        let head = RequestBytes.request(
            "POST", path, fields: ["Expect: 100-continue", "Content-Length: \(other.utf8.count)"], closes: false)
        let answers = try await stage.converse([head, Array(other.utf8)])
        #expect(answers.map(\.status) == [100, 200])
        #expect(await stage.received(phone.deviceToken).count == 2)
        await stage.end()
    }

    @Test func `a thousand bad requests do not block a good one`() async throws {
        let stage = Stage()
        try await stage.start(limits: "http_request_timeout = 2", more: "")
        let phone = await stage.phone(.iOS)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<1000 {
                group.addTask { () async throws -> Void in
                    let (_, bytes, _) = Self.cases[index % Self.cases.count]
                    _ = try? await stage.http(bytes)
                }
            }
            try await group.waitForAll()
        }
        let good = RequestBytes.relay("iOS", token: phone.deviceToken, text: RequestBytes.pipe("BisqMessageiOS"))
        #expect(try await stage.ask(RequestBytes.get(good)).text == "success")
        await stage.end()
    }
}
