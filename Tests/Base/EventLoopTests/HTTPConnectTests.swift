// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TestSupport
import Testing

@testable import EventLoop
@testable import Tor

private let anyPort = Endpoint.tcp(host: "127.0.0.1", port: 0)
private let tinyproxy = "/usr/bin/tinyproxy"

/// A proxy that waits for a whole request, sends a fixed answer, and records the request.
private final class ScriptedProxy: ByteStreamHandler {
    private(set) var listener: Listener!
    private(set) var request: [UInt8] = []
    private let answer: [UInt8]
    private let closes: Bool
    private var stream: ByteStream?

    init(answering answer: [UInt8], thenCloses closes: Bool, on loop: EventLoop) throws {
        self.answer = answer
        self.closes = closes
        listener = try Listener(anyPort, on: loop) { [unowned self] stream in
            stream.handler = self
            self.stream = stream
        }
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        bytes.withUnsafeBytes { request += $0 }
        guard request.suffix(4).elementsEqual("\r\n\r\n".utf8) else { return }
        if !answer.isEmpty { stream.write(answer) }
        if closes { stream.finish() }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) {}
}

/// Echoes what it receives.
private final class Echo: ByteStreamHandler {
    private(set) var listener: Listener!
    private var streams: [ByteStream] = []

    init(on loop: EventLoop) throws {
        listener = try Listener(anyPort, on: loop) { [unowned self] stream in
            stream.handler = self
            streams.append(stream)
        }
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) { stream.write(bytes) }
    func stream(_ stream: ByteStream, ended reason: StreamError) {}
}

@Suite(.tags(.sockets)) struct HTTPConnectTests {
    private let loop = EventLoop(name: "test")

    /// Dials through a proxy that gives this answer.
    /// - Returns: the request that the proxy received, and the first bytes of the tunnel.
    private func run(
        _ answer: String, thenCloses: Bool = false, receiving count: Int = 0, host: String = "example.org"
    ) async throws -> (request: String, received: String) {
        try await LoopDomain(loop).run { domain in
            let proxy = try ScriptedProxy(answering: Array(answer.utf8), thenCloses: thenCloses, on: domain.loop)
            let stream = try await domain.loop.dial(
                .tcp(host: host, port: 443), through: .http(proxy.listener.endpoint), timeout: .seconds(60))
            let received = try await StreamReader(stream).read(exactly: count)
            return (String(decoding: proxy.request, as: UTF8.self), String(decoding: received, as: UTF8.self))
        }
    }

    // MARK: Over a socket

    @Test func `the proxy receives the host name unresolved`() async throws {
        let request = try await run("HTTP/1.1 200 OK\r\n\r\n").request
        #expect(request == "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
    }

    @Test func `an IPv6 address is sent in brackets`() async throws {
        let request = try await run("HTTP/1.1 200 OK\r\n\r\n", host: "2001:db8::1").request
        #expect(request == "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n")
    }

    @Test func `bytes that follow the proxy's response are kept`() async throws {
        let answer = "HTTP/1.0 200 Connection established\r\nProxy-Agent: test\r\n\r\nfirst\r\n\r\nwords"
        #expect(try await run(answer, receiving: 14).received == "first\r\n\r\nwords")
    }

    @Test func `tunnel bytes do not count toward the response limit`() async throws {
        let data = String(repeating: "w", count: 3 * HTTPConnect.maximumResponseSize)
        #expect(try await run("HTTP/1.1 200 OK\r\n\r\n" + data, receiving: data.utf8.count).received == data)
    }

    @Test(arguments: [
        "403 Forbidden", "407 Proxy Authentication Required", "503 Service Unavailable", "302 Found", "101 Switching",
    ])
    func `a refusal is reported with its status and reason`(_ refusal: String) async {
        await #expect(throws: StreamError.proxy(refusal)) {
            _ = try await run("HTTP/1.1 \(refusal)\r\nContent-Length: 2\r\n\r\nno", thenCloses: true)
        }
    }

    @Test(arguments: [
        "rubbish\r\n\r\n", "\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 2\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "SSH-2.0-OpenSSH\r\n",
        // HTTP/2: the client's preface, and a server's SETTINGS, which contains no line end.
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0\0\u{6}\u{4}\0\0\0\0\0\0\u{3}\0\0\0d",
        // A TLS alert: the server expects TLS.
        "\u{15}\u{3}\u{3}\0\u{2}\u{2}F",
    ])
    func `a server that is not an HTTP proxy is reported as such`(_ answer: String) async {
        await #expect(throws: StreamError.proxy("not an HTTP proxy")) { _ = try await run(answer) }
    }

    @Test func `an endless response header is rejected, in one line or many`() async {
        let line = "HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: HTTPConnect.maximumResponseSize)
        await #expect(throws: StreamError.tooLong) { _ = try await run(line) }
        let lines = "HTTP/1.1 200 OK\r\n" + String(repeating: "X: x\r\n", count: HTTPConnect.maximumLines)
        await #expect(throws: StreamError.tooLong) { _ = try await run(lines) }
    }

    @Test(arguments: ["", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nProxy-Agent: te", "HTTP/1.1 200 OK\r\n"])
    func `a connection closed within the response is reported as closed`(_ answer: String) async {
        await #expect(throws: StreamError.closed) { _ = try await run(answer, thenCloses: true) }
    }

    @Test func `an invalid host name is never sent to the proxy`() async {
        for host in ["", "a b", "a\r\nX: y", "b\u{FC}cher.example", String(repeating: "x", count: 256)] {
            await #expect(throws: StreamError.self, "\(host)") {
                _ = try await run("HTTP/1.1 200 OK\r\n\r\n", host: host)
            }
            #expect(HTTPConnect.request(host: host, port: 443) == nil)
        }
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 Connection established\r\n\r\n", "HTTP/1.1 204\r\n\r\n",
        "HTTP/1.1 299 \r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nA: b\r\n\r\n",
    ])
    func `every 2xx response ends at the first empty line`(_ text: String) async throws {
        #expect(try await run(text + "tunnel\r\n\r\n", receiving: 10).received == "tunnel\r\n\r\n")
        await #expect(throws: StreamError.closed) { _ = try await run(String(text.dropLast()), thenCloses: true) }
    }

    @Test func `a response may reach the line limit and the size limit`() async throws {
        let most = "HTTP/1.1 200 OK\r\n" + String(repeating: "A:b\r\n", count: HTTPConnect.maximumLines - 2) + "\r\n"
        #expect(try await run(most + "t", receiving: 1).received == "t")
        let ends = "HTTP/1.1 200 OK\r\nX: \r\n\r\n".utf8.count
        let largest =
            "HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: HTTPConnect.maximumResponseSize - ends)
            + "\r\n\r\n"
        #expect(try await run(largest + "t", receiving: 1).received == "t")
    }

    @Test func `a refusal is reported in at most 100 bytes of printable ASCII`() async {
        await #expect(throws: StreamError.proxy("502 a[31mb")) {
            _ = try await run("HTTP/1.1 502 a\u{1B}[31m\u{7}\tb\u{202E}\u{E9}\r\n")
        }
        let long = String(repeating: "y", count: 500)
        await #expect(throws: StreamError.proxy("502 " + String(long.prefix(96)))) {
            _ = try await run("HTTP/1.1 502 \(long)\r\n")
        }
        await #expect(throws: StreamError.proxy("403")) { _ = try await run("HTTP/1.1 403\r\n") }
    }

    // MARK: tinyproxy

    @Test(.enabled(if: FileManager.default.fileExists(atPath: tinyproxy)))
    func `tinyproxy tunnels to an allowed port and refuses another`() async throws {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-tinyproxy-\(UUID().uuidString.prefix(8))").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await LoopDomain(loop).run { domain in
            let echo = try Echo(on: domain.loop)
            let ports = PortReservations()
            defer { withExtendedLifetime(ports) {} }
            let proxy = try ports.endpoint()
            guard case .tcp(_, let echoPort) = echo.listener.endpoint, case .tcp(_, let proxyPort) = proxy else {
                return
            }
            let configuration = """
                Port \(proxyPort)
                Listen 127.0.0.1
                Timeout 60
                MaxClients 10
                LogFile "\(directory)/log"
                ConnectPort \(echoPort)

                """
            try Data(configuration.utf8).write(to: URL(filePath: "\(directory)/tinyproxy.conf"))
            let process = ChildProcess(tinyproxy, ["-d", "-c", "\(directory)/tinyproxy.conf"])
            // The proxy resolves the name. Connections fail until it listens.
            let target = Endpoint.tcp(host: "localhost", port: echoPort)
            var tunnel: ByteStream?
            for _ in 0..<6000 where tunnel == nil {
                tunnel = try? await domain.loop.dial(target, through: .http(proxy), timeout: .seconds(60))
                if tunnel == nil { await domain.loop.sleep(for: .milliseconds(100)) }
            }
            var received: [UInt8]?
            let data = [UInt8]((0..<50_000).map { UInt8($0 % 251) })
            if let tunnel {
                let reader = StreamReader(tunnel)
                tunnel.write(data)
                received = try? await reader.read(exactly: data.count)
                tunnel.close()
            }
            let isEchoed = received == data
            #expect(isEchoed)
            let refusal = await #expect(throws: StreamError.self) {
                _ = try await domain.loop.dial(
                    .tcp(host: "localhost", port: 1), through: .http(proxy), timeout: .seconds(60), isolation: domain)
            }
            #expect(refusal.map { "\($0)".hasPrefix("proxy error: 403 ") } == true)
            await process.terminate()
            withExtendedLifetime(echo) {}
        }
    }
}

@Suite(.tags(.sockets)) struct ProxyTests {
    private let label = SOCKS5.Credentials(user: "a", password: "b")

    @Test func `proxy URLs with the schemes socks5, socks5h and http parse`() {
        let local = Endpoint.tcp(host: "127.0.0.1", port: 9050)
        #expect(Proxy(url: "socks5://127.0.0.1:9050") == .socks5(local, nil))
        #expect(Proxy(url: "socks5h://127.0.0.1:9050", credentials: label) == .socks5(local, label))
        #expect(
            Proxy(url: "http://proxy.example.org:3128", credentials: label)
                == .http(.tcp(host: "proxy.example.org", port: 3128)))
        #expect(Proxy(url: "HTTP://[::1]:8080") == .http(.tcp(host: "::1", port: 8080)))
    }

    @Test(arguments: [
        "", "127.0.0.1:9050", "http:127.0.0.1:8080", "http:/127.0.0.1:8080", "://127.0.0.1:8080",
        "https://127.0.0.1:8080", "socks4://127.0.0.1:9050", "http://", "http://127.0.0.1",
        "http://127.0.0.1:", "http://:8080", "http://127.0.0.1:0", "http://127.0.0.1:65536", "http://127.0.0.1:+80",
        "http://::1:8080", "http://user:password@127.0.0.1:8080", "http://user@127.0.0.1:8080",
        "socks5://user:password@127.0.0.1:9050", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/path",
        "http://127.0.0.1:8080?query", "http://127.0.0.1?query:8080", "http://127.0.0.1:8080#part",
        "http://unix:proxy", "socks5://unix:/run/tor/socks", "http://a b:8080", "http://b\u{FC}cher.example:8080",
        "http://a%40b:8080", "http://http://a:80",
    ])
    func `any other proxy URL is rejected, including logins, paths and queries`(_ url: String) {
        #expect(Proxy(url: url, credentials: label) == nil)
    }
}
