// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import HTTP1

@Suite(.tags(.sockets)) struct ResponseDecoderTests {
    /// Decodes a text in pieces of every size.
    private func decode(_ text: String) throws -> HTTPClientResponse? {
        let bytes = Array(text.utf8)
        var result: HTTPClientResponse?
        for size in 1...bytes.count {
            let decoder = ResponseDecoder()
            result = nil
            for start in stride(from: 0, to: bytes.count, by: size) {
                let piece = Array(bytes[start..<min(start + size, bytes.count)])
                if let response = try decoder.append(piece.span.bytes) { result = response }
            }
        }
        return result
    }

    @Test func `status, fields and persistence are read, and bodies skipped`() throws {
        let created = try #require(
            try decode("HTTP/1.1 201 Created\r\nLocation: /m/1\r\nRetry-After: 7\r\nContent-Length: 3\r\n\r\nabc"))
        #expect(created.status == 201 && created.keepsAlive)
        #expect(created.fields.map(\.name) == ["location", "retry-after", "content-length"])
        #expect(created.fields.map(\.value) == ["/m/1", "7", "3"])
        let chunked = try #require(
            try decode(
                "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
        #expect(chunked.status == 400 && !chunked.keepsAlive)
        let empty = try #require(try decode("HTTP/1.1 429 No\r\nX-Foo:\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n"))
        #expect(empty.fields.map(\.name) == ["x-foo", "retry-after", "content-length"])
        #expect(try decode("HTTP/1.1 204 No Content\r\n\r\n")?.status == 204)
        #expect(try decode("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")?.keepsAlive == false)
    }

    @Test func `interim responses precede the final one`() throws {
        #expect(
            try decode("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")?.status == 201)
    }

    @Test(arguments: ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"])
    func `interim responses have no end of their own`(_ interim: String) throws {
        let decoder = ResponseDecoder()
        var taken = 0
        #expect(throws: ResponseDecoder.Fault.tooLarge) {
            while taken < 1 << 24 {
                taken += interim.utf8.count
                _ = try decoder.append(Array(interim.utf8).span.bytes)
            }
        }
        #expect(taken <= ResponseDecoder.maximumExchange + interim.utf8.count)
    }

    @Test func `each exchange has the whole budget`() throws {
        let decoder = ResponseDecoder()
        let body = String(repeating: "x", count: 60_000)
        for _ in 0..<20 {
            let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n\(body)"
            #expect(try decoder.append(Array(text.utf8).span.bytes)?.status == 200)
        }
    }

    @Test func `the end of the connection ends a body without a length`() throws {
        let decoder = ResponseDecoder()
        #expect(try decoder.append(Array("HTTP/1.1 200 OK\r\n\r\nabc".utf8).span.bytes) == nil)
        #expect(decoder.connectionClosed()?.status == 200)
        let cut = ResponseDecoder()
        #expect(try cut.append(Array("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".utf8).span.bytes) == nil)
        #expect(cut.connectionClosed() == nil)
    }

    @Test(arguments: [
        "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/1.1 abc\r\n\r\n", "\u{0}\u{0}\u{0}\u{0}",
        "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ])
    func `anything else is a fault`(_ text: String) {
        #expect(throws: ResponseDecoder.Fault.malformed) {
            _ = try ResponseDecoder().append(Array(text.utf8).span.bytes)
        }
    }

    @Test func `head and body are bounded`() {
        let field = "X: \(String(repeating: "a", count: 1000))\r\n"
        let head = "HTTP/1.1 200 OK\r\n" + String(repeating: field, count: 20)
        #expect(throws: ResponseDecoder.Fault.tooLarge) {
            _ = try ResponseDecoder().append(Array(head.utf8).span.bytes)
        }
        let body = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + String(repeating: "x", count: 70_000)
        #expect(throws: ResponseDecoder.Fault.tooLarge) {
            _ = try ResponseDecoder().append(Array(body.utf8).span.bytes)
        }
    }
}

extension HTTPClientResponse: Equatable {
    public static func == (one: Self, other: Self) -> Bool { one.status == other.status }
}
