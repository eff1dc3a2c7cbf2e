// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The URL at which a Web Push server takes notifications for one phone or browser (RFC 8030 §5): the device token of
/// `web` (PROTOCOL §15). Before the query, only one spelling of a URL is accepted, so that no two parsers read it
/// differently and no phone has two device tokens: a lower-case ASCII name, without Punycode, user, default port,
/// fragment, trailing dot, dot segments or IP address in any notation; in the path, percent-encoding in capitals and
/// only where needed. Prints as `<redacted>`, because the URL is all that is needed to send to it.
public struct PushEndpoint: Sendable, Hashable, Redacted {
    /// Whether the server is reached by TLS; only an onion service may do without.
    public let isSecure: Bool
    /// The server's name, e.g. `push.example`.
    public let host: String
    /// The server's port.
    public let port: UInt16
    /// The path with the query, at least `/`.
    public let path: Bytes
    /// What follows the first `?`; `nil` if there is none.
    package let query: Bytes?

    /// The longest URL, in bytes.
    public static let maximumLength = 1024
    private static let (maximumHostLength, maximumLabelLength) = (253, 63)
    private static let onionSuffix = ".onion"
    /// The length of the label before `.onion` in version 3, in characters.
    private static let onionLabelLength = 56

    /// Why a URL is no push endpoint. Contains no part of it.
    package struct FormatError: Error, Equatable, Sendable {
        /// What is wrong, as the end of a sentence about the push endpoint.
        package let text: String
    }

    /// Parses a URL.
    /// - Throws: ``FormatError``.
    package init(_ url: Bytes) throws(FormatError) {
        guard (1...Self.maximumLength).contains(url.count) else {
            throw FormatError(text: "must have 1 to \(Self.maximumLength) bytes")
        }
        guard url.allSatisfy(Self.isOfURL) else {
            throw FormatError(text: "may only contain the ASCII characters of URLs, and no #")
        }
        let scheme: String
        if url.starts(with: Self.secureScheme.utf8) {
            (scheme, isSecure) = (Self.secureScheme, true)
        } else if url.starts(with: Self.plainScheme.utf8) {
            (scheme, isSecure) = (Self.plainScheme, false)
        } else {
            throw FormatError(text: "must begin with \(Self.secureScheme)")
        }
        let rest = url.dropFirst(scheme.utf8.count)
        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else {
            throw FormatError(text: "must have a path")
        }
        let authority = rest[..<slash].split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        path = rest[slash...]
        let parts = path.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        query = parts.count > 1 ? parts[1] : nil
        guard Self.isCanonical(path: parts[0]), query.map(Self.hasValidEscapes) != false else {
            throw FormatError(
                text: "must have no dot segments, and %XX in capitals for such characters only as need it")
        }
        guard (1...2).contains(authority.count), Self.isName(authority[0]) else {
            throw FormatError(
                text: "must name its server in lower-case ASCII, without an IP address, user, xn-- or trailing dot")
        }
        host = String(decoding: authority[0], as: UTF8.self)
        if authority.count == 2 {
            guard let port = Self.port(authority[1]) else { throw FormatError(text: "has an invalid port") }
            guard port != Self.defaultPort(isSecure: isSecure) else {
                throw FormatError(text: "must leave out the default port \(port)")
            }
            self.port = port
        } else {
            port = Self.defaultPort(isSecure: isSecure)
        }
        if host.hasSuffix(Self.onionSuffix) {
            let label = authority[0].dropLast(Self.onionSuffix.utf8.count)
            guard label.split(separator: UInt8(ascii: ".")).last?.count == Self.onionLabelLength else {
                throw FormatError(text: "must name an onion service of version 3")
            }
        } else if !isSecure {
            throw FormatError(text: "must begin with \(Self.secureScheme), because its server is no onion service")
        }
    }

    static let (secureScheme, plainScheme) = ("https://", "http://")
    /// The default ports of https and http.
    package static let (securePort, plainPort): (UInt16, UInt16) = (443, 80)

    /// Whether the server is an onion service, which only tor reaches.
    public var isOnion: Bool { host.hasSuffix(Self.onionSuffix) }

    /// Host and port as in HTTP's `Host`, without the scheme's default port.
    package var authority: String { Self.authority(host, port, isSecure: isSecure) }

    /// The server of the endpoint (RFC 6454 §6.2), e.g. `https://push.example`. VAPID's `aud` names it, and the
    /// endpoints of one origin share a circuit breaker.
    package var origin: String { Self.origin(host, port, isSecure: isSecure) }

    /// The origin of the endpoints at a server.
    package static func origin(_ host: String, _ port: UInt16, isSecure: Bool = true) -> String {
        (isSecure ? secureScheme : plainScheme) + authority(host, port, isSecure: isSecure)
    }

    private static func authority(_ host: String, _ port: UInt16, isSecure: Bool) -> String {
        port == defaultPort(isSecure: isSecure) ? host : "\(host):\(port)"
    }

    private static func defaultPort(isSecure: Bool) -> UInt16 { isSecure ? securePort : plainPort }

    /// Whether there is a query other than `up=1`, which tells ntfy only that the message is for UnifiedPush. With
    /// other queries, a server that takes texts in the clear may do more than take the message, such as send mail.
    package var hasUnusualQuery: Bool { query.map { !$0.elementsEqual("up=1".utf8) } ?? false }

    /// Whether an endpoint may contain this text as the name of its server.
    package static func isServerName(_ text: some StringProtocol) -> Bool { isName(Array(text.utf8)[...]) }

    private static func isOfURL(_ byte: UInt8) -> Bool {
        switch byte {
        // Of the printable characters, RFC 3986 leaves these out; `#` begins a fragment, which no server sees.
        case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "^"),
            UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"), UInt8(ascii: "#"):
            false
        default: (0x21...0x7E).contains(byte)
        }
    }

    /// Whether a path is written in the one way that is accepted (RFC 3986 §6.2.2).
    private static func isCanonical(path: Bytes) -> Bool {
        let segments = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return !segments.contains { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }
            && escapes(of: path).allSatisfy { escape in
                escape.map { $0.isCapital && !isUnreserved($0.byte) } ?? false
            }
    }

    private static func hasValidEscapes(_ query: Bytes) -> Bool { escapes(of: query).allSatisfy { $0 != nil } }

    /// The percent-encoded bytes, and whether their digits are in capitals; `nil` for a percent sign without digits.
    private static func escapes(of bytes: Bytes) -> [(byte: UInt8, isCapital: Bool)?] {
        bytes.indices.filter { bytes[$0] == UInt8(ascii: "%") }.map { index in
            let digits = bytes[(index + 1)...].prefix(2)
            guard digits.count == 2, Hex.areDigits(digits),
                let byte = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
            else { return nil }
            return (byte, !digits.contains { $0 >= UInt8(ascii: "a") })
        }
    }

    /// RFC 3986 §2.3.
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
        default: isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// Whether these bytes are a valid server name. Its last label must not begin with a digit, because URL parsers
    /// take a number there, also in hexadecimal or octal, for part of an IP address (URL Standard, "ends in a number
    /// checker").
    private static func isName(_ bytes: Bytes) -> Bool {
        let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return bytes.count <= maximumHostLength && labels.allSatisfy(isLabel)
            && labels.last?.first.map(isDigit) == false
    }

    private static func isLabel(_ label: Bytes) -> Bool {
        (1...maximumLabelLength).contains(label.count) && label.first != UInt8(ascii: "-")
            && label.last != UInt8(ascii: "-") && !label.starts(with: "xn--".utf8)
            && label.allSatisfy {
                isDigit($0) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || $0 == UInt8(ascii: "-")
            }
    }

    private static func port(_ digits: Bytes) -> UInt16? {
        guard (1...5).contains(digits.count), digits.allSatisfy(isDigit), digits.first != UInt8(ascii: "0") else {
            return nil
        }
        return UInt16(String(decoding: digits, as: UTF8.self))
    }
}
