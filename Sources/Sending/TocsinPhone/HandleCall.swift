// SPDX-License-Identifier: Apache-2.0

/// REGISTER, ROTATE or FORGET: a signed request of a handle's owner (PROTOCOL §11), to send over HTTP or TNP. Prints
/// without its content.
public struct HandleCall: Sendable, CustomStringConvertible {
    /// What the owner asks for.
    public enum Action: Sendable {
        /// Make a handle.
        /// - Parameter app: the name of an app of the node; empty for its first one.
        case register(PhonePairing, app: String)
        /// Put the device token of this pairing behind a handle.
        case rotate(PhoneHandle, PhonePairing)
        /// End a handle.
        case forget(PhoneHandle)
    }

    private enum Tag: UInt8 {
        case magic = 0x01
        case deviceToken = 0x02
        case app = 0x0A
        case handle = 0x0B
        case proof = 0x10
        case owner = 0x20
        case senderKeys = 0x21
        case sequence = 0x22
        case signature = 0x23
    }

    /// The largest number of sender keys of a handle.
    public static let maximumSenderKeys = 8
    /// The longest field, in bytes: the longest push endpoint.
    private static let maximumField = 1024

    private let type: UInt8
    private let handle: PhoneHandle?
    private let fields: [(Tag, [UInt8])]
    private let signature: [UInt8]
    /// The hash of the fields, which the signature and a proof of work cover.
    let digest: [UInt8]

    /// Signs a request.
    /// - Parameters:
    ///   - action: what the owner asks for.
    ///   - senderKeys: the public keys, 32 bytes each, that may ring besides the owner's; at most ``maximumSenderKeys``. None:
    ///     whoever has the handle may ring. FORGET ignores them.
    ///   - sequence: greater than that of the owner's last request about the handle, e.g. the Unix time in
    ///     milliseconds.
    ///   - node: the node that the signature names; it is not valid at another one.
    /// - Throws: ``PhoneError/tooLong(_:)``.
    public init(
        _ action: Action, senderKeys: [[UInt8]] = [], sequence: UInt64, at node: NodeHost, by owner: HandleOwner
    ) throws(PhoneError) {
        guard senderKeys.count <= Self.maximumSenderKeys, senderKeys.allSatisfy({ $0.count == 32 }) else {
            throw .tooLong("more than \(Self.maximumSenderKeys) sender keys of 32 bytes each")
        }
        func phone(_ pairing: PhonePairing) -> [(Tag, [UInt8])] {
            [(.magic, Array(pairing.platform.rawValue.utf8)), (.deviceToken, Array(pairing.deviceToken.utf8))]
        }
        let keys: [(Tag, [UInt8])] = senderKeys.isEmpty ? [] : [(.senderKeys, senderKeys.flatMap(\.self))]
        switch action {
        case .register(let pairing, let app):
            type = FrameType.register
            handle = nil
            fields =
                phone(pairing) + (app.isEmpty ? [] : [(.app, Array(app.utf8))]) + [(.owner, owner.publicKey)] + keys
                + [(.sequence, Text.bytes(sequence))]
        case .rotate(let handle, let pairing):
            type = FrameType.rotate
            self.handle = handle
            fields = phone(pairing) + [(.handle, handle.bytes)] + keys + [(.sequence, Text.bytes(sequence))]
        case .forget(let handle):
            type = FrameType.forget
            self.handle = handle
            fields = [(.handle, handle.bytes), (.sequence, Text.bytes(sequence))]
        }
        guard fields.allSatisfy({ $0.1.count <= Self.maximumField }) else {
            throw .tooLong("a device token or app of more than \(Self.maximumField) bytes")
        }
        digest = BLAKE2b.hash(Self.encode(fields))
        signature = owner.sign(Array("tnp1-handle".utf8) + [type] + node.onionKey + digest)
    }

    private static func encode(_ fields: [(Tag, [UInt8])]) -> [UInt8] {
        fields.flatMap { tag, value in [tag.rawValue] + Text.bytes(UInt16(value.count)) + value }
    }

    var isRegistration: Bool { type == FrameType.register }

    /// The method of the request over HTTP.
    public var method: String {
        switch type {
        case FrameType.register: "POST"
        case FrameType.rotate: "PUT"
        default: "DELETE"
        }
    }

    /// The path of the request over HTTP.
    public var path: String { handle.map { "/v1/handles/\(Text.hex($0.bytes))" } ?? "/v1/handles" }

    /// The body of the request over HTTP.
    /// - Parameter proof: what ``HandleChallenge/solve(for:from:tries:)`` found; `nil` for none.
    public func body(proof: [UInt8]? = nil) -> [UInt8] {
        let all = fields + (proof.map { [(Tag.proof, $0)] } ?? []) + [(.signature, signature)]
        return Self.encode(all.sorted { $0.0.rawValue < $1.0.rawValue })
    }

    /// The request as a frame of TNP.
    /// - Parameters:
    ///   - request: a number, unique among the requests of a connection.
    ///   - proof: what ``HandleChallenge/solve(for:from:tries:)`` found; `nil` for none.
    public func frame(request: UInt32, proof: [UInt8]? = nil) -> [UInt8] {
        FrameType.frame(type, Text.bytes(request) + body(proof: proof))
    }

    /// A text with no part of the content.
    public var description: String { "<HandleCall redacted>" }
}

/// The types of TNP's frames that a phone sends or gets (PROTOCOL §1).
enum FrameType {
    static let (hello, welcome, puzzle, goAway): (UInt8, UInt8, UInt8, UInt8) = (0x01, 0x02, 0x07, 0x08)
    static let (register, registered, rotate, forget): (UInt8, UInt8, UInt8, UInt8) = (0x10, 0x11, 0x12, 0x13)

    static func frame(_ type: UInt8, _ payload: [UInt8]) -> [UInt8] {
        Text.bytes(UInt32(1 + payload.count)) + [type] + payload
    }
}
