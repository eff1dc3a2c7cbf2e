// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// REGISTER, ROTATE or FORGET: what the owner of a handle asks of the node (PROTOCOL §11).
public struct HandleRequest: Sendable, Redacted {
    /// What the owner asks the node to do.
    public enum Action: Sendable, Equatable {
        /// Make a handle for a phone.
        case register(app: [UInt8], owner: [UInt8], Registration)
        /// Put another device token and other sender keys behind a handle.
        case rotate(Handle, Registration)
        /// End a handle.
        case forget(Handle)
    }

    /// The phone that a handle stands for, and who may ring it.
    public struct Registration: Sendable, Equatable, Redacted {
        /// The push service of the phone.
        public var magic: Magic
        /// The device token of the phone.
        public var deviceToken: [UInt8]
        /// The Ed25519 public keys, 32 bytes each, that may ring the phone besides the owner's; at most
        /// ``maximumSenderKeys``. Without any, everyone who has the handle may ring the phone.
        public var senderKeys: [[UInt8]]

        /// The platforms that may deliver: for a push endpoint under the magic `android`, also Web Push (PROTOCOL §15).
        package var platforms: [Magic] {
            magic.isForPushEndpoint(deviceToken) && magic != .web ? [magic, .web] : [magic]
        }

        /// The most sender keys of a handle.
        public static let maximumSenderKeys = 8

        /// Creates a registration.
        public init(magic: Magic, deviceToken: [UInt8], senderKeys: [[UInt8]] = []) {
            self.magic = magic
            self.deviceToken = deviceToken
            self.senderKeys = senderKeys
        }
    }

    /// A number that the sender chooses, unique among its requests and submissions in flight.
    public var request: UInt32
    /// What the owner asks the node to do.
    public let action: Action
    /// A number greater than the sequence of the owner's last request for this handle, e.g. Unix time in milliseconds.
    public let sequence: UInt64
    /// The hash of the signed fields. A proof of work is for this hash.
    public let hash: Digest256
    /// The owner's signature, 64 bytes.
    public let signature: [UInt8]
    /// The proof of work of a REGISTER; `nil` if the sender provides none.
    public var proof: Proof?
    /// The signed fields, as on the wire.
    private let signedFields: [UInt8]
    /// The onions that the signature may name.
    private let onions: [SignedOnion]

    fileprivate typealias Tag = HandleRequestFields.Tag

    /// Creates a signed request.
    /// - Parameters:
    ///   - request: as the property of the same name.
    ///   - action: as the property of the same name. The owner of a REGISTER must be the public key of `key`.
    ///   - sequence: as the property of the same name.
    ///   - onion: the onion through which the sender reaches the node. What is signed for one node is not valid at another.
    ///   - key: the owner's private key.
    public init(
        request: UInt32 = 0, _ action: Action, sequence: UInt64, at onion: SignedOnion, by key: Ed25519.PrivateKey
    ) {
        var fields: [UInt8] = []
        func append(_ registration: Registration, _ between: () -> Void) {
            fields.appendField(Tag.magic, registration.magic.rawValue.utf8)
            fields.appendField(Tag.deviceToken, registration.deviceToken)
            between()
            if !registration.senderKeys.isEmpty {
                fields.appendField(Tag.senderKeys, Array(registration.senderKeys.joined()))
            }
        }
        switch action {
        case .register(let app, let owner, let registration):
            append(registration) {
                if !app.isEmpty { fields.appendField(Tag.app, app) }
                fields.appendField(Tag.owner, owner)
            }
        case .rotate(let handle, let registration):
            append(registration) { fields.appendField(Tag.handle, handle.bytes) }
        case .forget(let handle): fields.appendField(Tag.handle, handle.bytes)
        }
        fields.appendField(Tag.sequence, number: sequence)
        let hash = BLAKE2b.hash256(fields)
        self.init(
            request: request, action, sequence: sequence, hash: hash,
            signature: key.sign(Self.message(action.frameType, onion, hash)), proof: nil, signedFields: fields,
            onions: [onion])
    }

    fileprivate init(
        request: UInt32, _ action: Action, sequence: UInt64, hash: Digest256, signature: [UInt8], proof: Proof?,
        signedFields: [UInt8], onions: [SignedOnion]
    ) {
        self.request = request
        self.action = action
        self.sequence = sequence
        self.hash = hash
        self.signature = signature
        self.proof = proof
        self.signedFields = signedFields
        self.onions = onions
    }

    private static func message(_ type: FrameType, _ onion: SignedOnion, _ hash: Digest256) -> [UInt8] {
        Array("tnp1-handle".utf8) + [type.rawValue] + onion.bytes + hash.bytes
    }

    /// Whether the owner of this public key signed the request, for one of the node's onions.
    public func isSigned(by owner: [UInt8]) -> Bool {
        onions.contains {
            Ed25519.isValid(signature: signature, of: Self.message(action.frameType, $0, hash), publicKey: owner)
        }
    }

    func encode(into output: inout [UInt8]) {
        output.appendFrame(action.frameType) {
            $0.append(bigEndian: request)
            $0 += fields
        }
    }

    /// All fields, as on the wire: the body of the request over HTTP.
    package var fields: [UInt8] {
        // The proof stands between the signed fields 0x0A and 0x20.
        let split =
            proof == nil ? signedFields.count : Self.offset(afterFieldsBelow: Tag.proof.rawValue, in: signedFields)
        var output = Array(signedFields[..<split])
        if let proof { output.appendField(Tag.proof, proof.encoded) }
        output += signedFields[split...]
        output.appendField(Tag.signature, signature)
        return output
    }

    private static func offset(afterFieldsBelow tag: UInt8, in fields: [UInt8]) -> Int {
        var position = 0
        while position < fields.count, fields[position] < tag {
            position += 3 + (Int(fields[position + 1]) << 8 | Int(fields[position + 2]))
        }
        return position
    }
}

extension HandleRequest {
    /// The handle that a ROTATE or FORGET names; `nil` for a REGISTER.
    package var handle: Handle? {
        switch action {
        case .register: nil
        case .rotate(let handle, _), .forget(let handle): handle
        }
    }
}

extension HandleRequest.Action {
    fileprivate var frameType: FrameType {
        switch self {
        case .register: .register
        case .rotate: .rotate
        case .forget: .forget
        }
    }
}

/// The fields of a REGISTER, ROTATE or FORGET as received: well-formed, but not yet checked.
public struct HandleRequestFields: Sendable, Redacted {
    fileprivate enum Tag: UInt8 {
        case magic = 0x01
        case deviceToken
        case app = 0x0A
        case handle
        case proof = 0x10
        case owner = 0x20
        case senderKeys, sequence, signature
    }

    /// The number that the sender gave the request.
    public let request: UInt32
    private let type: FrameType
    private var fields: [Tag: Bytes] = [:]
    private var signedFields: [UInt8] = []
    private var hasUnknownField = false

    /// Reads the payload of a frame.
    init(_ type: FrameType, payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "a request about a handle")
        let request: UInt32 = try reader.number()
        try self.init(type, request: request, reader)
    }

    /// Reads the body of a request over HTTP, which has the fields only.
    /// - Parameter type: the frame in which the same fields would come over TNP.
    /// - Throws: ``Rejection`` if the body is no sequence of fields.
    package init(_ type: FrameType, body: Bytes) throws(Rejection) {
        do {
            try self.init(type, request: 0, ByteReader(body, of: "a request about a handle"))
        } catch {
            throw Rejection(.malformed, error.text)
        }
    }

    private init(_ type: FrameType, request: UInt32, _ reader: ByteReader) throws(ProtocolError) {
        self.type = type
        self.request = request
        var fields = FieldReader(reader)
        while let (tag, value) = try fields.next() {
            let known = Tag(rawValue: tag)
            if let known {
                self.fields[known] = value
            } else if tag < FieldReader.firstSkippable {
                hasUnknownField = true
            }
            if known != .proof, known != .signature {
                signedFields.append(tag)
                signedFields.append(bigEndian: UInt16(value.count))
                signedFields += value
            }
        }
    }

    /// Checks the fields against the rules of PROTOCOL §11 and returns the request. The signature of a REGISTER is checked,
    /// too; that of a ROTATE or FORGET needs the owner's key, which the node has stored.
    /// - Parameter onions: the onions that the signature may name.
    /// - Throws: ``Rejection`` with the first rule that a field breaks.
    public func checked(at onions: [SignedOnion]) throws(Rejection) -> HandleRequest {
        guard !hasUnknownField, fields.keys.allSatisfy(expectedTags.contains) else {
            throw Rejection(.unsupportedField)
        }
        let action = try checkedAction()
        guard let sequence: UInt64 = try needed(.sequence, "sequence").number() else {
            throw Rejection(.malformed, "the sequence must be 8 bytes")
        }
        let signature = try needed(.signature, "signature")
        guard signature.count == Ed25519.signatureLength else {
            throw Rejection(.malformed, "the signature must be 64 bytes")
        }
        var proof: Proof?
        if let field = fields[.proof] {
            proof = Proof(field)
            guard proof != nil else { throw Rejection(.malformed, "the proof must be 16 bytes") }
        }
        let request = HandleRequest(
            request: request, action, sequence: sequence, hash: BLAKE2b.hash256(signedFields),
            signature: Array(signature), proof: proof, signedFields: signedFields, onions: onions)
        if case .register(_, let owner, _) = action, !request.isSigned(by: owner) { throw Rejection(.notTheOwner) }
        return request
    }

    private var expectedTags: Set<Tag> {
        switch type {
        case .register: [.magic, .deviceToken, .app, .proof, .owner, .senderKeys, .sequence, .signature]
        case .rotate: [.magic, .deviceToken, .handle, .senderKeys, .sequence, .signature]
        default: [.handle, .sequence, .signature]
        }
    }

    private func checkedAction() throws(Rejection) -> HandleRequest.Action {
        switch type {
        case .register:
            let owner = try needed(.owner, "owner")
            guard owner.count == Ed25519.publicKeyLength else {
                throw Rejection(.malformed, "the owner's key must be 32 bytes")
            }
            return .register(app: Array(fields[.app] ?? []), owner: Array(owner), try checkedRegistration())
        case .rotate: return .rotate(try checkedHandle(), try checkedRegistration())
        default: return .forget(try checkedHandle())
        }
    }

    private func checkedRegistration() throws(Rejection) -> HandleRequest.Registration {
        typealias Registration = HandleRequest.Registration
        let magic = try needed(.magic, "magic").withUnsafeBytes { Magic($0) }
        guard let magic else { throw Rejection(.unknownMagic) }
        let deviceToken = try needed(.deviceToken, "device token")
        try FieldRules.check(deviceToken: deviceToken, of: magic)
        var rest = fields[.senderKeys] ?? []
        let length = Ed25519.publicKeyLength
        guard rest.count.isMultiple(of: length), rest.count <= Registration.maximumSenderKeys * length else {
            throw Rejection(.malformed, "the sender keys must be at most 8 of 32 bytes each")
        }
        var keys: [[UInt8]] = []
        while !rest.isEmpty {
            keys.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        return Registration(magic: magic, deviceToken: Array(deviceToken), senderKeys: keys)
    }

    private func checkedHandle() throws(Rejection) -> Handle {
        guard let handle = Handle(try needed(.handle, "handle")) else {
            throw Rejection(.malformed, "a handle is 32 bytes")
        }
        return handle
    }

    private func needed(_ tag: Tag, _ name: StaticString) throws(Rejection) -> Bytes {
        guard let field = fields[tag] else { throw Rejection(.malformed, "the field \(name) is missing") }
        return field
    }
}

/// REGISTERED: the answer to REGISTER, ROTATE or FORGET (PROTOCOL §11).
public struct HandleResult: Equatable, Sendable {
    /// The number that the sender gave the request.
    public var request: UInt32
    /// What became of the request. Only its kind, reason and `retryAfter` are sent.
    public var outcome: Outcome
    /// The handle, if the request was accepted.
    public var handle: Handle?

    /// Creates a REGISTERED.
    public init(request: UInt32, outcome: Outcome, handle: Handle? = nil) {
        self.request = request
        self.outcome = outcome
        self.handle = handle
    }

    private enum Tag: UInt8 {
        case handle = 0x0B
    }

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "REGISTERED")
        request = try reader.number()
        guard let kind = Outcome.Kind(rawValue: try reader.number()), kind != .queued else {
            throw .malformed("REGISTERED has an unknown outcome")
        }
        let reason = Reason(rawValue: try reader.number())
        outcome = Outcome(kind, reason: reason, retryAfter: try reader.number())
        var fields = FieldReader(reader)
        while let (tag, value) = try fields.next() {
            guard Tag(rawValue: tag) == .handle else { continue }
            handle = Handle(value)
            guard handle != nil else { throw .malformed("REGISTERED has a handle that is not 32 bytes long") }
        }
    }

    func encode(into output: inout [UInt8]) {
        output.appendFrame(.registered) {
            $0.append(bigEndian: request)
            $0.append(outcome.kind.rawValue)
            $0.append(bigEndian: outcome.reason.rawValue)
            $0.append(bigEndian: outcome.retryAfter)
            if let handle { $0.appendField(Tag.handle, handle.bytes) }
        }
    }
}
