// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// SUBMIT: an envelope with its request number, and the proof of work and signature that admit it (PROTOCOL §3).
public struct Submission: Sendable, Redacted {
    /// A number that the sender chooses, unique among its submissions in flight.
    public var request: UInt32
    /// The envelope to deliver.
    public var envelope: Envelope
    /// Whether the node may answer QUEUED once it has stored the envelope durably.
    public var acceptQueued: Bool
    /// The proof of work; `nil` if the sender provides none.
    public var proof: Proof?
    /// The signature under the sender key; `nil` for an unsigned submission.
    public var signature: SenderSignature?

    /// Creates a SUBMIT.
    /// - Parameters: as the properties of the same names.
    public init(
        request: UInt32, envelope: Envelope, acceptQueued: Bool = false, proof: Proof? = nil,
        signature: SenderSignature? = nil
    ) {
        self.request = request
        self.envelope = envelope
        self.acceptQueued = acceptQueued
        self.proof = proof
        self.signature = signature
    }

    func encode(into output: inout [UInt8]) {
        typealias Tag = SubmissionFields.Tag
        output.appendFrame(.submit) {
            $0.append(bigEndian: request)
            $0.appendField(Tag.magic, envelope.magic.rawValue.utf8)
            $0.appendField(Tag.deviceToken, envelope.deviceToken)
            $0.appendField(Tag.iv, envelope.iv)
            $0.appendField(Tag.ciphertext, envelope.ciphertext)
            if envelope.ttl != Envelope.maximumTTL { $0.appendField(Tag.ttl, number: envelope.ttl) }
            if envelope.priority != .immediate { $0.appendField(Tag.priority, number: envelope.priority.rawValue) }
            if !envelope.sound { $0.appendField(Tag.sound, number: UInt8(0)) }
            if let collapseID = envelope.collapseID { $0.appendField(Tag.collapseID, collapseID) }
            if acceptQueued { $0.appendField(Tag.acceptQueued, number: UInt8(1)) }
            if !envelope.app.isEmpty { $0.appendField(Tag.app, envelope.app) }
            if let proof { $0.appendField(Tag.proof, proof.encoded) }
            if let signature {
                $0.appendField(Tag.senderKey, signature.key)
                $0.appendField(Tag.signature, signature.signature)
            }
        }
    }
}

extension Ed25519.PrivateKey {
    /// Derives the sender key of a pairing (PROTOCOL §3). Every desktop with the pairing derives the same key, so none has
    /// to store it. It reveals nothing about the pairing's key to the node.
    public init(ofSenderFor pairing: PairingToken) {
        let key = pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let seed = BLAKE2b.hash256(Array("tnp1-sender-seed".utf8) + Array(pairing.deviceToken.utf8), key: key).bytes
        guard let made = Ed25519.PrivateKey(seed: seed) else { preconditionFailure("a seed is 32 bytes") }
        self = made
    }
}

/// An Ed25519 signature over `"tnp1-sender" ‖ digest`: fields 0x11 and 0x12 of SUBMIT.
public struct SenderSignature: Equatable, Sendable {
    /// The public sender key, 32 bytes.
    public let key: Bytes
    /// The signature, 64 bytes.
    public let signature: Bytes
}

extension SenderSignature {
    private static func message(_ digest: Digest256) -> [UInt8] { Array("tnp1-sender".utf8) + digest.bytes }

    /// Signs the digest of an envelope with a sender key.
    public init(of digest: Digest256, by key: Ed25519.PrivateKey) {
        self.init(key: key.publicKey[...], signature: key.sign(Self.message(digest))[...])
    }

    /// Whether the owner of ``key`` made this signature for the envelope with this digest.
    public func isValid(for digest: Digest256) -> Bool {
        Ed25519.isValid(signature: Array(signature), of: Self.message(digest), publicKey: Array(key))
    }
}

/// The fields of a SUBMIT as received: well-formed, but not yet checked against the value rules, which depend on the app.
public struct SubmissionFields: Sendable, Redacted {
    /// The tags of the fields: 0x01 to 0x0A and 0x10 to 0x12, in this order.
    enum Tag: UInt8 {
        case magic = 0x01
        case deviceToken, iv, ciphertext, ttl, priority, sound, collapseID, acceptQueued, app
        case proof = 0x10
        case senderKey, signature
    }

    /// The number that the sender gave the submission.
    public let request: UInt32
    /// The name of an app of the node; empty if absent.
    public private(set) var app: Bytes = []
    private var magic: Bytes?
    private var deviceToken: Bytes?
    private var iv: Bytes?
    private var ciphertext: Bytes?
    private var ttl: Bytes?
    private var priority: Bytes?
    private var sound: Bytes?
    private var collapseID: Bytes?
    private var acceptQueued: Bytes?
    private var proof: Bytes?
    private var senderKey: Bytes?
    private var signature: Bytes?
    private var hasUnknownField = false

    init(payload: Bytes) throws(ProtocolError) {
        var reader = ByteReader(payload, of: "SUBMIT")
        request = try reader.number()
        var fields = FieldReader(reader)
        while let (tag, value) = try fields.next() {
            switch Tag(rawValue: tag) {
            case .magic: magic = value
            case .deviceToken: deviceToken = value
            case .iv: iv = value
            case .ciphertext: ciphertext = value
            case .ttl: ttl = value
            case .priority: priority = value
            case .sound: sound = value
            case .collapseID: collapseID = value
            case .acceptQueued: acceptQueued = value
            case .app: app = value
            case .proof: proof = value
            case .senderKey: senderKey = value
            case .signature: signature = value
            case nil: if tag < FieldReader.firstSkippable { hasUnknownField = true }
            }
        }
    }

    /// Checks the fields against the rules of PROTOCOL §3 and returns the submission.
    /// - Parameter format: the format of the app named by ``app``.
    /// - Throws: ``Rejection`` with the first rule that a field breaks.
    public func checked(format: EnvelopeFormat) throws(Rejection) -> Submission {
        guard !hasUnknownField else { throw Rejection(.unsupportedField) }
        let magicBytes = try needed(magic, "magic")
        let deviceToken = try needed(deviceToken, "device token")
        let iv = try needed(iv, "iv")
        let ciphertext = try needed(ciphertext, "ciphertext")
        guard let magic = Magic(magicBytes) else { throw Rejection(.unknownMagic) }
        let ttl: UInt32? = try number(ttl, "ttl")
        let priority: UInt8? = try number(priority, "priority")
        guard let urgency = DeliveryPriority(rawValue: priority ?? DeliveryPriority.immediate.rawValue) else {
            throw Rejection(.optionOutOfRange, "priority is neither 5 nor 10")
        }
        let sound = try flag(sound, "sound") ?? true
        let acceptQueued = try flag(acceptQueued, "accept queued") ?? false
        let envelope = try Envelope(
            app: app, magic: magic, deviceToken: deviceToken, iv: iv, ciphertext: ciphertext,
            ttl: ttl ?? Envelope.maximumTTL, priority: urgency, sound: sound, collapseID: collapseID, format: format)
        return Submission(
            request: request, envelope: envelope, acceptQueued: acceptQueued, proof: try checkedProof(),
            signature: try checkedSignature())
    }

    private func needed(_ field: Bytes?, _ name: StaticString) throws(Rejection) -> Bytes {
        guard let field else { throw Rejection(.malformed, "the field \(name) is missing") }
        return field
    }

    private func number<Number: FixedWidthInteger>(_ field: Bytes?, _ name: StaticString) throws(Rejection) -> Number? {
        guard let field else { return nil }
        guard let number: Number = field.number() else {
            throw Rejection(.malformed, "the field \(name) has the wrong width")
        }
        return number
    }

    private func flag(_ field: Bytes?, _ name: StaticString) throws(Rejection) -> Bool? {
        let value: UInt8? = try number(field, name)
        switch value {
        case nil: return nil
        case 0: return false
        case 1: return true
        default: throw Rejection(.optionOutOfRange, "\(name) is neither 0 nor 1")
        }
    }

    private func checkedProof() throws(Rejection) -> Proof? {
        guard let proof else { return nil }
        guard let checked = Proof(proof) else { throw Rejection(.malformed, "the proof must be 16 bytes") }
        return checked
    }

    private func checkedSignature() throws(Rejection) -> SenderSignature? {
        switch (senderKey, signature) {
        case (nil, nil): return nil
        case (let key?, let signature?):
            guard key.count == Ed25519.publicKeyLength, signature.count == Ed25519.signatureLength else {
                throw Rejection(.malformed, "the sender key must be 32 bytes and the signature 64")
            }
            return SenderSignature(key: key, signature: signature)
        default: throw Rejection(.malformed, "sender key and signature must both be present or both be absent")
        }
    }
}
