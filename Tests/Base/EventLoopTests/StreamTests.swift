// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import Glibc
import StandIns
import TestSupport
import Testing
import Tor

@testable import EventLoop
@testable import Time

/// Records the events of a stream.
private final class Recorder: ByteStreamHandler {
    var bytes: [UInt8] = []
    var end: StreamError?
    var drained = 0

    func stream(_ stream: ByteStream, received bytes: RawSpan) { bytes.withUnsafeBytes { self.bytes += $0 } }
    func streamDrained(_ stream: ByteStream) { drained += 1 }
    func stream(_ stream: ByteStream, ended reason: StreamError) { end = reason }
}

/// Records the events of a stream, and pauses it at each delivery.
private final class PausingRecorder: ByteStreamHandler {
    private let loop: EventLoop
    private var timer: Timer?
    var bytes: [UInt8] = []
    var end: StreamError?
    var pauses = 0
    /// Whether each pause ends in the next turn of the loop.
    var resumes = true

    init(on loop: EventLoop) { self.loop = loop }

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        bytes.withUnsafeBytes { self.bytes += $0 }
        pauses += 1
        stream.pauseReading()
        guard resumes else { return }
        timer = Timer(on: loop, after: .zero) { [unowned stream] in stream.resumeReading() }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) { end = reason }
}

/// Accepts streams and keeps them.
private final class Acceptor {
    var listener: Listener!
    var streams: [ByteStream] = []
    var recorders: [Recorder] = []
    let greeting: [UInt8]
    let echoes: Bool

    init(
        _ endpoint: Endpoint = .tcp(host: "127.0.0.1", port: 0), on loop: EventLoop, tls: TLSContext? = nil,
        greeting: [UInt8] = [], echoes: Bool = false
    ) throws {
        self.greeting = greeting
        self.echoes = echoes
        listener = try Listener(endpoint, on: loop, tls: tls) { [unowned self] stream in
            let recorder = Recorder()
            stream.handler = recorder
            streams.append(stream)
            recorders.append(recorder)
            if !greeting.isEmpty { stream.write(greeting) }
        }
    }
}

private func temporaryPath(_ name: String) -> String { "/tmp/tocsin-test-\(UUID().uuidString.prefix(8))-\(name)" }

/// Waits on the loop until the condition is true, for at most ten seconds.

@Suite(.tags(.sockets)) struct StreamTests {
    let loop = EventLoop(name: "test")
    var domain: LoopDomain { LoopDomain(loop) }

    @Test(arguments: [false, true])
    func `bytes travel both ways over TCP and Unix sockets`(_ isUnix: Bool) async throws {
        try await domain.run { domain in
            let path = temporaryPath("echo")
            let acceptor = try Acceptor(isUnix ? .unix(path: path) : .tcp(host: "127.0.0.1", port: 0), on: domain.loop)
            let stream = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
            let reader = StreamReader(stream)
            stream.write([1, 2, 3])
            #expect(await eventually { acceptor.recorders.first?.bytes == [1, 2, 3] })
            acceptor.streams[0].write(Array("line\r\nrest".utf8))
            #expect(try await reader.readLine() == "line")
            #expect(try await reader.read(exactly: 4) == Array("rest".utf8))
            acceptor.streams[0].finish()
            #expect(await reader.readToEnd() == [])
            acceptor.listener.close()
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test func `a name in the hosts file resolves, and an unknown name fails`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            guard case .tcp(_, let port) = acceptor.listener.endpoint else { return }
            _ = try await domain.loop.dial(.tcp(host: "localhost", port: port), timeout: .seconds(60))
            let error = await #expect(throws: StreamError.self) {
                _ = try await domain.loop.dial(
                    .tcp(host: "no-such-host.invalid", port: 1), timeout: .seconds(60), isolation: domain)
            }
            #expect(error.map { "\($0)".contains("no-such-host.invalid") || $0 == .timedOut } == true)
        }
    }

    @Test func `a refused connection fails with Connection refused`() async throws {
        await domain.run { domain -> Void in
            _ = await #expect(throws: StreamError.system("Connection refused")) {
                _ = try await domain.loop.dial(
                    .tcp(host: "127.0.0.1", port: 1), timeout: .seconds(60), isolation: domain)
            }
        }
    }

    @Test func `bytes that arrive before a reader attaches are kept`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop, greeting: Array("hello".utf8))
            let stream = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
            await domain.loop.sleep(for: .milliseconds(50))
            #expect(try await StreamReader(stream).read(exactly: 5) == Array("hello".utf8))
        }
    }

    @Test func `a stream stops reading while its peer does not read`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            let stream = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
            let client = Recorder()
            stream.handler = client
            stream.pauseReading()
            #expect(await eventually { acceptor.streams.count == 1 })
            let server = acceptor.streams[0]
            server.highWater = 64 * 1024
            // More than the kernel buffers for both sides.
            let data = [UInt8](repeating: 7, count: 16 << 20)
            server.write(data)
            #expect(server.unsent > server.highWater)
            stream.write([9])
            await domain.loop.sleep(for: .milliseconds(100))
            #expect(acceptor.recorders[0].bytes.isEmpty)
            stream.resumeReading()
            #expect(await eventually { client.bytes.count == data.count })
            #expect(await eventually { acceptor.recorders[0].bytes == [9] })
        }
    }

    @Test func `finish sends all pending output while the peer still sends`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            let stream = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
            let client = Recorder()
            stream.handler = client
            stream.resumeReading()
            #expect(await eventually { acceptor.streams.count == 1 })
            acceptor.streams[0].write([UInt8](repeating: 1, count: 3 << 20))
            acceptor.streams[0].finish()
            stream.write([UInt8](repeating: 2, count: 100_000))
            #expect(await eventually { client.end != nil })
            #expect(client.bytes.count == 3 << 20)
            #expect(client.end == .closed)
        }
    }

    @Test func `a peer of an aborted stream receives a reset, and less than was written`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            let stream = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
            #expect(await eventually { !acceptor.streams.isEmpty })
            acceptor.streams[0].pauseReading()
            let written = 16 << 20
            stream.write([UInt8](repeating: 1, count: written))
            await domain.loop.sleep(for: .milliseconds(50))
            stream.abort()
            acceptor.streams[0].resumeReading()
            #expect(await eventually { acceptor.recorders[0].end != nil })
            #expect(acceptor.recorders[0].end == .system("Connection reset by peer"))
            #expect(acceptor.recorders[0].bytes.count < written)
        }
    }

    @Test func `listening on a used port or an existing file fails`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            let error = #expect(throws: ListenError.self) {
                _ = try Listener(acceptor.listener.endpoint, on: domain.loop) { _ in }
            }
            #expect(error?.reason == "Address already in use")
            let path = temporaryPath("file")
            try Data().write(to: URL(filePath: path))
            defer { try? FileManager.default.removeItem(atPath: path) }
            #expect(throws: ListenError.self) { _ = try Listener(.unix(path: path), on: domain.loop) { _ in } }
        }
    }

    @Test func `looking whether an address is free takes it from nobody who begins to listen`() async throws {
        try await domain.run { domain in
            let first = try Listener(.tcp(host: "127.0.0.1", port: 0), on: domain.loop) { $0.close() }
            let endpoint = first.endpoint
            guard case .tcp(_, let port) = endpoint else { return }
            #expect(Listener.obstacle(to: endpoint)?.isInUse == true)
            first.close()
            #expect(Listener.obstacle(to: .tcp(host: "localhost", port: port)) == nil)
            // Detached: on another thread than the loop.
            let looking = Task.detached { for _ in 0..<20_000 { _ = Listener.obstacle(to: endpoint) } }
            for _ in 0..<500 {
                let listener = try Listener(endpoint, on: domain.loop) { $0.close() }
                listener.close()
            }
            await looking.value
        }
    }

    @Test func `closed and released streams leave no descriptor open`() async throws {
        try await domain.run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            func descriptors() -> Int {
                (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd"))?.count ?? 0
            }
            _ = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
            let before = descriptors()
            for _ in 0..<200 {
                let stream = try await domain.loop.dial(acceptor.listener.endpoint, timeout: .seconds(60))
                stream.close()
            }
            #expect(await eventually { acceptor.recorders.filter { $0.end == nil }.count <= 1 })
            acceptor.streams = []
            // Other suites run at the same time.
            #expect(await eventually { descriptors() < before + 100 })
        }
    }
}

@Suite(.tags(.sockets)) struct TLSTests {
    let loop = EventLoop(name: "test")
    let authority = CertificateAuthority(name: "test authority")

    private func dial(
        names: [String], validFor: Int = 1000, trusting trusted: [UInt8]?, offering clientProtocol: String = "h2",
        server serverProtocol: String = "h2"
    ) async throws -> [UInt8] {
        let context = try TLSContext.server(
            identity: authority.issue(subject: "s", purpose: .server(names: names), validFor: validFor),
            applicationProtocol: serverProtocol)
        let client = try TLSContext.client(
            authorities: TrustedAuthorities(and: trusted), applicationProtocol: clientProtocol)
        return try await LoopDomain(loop).run { domain in
            let acceptor = try Acceptor(on: domain.loop, tls: context, greeting: Array("hello".utf8))
            guard case .tcp(_, let port) = acceptor.listener.endpoint else { return [] }
            let stream = try await domain.loop.dial(
                .tcp(host: "localhost", port: port), tls: client, timeout: .seconds(60))
            return try await StreamReader(stream).read(exactly: 5)
        }
    }

    @Test func `the first bytes of a verified server arrive`() async throws {
        for _ in 0..<20 {
            #expect(try await dial(names: ["localhost"], trusting: authority.pem) == Array("hello".utf8))
        }
    }

    @Test func `an unknown authority, a wrong name and an expired certificate each give their error`() async {
        let cases: [([String], Int, [UInt8]?, String)] = [
            (["localhost"], 1000, nil, "self-signed certificate"), (["other.example"], 1000, authority.pem, "mismatch"),
            (["localhost"], -10, authority.pem, "expired"), (["127.0.0.2"], 1000, authority.pem, "mismatch"),
        ]
        for (names, validFor, trusted, message) in cases {
            let error = await #expect(throws: StreamError.self) {
                _ = try await dial(names: names, validFor: validFor, trusting: trusted)
            }
            #expect("\(error.map { "\($0)" } ?? "")".contains(message), "\(String(describing: error))")
        }
    }

    @Test func `a server with a very large key is rejected, whoever vouches for it`() async throws {
        let directory = Repository.file("Tests/Base/EventLoopTests/Certificates")
        // RSA, 8200 bits, self-signed, valid until 2126.
        let certificate = Array(try Data(contentsOf: directory.appending(path: "large-key.pem")))
        let key = Array(try Data(contentsOf: directory.appending(path: "large-key.key")))
        let server = try TLSContext.server(
            identity: CertifiedKey(certificates: certificate, privateKey: .pem(SecretBytes(key)), notAfter: .max),
            applicationProtocol: "h2")
        let client = try TLSContext.client(authorities: TrustedAuthorities(and: certificate), applicationProtocol: "h2")
        let error = await #expect(throws: StreamError.self) {
            try await LoopDomain(loop).run { domain in
                let acceptor = try Acceptor(on: domain.loop, tls: server, greeting: [])
                guard case .tcp(_, let port) = acceptor.listener.endpoint else { return }
                _ = try await domain.loop.dial(
                    .tcp(host: "localhost", port: port), tls: client, timeout: .seconds(60))
            }
        }
        #expect("\(error.map { "\($0)" } ?? "")".contains("8192 bits"), "\(String(describing: error))")
    }

    @Test func `a server without the required ALPN protocol is rejected`() async {
        await #expect(throws: StreamError.self) {
            _ = try await dial(names: ["localhost"], trusting: authority.pem, server: "http/1.1")
        }
    }

    /// The options of OpenSSL's server, and whether the handshake succeeds.
    @Test(arguments: [
        ("-tls1_2 -cipher DHE", false), ("-tls1_3 -groups ffdhe8192", false),
        ("-tls1_2 -cipher AES256-GCM-SHA384", false),
        ("-tls1_2 -cipher ECDHE", true), ("-tls1_3 -groups P-384:X25519", true),
    ])
    func `a server cannot choose a key exchange that takes long`(_ options: String, _ succeeds: Bool) async throws {
        let directory = temporaryPath("dhe")
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let identity = authority.issue(subject: "s", purpose: .server(names: ["localhost"]), key: .rsa)
        try Data(identity.certificates).write(to: URL(filePath: "\(directory)/cert.pem"))
        try #require(identity.pem).withBytes { span in span.withUnsafeBytes { Data($0) } }
            .write(to: URL(filePath: "\(directory)/key.pem"))
        let ports = PortReservations()
        defer { withExtendedLifetime(ports) {} }
        let port = try ports.reserve()
        let server = ChildProcess(
            "openssl",
            [
                "s_server", "-accept", "127.0.0.1:\(port)", "-cert", "\(directory)/cert.pem", "-key",
                "\(directory)/key.pem", "-quiet", "-alpn", "h2",
            ] + options.split(separator: " ").map(String.init))
        let client = try TLSContext.client(
            authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: "h2")
        let result = await LoopDomain(loop).run { domain -> Result<Void, StreamError> in
            var result = Result<Void, StreamError>.failure(.timedOut)
            for _ in 0..<600 {
                do throws(StreamError) {
                    try await domain.loop.dial(
                        .tcp(host: "localhost", port: port), tls: client, timeout: .seconds(60), isolation: domain
                    ).close()
                    return .success(())
                } catch {
                    result = .failure(error)
                    // The server may not be listening yet.
                    guard "\(error)".contains("refused") else { return result }
                }
                await domain.loop.sleep(for: .milliseconds(100))
            }
            return result
        }
        await server.terminate()
        switch result {
        case .success: #expect(succeeds)
        case .failure(let error): #expect(!succeeds, "\(error)")
        }
    }

    @Test func `a handshake with a silent peer times out`() async throws {
        let client = try TLSContext.client(authorities: TrustedAuthorities(), applicationProtocol: "h2")
        try await LoopDomain(loop).run { domain in
            let acceptor = try Acceptor(on: domain.loop)
            await #expect(throws: StreamError.timedOut) {
                _ = try await domain.loop.dial(
                    acceptor.listener.endpoint, tls: client, timeout: .milliseconds(300), isolation: domain)
            }
        }
    }

    /// Connects over TLS: the client's stream, paused, and the acceptor of the server's.
    private func connect(on domain: isolated LoopDomain) async throws -> (ByteStream, Acceptor) {
        let context = try TLSContext.server(
            identity: authority.issue(subject: "s", purpose: .server(names: ["localhost"]), validFor: 1000),
            applicationProtocol: "h2")
        let client = try TLSContext.client(
            authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: "h2")
        let acceptor = try Acceptor(on: domain.loop, tls: context)
        guard case .tcp(_, let port) = acceptor.listener.endpoint else { throw StreamError.closed }
        let stream = try await domain.loop.dial(
            .tcp(host: "localhost", port: port), tls: client, timeout: .seconds(60), isolation: domain)
        // In TLS 1.3 the client is done before the server.
        #expect(await eventually { acceptor.streams[0].isOpen })
        return (stream, acceptor)
    }

    @Test func `megabytes travel both ways over TLS while the readers pause again and again`() async throws {
        try await LoopDomain(loop).run { domain in
            let (stream, acceptor) = try await connect(on: domain)
            let server = acceptor.streams[0]
            let (atClient, atServer) = (PausingRecorder(on: domain.loop), PausingRecorder(on: domain.loop))
            (stream.handler, server.handler) = (atClient, atServer)
            stream.resumeReading()
            let sent = (0..<4 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 7) }
            // In pieces of many sizes, some of them larger than a TLS record.
            var (start, size) = (0, 1)
            while start < sent.count {
                let piece = Array(sent[start..<min(start + size, sent.count)])
                server.write(piece)
                stream.write(piece)
                start += size
                size = size * 3 % 100_003
            }
            #expect(await eventually { atClient.bytes.count == sent.count })
            #expect(await eventually { atServer.bytes.count == sent.count })
            #expect(atClient.bytes == sent && atServer.bytes == sent)
            #expect(atClient.pauses > 10 && atServer.pauses > 10)
        }
    }

    @Test func `finish sends all pending output over TLS while the peer still sends`() async throws {
        try await LoopDomain(loop).run { domain in
            let (stream, acceptor) = try await connect(on: domain)
            let client = Recorder()
            stream.handler = client
            acceptor.streams[0].write([UInt8](repeating: 1, count: 3 << 20))
            acceptor.streams[0].finish()
            stream.write([UInt8](repeating: 2, count: 100_000))
            stream.resumeReading()
            #expect(await eventually { client.end != nil })
            #expect(client.bytes.count == 3 << 20)
            #expect(client.end == .closed)
        }
    }

    @Test func `the end of a TLS stream comes after the bytes before it, and after a pause`() async throws {
        try await LoopDomain(loop).run { domain in
            let (stream, acceptor) = try await connect(on: domain)
            let client = PausingRecorder(on: domain.loop)
            client.resumes = false
            stream.handler = client
            stream.resumeReading()
            acceptor.streams[0].write([1])
            #expect(await eventually { client.bytes == [1] })
            acceptor.streams[0].write([2, 3])
            acceptor.streams[0].finish()
            await domain.loop.sleep(for: .milliseconds(100))
            #expect(client.bytes == [1] && client.end == nil)
            client.resumes = true
            stream.resumeReading()
            #expect(await eventually { client.end != nil })
            #expect(client.bytes == [1, 2, 3] && client.end == .closed)
        }
    }

    @Test func `a mismatched key and an invalid certificate are rejected`() throws {
        let one = authority.issue(subject: "a", purpose: .client)
        let other = authority.issue(subject: "b", purpose: .client)
        #expect(throws: TLSContext.SetupError.self) {
            try TLSContext.client(
                authorities: TrustedAuthorities(),
                identity: CertifiedKey(
                    certificates: one.certificates, privateKey: other.privateKey, notAfter: one.notAfter),
                applicationProtocol: "h2")
        }
        #expect(throws: TLSContext.SetupError.self) {
            try TLSContext.client(
                authorities: TrustedAuthorities(and: Array("no certificate".utf8)), applicationProtocol: "h2")
        }
    }
}

@Suite(.tags(.sockets)) struct SOCKS5Tests {
    let loop = EventLoop(name: "test")

    /// A proxy that sends scripted answers and records what it receives.
    private final class ScriptedProxy: ByteStreamHandler {
        var listener: Listener!
        var bytes: [UInt8] = []
        /// The answers, and the number of received bytes after which each is sent.
        private var script: [(after: Int, answer: [UInt8])]
        private var stream: ByteStream?

        init(_ script: [(after: Int, answer: [UInt8])], on loop: EventLoop) throws {
            self.script = script
            listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop) { [unowned self] stream in
                stream.handler = self
                self.stream = stream
            }
        }

        func stream(_ stream: ByteStream, received bytes: RawSpan) {
            bytes.withUnsafeBytes { self.bytes += $0 }
            while let step = script.first, self.bytes.count >= step.after {
                stream.write(step.answer)
                script.removeFirst()
            }
        }

        func stream(_ stream: ByteStream, ended reason: StreamError) {}
    }

    private func run(
        method: [UInt8], reply: [UInt8], after rest: [UInt8] = [], credentials: SOCKS5.Credentials? = nil
    ) async throws -> (sent: [UInt8], received: [UInt8]) {
        let requestSize = connectRequest.count
        return try await LoopDomain(loop).run { domain in
            let login = credentials == nil ? [] : [(after: 4, answer: [UInt8]([1, 0]))]
            let greeting = credentials == nil ? 3 : 8
            let proxy = try ScriptedProxy(
                [(3, method)] + login + [(greeting + requestSize, reply + rest)], on: domain.loop)
            let stream = try await domain.loop.dial(
                .tcp(host: "example.onion", port: 8080), through: .socks5(proxy.listener.endpoint, credentials),
                timeout: .seconds(60))
            let received = try await StreamReader(stream).read(exactly: rest.count)
            return (proxy.bytes, received)
        }
    }

    private let successReply: [UInt8] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    private let connectRequest: [UInt8] = [5, 1, 0, 3, 13] + Array("example.onion".utf8) + [0x1F, 0x90]

    @Test func `the proxy receives the host name unresolved`() async throws {
        #expect(try await run(method: [5, 0], reply: successReply).sent == [5, 1, 0] + connectRequest)
    }

    @Test func `the proxy receives the user name and password`() async throws {
        let (bytes, _) = try await run(
            method: [5, 2], reply: successReply, credentials: SOCKS5.Credentials(user: "ab", password: "c"))
        #expect(bytes == [5, 1, 2, 1, 2] + Array("ab".utf8) + [1] + Array("c".utf8) + connectRequest)
    }

    @Test func `bytes that follow the proxy's reply are kept`() async throws {
        let long: [UInt8] = [5, 0, 0, 3, 3] + Array("abc".utf8) + [0, 1]
        #expect(try await run(method: [5, 0], reply: long, after: Array("first".utf8)).received == Array("first".utf8))
    }

    @Test(arguments: [(UInt8(5), "refused"), (0xF0, "descriptor"), (0xF4, "authorisation"), (0x77, "code 119")])
    func `a SOCKS5 error code becomes a readable message`(_ code: UInt8, _ message: String) async {
        let error = await #expect(throws: StreamError.self) {
            _ = try await run(method: [5, 0], reply: [5, code, 0, 1, 0, 0, 0, 0, 0, 0])
        }
        #expect(error.map { "\($0)".contains(message) } == true)
    }

    @Test func `a server that is not a SOCKS5 proxy is reported as such`() async {
        await #expect(throws: StreamError.proxy("not a SOCKS5 proxy")) {
            _ = try await run(method: Array("HT".utf8), reply: successReply)
        }
    }
}

@Suite(.tags(.sockets)) struct LoopTests {
    let loop = EventLoop(name: "test")

    @Test func `jobs from many threads run one at a time`() async {
        actor Counter {
            nonisolated let loop: EventLoop
            nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
            var value = 0
            init(_ loop: EventLoop) { self.loop = loop }
            func add() {
                #expect(loop.isOnLoop)
                value += 1
            }
        }
        let counter = Counter(loop)
        await withTaskGroup { group in
            for _ in 0..<1000 { group.addTask { await counter.add() } }
        }
        #expect(await counter.value == 1000)
    }

    @Test func `sleep lasts its duration and ends early when cancelled`() async {
        let loop = loop
        let start = MonotonicTime.now
        await LoopDomain(loop).run { _ in await loop.sleep(for: .milliseconds(30)) }
        #expect(MonotonicTime.now - start >= .milliseconds(30))
        let sleeper = Task { await LoopDomain(loop).run { _ in await loop.sleep(for: .seconds(600)) } }
        sleeper.cancel()
        await sleeper.value
        #expect(MonotonicTime.now - start < .seconds(60))
    }

    @Test func `a signal runs its handler on the loop`() async {
        // The only test of this process that handles signals: libevent delivers them to one loop.
        let loop = loop
        await LoopDomain(loop).run { domain in
            final class Count { var value = 0 }
            let count = Count()
            let watch = EventWatch(signal: SIGUSR1, on: domain.loop) { count.value += 1 }
            kill(getpid(), SIGUSR1)
            #expect(await eventually { count.value == 1 })
            withExtendedLifetime(watch) {}
        }
    }

    @Test func `endpoints parse from text and know whether they are local`() {
        #expect(Endpoint("127.0.0.1:80") == .tcp(host: "127.0.0.1", port: 80))
        #expect(Endpoint("[::1]:80") == .tcp(host: "::1", port: 80))
        #expect(Endpoint("unix:/run/x.sock") == .unix(path: "/run/x.sock"))
        for text in [
            "", "host", "host:", "host:70000", ":80", "a b:80", "::1:80", "unix:",
            "unix:/" + String(repeating: "x", count: 120),
        ] {
            #expect(Endpoint(text) == nil, "\(text)")
        }
        #expect(Endpoint("127.3.2.1:1")?.isLocal == true)
        #expect(Endpoint("[::1]:1")?.isLocal == true)
        #expect(Endpoint("0.0.0.0:1")?.isLocal == false)
        #expect(Endpoint("example.org:1")?.isLocal == false)
    }
}
