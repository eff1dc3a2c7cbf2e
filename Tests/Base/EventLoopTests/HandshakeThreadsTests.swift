// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import Cryptography
import Dispatch
import Glibc
import StandIns
import Synchronization
import TestSupport
import Testing

@testable import EventLoop
@testable import Time

/// TLS handshakes that take their steps on other threads, because a signature of another process or an expensive step would
/// hold up the loop.
@Suite(.tags(.sockets)) struct HandshakeThreadsTests {
    /// Signs once the test lets it.
    private final class SlowKey: RemoteKey {
        private let key: CertifiedKey
        private let refuses = Atomic(false)
        private let permission = DispatchSemaphore(value: 0)
        private let askedBy = Mutex<[UInt]>([])

        /// The threads that wait or have waited for a signature.
        var threads: [UInt] { askedBy.withLock { $0 } }

        init(_ key: CertifiedKey) { self.key = key }

        var certificates: [UInt8] { key.certificates }

        func permit() { permission.signal() }

        func refuse() {
            refuses.store(true, ordering: .releasing)
            permit()
        }

        func sign(_ input: [UInt8], padding: Int32) -> [UInt8]? {
            askedBy.withLock { $0.append(UInt(pthread_self())) }
            guard permission.wait(timeout: .now() + 60) == .success else { return nil }
            return refuses.load(ordering: .acquiring) ? nil : key.sign(input, padding: padding)
        }
    }

    private final class Greeter {
        var streams: [ByteStream] = []
        var listener: Listener!

        init(_ context: TLSContext, on loop: EventLoop) throws {
            listener = try Listener(.tcp(host: "127.0.0.1", port: 0), on: loop, tls: context) { [unowned self] stream in
                streams.append(stream)
                stream.write(Array("hello".utf8))
            }
        }
    }

    private let authority = CertificateAuthority(name: "test authority")

    private func withServer(
        _ body: @Sendable (Endpoint, TLSContext, SlowKey, isolated LoopDomain) async throws -> Void
    ) async throws {
        let key = SlowKey(authority.issue(subject: "client", purpose: .client, key: .rsa))
        let server = try TLSContext.server(
            identity: authority.issue(subject: "s", purpose: .server(names: ["localhost"])),
            clientAuthorities: authority.pem, applicationProtocol: "h2")
        let client = try TLSContext.client(
            authorities: TrustedAuthorities(and: authority.pem),
            identity: CertifiedKey(certificates: key.certificates, privateKey: .remote(key), notAfter: 0),
            applicationProtocol: "h2")
        try await LoopDomain(EventLoop(name: "test")).run { domain in
            let greeter = try Greeter(server, on: domain.loop)
            guard case .tcp(_, let port) = greeter.listener.endpoint else { return }
            try await body(.tcp(host: "localhost", port: port), client, key, domain)
        }
    }

    @Test func `the loop goes on while a handshake waits for a signature`() async throws {
        try await withServer { endpoint, client, key, domain in
            let loop = domain.loop
            let dialling = Task {
                try await LoopDomain(loop).run { domain in
                    let stream = try await domain.loop.dial(
                        endpoint, tls: client, timeout: .seconds(60), isolation: domain)
                    return try await StreamReader(stream).read(exactly: 5)
                }
            }
            #expect(await eventually { !key.threads.isEmpty })
            // The key waits for a permission that only this loop gives.
            key.permit()
            let greeting = try await dialling.value
            #expect(greeting == Array("hello".utf8))
            #expect(!key.threads.contains(UInt(pthread_self())))
        }
    }

    @Test func `a handshake whose signature does not come in time ends at its deadline, whatever comes later`()
        async throws
    {
        try await withServer { endpoint, client, key, domain in
            var attempts = 0
            // On a busy machine, a handshake may not have come to the signature by its deadline.
            while key.threads.isEmpty, attempts < 100 {
                attempts += 1
                await #expect(throws: StreamError.timedOut) {
                    _ = try await domain.loop.dial(
                        endpoint, tls: client, timeout: .milliseconds(300), isolation: domain)
                }
            }
            #expect(!key.threads.isEmpty)
            for _ in 0..<attempts { key.permit() }
            // The late signature belongs to no stream; the next handshake has its own.
            key.permit()
            let stream = try await domain.loop.dial(endpoint, tls: client, timeout: .seconds(60), isolation: domain)
            #expect(try await StreamReader(stream).read(exactly: 5) == Array("hello".utf8))
        }
    }

    @Test func `the loop goes on while a handshake waits for its threads`() async throws {
        let server = try TLSContext.server(
            identity: authority.issue(subject: "s", purpose: .server(names: ["localhost"])), applicationProtocol: "h2")
        let threads = DispatchQueue(label: "test")
        let client = try TLSContext.client(
            authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: "h2", handshakeThreads: threads)
        threads.suspend()
        try await LoopDomain(EventLoop(name: "test")).run { domain in
            let loop = domain.loop
            let greeter = try Greeter(server, on: loop)
            guard case .tcp(_, let port) = greeter.listener.endpoint else { return }
            let dialling = Task {
                try await LoopDomain(loop).run { domain in
                    let stream = try await domain.loop.dial(
                        .tcp(host: "localhost", port: port), tls: client, timeout: .seconds(60), isolation: domain)
                    return try await StreamReader(stream).read(exactly: 5)
                }
            }
            #expect(await eventually { greeter.streams.count == 1 })
            await loop.sleep(for: .milliseconds(50))
            #expect(!greeter.streams[0].isOpen)
            threads.resume()
            let greeting = try await dialling.value
            #expect(greeting == Array("hello".utf8))
        }
    }

    /// In TLS 1.2 the server completes the handshake, and what it sends next arrives together with that.
    @Test func `bytes that arrive with the end of a handshake are delivered`() async throws {
        let server = try TLSContext.server(
            identity: authority.issue(subject: "s", purpose: .server(names: ["localhost"])), applicationProtocol: "h2")
        #expect(SSL_CTX_ctrl(server.handle, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(TLS1_2_VERSION), nil) == 1)
        let client = try TLSContext.client(
            authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: "h2",
            handshakeThreads: DispatchQueue(label: "test"))
        try await LoopDomain(EventLoop(name: "test")).run { domain in
            let greeter = try Greeter(server, on: domain.loop)
            guard case .tcp(_, let port) = greeter.listener.endpoint else { return }
            for _ in 0..<20 {
                let stream = try await domain.loop.dial(
                    .tcp(host: "localhost", port: port), tls: client, timeout: .seconds(60), isolation: domain)
                #expect(try await StreamReader(stream).read(exactly: 5) == Array("hello".utf8))
            }
        }
    }

    @Test func `a stream that is closed during a step needs nothing more of it`() async throws {
        try await withServer { endpoint, client, key, domain in
            var stream: ByteStream? = try await domain.loop.dial(endpoint, timeout: .seconds(60), isolation: domain)
            stream?.startTLS(client, host: "localhost")
            #expect(await eventually { !key.threads.isEmpty })
            weak let released = stream
            stream?.close()
            stream = nil
            #expect(released == nil)
            key.permit()
            await domain.loop.sleep(for: .milliseconds(50))
        }
    }

    @Test func `a key that refuses ends the handshake`() async throws {
        try await withServer { endpoint, client, key, domain in
            key.refuse()
            await #expect(throws: StreamError.self) {
                _ = try await domain.loop.dial(endpoint, tls: client, timeout: .seconds(60), isolation: domain)
            }
        }
    }
}
