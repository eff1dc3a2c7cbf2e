// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import HTTP1

private let host = "Host: h\r\n"

/// Streams of valid requests, and the requests that they contain.
private let validStreams: [(stream: String, requests: [Seen])] = [
    ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("GET", "/")]),
    (
        "GET //relay?a=b&c=%20d HTTP/1.1\r\nHost:h\r\nACCEPT: \t text/plain \t\r\nEmpty:\r\nX-a:  b  c\r\n\r\n",
        [
            Seen(
                "GET", "//relay?a=b&c=%20d",
                headers: ["host: h", "accept: text/plain", "empty: ", "x-a: b  c"])
        ]
    ),
    (
        "POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        [Seen("POST", "/v1", headers: ["host: h", "content-length: 5"], body: "hello")]
    ),
    (
        "POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n",
        [Seen("POST", "/v1", headers: ["host: h", "content-length: 0"]), Seen("GET", "/2")]
    ),
    (
        "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
            + "5\r\nhel\r\n\r\nA;name=\"v\"\r\n0123456789\r\n000\r\nTrailer: dropped\r\nContent-Length: 7\r\n\r\n"
            + "GET /after HTTP/1.1\r\nHost: h\r\n\r\n",
        [
            Seen(
                "POST", "/c", headers: ["host: h", "transfer-encoding: Chunked"], body: "hel\r\n0123456789"),
            Seen("GET", "/after"),
        ]
    ),
    (
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
            + "HEAD /3 HTTP/1.1\r\nHost: h\r\n\r\n",
        [Seen("GET", "/1"), Seen("GET", "/2"), Seen("HEAD", "/3")]
    ),
    ("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("GET", "/")]),
    ("GET /old HTTP/1.0\r\n\r\n", [Seen("GET", "/old", 0, headers: [])]),
    (
        "GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
        [Seen("GET", "/1", 0, headers: ["connection: Keep-Alive"]), Seen("GET", "/2", 0, headers: [])]
    ),
    ("GET http://h:80/path?q=1 HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("GET", "/path?q=1")]),
    ("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("GET", "/")]),
    ("GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("GET", "/?q")]),
    ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("OPTIONS", "*")]),
    ("M-SEARCH /m HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("M-SEARCH", "/m")]),
    ("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", [Seen("CONNECT", "h:443")]),
    (
        "GET /u HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nGET /not HTTP/1.1\r\nHost: h\r\n\r\n",
        [Seen("GET", "/u", headers: ["host: h", "connection: upgrade", "upgrade: h2c"])]
    ),
    (
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /not HTTP/1.1\r\nHost: h\r\n\r\n",
        [Seen("GET", "/", headers: ["host: h", "connection: close"])]
    ),
    (
        "GET / HTTP/1.1\r\nHost: h\r\nX: \u{e4}\u{20ac}\r\n\r\n",
        [Seen("GET", "/", headers: ["host: h", "x: \u{e4}\u{20ac}"])]
    ),
]

/// Invalid streams, and the error of each.
private let invalidStreams: [(stream: String, fault: HTTPRequestError)] = [
    // Not HTTP/1.
    ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}", .notHTTP(firstByte: 0x16)),
    ("\u{0}\u{0}\u{0}\u{40}\u{1}", .notHTTP(firstByte: 0)),
    ("get / HTTP/1.1\r\n", .notHTTP(firstByte: UInt8(ascii: "g"))),
    (" GET / HTTP/1.1\r\n", .notHTTP(firstByte: UInt8(ascii: " "))),
    ("\nGET / HTTP/1.1\r\n", .notHTTP(firstByte: UInt8(ascii: "\n"))),
    ("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n", .notHTTP(firstByte: UInt8(ascii: "\r"))),
    ("\rGET / HTTP/1.1\r\n", .malformed),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .version),
    ("GET / HTTP/2.0\r\n", .version),
    ("GET / HTTP/0.9\r\n", .version),
    // There is no such version.
    ("GET / HTTP/1.7\r\n", .version),
    ("GET /\r\n", .version),
    ("GET / HTTP/1.11\r\n", .version),
    ("GET / HTTP/11\r\n", .version),
    // The request line.
    ("BREW / HTTP/1.1\r\n", .malformed),
    ("PROXY TCP6 ::1 ::1 1 2\r\n", .malformed),
    ("GET\t/ HTTP/1.1\r\n", .malformed),
    ("GET / HTTQ/1.1\r\n", .malformed),
    ("GET / http/1.1\r\n", .malformed),
    ("SOURCE / ICE/1.0\r\n", .malformed),
    ("GET / RTSP/1.0\r\n", .malformed),
    ("POST / RTSP/1.1\r\n", .malformed),
    ("DESCRIBE / RTSP/1.0\r\n", .malformed),
    ("GET relative HTTP/1.1\r\n\(host)\r\n", .malformed),
    ("GET /a\tb HTTP/1.1\r\n\(host)\r\n", .malformed),
    ("GET /a#b HTTP/1.1\r\n\(host)\r\n", .malformed),
    ("GET /a\u{0}b HTTP/1.1\r\n\(host)\r\n", .malformed),
    ("GET /a\u{7F}b HTTP/1.1\r\n\(host)\r\n", .malformed),
    ("GET /a\u{e4} HTTP/1.1\r\n\(host)\r\n", .malformed),
    ("GET / HTTP/1.1\n\(host)\r\n", .malformed),
    ("GET / HTTP/1.1\r\r\n\(host)\r\n", .malformed),
    // Fields.
    ("GET / HTTP/1.1\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)\(host)\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)No colon\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host): no name\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Space : before\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Spa ce: within\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)N\u{e4}me: v\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Na\u{0}me: v\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Name: v\u{0}\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Name: v\u{7F}\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Name: v\rw\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Name: v\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Name: v\r\n folded\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)Name: v\r\n\tfolded\r\n\r\n", .malformed),
    ("GET / HTTP/1.1\r\n Folded: first\r\n\(host)\r\n", .malformed),
    ("GET / HTTP/1.1\r\n\(host)\rX", .malformed),
    ("GET / HTTP/1.1\r\n\(host)\n", .malformed),
    // Body length.
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 1\r\nContent-Length: 1\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 1, 1\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: +1\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: -1\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 0x1\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 1 1\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length:\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 99999999999999999999\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 18446744073709551617\r\n\r\na", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", .malformed),
    ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", .malformed),
    ("POST / HTTP/1.1\r\n\(host)Transfer-Encoding: gzip\r\n\r\n", .transferCoding),
    ("POST / HTTP/1.1\r\n\(host)Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", .transferCoding),
    ("POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", .transferCoding),
    (
        "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        .transferCoding
    ),
    ("POST / HTTP/1.1\r\n\(host)Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", .transferCoding),
    ("POST / HTTP/1.1\r\n\(host)Expect: 200-maybe\r\nContent-Length: 1\r\n\r\na", .expectation),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 16385\r\n\r\n", .bodyTooLarge),
    ("POST / HTTP/1.1\r\n\(host)Content-Length: 16385\r\nExpect: 100-continue\r\n\r\n", .bodyTooLarge),
]

/// Invalid chunks, and the error of each.
private let invalidChunks: [(chunks: String, fault: HTTPRequestError)] = [
    ("-1\r\na", .malformed), ("+1\r\na", .malformed), ("\r\n", .malformed), ("g\r\n", .malformed),
    ("0x1\r\na\r\n", .malformed), (" 1\r\na\r\n", .malformed), (";\r\n", .malformed),
    ("11111111111111111\r\n", .malformed), ("00000000000000000000000011111111111111111\r\n", .malformed),
    ("FFFFFFFFFFFFFFF\r\na", .bodyTooLarge), ("4001\r\n", .bodyTooLarge),
    ("1\na\r\n", .malformed), ("1\r\na\n0\r\n\r\n", .malformed), ("1\r\naXX0\r\n\r\n", .malformed),
    ("1\r\nab\r\n0\r\n\r\n", .malformed), ("1\r\na\rX0\r\n\r\n", .malformed), ("1\rXa\r\n0\r\n\r\n", .malformed),
    ("1;a\u{0}\r\na\r\n", .malformed), ("0\r\n\rX", .malformed), ("0\r\nT: v\n\r\n", .malformed),
    ("0\r\nT: v\r\n folded\r\n\r\n", .malformed), ("0\r\nT\r\n\r\n", .malformed), ("0\r\nT: \u{0}\r\n\r\n", .malformed),
    ("1;" + String(repeating: "x", count: 300) + "\r\na", .malformed),
    // RFC 9112 §7.1: only extensions may follow the size.
    ("1 a\r\na", .malformed), ("1 \r\na", .malformed), ("1\t\r\na", .malformed), ("1;\r\na", .malformed),
    ("1; \r\na", .malformed), ("1;a b\r\na", .malformed), ("1;a=b c\r\na", .malformed),
    ("1;a=\"b\r\na", .malformed), ("1;a=\"b\"c\r\na", .malformed),
    // The grammar allows these, and nobody sends them: llhttp takes no white space, quoted pairs, or another
    // extension after a value.
    ("1 ; a = b\r\na", .malformed), ("1;a=\"\\\"\"\r\na", .malformed), ("1;a=b;c\r\na", .malformed),
    ("1;a;\r\na", .malformed), ("1,a\r\na", .malformed), ("1;a\u{e9}\r\na", .malformed),
    ("0\r\nT: " + String(repeating: "v", count: 16384) + "\r\n\r\n", .headTooLarge),
]

@Suite(.tags(.sockets)) struct HTTPSessionTests {
    // MARK: Parsing

    @Test(arguments: validStreams.indices) func `requests parse the same in pieces of any fixed size`(_ index: Int) {
        let (stream, requests) = validStreams[index]
        for size in [Int.max, 1, 2, 3, 7, 16] {
            let client = Client(sending: stream, inPiecesOf: size)
            #expect(client.seen == requests, "in pieces of \(size)")
            #expect(client.fault == nil)
        }
    }

    @Test(arguments: 0..<200) func `requests parse the same in pieces of random sizes`(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let (stream, requests) = validStreams[random.below(validStreams.count)]
        var client = Client()
        var rest = Array(stream.utf8)
        while !rest.isEmpty {
            let size = 1 + random.below(min(rest.count, 40))
            client.send(Array(rest.prefix(size)))
            rest.removeFirst(size)
        }
        #expect(client.seen == requests)
        #expect(client.fault == nil)
    }

    @Test(arguments: invalidStreams.indices)
    func `each invalid request yields its error in pieces of any size`(_ index: Int) {
        let (stream, fault) = invalidStreams[index]
        for size in [Int.max, 1, 3] {
            let client = Client(sending: stream, inPiecesOf: size)
            #expect(client.fault == fault, "in pieces of \(size)")
            #expect(client.isClosed && client.seen.isEmpty && client.output.isEmpty)
            #expect(client.session.deadline == nil)
        }
    }

    @Test(arguments: invalidChunks.indices) func `a request with an invalid chunk is rejected`(_ index: Int) {
        let (chunks, fault) = invalidChunks[index]
        let head = "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n"
        for size in [Int.max, 1, 3] {
            let client = Client(sending: head + chunks, inPiecesOf: size)
            #expect(client.fault == fault, "in pieces of \(size)")
            #expect(client.isClosed && client.seen.isEmpty)
        }
    }

    @Test func `the session ignores input after an error`() {
        var client = Client(sending: "GET / HTTP/1.1\n")
        #expect(client.isClosed)
        client.send("GET / HTTP/1.1\r\n\(host)\r\n")
        client.respond(HTTPResponse(status: 200))
        client.timeReached(1000)
        #expect(client.seen.isEmpty && client.output.isEmpty)
    }

    @Test func `an invalid second request does not suppress the first response`() {
        let client = Client(sending: "GET / HTTP/1.1\r\n\(host)\r\nGET / HTTP/1.1\n")
        #expect(client.seen.count == 1 && client.output.hasSuffix("ok"))
        #expect(client.fault == .malformed && client.isClosed)
    }

    @Test func `a copied session parses independently`() {
        var one = Client()
        one.send("POST / HTTP/1.1\r\n\(host)Content-Length: 2\r\n\r\na")
        var other = one
        one.send("b")
        other.send("c")
        #expect(one.seen.map(\.body) == ["ab"] && other.seen.map(\.body) == ["ac"])
    }

    @Test func `a request prints as redacted`() {
        let request = HTTPRequest(
            method: "GET", target: Array("/secret".utf8), minorVersion: 1, headers: [("a", "secret")], body: [])
        var dumped = ""
        dump(request, to: &dumped)
        #expect("\(request)" == "<redacted>" && !dumped.contains("secret"))
        #expect(request.header("a") == "secret" && request.header("b") == nil)
    }

    // MARK: Limits

    private func fault(_ limits: HTTPLimits, _ stream: String) -> [HTTPRequestError?] {
        [Int.max, 1].map { size in
            let client = Client(limits, sending: stream, inPiecesOf: size)
            #expect((client.fault == nil) == (client.seen.count == 1))
            return client.fault
        }
    }

    @Test func `a request target may reach the limit but not exceed it`() {
        func line(_ length: Int) -> String {
            "GET /\(String(repeating: "a", count: length - 1)) HTTP/1.1\r\n\(host)\r\n"
        }
        let limits = HTTPLimits(target: 50, head: 500)
        #expect(fault(limits, line(49)) == [nil, nil])
        #expect(fault(limits, line(50)) == [nil, nil])
        #expect(fault(limits, line(51)) == [.targetTooLong, .targetTooLong])
        #expect(fault(HTTPLimits(), line(8192)) == [nil, nil])
        #expect(fault(HTTPLimits(), line(8193)) == [.targetTooLong, .targetTooLong])
    }

    @Test func `a request head, including its empty line, may reach the limit but not exceed it`() {
        func head(_ length: Int) -> String {
            let rest = "GET / HTTP/1.1\r\n\(host)X: \r\n\r\n"
            return "GET / HTTP/1.1\r\n\(host)X: \(String(repeating: "v", count: length - rest.utf8.count))\r\n\r\n"
        }
        for limit in [100, 16384] {
            let limits = HTTPLimits(head: limit)
            #expect(fault(limits, head(limit - 1)) == [nil, nil])
            #expect(fault(limits, head(limit)) == [nil, nil])
            #expect(fault(limits, head(limit + 1)) == [.headTooLarge, .headTooLarge])
        }
    }

    @Test func `the field count may reach the limit but not exceed it`() {
        func head(_ fields: Int) -> String {
            "GET / HTTP/1.1\r\n\(host)" + String(repeating: "X: v\r\n", count: fields - 1) + "\r\n"
        }
        #expect(fault(HTTPLimits(), head(99)) == [nil, nil])
        #expect(fault(HTTPLimits(), head(100)) == [nil, nil])
        #expect(fault(HTTPLimits(), head(101)) == [.headTooLarge, .headTooLarge])
        #expect(fault(HTTPLimits(head: 80_000), head(10_000)) == [.headTooLarge, .headTooLarge])
    }

    @Test(arguments: [
        "1;a", "1;a=b", "1;a;b=\"e f\"", "0001;a", "1;a=\"\u{e9}\"", "1;a=\"\"",
    ])
    func `chunk extensions are ignored`(_ line: String) {
        for size in [Int.max, 1, 3] {
            let client = Client(
                sending: "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n\(line)\r\na\r\n0;x\r\n\r\n",
                inPiecesOf: size)
            #expect(client.fault == nil)
            #expect(client.seen.count == 1)
        }
    }

    @Test func `a body may reach the limit but not exceed it, with a length or in chunks`() {
        func plain(_ length: Int) -> String {
            "POST / HTTP/1.1\r\n\(host)Content-Length: \(length)\r\n\r\n" + String(repeating: "b", count: length)
        }
        func chunked(_ lengths: Int...) -> String {
            "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n"
                + lengths.map { "\(String($0, radix: 16))\r\n\(String(repeating: "b", count: $0))\r\n" }.joined()
                + "0\r\n\r\n"
        }
        let limits = HTTPLimits(body: 100)
        for accepted in [plain(99), plain(100), chunked(100), chunked(50, 50), chunked(99), chunked()] {
            #expect(fault(limits, accepted) == [nil, nil])
        }
        for refused in [plain(101), chunked(101), chunked(50, 51), chunked(50, 50, 1)] {
            #expect(fault(limits, refused) == [.bodyTooLarge, .bodyTooLarge])
        }
    }

    @Test func `trailers count toward the head limit`() {
        func stream(_ trailer: Int) -> String {
            "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
                + "T: \(String(repeating: "t", count: trailer))\r\n\r\n"
        }
        let head = "POST / HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\n\r\n".utf8.count
        let room = 200 - head - "T: \r\n\r\n".utf8.count
        #expect(fault(HTTPLimits(head: 200), stream(room)) == [nil, nil])
        #expect(fault(HTTPLimits(head: 200), stream(room + 1)) == [.headTooLarge, .headTooLarge])
    }

    @Test(arguments: [
        ("", "A", HTTPRequestError.malformed), ("GET ", " ", .headTooLarge), ("GET /", "a", .targetTooLong),
        ("GET / HTTP/1.1\r\n", "a", .headTooLarge), ("GET / HTTP/1.1\r\nX:", " ", .headTooLarge),
        ("GET / HTTP/1.1\r\nX: ", "v", .headTooLarge), ("GET / HTTP/1.1\r\n", "X: v\r\n", .headTooLarge),
        ("", "\r\n", .notHTTP(firstByte: 13)),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "0", .malformed),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x", .malformed),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", .bodyTooLarge),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "T: t\r\n", .headTooLarge),
    ])
    func `an endless element is rejected at its limit`(_ start: String, _ piece: String, _ fault: HTTPRequestError) {
        var client = Client(sending: start)
        var sent = start.utf8.count
        while !client.isClosed, sent < 200_000 {
            client.send(piece)
            sent += piece.utf8.count
        }
        #expect(client.fault == fault)
        // A chunk of one byte takes six bytes.
        #expect(sent <= 16384 * 6 + 200)
    }

    // MARK: Responses

    private let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

    @Test func `a response has a Content-Length and no field that identifies the server`() {
        var client = Client()
        client.answer = nil
        client.send(get)
        #expect(client.session.isAnswering && client.output.isEmpty)
        client.respond(
            HTTPResponse(status: 200, headers: [("Content-Type", "text/plain")], body: Array("success".utf8)))
        #expect(client.output == "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nsuccess")
        #expect(!client.isClosed && client.session.isIdle)
    }

    @Test func `an empty body has a Content-Length except with status 204 or 304`() {
        func text(_ status: Int) -> String {
            String(decoding: HTTPResponse(status: status, body: [1]).encoded(keepsAlive: false), as: UTF8.self)
        }
        let empty = HTTPResponse(status: 404).encoded(keepsAlive: true)
        #expect(String(decoding: empty, as: UTF8.self) == "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        #expect(text(204) == "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        #expect(text(304) == "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n")
        #expect(text(298) == "HTTP/1.1 298 \r\nContent-Length: 1\r\nConnection: close\r\n\r\n\u{1}")
    }

    @Test func `a line break in a header value cannot inject a field`() {
        let bytes = HTTPResponse(status: 200, headers: [("A", "b\r\nX: d")]).encoded(keepsAlive: true)
        #expect(!String(decoding: bytes, as: UTF8.self).contains("\nX"))
    }

    @Test func `HEAD gets the Content-Length and no body`() {
        let client = Client(sending: "HEAD / HTTP/1.1\r\n\(host)\r\n" + get)
        #expect(
            client.output
                == "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    }

    @Test(
        arguments: [
            ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", nil),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "close"),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", "close"),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close, keep-alive\r\n\r\n", "close"),
            ("GET / HTTP/1.0\r\n\r\n", "close"), ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"),
            ("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "close"),
            ("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", "close"),
            ("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "close"),
            (
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n",
                nil
            ),
        ] as [(String, String?)])
    func `the request decides whether the connection stays open`(_ request: String, _ connection: String?) {
        let client = Client(sending: request)
        #expect(client.isClosed == (connection == "close"))
        let expected = connection.map { "Connection: \($0)\r\n" } ?? ""
        #expect(client.output == "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\(expected)\r\nok")
        #expect(client.fault == nil)
    }

    @Test func `a response without a pending request is ignored`() {
        var client = Client()
        client.respond(HTTPResponse(status: 200))
        client.send("GET / HT")
        client.respond(HTTPResponse(status: 200))
        #expect(client.output.isEmpty && !client.isClosed)
        client.send("TP/1.1\r\n\(host)\r\n")
        #expect(client.seen.count == 1)
    }

    // MARK: Pipelines

    @Test func `pipelined requests are handed out one at a time`() {
        var client = Client()
        client.answer = nil
        client.send((1...3).map { "GET /\($0) HTTP/1.1\r\n\(host)\r\n" }.joined())
        for count in 1...3 {
            #expect(client.seen.map(\.target) == (1...count).map { "/\($0)" })
            #expect(client.session.isAnswering)
            client.respond(HTTPResponse(status: 200 + count))
        }
        #expect(client.session.isIdle && client.seen.count == 3)
        #expect(
            client.output.split(separator: "\r\n").filter { $0.hasPrefix("HTTP") }.map { $0.dropFirst(9).prefix(3) }
                == ["201", "202", "203"])
    }

    @Test func `exceeding the pipeline limit closes the connection after the current response`() {
        for excess in [0, 1] {
            for size in [Int.max, 1000] {
                var client = Client()
                client.answer = nil
                client.send(get)
                let requests = Array(String(repeating: get, count: HTTPSession.maximumPipelined / get.utf8.count).utf8)
                let filling = [UInt8](repeating: 0x47, count: HTTPSession.maximumPipelined - requests.count + excess)
                client.send(requests + filling, inPiecesOf: size)
                #expect(client.fault == nil && !client.isClosed)
                client.respond(HTTPResponse(status: 200))
                #expect(client.isClosed == (excess > 0))
                #expect(client.seen.count == (excess > 0 ? 1 : 2))
                #expect(client.output.contains("Connection: close") == (excess > 0))
            }
        }
    }

    @Test func `answered requests free room in the pipeline`() {
        var client = Client()
        client.answer = nil
        client.send(get)
        for _ in 0..<100 {
            client.send(String(repeating: get, count: 40))
            for _ in 0..<40 { client.respond(HTTPResponse(status: 200)) }
        }
        #expect(client.seen.count == 4001 && client.fault == nil)
    }

    // MARK: Expect: 100-continue

    private let expectingPost = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"

    @Test(arguments: [Int.max, 1]) func `a client that waits for 100 Continue gets it once`(_ size: Int) {
        var client = Client()
        client.send(expectingPost, inPiecesOf: size)
        #expect(client.output == "HTTP/1.1 100 Continue\r\n\r\n")
        client.output = ""
        client.send("ab", inPiecesOf: 1)
        #expect(client.seen.map(\.body) == ["ab"] && client.output.hasPrefix("HTTP/1.1 200 OK"))
    }

    @Test func `a client that does not wait for 100 Continue does not get it`() {
        #expect(Client(sending: expectingPost + "a").output.isEmpty)
        #expect(Client(sending: expectingPost + "ab").output.hasPrefix("HTTP/1.1 200 OK"))
        let old = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        #expect(Client(sending: old).output.isEmpty && Client(sending: old + "ab").seen.count == 1)
        let none = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"
        #expect(Client(sending: none).output.hasPrefix("HTTP/1.1 200 OK"))
    }

    @Test func `a pipelined request gets 100 Continue after the previous response`() {
        var client = Client()
        client.answer = nil
        client.send(get + expectingPost)
        #expect(client.output.isEmpty)
        client.respond(HTTPResponse(status: 200))
        #expect(client.output.hasSuffix("\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"))
    }

    // MARK: Timeouts

    private var limits: HTTPLimits {
        HTTPLimits(requestTimeout: .seconds(20), idleTimeout: .seconds(60), firstByteTimeout: .seconds(30))
    }

    @Test func `a connection without a request closes silently at the first timeout`() {
        for empty in ["", "\r\n"] {
            var client = Client(limits, sending: empty)
            #expect(client.session.deadline == .seconds(30))
            client.timeReached(29.9)
            #expect(!client.isClosed)
            client.timeReached(30)
            #expect(client.isClosed && client.fault == nil && client.output.isEmpty && client.session.deadline == nil)
        }
    }

    @Test func `a trickled request must be complete within the request timeout`() {
        var client = Client(limits)
        client.now = .seconds(10)
        for byte in get.utf8.dropLast() {
            client.send([byte])
            client.now = .seconds(25)
            #expect(client.session.deadline == .seconds(30) && !client.session.isIdle)
        }
        client.timeReached(30)
        #expect(client.fault == .timeout && client.isClosed && client.seen.isEmpty)
    }

    @Test func `a body must be complete within the request timeout`() {
        var client = Client(limits, sending: expectingPost)
        client.timeReached(20)
        #expect(client.fault == .timeout)
    }

    @Test func `the idle timeout applies between requests`() {
        var client = Client(limits)
        client.now = .seconds(5)
        client.send(get)
        #expect(client.session.deadline == .seconds(65))
        client.timeReached(64)
        client.send("G")
        #expect(client.session.deadline == .seconds(84))
        client.send(String(get.dropFirst()))
        #expect(client.session.deadline == .seconds(124) && client.seen.count == 2)
        client.timeReached(124)
        #expect(client.isClosed && client.fault == nil)
    }

    @Test func `no timeout runs while a request is handled, and it restarts for the next one`() {
        var client = Client(limits)
        client.answer = nil
        client.send(get + "GET")
        #expect(client.session.deadline == nil)
        client.timeReached(1000)
        #expect(!client.isClosed)
        client.respond(HTTPResponse(status: 200))
        #expect(client.session.deadline == .seconds(1020))
    }

    // MARK: Draining

    @Test func `draining closes an idle connection at once and rejects a partial request`() {
        for (sent, fault) in [("", nil), (get, nil), (get + "GET", .draining)] as [(String, HTTPRequestError?)] {
            var client = Client(sending: sent)
            client.drain()
            #expect(client.isClosed && client.fault == fault)
        }
    }

    @Test func `draining completes the current response before closing`() {
        var client = Client()
        client.answer = nil
        client.send(get + get)
        client.drain()
        #expect(!client.isClosed)
        client.send(get)
        client.respond(HTTPResponse(status: 200))
        #expect(client.isClosed && client.seen.count == 1)
        #expect(client.output == "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    }

    // MARK: Streams

    private static let head = HTTPResponse(
        status: 200, headers: [("Content-Type", "text/event-stream")], body: Array("first".utf8))

    /// A client that receives a stream.
    private func streaming(_ request: String? = nil) -> Client {
        var client = Client()
        client.answer = nil
        client.send(request ?? get)
        client.stream(Self.head)
        return client
    }

    @Test func `a stream has no Content-Length and lasts until it is drained`() {
        var client = streaming()
        client.piece(" second")
        client.piece(" third")
        #expect(
            client.output
                == "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nfirst second third")
        #expect(!client.isClosed && !client.session.isIdle && !client.session.isAnswering)
        client.drain()
        #expect(client.isClosed && client.fault == nil)
        let whole = client.output
        client.piece(" fourth")
        #expect(client.output == whole)
    }

    @Test func `a stream has no timeout`() {
        var client = streaming()
        #expect(client.session.deadline == nil)
        client.timeReached(100_000)
        #expect(!client.isClosed)
    }

    @Test func `a stream closes without a further piece when too much is unsent`() {
        for (unsent, isKept) in [(HTTPSession.maximumUnsent - 1, true), (HTTPSession.maximumUnsent, false)] {
            var client = streaming()
            client.piece(" second", unsent: unsent)
            #expect(client.isClosed == !isKept)
            #expect(client.output.hasSuffix(isKept ? "first second" : "first"))
        }
    }

    @Test func `input from the client ends its stream`() {
        var client = streaming()
        client.send(get)
        #expect(client.isClosed && client.fault == nil && client.seen.count == 1)
        #expect(client.output.hasSuffix("first"))
    }

    @Test func `a request pipelined behind a stream is not answered`() {
        var client = streaming(get + get)
        #expect(client.seen.count == 1 && !client.isClosed)
        client.drain()
        #expect(client.isClosed && client.seen.count == 1)
    }

    @Test func `a stream answers HEAD with its head only`() {
        let client = streaming("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(client.isClosed && client.output.hasSuffix("Connection: close\r\n\r\n"))
    }

    @Test func `a stream on a draining connection ends with its initial response`() {
        var client = Client()
        client.answer = nil
        client.send(get)
        client.drain()
        client.stream(Self.head)
        #expect(client.isClosed && client.output.hasSuffix("first"))
    }

    @Test func `a stream without a pending request is ignored`() {
        var client = Client()
        client.stream(Self.head)
        client.piece("piece")
        #expect(client.output.isEmpty && !client.isClosed)
        // A response after a stream is ignored.
        var other = streaming()
        other.respond(HTTPResponse(status: 200))
        #expect(other.output.hasSuffix("first"))
    }
}
