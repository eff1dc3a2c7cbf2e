// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// AUTH: proves that the connection belongs to a site that the node's operator knows (PROTOCOL §10).
public struct SiteAuthentication: Equatable, Sendable {
    /// The site's public key, 32 bytes.
    public let key: Bytes
    /// The signature, 64 bytes, over `"tnp1-site"`, the seed of WELCOME's puzzle and the onion's public key.
    public let signature: Bytes

    private enum Tag: UInt8 {
        case key = 0x30
        case signature
    }

    /// Signs for a connection.
    /// - Parameters:
    ///   - seed: the seed of the puzzle in WELCOME, 16 bytes.
    ///   - onion: the onion through which the sender reached the node. The signature names it, so that a hostile node
    ///     cannot pass the signature on.
    ///   - key: the site's private key.
    public init(seed: [UInt8], onion: SignedOnion, by key: Ed25519.PrivateKey) {
        self.key = key.publicKey[...]
        signature = key.sign(Self.message(seed, onion))[...]
    }

    private static func message(_ seed: [UInt8], _ onion: SignedOnion) -> [UInt8] {
        Array("tnp1-site".utf8) + seed + onion.bytes
    }

    /// Whether the owner of ``key`` made this signature for a connection with this seed through this onion.
    public func isValid(seed: [UInt8], onion: SignedOnion) -> Bool {
        Ed25519.isValid(signature: Array(signature), of: Self.message(seed, onion), publicKey: Array(key))
    }

    init(payload: Bytes) throws(ProtocolError) {
        var fields = FieldReader(ByteReader(payload, of: "AUTH"))
        var (key, signature): (Bytes?, Bytes?)
        while let (tag, value) = try fields.next() {
            switch Tag(rawValue: tag) {
            case .key: key = value
            case .signature: signature = value
            case nil: break
            }
        }
        guard let key, key.count == Ed25519.publicKeyLength, let signature,
            signature.count == Ed25519.signatureLength
        else { throw .malformed("AUTH needs a key of 32 bytes and a signature of 64") }
        (self.key, self.signature) = (key, signature)
    }

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.authenticate) {
            $0.appendField(Tag.key, key)
            $0.appendField(Tag.signature, signature)
        }
    }
}

/// AUTHED: the node's answer to AUTH (PROTOCOL §10).
public struct SiteAuthenticationResult: Equatable, Sendable {
    /// DELIVERED if the connection counts as the site's, otherwise REJECTED.
    public var kind: Outcome.Kind
    /// The reason for a rejection.
    public var reason: Reason
    /// The site's name in the node; `nil` after a rejection.
    public var name: String?

    private enum Tag: UInt8 {
        case name = 0x32
    }

    /// The connection counts as this site's.
    public static func accepted(_ name: String) -> SiteAuthenticationResult {
        SiteAuthenticationResult(kind: .delivered, reason: .none, name: name)
    }
    /// The key is not a site's, or the signature is not valid for this connection.
    public static let rejected = SiteAuthenticationResult(kind: .rejected, reason: .notASite, name: nil)

    /// Whether the connection counts as the site's.
    public var isAccepted: Bool { kind == .delivered }

    /// Creates an AUTHED.
    public init(kind: Outcome.Kind, reason: Reason, name: String?) {
        self.kind = kind
        self.reason = reason
        self.name = name
    }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "AUTHED")
        guard let kind = Outcome.Kind(rawValue: try reader.number()) else {
            throw .malformed("AUTHED has an unknown outcome")
        }
        self.kind = kind
        reason = Reason(rawValue: try reader.number())
        var fields = FieldReader(reader)
        while let (tag, value) = try fields.next() {
            if Tag(rawValue: tag) == .name { name = String(decoding: value, as: UTF8.self) }
        }
    }

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.authenticated) {
            $0.append(kind.rawValue)
            $0.append(bigEndian: reason.rawValue)
            if let name { $0.appendField(Tag.name, name.utf8) }
        }
    }
}
