// SPDX-License-Identifier: Apache-2.0

/// Encodes and parses the client side of SOCKS version 5 (RFC 1928) with user name and password (RFC 1929). No I/O.
public enum SOCKS5 {
    /// User name and password. tor isolates circuits by them (`IsolateSOCKSAuth`), so they are labels, not secrets.
    public struct Credentials: Hashable, Sendable {
        /// User name, 1–255 bytes of UTF-8.
        public let user: String
        /// Password, 1–255 bytes of UTF-8.
        public let password: String
        /// Whether the dial fails if the proxy does not request authentication.
        public let isRequired: Bool

        /// User name and password for a proxy.
        /// - Parameters:
        ///   - user: 1–255 bytes of UTF-8.
        ///   - password: 1–255 bytes of UTF-8.
        ///   - isRequired: whether the dial fails if the proxy does not request authentication, for callers that rely
        ///     on circuit isolation.
        public init(user: String, password: String, isRequired: Bool = true) {
            precondition((1...255).contains(user.utf8.count) && (1...255).contains(password.utf8.count))
            self.user = user
            self.password = password
            self.isRequired = isRequired
        }
    }

    /// The greeting, with the offered authentication methods.
    static func greeting(_ credentials: Credentials?) -> [UInt8] {
        let methods = methods(credentials)
        return [5, UInt8(methods.count)] + methods
    }

    /// The offered authentication methods. 0: none; 2: user name and password.
    static func methods(_ credentials: Credentials?) -> [UInt8] {
        guard let credentials else { return [0] }
        return credentials.isRequired ? [2] : [2, 0]
    }

    /// The user name and password request (RFC 1929 §2).
    static func authentication(_ credentials: Credentials) -> [UInt8] {
        [1, UInt8(credentials.user.utf8.count)] + credentials.user.utf8
            + [UInt8(credentials.password.utf8.count)] + credentials.password.utf8
    }

    /// The request to connect to a host, whose name the proxy resolves. `host` is at most 255 bytes.
    static func connect(host: String, port: UInt16) -> [UInt8] {
        [5, 1, 0, 3, UInt8(host.utf8.count)] + host.utf8 + [UInt8(port >> 8), UInt8(port & 255)]
    }

    /// The number of bytes after the first five of a reply (RFC 1928 §6); `nil` if the address type is unknown.
    static func remainingLength(ofReply head: [UInt8]) -> Int? {
        switch head[3] {
        case 1: 5
        case 4: 17
        case 3: Int(head[4]) + 2
        default: nil
        }
    }

    /// The meaning of a reply code other than 0 (RFC 1928 §6; from 0xF0 on, tor's `ExtendedErrors`).
    static func meaning(ofReply code: UInt8) -> String {
        switch code {
        case 0x01: "general failure"
        case 0x02: "connection not allowed by ruleset"
        case 0x03: "network unreachable"
        case 0x04: "host unreachable"
        case 0x05: "connection refused"
        case 0x06: "TTL expired"
        case 0x07: "command not supported"
        case 0x08: "address type not supported"
        case 0xF0: "the onion service's descriptor cannot be found"
        case 0xF1: "the onion service's descriptor is invalid"
        case 0xF2: "the introduction to the onion service failed"
        case 0xF3: "the rendezvous with the onion service failed"
        case 0xF4: "the onion service requires client authorisation"
        case 0xF5: "the onion service does not accept this client's key"
        case 0xF6: "not a valid onion address"
        case 0xF7: "the introduction to the onion service timed out"
        default: "code \(code)"
        }
    }
}

extension StreamReader {
    /// Asks the SOCKS5 proxy at the other end to connect to `host`.
    /// - Throws: ``StreamError``: the meaning of the proxy's reply, or why the stream ended.
    func negotiateSOCKS5(
        host: String, port: UInt16, credentials: SOCKS5.Credentials?, isolation: isolated (any Actor)? = #isolation
    ) async throws(StreamError) {
        guard host.utf8.count <= 255 else { throw .proxy("the host name is longer than 255 bytes") }
        stream.write(SOCKS5.greeting(credentials))
        let method = try await read(exactly: 2)
        guard method[0] == 5 else { throw .proxy("not a SOCKS5 proxy") }
        guard SOCKS5.methods(credentials).contains(method[1]) else {
            throw .proxy("the proxy accepts none of the offered authentication methods")
        }
        if let credentials, method[1] == 2 {
            stream.write(SOCKS5.authentication(credentials))
            guard try await read(exactly: 2)[1] == 0 else { throw .proxy("user name and password rejected") }
        }
        stream.write(SOCKS5.connect(host: host, port: port))
        let head = try await read(exactly: 5)
        guard head[0] == 5, let rest = SOCKS5.remainingLength(ofReply: head) else {
            throw .proxy("invalid SOCKS5 reply")
        }
        guard head[1] == 0 else { throw .proxy(SOCKS5.meaning(ofReply: head[1])) }
        _ = try await read(exactly: rest)
    }
}
