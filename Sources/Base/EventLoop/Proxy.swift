// SPDX-License-Identifier: Apache-2.0

import Time

/// A proxy for outgoing connections. The proxy, not this process, resolves the host name.
public enum Proxy: Hashable, Sendable {
    /// SOCKS version 5, for instance tor's `SocksPort`.
    case socks5(Endpoint, SOCKS5.Credentials?)
    /// HTTP CONNECT over an unencrypted connection, for instance a company's proxy that requires no login.
    case http(Endpoint)

    /// The proxy's own address.
    package var endpoint: Endpoint {
        switch self {
        case .socks5(let endpoint, _), .http(let endpoint): endpoint
        }
    }

    /// Parses `socks5://host:port` (or `socks5h://`, the common form for resolution by the proxy) or
    /// `http://host:port`. `nil` for anything else, including a path, a query or `user:password@`. A rejected text may
    /// contain a password: error messages must not repeat it.
    /// - Parameter credentials: the SOCKS credentials; ignored for an HTTP proxy.
    public init?(url: String, credentials: SOCKS5.Credentials? = nil) {
        guard let colon = url.firstIndex(of: ":"), url[colon...].hasPrefix("://") else { return nil }
        let authority = url[colon...].dropFirst(3)
        guard authority.allSatisfy(Self.isOfHostOrPort), let endpoint = Endpoint(String(authority)),
            case .tcp(_, let port) = endpoint, port > 0
        else { return nil }
        switch url[..<colon].lowercased() {
        case "socks5", "socks5h": self = .socks5(endpoint, credentials)
        case "http": self = .http(endpoint)
        default: return nil
        }
    }

    private static func isOfHostOrPort(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || ".-_:[]".contains(character))
    }
}

extension EventLoop {
    /// Connects to `endpoint`: resolves its name unless a proxy does so, tries its addresses in order and, if `tls` is
    /// given, performs the TLS handshake. Each call resolves the name again. The stream is returned paused, so that no
    /// early bytes from the peer are lost: set its handler, then call ``ByteStream/resumeReading()``.
    /// - Parameters:
    ///   - proxy: the proxy to use; unix sockets are always dialled directly.
    ///   - tls: the TLS context. The certificate must be valid for the host of `endpoint`, or `localhost` for a unix
    ///     socket.
    ///   - addresses: the addresses that may be dialled; ignored with a proxy.
    ///   - timeout: for the whole dial.
    /// - Throws: ``StreamError``.
    package func dial(
        _ endpoint: Endpoint, through proxy: Proxy? = nil, tls: TLSContext? = nil, addresses: AddressPolicy = .any,
        timeout: Duration,
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
            reader.returnUnread()
        case (.tcp(let name, _), nil):
            host = name
            stream = try await connect(to: endpoint, allowing: addresses, deadline: deadline)
        }
        if let tls {
            let reader = StreamReader(stream, pausesWhenConnected: true)
            reader.isConnected = false
            stream.startTLS(tls, host: host)
            try await reader.connected()
        }
        if let reason = stream.endReason { throw reason }
        return stream
    }

    private func connect(
        to endpoint: Endpoint, allowing policy: AddressPolicy = .any, deadline: Deadline,
        isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        if let world {
            let stream = ByteStream(connecting: world.connect(to: endpoint, on: self), on: self)
            return try await open(stream, deadline.left, deadline)
        }
        let addresses: [SocketAddress]
        switch endpoint {
        case .unix(let path):
            guard let address = SocketAddress(unixPath: path) else { throw .system("the unix socket path is too long") }
            addresses = [address]
        case .tcp(let host, let port):
            let all = try await resolve(host, port: port, for: policy, within: deadline.left)
            addresses = all.filter(policy.allows)
            if addresses.isEmpty, !all.isEmpty { throw .forbiddenAddress }
        }
        var failure = StreamError.closed
        for (index, address) in addresses.enumerated() {
            if deadline.hasPassed { throw .timedOut }
            do {
                // Each address gets a share of the remaining time, so that an unresponsive one does not use all of it.
                return try await open(
                    ByteStream(loop: self, connectingTo: address), deadline.left / (addresses.count - index), deadline)
            } catch { failure = error }
        }
        throw failure
    }

    /// Waits until a stream is connected, for at most `time`, and until the deadline of the whole dial.
    private func open(
        _ stream: ByteStream, _ time: Duration, _ deadline: Deadline, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) -> ByteStream {
        deadline.guarded = stream
        let share = Deadline(on: self, after: time)
        share.guarded = stream
        defer { share.cancel() }
        try await StreamReader(stream, pausesWhenConnected: true).connected()
        return stream
    }
}

/// Fails the current stream of a dial when the dial's timeout expires.
private final class Deadline {
    private(set) var hasPassed = false
    weak var guarded: ByteStream?
    private var timer: Timer?
    private let end: MonotonicTime

    var left: Duration { end - .now }

    init(on loop: EventLoop, after timeout: Duration) {
        end = .now + timeout
        timer = Timer(on: loop, after: timeout) { [unowned self] in
            hasPassed = true
            guarded?.fail(.timedOut)
        }
    }

    func cancel() { timer = nil }
}
