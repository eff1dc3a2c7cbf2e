// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Authentication at a control port by a cookie file: each side proves that it knows the cookie without sending it
/// (SAFECOOKIE, control-spec "AUTHCHALLENGE"). A process that pretends to be tor and names any file as its cookie file
/// therefore learns nothing about that file.
struct CookieAuthentication: Equatable {
    /// Length of a cookie in bytes.
    static let cookieLength = 32
    private static let nonceLength = 32
    private static let serverKey = Array("Tor safe cookie authentication server-to-controller hash".utf8)
    private static let clientKey = Array("Tor safe cookie authentication controller-to-server hash".utf8)

    /// Whether the port requires no authentication.
    let requiresNoAuthentication: Bool
    /// Path of the cookie file; `nil` if the port does not offer SAFECOOKIE.
    let cookieFile: String?

    /// Parses the reply to `PROTOCOLINFO 1`.
    init(protocolInfo lines: [String]) {
        let line = lines.first { $0.hasPrefix("250-AUTH ") } ?? ""
        let methods = line.split(separator: " ").first { $0.hasPrefix("METHODS=") }?.dropFirst("METHODS=".count)
        let names = methods?.split(separator: ",") ?? []
        requiresNoAuthentication = names.contains("NULL")
        cookieFile = names.contains("SAFECOOKIE") ? Self.quoted(after: "COOKIEFILE=", in: line) : nil
    }

    /// Parses a quoted string with the escapes of C that a path can contain.
    private static func quoted(after key: String, in line: String) -> String? {
        let marker = Array("\(key)\"".utf8)
        var rest = Array(line.utf8)[...]
        while !rest.starts(with: marker) {
            guard rest.popFirst() != nil else { return nil }
        }
        rest = rest.dropFirst(marker.count)
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return String(validating: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let escaped = rest.first else { return nil }
                let octal = rest.prefix(3).prefix { (UInt8(ascii: "0")...UInt8(ascii: "7")).contains($0) }
                if octal.isEmpty {
                    text.append(escaped)
                    rest = rest.dropFirst()
                } else {
                    text.append(UInt8(truncatingIfNeeded: octal.reduce(0) { $0 * 8 + Int($1 - UInt8(ascii: "0")) }))
                    rest = rest.dropFirst(octal.count)
                }
            default: text.append(byte)
            }
        }
        return nil
    }

    static func nonce() -> [UInt8] { SecureRandom.bytes(nonceLength) }

    /// Builds the command that answers the reply to `AUTHCHALLENGE`.
    /// - Returns: the command; `nil` if the peer has not proved that it knows the cookie.
    static func command(challenge reply: [String], cookie: [UInt8], nonce: [UInt8]) -> String? {
        let words = reply.last?.split(separator: " ") ?? []
        func value(_ key: String) -> [UInt8]? {
            words.first { $0.hasPrefix(key) }.flatMap { Hex.decode($0.utf8.dropFirst(key.utf8.count)) }
        }
        guard let serverHash = value("SERVERHASH="), let serverNonce = value("SERVERNONCE=") else { return nil }
        let message = cookie + nonce + serverNonce
        guard HMAC.constantTimeEqual(HMAC.sha256(message, key: serverKey), serverHash) else { return nil }
        return "AUTHENTICATE \(Hex.encode(HMAC.sha256(message, key: clientKey)))"
    }
}
