// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Redis

@Suite(.tags(.sockets)) struct ReplyReaderTests {
    /// Reads the replies in `text`, which arrives in pieces of this many bytes.
    private func replies(_ text: String, pieces: Int = .max) throws -> [RedisReply] {
        let reader = ReplyReader()
        var rest = Array(text.utf8)[...]
        var found: [RedisReply] = []
        while !rest.isEmpty {
            let piece = Array(rest.prefix(pieces))
            try reader.append(piece.span.bytes)
            rest = rest.dropFirst(piece.count)
            while let reply = try reader.next() { found.append(reply) }
        }
        return found
    }

    @Test(arguments: [1, 2, 3, 7, .max])
    func `replies arrive whole, in pieces of any length`(pieces: Int) throws {
        let text = "+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*3\r\n:1\r\n*2\r\n$0\r\n\r\n*0\r\n+x\r\n"
        let found = try replies(text, pieces: pieces)
        #expect(
            found == [
                .status("OK"), .error("ERR no"), .integer(-7), .bytes(Array("a\r\n".utf8)), .null, .null,
                .array([.integer(1), .array([.bytes([]), .array([])]), .status("x")]),
            ])
    }

    @Test func `a reply without its end is not a reply`() throws {
        #expect(try replies("*2\r\n:1\r\n") == [])
        #expect(try replies("$5\r\nabc") == [])
    }

    @Test(arguments: ["x\r\n", ":x\r\n", "$-2\r\n", "*70000\r\n", "*-2\r\n", "HTTP/1.1 400 Bad Request\r\n"])
    func `bytes that are no reply are refused`(text: String) {
        #expect(throws: RedisError.self) { try replies(text) }
    }

    @Test func `a reply that is too large is refused before it is stored`() throws {
        let reader = ReplyReader()
        let piece = [UInt8](repeating: 0x30, count: 1 << 20)
        try reader.append(Array("$999999999\r\n".utf8).span.bytes)
        #expect(throws: RedisError.self) {
            for _ in 0...(ReplyReader.maximumReply >> 20) {
                try reader.append(piece.span.bytes)
                _ = try reader.next()
            }
        }
    }

    @Test func `nested arrays have a limit`() {
        #expect(throws: RedisError.self) { try replies(String(repeating: "*1\r\n", count: 100) + ":1\r\n") }
    }

    @Test func `a reply does not print its content`() {
        #expect("\(RedisReply.bytes(Array("secret".utf8)))" == "<redacted>")
    }
}

@Suite(.tags(.sockets)) struct RedisCommandTests {
    @Test func `a command is an array of its arguments`() {
        var command = RedisCommand(function: "f", keys: [[0, 13, 10]])
        command.append(Int64(-5))
        command.append("")
        var output: [UInt8] = []
        command.encode(into: &output)
        #expect(
            output == Array("*6\r\n$5\r\nFCALL\r\n$1\r\nf\r\n$1\r\n1\r\n$3\r\n\0\r\n\r\n$2\r\n-5\r\n$0\r\n\r\n".utf8))
        #expect("\(command)" == "<redacted>")
    }
}
