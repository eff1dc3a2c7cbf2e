// SPDX-License-Identifier: Apache-2.0

import CNGHTTP2
import Cryptography
import EventLoop
import Foundation
import StandIns
import TestSupport
import Testing
import Time

@testable import HTTP2
@testable import Tor

/// Answers each request with a closure and counts requests.
private final class Handler: RequestHandler {
    let answer: (ServerRequest, any ServedConnection) -> Void
    var requests = 0

    init(_ answer: @escaping (ServerRequest, any ServedConnection) -> Void) { self.answer = answer }

    func handle(_ request: ServerRequest, on connection: any ServedConnection) {
        requests += 1
        answer(request, connection)
    }
}

private func request(_ path: String = "/3/device/00", body: [UInt8] = []) -> Request {
    var headers = HeaderBlock()
    headers.append(":method", "POST")
    headers.append(":scheme", "https")
    headers.append(":authority", "localhost")
    headers.append(":path", path, indexing: .never)
    return Request(headers: headers, body: body)
}

/// TLS contexts and a loop for a server on loopback and its client.
private struct Site: Sendable {
    let loop = EventLoop(name: "test")
    let authority = CertificateAuthority(name: "test")
    let serverTLS: TLSContext
    let clientTLS: TLSContext
    let identity: CertifiedKey

    init() throws {
        identity = authority.issue(subject: "server", purpose: .server(names: ["localhost", "127.0.0.1"]))
        serverTLS = try TLSContext.server(identity: identity, applicationProtocol: "h2")
        clientTLS = try TLSContext.client(
            authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: "h2")
    }

    func upstream(_ endpoint: Endpoint?) -> ConnectionPool {
        ConnectionPool(
            Destination(endpoint ?? .tcp(host: "127.0.0.1", port: 1), tls: clientTLS), on: loop)
    }
}

private let anyPort = Endpoint.tcp(host: "127.0.0.1", port: 0)

/// Speaks just enough HTTP/2 to answer the first request of a client with any bytes.
private final class RawServer: ByteStreamHandler {
    private let answer: [UInt8]
    private var streams: [ByteStream] = []
    private var hasAnswered = false
    /// Whether the client has ended a connection.
    private(set) var hasEnded = false

    init(_ answer: [UInt8]) { self.answer = answer }

    func accept(_ stream: ByteStream) {
        stream.handler = self
        streams.append(stream)
        // An empty SETTINGS frame, and the acknowledgement of the client's SETTINGS.
        stream.write([0, 0, 0, 4, 0, 0, 0, 0, 0] + [0, 0, 0, 4, 1, 0, 0, 0, 0])
        stream.resumeReading()
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        // The preface and SETTINGS come first; only the request is longer.
        guard !hasAnswered, bytes.byteCount > 100 else { return }
        hasAnswered = true
        stream.write(answer)
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { hasEnded = true }
}

/// Answers each request, and enlarges the window of the connection only in steps.
private final class NarrowServer: ByteStreamHandler {
    /// Less than the window of 65,535 that a connection begins with, and no multiple of the bodies.
    private static let step = 10_000
    private var streams: [ByteStream] = []
    private var input: [UInt8] = []
    private var unacknowledged = 0
    private var hasPreface = false
    /// The streams of the DATA frames, in the order of arrival.
    private(set) var parts: [Int] = []

    func accept(_ stream: ByteStream) {
        stream.handler = self
        streams.append(stream)
        // SETTINGS with 1,000 concurrent streams, and the acknowledgement of the client's SETTINGS.
        stream.write([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 0xE8] + [0, 0, 0, 4, 1, 0, 0, 0, 0])
        stream.resumeReading()
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        bytes.withUnsafeBytes { input += $0 }
        if !hasPreface, input.count >= 24 {
            input.removeFirst(24)
            hasPreface = true
        }
        while hasPreface, input.count >= 9 {
            let length = Int(input[0]) << 16 | Int(input[1]) << 8 | Int(input[2])
            guard input.count >= 9 + length else { return }
            let (type, flags) = (input[3], input[4])
            let id = Array(input[5..<9])
            input.removeFirst(9 + length)
            guard type == 0, length > 0 else { continue }
            parts.append(id.reduce(0) { $0 << 8 | Int($1) })
            unacknowledged += length
            if flags & 1 != 0 { stream.write([0, 0, 1, 1, 5] + id + [0x88]) }
            if unacknowledged >= Self.step {
                let increment = withUnsafeBytes(of: UInt32(unacknowledged).bigEndian) { Array($0) }
                stream.write([0, 0, 4, 8, 0, 0, 0, 0, 0] + increment)
                unacknowledged = 0
            }
        }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) {}
}

private let okHeaders: [UInt8] = [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88]

@Suite(.tags(.sockets)) struct HTTP2Tests {
    /// The last response, which ends with HEADERS, with DATA of padding only, with empty DATA, and with a byte.
    @Test(
        arguments: [
            [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88], okHeaders + [0, 0, 2, 0, 9, 0, 0, 0, 1, 1, 0],
            okHeaders + [0, 0, 0, 0, 1, 0, 0, 0, 1], okHeaders + [0, 0, 1, 0, 1, 0, 0, 0, 1, 0x20],
        ] as [[UInt8]])
    func `a frame of a wrong size after GOAWAY and the last response ends the connection, and not the process`(
        _ response: [UInt8]
    ) async throws {
        let site = try Site()
        // GOAWAY, the response to stream 1, and a PING without its 8 bytes.
        let answer = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0] + response + [0, 0, 0, 6, 0, 0, 0, 0, 0]
        try await LoopDomain(site.loop).run { domain in
            let server = RawServer(answer)
            let listener = try Listener(anyPort, on: site.loop, tls: site.serverTLS) { server.accept($0) }
            let upstream = site.upstream(listener.endpoint)
            let response = try await upstream.send(
                request(body: [UInt8](repeating: 1, count: 200)), timeout: .seconds(60))
            #expect(response.status == 200)
            while !server.hasEnded { await domain.loop.sleep(for: .milliseconds(5)) }
            upstream.close()
        }
    }

    /// What follows the response to stream 1: nothing, PING, and PING without its 8 bytes.
    @Test(
        arguments: [[], [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 6, 0, 0, 0, 0, 0]] as [[UInt8]])
    func `a receiver may close the upstream while the connection reads`(_ rest: [UInt8]) async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            let server = RawServer([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88] + rest)
            let listener = try Listener(anyPort, on: site.loop, tls: site.serverTLS) { server.accept($0) }
            let closer = Closer(site.upstream(listener.endpoint))
            closer.send()
            while !server.hasEnded { await domain.loop.sleep(for: .milliseconds(5)) }
            #expect(closer.statuses == [200])
            listener.close()
        }
    }

    @Test(
        arguments: [
            // Status 103, each in its own HEADERS frame.
            ([], [0, 0, 5, 1, 4, 0, 0, 0, 1, 0x08, 3, 0x31, 0x30, 0x33]),
            // DATA that is empty, and DATA of padding only.
            (okHeaders, [0, 0, 0, 0, 0, 0, 0, 0, 1]),
            (okHeaders, [0, 0, 9, 0, 8, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0]),
            // Frames of an unknown type, and WINDOW_UPDATE by one byte.
            ([], [0, 0, 0, 0x20, 0, 0, 0, 0, 0]), ([], [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] as [([UInt8], [UInt8])])
    func `a flood of frames without a response closes the connection`(_ prelude: [UInt8], _ frame: [UInt8]) async throws
    {
        let reason = try await flood(prelude, frame)
        #expect(reason.contains("flood"), "\(reason)")
    }

    /// What our own budget or nghttp2 ends, whichever comes first.
    @Test(
        arguments: [
            // SETTINGS, PING and PRIORITY.
            ([], [0, 0, 0, 4, 0, 0, 0, 0, 0]), ([], [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
            ([], [0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]),
            // Empty CONTINUATION after HEADERS that do not end, and PUSH_PROMISE, which the client has disabled.
            ([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88], [0, 0, 0, 9, 0, 0, 0, 0, 1]),
            ([], [0, 0, 5, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0x88]),
            // CONTINUATION with a field of its own, and trailers that do not end.
            ([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88], [0, 0, 7, 9, 0, 0, 0, 0, 1, 0, 1, 0x61, 3, 0x62, 0x62, 0x62]),
            (okHeaders + [0, 0, 0, 1, 1, 0, 0, 0, 1], [0, 0, 7, 9, 0, 0, 0, 0, 1, 0, 1, 0x61, 3, 0x62, 0x62, 0x62]),
        ] as [([UInt8], [UInt8])])
    func `frames that cost the client more than their sender end the connection`(
        _ prelude: [UInt8], _ frame: [UInt8]
    ) async throws {
        let reason = try await flood(prelude, frame)
        #expect(!reason.contains("timed out"), "\(reason)")
    }

    /// Answers a request with a flood of frames.
    /// - Returns: why the connection was lost.
    private func flood(_ prelude: [UInt8], _ frame: [UInt8]) async throws -> String {
        let site = try Site()
        return try await LoopDomain(site.loop).run { domain in
            // More frames and more bytes than allowed.
            let server = RawServer(prelude + (0..<(6 << 20) / frame.count).flatMap { _ in frame })
            let listener = try Listener(anyPort, on: site.loop, tls: site.serverTLS) { server.accept($0) }
            let upstream = site.upstream(listener.endpoint)
            defer { upstream.close() }
            do {
                _ = try await upstream.send(request(body: [UInt8](repeating: 1, count: 200)), timeout: .seconds(60))
                Issue.record("the request got a response")
                return ""
            } catch let error as RequestFailure {
                guard case .connectionLost(let reason) = error.cause else { throw error }
                return reason
            }
        }
    }

    @Test func `concurrent requests on one connection each get their own response`() async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            let handler = Handler { request, connection in
                var headers = HeaderBlock()
                headers.append("apns-id", request.headers.text(":path") ?? "")
                connection.respond(
                    to: request.stream, Response(status: 200, headers: headers, body: request.body.reversed()))
            }
            let server = try Server(on: anyPort, loop: domain.loop, tls: site.serverTLS, handler: handler)
            let upstream = site.upstream(server.endpoint)
            let target = upstream
            await withTaskGroup { group in
                for index in 0..<3000 {
                    group.addTask { [box = UnsafeTransfer(target)] in
                        await domain.run { _ in
                            let body = Array("body \(index)".utf8)
                            do {
                                let response = try await box.value.send(
                                    request("/\(index)", body: body), timeout: .seconds(60))
                                #expect(response.status == 200)
                                #expect(response.headers.text("apns-id") == "/\(index)")
                                #expect(response.body == body.reversed())
                            } catch {
                                Issue.record("\(error)")
                            }
                        }
                    }
                }
            }
            #expect(handler.requests == 3000)
            upstream.close()
            server.close()
        }
    }

    @Test func `the client never exceeds the server's concurrent stream limit`() async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            final class Gauge {
                var open = 0
                var most = 0
                var waiting: [(Int32, any ServedConnection)] = []
            }
            let gauge = Gauge()
            let handler = Handler { request, connection in
                gauge.open += 1
                gauge.most = max(gauge.most, gauge.open)
                gauge.waiting.append((request.stream, connection))
            }
            let server = try Server(
                on: anyPort, loop: domain.loop, tls: site.serverTLS, limits: Server.Limits(concurrentStreams: 3),
                handler: handler)
            let upstream = site.upstream(server.endpoint)
            let answering = Timer(on: domain.loop) {}
            withExtendedLifetime(answering) {}
            let box = UnsafeTransfer(upstream)
            async let answers = withTaskGroup(returning: Int.self) { group in
                for _ in 0..<30 {
                    group.addTask {
                        await domain.run { _ in
                            (try? await box.value.send(request(), timeout: .seconds(60)))?.status == 200 ? 1 : 0
                        }
                    }
                }
                return await group.reduce(0, +)
            }
            var answered = 0
            while answered < 30 {
                await domain.loop.sleep(for: .milliseconds(5))
                for (stream, connection) in gauge.waiting {
                    connection.respond(to: stream, Response(status: 200))
                    gauge.open -= 1
                    answered += 1
                }
                gauge.waiting = []
            }
            #expect(await answers == 30)
            #expect(gauge.most <= 3)
        }
    }

    @Test func `bodies larger than the flow-control window pass both ways, up to the response limit`() async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            let handler = Handler { request, connection in
                connection.respond(
                    to: request.stream, Response(status: request.isTooLarge ? 413 : 200, body: request.body))
            }
            let server = try Server(
                on: anyPort, loop: domain.loop, tls: site.serverTLS, limits: Server.Limits(maximumBody: 1 << 20),
                handler: handler)
            let upstream = site.upstream(server.endpoint)
            let body = (0..<60_000).map { UInt8(truncatingIfNeeded: $0) }
            #expect(try await upstream.send(request(body: body), timeout: .seconds(60)).body == body)
            let larger = [UInt8](repeating: 1, count: 300_000)
            await #expect(throws: RequestFailure.outcomeUnknown(.responseTooLarge)) {
                _ = try await upstream.send(request(body: larger), timeout: .seconds(60))
            }
            #expect(try await upstream.send(request(body: [7]), timeout: .seconds(60)).body == [7])
        }
    }

    @Test func `in a narrow window each body is sent whole, in the order of the requests`() async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            let server = NarrowServer()
            let listener = try Listener(anyPort, on: site.loop, tls: site.serverTLS) { server.accept($0) }
            let upstream = site.upstream(listener.endpoint)
            // Opens the connection.
            _ = try await upstream.send(request(body: [7]), timeout: .seconds(60))
            let body = [UInt8](repeating: 1, count: 3000)
            let start = MonotonicTime.now
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<300 {
                    group.addTask(executorPreference: domain.loop) {
                        _ = try? await upstream.send(request(body: body), timeout: .seconds(60))
                    }
                }
            }
            #expect(Set(server.parts).count == 301)
            // On a busy machine a body may wait for longer than the client's patience, and is then sent in parts.
            if .now - start < BodyQueue.patience { #expect(server.parts == Set(server.parts).sorted()) }
            upstream.close()
        }
    }

    @Test func `an unanswered request fails at its deadline, and the next request succeeds`() async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            let handler = Handler { request, connection in
                if request.body != [0] { connection.respond(to: request.stream, Response(status: 200)) }
            }
            let server = try Server(on: anyPort, loop: domain.loop, tls: site.serverTLS, handler: handler)
            let upstream = site.upstream(server.endpoint)
            _ = try await upstream.send(request(body: [1]), timeout: .seconds(60))
            await #expect(throws: RequestFailure.outcomeUnknown(.timedOut)) {
                _ = try await upstream.send(request(body: [0]), timeout: .milliseconds(200))
            }
            #expect(try await upstream.send(request(body: [1]), timeout: .seconds(60)).status == 200)
        }
    }

    @Test func `a stopped server is unreachable until it listens again`() async throws {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            let handler = Handler { $1.respond(to: $0.stream, Response(status: 200)) }
            let ports = PortReservations()
            defer { withExtendedLifetime(ports) {} }
            let endpoint = try ports.endpoint()
            var server: Server? = try Server(on: endpoint, loop: domain.loop, tls: site.serverTLS, handler: handler)
            let upstream = site.upstream(endpoint)
            _ = try await upstream.send(request(), timeout: .seconds(60))
            server?.close()
            server = nil
            await domain.loop.sleep(for: .milliseconds(50))
            let failure = await #expect(throws: RequestFailure.self) {
                _ = try await upstream.send(request(), timeout: .seconds(60))
            }
            if case .notProcessed(.unreachable(let message))? = failure {
                #expect(message.contains("refused") && message.contains(endpoint.description))
            } else {
                Issue.record("\(String(describing: failure))")
            }
            let resender = Resender(upstream)
            await withCheckedContinuation { resender.send(whenAnswered: $0) }
            #expect(resender.failures == 20)
            #expect(resender.taken == 0)
            server = try Server(on: endpoint, loop: domain.loop, tls: site.serverTLS, handler: handler)
            // Requests fail at once until the backoff of the failed dial has passed.
            var status: Int?
            for _ in 0..<6000 where status == nil {
                await domain.loop.sleep(for: .milliseconds(50))
                status = (try? await upstream.send(request(), timeout: .seconds(60)))?.status
            }
            #expect(status == 200)
            server?.close()
        }
    }

    @Test func `a request that is sent again as soon as its connection is lost goes to a new connection`() async throws
    {
        let site = try Site()
        try await LoopDomain(site.loop).run { domain in
            var requests = 0
            let handler = Handler { request, connection in
                requests += 1
                // The second request's connection is lost; the first one has proven it.
                if requests == 2 {
                    connection.close()
                } else {
                    connection.respond(to: request.stream, Response(status: 200))
                }
            }
            let server = try Server(on: anyPort, loop: domain.loop, tls: site.serverTLS, handler: handler)
            let upstream = site.upstream(server.endpoint)
            _ = try await upstream.send(request(), timeout: .seconds(60))
            let resender = Resender(upstream)
            await withCheckedContinuation { resender.send(whenAnswered: $0) }
            #expect(resender.status == 200)
            #expect(resender.failures == 1)
            #expect(resender.taken == 2)
            upstream.close()
            server.close()
        }
    }

    @Test func `each header field follows its indexing rule`() {
        var block = HeaderBlock()
        block.append("a", "1")
        block.append("b", "2", indexing: .firstOnly)
        block.append("c", "3", indexing: .never)
        func flags(isFirst: Bool) -> [UInt8] {
            Session.withFields(block, isFirst: isFirst) { fields, count in (0..<count).map { fields[$0].flags } }
        }
        #expect(flags(isFirst: true) == [0, 0, 1])
        #expect(flags(isFirst: false) == [0, 1, 1])
    }

    @Test func `a request and its headers print as redacted`() {
        let request = request("/3/device/secret")
        #expect("\(request)" == "<redacted>" && "\(request.headers)" == "<redacted>")
        var dumped = ""
        dump(request, to: &dumped)
        #expect(!dumped.contains("secret"))
    }
}

/// Closes the upstream from within the report of its response.
private final class Closer: ResponseReceiver {
    private let upstream: ConnectionPool
    private(set) var statuses: [Int?] = []

    init(_ upstream: ConnectionPool) { self.upstream = upstream }

    func send() {
        upstream.start(
            request(body: [UInt8](repeating: 1, count: 200)), timeout: .seconds(60), number: 0, for: self)
    }

    func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        statuses.append((try? result.get())?.status)
        upstream.close()
    }
}

/// Sends a request, and again from within the report of each failure.
private final class Resender: ResponseReceiver {
    private let upstream: ConnectionPool
    private var continuation: CheckedContinuation<Void, Never>?
    private(set) var taken = 0
    private(set) var failures = 0
    private(set) var status: Int?

    init(_ upstream: ConnectionPool) { self.upstream = upstream }

    func send(whenAnswered continuation: CheckedContinuation<Void, Never>) {
        self.continuation = continuation
        upstream.start(request(body: [1]), timeout: .seconds(60), number: 0, for: self)
    }

    func taken(_ number: UInt64) { taken += 1 }

    func received(_ result: Result<Response, RequestFailure>, for number: UInt64, on connection: Int?) {
        status = (try? result.get())?.status
        if status == nil { failures += 1 }
        if status == nil, failures < 20 {
            upstream.start(request(body: [1]), timeout: .seconds(60), number: 0, for: self)
        } else {
            continuation.take()?.resume()
        }
    }
}

/// Passes a value of the loop's domain to a task that uses it in that domain.
private struct UnsafeTransfer<Value>: @unchecked Sendable {
    // Unchecked: used only inside `LoopDomain.run` of the same loop.
    let value: Value
    init(_ value: Value) { self.value = value }
}

@Suite(.tags(.sockets)) struct IndependentTests {
    private func isInstalled(_ program: String) async throws -> Bool {
        let found = try await ChildProcess.output(of: "which", [program]).isSuccess
        if !found { print("SKIPPED: \(program) is not installed") }
        return found
    }

    @Test func `h2load and curl get responses from the server`() async throws {
        guard try await isInstalled("h2load"), try await isInstalled("curl") else { return }
        let site = try Site()
        let server = try await LoopDomain(site.loop).run { domain in
            let handler = Handler { $1.respond(to: $0.stream, Response(status: 200, body: Array("ok".utf8))) }
            let server = try Server(on: anyPort, loop: domain.loop, tls: site.serverTLS, handler: handler)
            return UnsafeTransfer(server)
        }
        let endpoint = await LoopDomain(site.loop).run { _ in server.value.endpoint }
        let url = "https://\(try #require(endpoint))/3/device/00"
        let loaded = try await ChildProcess.output(
            of: "h2load", ["-n", "2000", "-c", "4", "-m", "50", "-d", #filePath, url])
        #expect(loaded.text.contains("2000 succeeded, 0 failed, 0 errored"), "\(loaded.text)")
        let curled = try await ChildProcess.output(
            of: "curl", ["-sSk", "--http2", "-d", "body", "-w", " %{http_version} %{http_code}", url])
        #expect(curled.text == "ok 2 200", "\(curled.text)")
        await LoopDomain(site.loop).run { _ in server.value.close() }
    }

    @Test func `nghttpd answers the client's requests`() async throws {
        guard try await isInstalled("nghttpd") else { return }
        let site = try Site()
        let directory = URL.temporaryDirectory.appending(path: "tocsin-nghttpd-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let key = try #require(site.identity.pem).withBytes { span in span.withUnsafeBytes { Data($0) } }
        try key.write(to: directory.appending(path: "key.pem"))
        try Data(site.identity.certificates).write(to: directory.appending(path: "cert.pem"))
        try Data("file".utf8).write(to: directory.appending(path: "index.html"))
        let ports = PortReservations()
        let port = try ports.reserve()
        defer { withExtendedLifetime(ports) {} }
        let process = ChildProcess(
            "nghttpd",
            [
                "--address=127.0.0.1", "-d", directory.path(), "\(port)", directory.appending(path: "key.pem").path(),
                directory.appending(path: "cert.pem").path(),
            ])
        await LoopDomain(site.loop).run { domain in
            let upstream = site.upstream(.tcp(host: "127.0.0.1", port: port))
            var response: Response?
            for _ in 0..<6000 where response == nil {
                await domain.loop.sleep(for: .milliseconds(200))
                response = try? await upstream.send(
                    request("/index.html", body: [UInt8](repeating: 1, count: 2000)), timeout: .seconds(60))
            }
            #expect(response?.status == 200)
            #expect(response.map { String(decoding: $0.body, as: UTF8.self) } == "file")
            for _ in 0..<200 {
                #expect((try? await upstream.send(request("/none", body: [1]), timeout: .seconds(60)))?.status == 404)
            }
        }
        await process.terminate()
    }

    @Test func `a response that arrives before the body is sent is accepted`() async throws {
        // nginx answers `return 200` at the headers and then resets the stream with NO_ERROR (RFC 9113 §8.1).
        guard FileManager.default.fileExists(atPath: "/usr/sbin/nginx") else {
            print("SKIPPED: nginx is not installed")
            return
        }
        let site = try Site()
        let directory = URL.temporaryDirectory.appending(path: "tocsin-nginx-\(UUID().uuidString.prefix(8))").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let key = try #require(site.identity.pem).withBytes { span in span.withUnsafeBytes { Data($0) } }
        try key.write(to: URL(filePath: "\(directory)/key.pem"))
        try Data(site.identity.certificates).write(to: URL(filePath: "\(directory)/cert.pem"))
        let ports = PortReservations()
        let port = try ports.reserve()
        defer { withExtendedLifetime(ports) {} }
        let configuration = """
            daemon off; master_process off; pid \(directory)/pid; error_log \(directory)/error.log;
            events { worker_connections 64; }
            http {
              access_log off; client_body_temp_path \(directory)/b; proxy_temp_path \(directory)/p;
              fastcgi_temp_path \(directory)/f; uwsgi_temp_path \(directory)/u; scgi_temp_path \(directory)/s;
              server {
                listen 127.0.0.1:\(port) ssl http2;
                ssl_certificate \(directory)/cert.pem; ssl_certificate_key \(directory)/key.pem;
                location / { return 200 "early"; }
              }
            }
            """
        try Data(configuration.utf8).write(to: URL(filePath: "\(directory)/nginx.conf"))
        let process = ChildProcess(
            "/usr/sbin/nginx", ["-c", "\(directory)/nginx.conf", "-e", "\(directory)/error.log"])
        await LoopDomain(site.loop).run { domain in
            let upstream = site.upstream(.tcp(host: "127.0.0.1", port: port))
            var succeeded = 0
            var lastFailure: RequestFailure?
            for _ in 0..<700 where succeeded < 100 {
                do {
                    let response = try await upstream.send(
                        request(body: [UInt8](repeating: 1, count: 60_000)), timeout: .seconds(60))
                    #expect(response.status == 200)
                    #expect(response.body == Array("early".utf8))
                    succeeded += 1
                } catch {
                    // nginx may not be listening yet.
                    lastFailure = error as? RequestFailure
                    await domain.loop.sleep(for: .milliseconds(100))
                }
            }
            #expect(succeeded == 100, "\(String(describing: lastFailure))")
        }
        await process.terminate()
    }
}
