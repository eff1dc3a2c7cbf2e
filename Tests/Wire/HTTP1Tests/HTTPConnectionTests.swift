// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TestSupport
import Testing

@testable import HTTP1
@testable import Tor

/// Answers each request with a closure and records requests, errors and closed connections.
private final class TestServer: HTTPConnection.Delegate {
    var listener: Listener!
    var connections: [HTTPConnection] = []
    var streams: [ByteStream] = []
    var seen: [Seen] = []
    var faults: [HTTPRequestError] = []
    var closedCount = 0
    var answer: (HTTPRequest, HTTPConnection) -> Void

    init(
        on loop: EventLoop, limits: HTTPLimits = HTTPLimits(),
        prelude: (@Sendable (RawSpan) -> HTTPConnection.PreludeResult)? = nil,
        answer: @escaping (HTTPRequest, HTTPConnection) -> Void
    ) throws {
        self.answer = answer
        listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop) { [unowned self] stream in
            streams.append(stream)
            connections.append(HTTPConnection(stream, limits: limits, host: self, prelude: prelude))
        }
    }

    func handle(_ request: HTTPRequest, on connection: HTTPConnection) {
        seen.append(Seen(request))
        answer(request, connection)
    }

    func errorResponse(for fault: HTTPRequestError, on connection: HTTPConnection) -> [UInt8] {
        faults.append(fault)
        return HTTPResponse(status: fault.status, body: Array(fault.text.utf8)).encoded(keepsAlive: false)
    }

    /// Closes the listener and all connections, which refer to the server until they are closed.
    func close() {
        listener.close()
        for connection in connections { connection.close() }
    }

    func closed(_ connection: HTTPConnection) {
        closedCount += 1
        connections.removeAll { $0 === connection }
    }
}

/// A client that records what it receives.
private final class Peer: ByteStreamHandler {
    var text = ""
    var count = 0
    var end: StreamError?
    var stream: ByteStream!

    init(_ server: TestServer, on loop: EventLoop, isolation: isolated (any Actor)? = #isolation)
        async throws
    {
        stream = try await loop.dial(server.listener.endpoint, timeout: .seconds(60))
        stream.handler = self
        stream.resumeReading()
    }

    func send(_ text: String) { stream.write(Array(text.utf8)) }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        count += bytes.byteCount
        if count <= 100_000 { bytes.withUnsafeBytes { text += String(decoding: $0, as: UTF8.self) } }
    }
    func stream(_ stream: ByteStream, ended reason: StreamError) { end = reason }
}

/// Waits on the loop until the condition is true, for at most ten seconds.

private func ok(_ text: String = "ok") -> HTTPResponse { HTTPResponse(status: 200, body: Array(text.utf8)) }

private let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

@Suite(.tags(.sockets)) struct HTTPConnectionTests {
    let loop = EventLoop(name: "test")
    var domain: LoopDomain { LoopDomain(loop) }

    @Test func `immediate and delayed responses keep the order of the requests`() async throws {
        try await domain.run { domain in
            var later: [HTTPConnection] = []
            let server = try TestServer(on: domain.loop) { request, connection in
                if request.target == Array("/later".utf8) { later.append(connection) } else { connection.respond(ok()) }
            }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get + "GET /later HTTP/1.1\r\nHost: h\r\n\r\n" + get)
            #expect(await eventually { later.count == 1 && peer.text.hasSuffix("ok") })
            #expect(server.seen.count == 2)
            #expect(!server.connections[0].isIdle)
            later[0].respond(ok("late"))
            #expect(await eventually { peer.text.hasSuffix("ok") && server.seen.count == 3 })
            #expect(await eventually { server.connections[0].isIdle })
            peer.send(get)
            #expect(await eventually { server.seen.count == 4 })
            peer.stream.close()
            #expect(await eventually { server.closedCount == 1 && server.connections.isEmpty })
        }
    }

    @Test func `5000 pipelined requests are answered one by one, without recursion`() async throws {
        try await domain.run { domain in
            var depth = 0
            var deepest = 0
            let server = try TestServer(on: domain.loop) { _, connection in
                depth += 1
                deepest = max(deepest, depth)
                connection.respond(ok())
                depth -= 1
            }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(String(repeating: get, count: 5000))
            #expect(await eventually { server.seen.count == 5000 })
            #expect(await eventually { peer.count == 5000 * 40 })
            #expect(deepest == 1 && server.faults.isEmpty)
        }
    }

    @Test func `a client that does not read gets few responses and is disconnected`() async throws {
        try await domain.run { domain in
            let large = [UInt8](repeating: 7, count: 1 << 20)
            let limits = HTTPLimits(readTimeout: .seconds(1))
            let server = try TestServer(on: domain.loop, limits: limits) { _, connection in
                connection.respond(HTTPResponse(status: 200, body: large))
            }
            let peer = try await Peer(server, on: domain.loop)
            peer.stream.pauseReading()
            peer.send(String(repeating: get, count: 200))
            #expect(await eventually { server.closedCount == 1 })
            // What the kernel buffers for both sides, and one response more.
            #expect(server.seen.count < 30)
        }
    }

    @Test(arguments: ["close", "keep-alive"])
    func `a client that half-closes after its request gets the whole response`(_ connection: String) async throws {
        guard try await ChildProcess.output(of: "which", ["python3"]).isSuccess else {
            return print("SKIPPED: python3 is not installed")
        }
        let body = [UInt8](repeating: 7, count: 1 << 20)
        let server = try await domain.run { domain in
            UnsafeTransfer(
                try TestServer(on: domain.loop) { request, connection in
                    connection.respond(HTTPResponse(status: 200, body: body))
                })
        }
        let script = """
            import socket, sys
            client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
            client.sendall(b"GET / HTTP/1.1\\r\\nHost: h\\r\\nConnection: " + sys.argv[2].encode() + b"\\r\\n\\r\\n")
            client.shutdown(socket.SHUT_WR)
            count = 0
            while data := client.recv(65536): count += data.count(b"\\7")
            print(count)
            """
        let port = await domain.run { _ in
            if case .tcp(_, let port) = server.value.listener.endpoint { "\(port)" } else { "" }
        }
        let output = try await ChildProcess.output(of: "python3", ["-c", script, port, connection])
        #expect(output.text == "\(body.count)\n")
        await domain.run { domain in
            #expect(await eventually { server.value.closedCount == 1 })
        }
    }

    @Test func `a closed client is detected when its response is sent`() async throws {
        try await domain.run { domain in
            var pending: [HTTPConnection] = []
            let server = try TestServer(on: domain.loop) { pending.append($1) }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get)
            #expect(await eventually { pending.count == 1 })
            peer.stream.close()
            await domain.loop.sleep(for: .milliseconds(50))
            pending[0].respond(ok())
            #expect(await eventually { server.closedCount == 1 })
            pending[0].respond(ok())
            #expect(pending[0].isClosed && server.closedCount == 1)
        }
    }

    @Test func `an invalid request gets an error response and closes the connection`() async throws {
        try await domain.run { domain in
            let server = try TestServer(on: domain.loop) { $1.respond(ok()) }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get + "\u{16}\u{3}\u{1}")
            #expect(await eventually { peer.end != nil })
            #expect(peer.text.hasPrefix("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 400 Bad Request\r\n"))
            peer.stream.close()
            #expect(await eventually { server.closedCount == 1 })
            #expect(server.faults == [.notHTTP(firstByte: 0x16)])
        }
    }

    @Test func `the first, request and idle timeouts close their connections`() async throws {
        try await domain.run { domain in
            let limits = HTTPLimits(
                requestTimeout: .milliseconds(200), idleTimeout: .milliseconds(200),
                firstByteTimeout: .milliseconds(200))
            let server = try TestServer(on: domain.loop, limits: limits) { $1.respond(ok()) }
            let inputs = ["", "GET / HT", get]
            var peers: [Peer] = []
            for input in inputs {
                peers.append(try await Peer(server, on: domain.loop))
                if !input.isEmpty { peers.last?.send(input) }
            }
            #expect(await eventually { peers.allSatisfy { $0.end != nil } })
            #expect(peers[0].text.isEmpty)
            #expect(peers[1].text.hasPrefix("HTTP/1.1 408 Request Timeout\r\n"))
            #expect(peers[2].text.hasSuffix("\r\n\r\nok"))
            for peer in peers { peer.stream.close() }
            #expect(await eventually { server.closedCount == 3 })
            #expect(server.faults == [.timeout])
        }
    }

    @Test func `a prelude consumes the first bytes until it is done`() async throws {
        try await domain.run { domain in
            // Takes five bytes, from pieces of any size.
            let left = UnsafeTransfer(5)
            let server = try TestServer(
                on: domain.loop,
                prelude: { bytes in
                    let taken = min(left.value, bytes.byteCount)
                    left.value -= taken
                    return left.value > 0 ? .more : .done(taken: taken)
                }
            ) { $1.respond(ok()) }
            let peer = try await Peer(server, on: domain.loop)
            peer.send("PR")
            await domain.loop.sleep(for: .milliseconds(50))
            peer.send("OXY" + get)
            #expect(await eventually { peer.text.hasSuffix("ok") })
            #expect(server.seen == [Seen("GET", "/")])
        }
    }

    @Test func `a prelude can refuse a connection with its own response`() async throws {
        try await domain.run { domain in
            let server = try TestServer(
                on: domain.loop, prelude: { _ in .refused(response: Array("bye".utf8)) }
            ) {
                $1.respond(ok())
            }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get)
            #expect(await eventually { peer.end != nil })
            #expect(peer.text == "bye" && server.seen.isEmpty)
            peer.stream.close()
            #expect(await eventually { server.closedCount == 1 })
        }
    }

    @Test func `drain sends the response, reject sends only its own bytes, close sends nothing`() async throws {
        try await domain.run { domain in
            var pending: [HTTPConnection] = []
            let server = try TestServer(on: domain.loop) { pending.append($1) }
            var peers: [Peer] = []
            for count in 1...4 {
                peers.append(try await Peer(server, on: domain.loop))
                peers.last?.send(get)
                #expect(await eventually { pending.count == count })
            }
            pending[0].drain()
            #expect(!pending[0].isClosed)
            pending[0].respond(ok())
            #expect(pending[0].isClosed)
            pending[1].reject(Array("bye".utf8))
            pending[2].close()
            // Closed while its response is being sent.
            pending[3].reject([])
            pending[3].close()
            #expect(await eventually { peers.allSatisfy { $0.end != nil } })
            #expect(peers[0].text.contains("Connection: close") && peers[0].text.hasSuffix("ok"))
            #expect(peers[1].text == "bye" && peers[2].text.isEmpty)
            peers[0].stream.close()
            peers[1].stream.close()
            #expect(await eventually { server.closedCount == 2 })
            await domain.loop.sleep(for: .milliseconds(50))
            #expect(server.closedCount == 2)
            pending = []
        }
    }

    // MARK: Streams

    @Test func `a stream delivers its pieces as they are sent, then its end`() async throws {
        try await domain.run { domain in
            var streaming: [HTTPConnection] = []
            let server = try TestServer(on: domain.loop) { _, connection in
                connection.stream(HTTPResponse(status: 200, body: Array("a".utf8)))
                streaming.append(connection)
            }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get)
            #expect(await eventually { peer.text.hasSuffix("\r\n\r\na") })
            for piece in ["b", "c"] {
                streaming[0].send(Array(piece.utf8))
                #expect(await eventually { peer.text.hasSuffix(piece) })
            }
            #expect(!peer.text.contains("Content-Length") && peer.text.hasSuffix("\r\n\r\nabc"))
            streaming[0].drain()
            #expect(streaming[0].isClosed)
            #expect(await eventually { peer.end != nil })
            peer.stream.close()
            #expect(await eventually { server.closedCount == 1 })
            streaming = []
        }
    }

    @Test func `a client that closes during a stream is detected without a write`() async throws {
        try await domain.run { domain in
            let server = try TestServer(on: domain.loop) { $1.stream(HTTPResponse(status: 200)) }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get)
            #expect(await eventually { peer.text.hasSuffix("\r\n\r\n") })
            peer.stream.close()
            #expect(await eventually { server.closedCount == 1 })
        }
    }

    @Test func `a client that does not read its stream is disconnected`() async throws {
        try await domain.run { domain in
            var streaming: [HTTPConnection] = []
            let server = try TestServer(on: domain.loop) { _, connection in
                connection.stream(HTTPResponse(status: 200))
                streaming.append(connection)
            }
            let peer = try await Peer(server, on: domain.loop)
            peer.send(get)
            #expect(await eventually { streaming.count == 1 && peer.count > 0 })
            peer.stream.pauseReading()
            // The kernel buffers some megabytes for both sides.
            let piece = [UInt8](repeating: 7, count: 60_000)
            var sent = 0
            while !streaming[0].isClosed, sent < 1000 {
                streaming[0].send(piece)
                sent += 1
                await domain.loop.sleep(for: .milliseconds(1))
            }
            #expect(streaming[0].isClosed && sent < 1000)
            #expect(await eventually { server.closedCount == 1 })
            streaming = []
        }
    }

    // MARK: curl

    private func curl(_ server: UnsafeTransfer<TestServer>, _ arguments: [String], paths: [String] = ["/x"])
        async throws -> String
    {
        let endpoint = await domain.run { _ in "\(server.value.listener.endpoint)" }
        let output = try await ChildProcess.output(
            of: "curl", ["-sS", "--max-time", "20"] + arguments + paths.map { "http://\(endpoint)\($0)" })
        return output.text
    }

    @Test func `curl gets correct responses`() async throws {
        guard try await ChildProcess.output(of: "which", ["curl"]).isSuccess else {
            return print("SKIPPED: curl is not installed")
        }
        let server = try await domain.run { domain in
            UnsafeTransfer(
                try TestServer(on: domain.loop) { request, connection in
                    let body = request.body.isEmpty ? request.target : Array("\(request.body.count)".utf8)
                    connection.respond(HTTPResponse(status: 200, headers: [("X-Method", request.method)], body: body))
                })
        }
        let large = String(repeating: "x", count: 16384)
        let writeOut = ["-w", " %{http_code} %{http_version} %{num_connects}\n"]
        #expect(try await curl(server, writeOut) == "/x 200 1.1 1\n")
        // The second request reuses the connection of the first.
        #expect(try await curl(server, writeOut, paths: ["/1", "/2"]) == "/1 200 1.1 1\n/2 200 1.1 0\n")
        #expect(try await curl(server, writeOut + ["--http1.0"]) == "/x 200 1.1 1\n")
        #expect(try await curl(server, writeOut + ["-d", "body"]) == "4 200 1.1 1\n")
        #expect(try await curl(server, writeOut + ["-d", large]) == "16384 200 1.1 1\n")
        #expect(
            try await curl(server, writeOut + ["-d", large, "-H", "Expect: 100-continue"]) == "16384 200 1.1 1\n")
        #expect(
            try await curl(server, writeOut + ["-d", large, "-H", "Transfer-Encoding: chunked"])
                == "16384 200 1.1 1\n")
        #expect(try await curl(server, ["--http2"]) == "/x")
        #expect(try await curl(server, ["-o", "/dev/null", "-D", "-", "-I"]).contains("Content-Length: 2\r\n"))
        #expect(try await curl(server, writeOut + ["-d", large + "x", "-o", "/dev/null"]) == " 413 1.1 1\n")
        let chunked = ["-d", large + "x", "-H", "Transfer-Encoding: chunked", "-o", "/dev/null"]
        #expect(try await curl(server, writeOut + chunked) == " 413 1.1 1\n")
        #expect(
            try await curl(server, writeOut + ["-H", "Expect: something", "-o", "/dev/null"]) == " 417 1.1 1\n")
        #expect(try await curl(server, writeOut + ["-H", "X: \(large)", "-o", "/dev/null"]) == " 431 1.1 1\n")
        let long = "/" + String(repeating: "a", count: 9000)
        #expect(try await curl(server, writeOut + ["-o", "/dev/null"], paths: [long]) == " 414 1.1 1\n")
        _ = try await curl(server, ["--http2-prior-knowledge"])
        await domain.run { _ in
            #expect(server.value.faults.last == .version)
            server.value.close()
        }
    }
}

/// Carries a value of the loop's domain through test code that runs outside it.
private final class UnsafeTransfer<Value>: @unchecked Sendable {
    // Unchecked: `value` is accessed only on the loop.
    var value: Value
    init(_ value: Value) { self.value = value }
}
