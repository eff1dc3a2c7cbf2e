// SPDX-License-Identifier: Apache-2.0

import Time

/// A proxy to reach others through. The host's name is resolved by the proxy, never here.
public enum Proxy: Hashable, Sendable {
    /// SOCKS version 5, for instance tor's `SocksPort`.
    case socks5(Endpoint, SOCKS5.Credentials?)
    /// HTTP's CONNECT over a plain connection, for instance a company's proxy that asks for no login.
    case http(Endpoint)

    /// Where the proxy listens.
    package var endpoint: Endpoint {
        switch self {
        case .socks5(let endpoint, _), .http(let endpoint): endpoint
        }
    }

    /// Reads `socks5://host:port` (or `socks5h://`, as others call it where the proxy resolves the name) or
    /// `http://host:port`. Nil for all else, for a path and a query as for `user:password@`: an address is no place for
    /// secrets, so whoever reports the refusal does not repeat the text.
    /// - Parameter credentials: what a SOCKS proxy is told; an HTTP proxy is told nothing.
    package init?(url: String, credentials: SOCKS5.Credentials? = nil) {
        guard let colon = url.firstIndex(of: ":"), url[colon...].hasPrefix("://") else { return nil }
        let authority = url[colon...].dropFirst(3)
        guard authority.utf8.allSatisfy(Self.isOfHostOrPort), let endpoint = Endpoint(String(authority)),
            case .tcp(_, let port) = endpoint, port > 0
        else { return nil }
        switch url[..<colon].lowercased() {
        case "socks5", "socks5h": self = .socks5(endpoint, credentials)
        case "http": self = .http(endpoint)
        default: return nil
        }
    }

    private static func isOfHostOrPort(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"):
            true
        default: false
        }
    }
}

extension EventLoop {
    /// Connects to `endpoint`: resolves its name (or leaves that to the proxy), tries its addresses in order, and agrees
    /// on TLS where asked. The name is resolved anew each time. The stream comes paused, so that nothing the peer says
    /// first is lost: set its handler and call ``ByteStream/resumeReading()``.
    /// - Parameters:
    ///   - proxy: through which; unix sockets are always reached directly.
    ///   - tls: the context, and the host name to verify where it is not that of `endpoint`.
    ///   - timeout: for all of it.
    /// - Throws: ``StreamError``.
    package func dial(
        _ endpoint: Endpoint, through proxy: Proxy? = nil, tls: TLSContext? = nil, timeout: Duration,
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        preconditionOnLoop()
        let deadline = Deadline(on: self, after: timeout)
        defer { deadline.cancel() }
        let stream: ByteStream
        var host = "localhost"
        switch (endpoint, proxy) {
        case (.unix, _): stream = try await connect(to: endpoint, deadline: deadline)
        case (.tcp(let name, let port), let proxy?):
            host = name
            let reader: StreamReader
            do {
                reader = StreamReader(try await connect(to: proxy.endpoint, deadline: deadline))
            } catch {
                throw .proxyUnreachable(proxy.endpoint, "\(error)")
            }
            switch proxy {
            case .socks5(_, let credentials):
                try await reader.negotiateSOCKS5(host: name, port: port, credentials: credentials)
            case .http: try await reader.negotiateHTTPConnect(host: name, port: port)
            }
            stream = reader.stream
            stream.pauseReading()
            reader.giveBack()
        case (.tcp(let name, _), nil):
            host = name
            stream = try await connect(to: endpoint, deadline: deadline)
        }
        if let tls {
            let reader = StreamReader(stream, pausesWhenConnected: true)
            reader.expectConnection()
            stream.startTLS(tls, host: host)
            try await reader.connected()
        }
        if let reason = stream.endReason { throw reason }
        return stream
    }

    private func connect(
        to endpoint: Endpoint, deadline: Deadline, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        let addresses: [SocketAddress]
        switch endpoint {
        case .unix(let path):
            guard let address = SocketAddress(unixPath: path) else { throw .system("the socket's path is too long") }
            addresses = [address]
        case .tcp(let host, let port): addresses = try await resolve(host, port: port)
        }
        var failure = StreamError.closed
        for (index, address) in addresses.enumerated() {
            if deadline.hasPassed { throw .timedOut }
            let stream = ByteStream(loop: self, connectingTo: address)
            deadline.guarded = stream
            // One address that swallows everything leaves time for the others.
            let share = Deadline(on: self, after: deadline.left / (addresses.count - index))
            share.guarded = stream
            defer { share.cancel() }
            let reader = StreamReader(stream, pausesWhenConnected: true)
            do {
                try await reader.connected()
                return stream
            } catch { failure = error }
        }
        throw failure
    }
}

/// Ends the stream that a dial has got to when the time for all of it is over.
private final class Deadline {
    private(set) var hasPassed = false
    weak var guarded: ByteStream?
    private var timer: Timer?
    private let end: MonotonicTime

    var left: Duration { end - .now }

    init(on loop: EventLoop, after timeout: Duration) {
        end = .now + timeout
        let timer = Timer(on: loop) { [unowned self] in
            hasPassed = true
            guarded?.fail(.timedOut)
        }
        timer.start(after: timeout)
        self.timer = timer
    }

    func cancel() { timer = nil }
}
