// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// SUBMIT: an envelope with its request number, and the proof of work that admits it (PROTOCOL §3).
public struct Submission: Sendable, Redacted {
    /// A number that the sender chooses, unique among its submissions in flight.
    public var request: UInt32
    /// The envelope to deliver.
    public var envelope: Envelope
    /// Whether the node may answer QUEUED once it has stored the envelope durably.
    public var acceptQueued: Bool
    /// The proof of work; `nil` if the sender provides none.
    public var proof: Proof?

    /// Creates a SUBMIT.
    /// - Parameters: as the properties of the same names; `signature` becomes the envelope's, unless it is `nil`.
    public init(
        request: UInt32, envelope: Envelope, acceptQueued: Bool = false, proof: Proof? = nil,
        signature: SenderSignature? = nil
    ) {
        var envelope = envelope
        if let signature { envelope.signature = signature }
        self.request = request
        self.envelope = envelope
        self.acceptQueued = acceptQueued
        self.proof = proof
    }

    func encode(into output: inout [UInt8]) {
        typealias Tag = SubmissionFields.Tag
        output.appendFrame(.submit) {
            $0.append(bigEndian: request)
            // A node that has looked the handle up sends the device token in its place.
            let handle = envelope.deviceToken.isEmpty ? envelope.handle : nil
            if handle == nil {
                $0.appendField(Tag.magic, envelope.magic.rawValue.utf8)
                $0.appendField(Tag.deviceToken, envelope.deviceToken)
            }
            if !envelope.iv.isEmpty { $0.appendField(Tag.iv, envelope.iv) }
            $0.appendField(Tag.ciphertext, envelope.ciphertext)
            if envelope.ttl != Envelope.maximumTTL { $0.appendField(Tag.ttl, number: envelope.ttl) }
            if envelope.priority != .immediate { $0.appendField(Tag.priority, number: envelope.priority.rawValue) }
            if !envelope.sound { $0.appendField(Tag.sound, number: UInt8(0)) }
            if let collapseID = envelope.collapseID { $0.appendField(Tag.collapseID, collapseID) }
            if acceptQueued { $0.appendField(Tag.acceptQueued, number: UInt8(1)) }
            if !envelope.app.isEmpty { $0.appendField(Tag.app, envelope.app) }
            if let handle { $0.appendField(Tag.handle, handle.bytes) }
            if let proof { $0.appendField(Tag.proof, proof.encoded) }
            if let signature = envelope.signature {
                $0.appendField(Tag.senderKey, signature.key)
                $0.appendField(Tag.signature, signature.signature)
            }
            if envelope.hops > 0 { $0.appendField(Tag.hops, number: envelope.hops) }
            if let succession = envelope.signature?.succession {
                $0.appendField(Tag.succession, succession.key + succession.signature)
            }
        }
    }
}

extension Ed25519.PrivateKey {
    /// Derives the sender key of a pairing (PROTOCOL §3). Every desktop with the pairing derives the same key, so none
    /// has to store it. The public key reveals nothing about the pairing's key to the node.
    public init(ofSenderFor pairing: PairingToken) {
        guard let made = Ed25519.PrivateKey(seed: Self.senderSeed(of: pairing)) else {
            preconditionFailure("a seed is 32 bytes")
        }
        self = made
    }

    /// The seed of the sender key of a pairing, 32 bytes.
    package static func senderSeed(of pairing: PairingToken) -> [UInt8] {
        let key = pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        return BLAKE2b.hash256(Array("tnp1-sender-seed".utf8) + pairing.address, key: key).bytes
    }
}

/// An Ed25519 signature over `"tnp1-sender" ‖ digest`: fields 0x11 and 0x12 of SUBMIT.
public struct SenderSignature: Equatable, Sendable {
    /// The public sender key, 32 bytes.
    public let key: Bytes
    /// The signature, 64 bytes.
    public let signature: Bytes
    /// Moves the phone's binding from an earlier sender key to this one; `nil` if there is none.
    public var succession: Succession?
}

extension SenderSignature {
    private static func message(_ digest: Digest256) -> [UInt8] { Array("tnp1-sender".utf8) + digest.bytes }

    /// Signs the digest of an envelope with a sender key.
    public init(of digest: Digest256, by key: Ed25519.PrivateKey) {
        self.init(key: key.publicKey[...], signature: key.sign(Self.message(digest))[...], succession: nil)
    }

    /// Signs the digest of an envelope with the sender key of a seed, and overwrites the seed. `nil` if the seed is not
    /// 32 bytes long.
    package init?(of digest: Digest256, consuming seed: inout [UInt8]) {
        guard let (key, signature) = Ed25519.sign(Self.message(digest), consuming: &seed) else { return nil }
        self.init(key: key[...], signature: signature[...], succession: nil)
    }

    /// Signs an envelope.
    /// - Parameters:
    ///   - key: the sender key of the phone's present pairing.
    ///   - earlier: the sender key of an earlier pairing, to which the device token may be bound; `nil` if there is none.
    public init(of envelope: Envelope, by key: Ed25519.PrivateKey, succeeding earlier: Ed25519.PrivateKey?) {
        self.init(of: envelope.digest, by: key)
        succession = earlier.map { Succession(from: $0, to: self.key, of: envelope.phone) }
    }

    /// Whether the owner of ``key`` made this signature for the envelope with this digest.
    public func isValid(for digest: Digest256) -> Bool {
        Ed25519.isValid(signature: Array(signature), of: Self.message(digest), publicKey: Array(key))
    }
}

/// The fields of a SUBMIT as received: well-formed, but not yet checked against the value rules, which depend on the app.
public struct SubmissionFields: Sendable, Redacted {
    /// The tags of the fields: 0x01 to 0x0B, 0x10 to 0x12, 0x81 and 0x82.
    enum Tag: UInt8 {
        case magic = 0x01
        case deviceToken, iv, ciphertext, ttl, priority, sound, collapseID, acceptQueued, app, handle
        case proof = 0x10
        case senderKey, signature
        case hops = 0x81
        case succession
    }

    /// Where the fields stand in the payload; `nil` for those that are absent.
    private struct Places {
        var magic, deviceToken, iv, ciphertext, ttl, priority, sound, collapseID, acceptQueued, app, handle: ByteRange?
        var proof, senderKey, signature, hops, succession: ByteRange?

        mutating func set(_ tag: Tag, to place: ByteRange) {
            switch tag {
            case .magic: magic = place
            case .deviceToken: deviceToken = place
            case .iv: iv = place
            case .ciphertext: ciphertext = place
            case .ttl: ttl = place
            case .priority: priority = place
            case .sound: sound = place
            case .collapseID: collapseID = place
            case .acceptQueued: acceptQueued = place
            case .app: app = place
            case .handle: handle = place
            case .proof: proof = place
            case .senderKey: senderKey = place
            case .signature: signature = place
            case .hops: hops = place
            case .succession: succession = place
            }
        }
    }

    /// The number that the sender gave the submission.
    public let request: UInt32
    /// The name of an app of the node; empty if absent.
    public var app: Bytes { field(places.app) ?? [] }
    /// The handle of the phone (PROTOCOL §11); `nil` if the sender names the device token.
    package var handle: Bytes? { field(places.handle) }
    private let payload: [UInt8]
    private let places: Places
    private let hasUnknownField: Bool

    init(payload: Bytes) throws(ProtocolError) {
        // Copies nothing if the payload is a whole array, as a frame's payload is.
        let payload = Array(payload)
        let bytes = payload.span
        guard bytes.count >= 4 else { throw .malformed("SUBMIT is truncated") }
        var places = Places()
        var hasUnknownField = false
        var (position, last) = (4, -1)
        // tag u8 ‖ length u16 ‖ value, in strictly ascending order of tag (PROTOCOL §1).
        while position < bytes.count {
            guard bytes.count - position >= 3 else { throw .malformed("SUBMIT is truncated") }
            let tag = bytes[position]
            guard Int(tag) > last else { throw .malformed("fields are not in ascending order of tag") }
            last = Int(tag)
            let length = Int(bytes[position + 1]) << 8 | Int(bytes[position + 2])
            position += 3
            guard length <= bytes.count - position else { throw .malformed("SUBMIT is truncated") }
            if let known = Tag(rawValue: tag) {
                places.set(known, to: ByteRange(start: position, count: length))
            } else if tag < FieldReader.firstSkippable {
                hasUnknownField = true
            }
            position += length
        }
        request = UInt32(bytes[0]) << 24 | UInt32(bytes[1]) << 16 | UInt32(bytes[2]) << 8 | UInt32(bytes[3])
        self.payload = payload
        self.places = places
        self.hasUnknownField = hasUnknownField
    }

    private func field(_ place: ByteRange?) -> Bytes? { place.map { payload[$0.range] } }

    /// Checks the fields against the rules of PROTOCOL §3 and returns the submission.
    /// - Parameters:
    ///   - format: the format of the app named by ``app``.
    ///   - phone: the phone that the handle stands for; `nil` if the sender names the device token, or the node keeps
    ///     no handles.
    /// - Throws: ``Rejection`` with the first rule that a field breaks.
    public func checked(
        format: EnvelopeFormat, phone: (magic: Magic, deviceToken: [UInt8])? = nil
    ) throws(Rejection) -> Submission {
        guard !hasUnknownField else { throw Rejection(.unsupportedField) }
        let hops: UInt8 = try number(places.hops, "hops") ?? 0
        guard hops < Envelope.maximumHops else { throw Rejection(.tooManyHops) }
        var payload = payload
        let (magic, deviceToken) = try address(phone, in: &payload)
        // Web Push has no iv (PROTOCOL §15); the envelope's check refuses one that is present.
        let noIV = magic == .web && places.iv == nil
        let iv = noIV ? ByteRange(start: 0, count: 0) : try needed(places.iv, "iv")
        let ciphertext = try needed(places.ciphertext, "ciphertext")
        let ttl: UInt32? = try number(places.ttl, "ttl")
        let priority: UInt8? = try number(places.priority, "priority")
        guard let urgency = DeliveryPriority(rawValue: priority ?? DeliveryPriority.immediate.rawValue) else {
            throw Rejection(.optionOutOfRange, "priority is neither 5 nor 10")
        }
        let sound = try flag(places.sound, "sound") ?? true
        let acceptQueued = try flag(places.acceptQueued, "accept queued") ?? false
        let fields = EnvelopeFields(
            app: places.app ?? ByteRange(start: 0, count: 0), deviceToken: deviceToken,
            handle: places.handle, iv: iv, ciphertext: ciphertext,
            collapseID: places.collapseID, signature: try checkedSignature())
        let proof = try checkedProof()
        return Submission(
            request: request,
            envelope: try Envelope(
                fields, of: payload, magic: magic, ttl: ttl ?? Envelope.maximumTTL, priority: urgency, sound: sound,
                hops: hops, format: format),
            acceptQueued: acceptQueued, proof: proof)
    }

    /// The magic and the place of the device token, which is appended to `payload` if a handle stands for it.
    private func address(
        _ phone: (magic: Magic, deviceToken: [UInt8])?, in payload: inout [UInt8]
    ) throws(Rejection) -> (Magic, ByteRange) {
        if let handle {
            guard places.magic == nil, places.deviceToken == nil,
                handle.count == Handle.length
            else { throw Rejection(.malformed, "a handle of 32 bytes takes the place of magic and device token") }
            guard let phone else { throw Rejection(.unsupportedField, "this node keeps no handles") }
            defer { payload += phone.deviceToken }
            return (phone.magic, ByteRange(start: payload.count, count: phone.deviceToken.count))
        }
        let magicPlace = try needed(places.magic, "magic")
        let deviceToken = try needed(places.deviceToken, "device token")
        let magic = payload.withUnsafeBytes { Magic(UnsafeRawBufferPointer(rebasing: $0[magicPlace.range])) }
        guard let magic else { throw Rejection(.unknownMagic) }
        return (magic, deviceToken)
    }

    private func needed(_ place: ByteRange?, _ name: StaticString) throws(Rejection) -> ByteRange {
        guard let place else { throw Rejection(.malformed, "the field \(name) is missing") }
        return place
    }

    private func number<Number: FixedWidthInteger>(_ place: ByteRange?, _ name: StaticString) throws(Rejection)
        -> Number?
    {
        guard let field = field(place) else { return nil }
        guard let number: Number = field.number() else {
            throw Rejection(.malformed, "the field \(name) has the wrong width")
        }
        return number
    }

    private func flag(_ place: ByteRange?, _ name: StaticString) throws(Rejection) -> Bool? {
        let value: UInt8? = try number(place, name)
        switch value {
        case nil: return nil
        case 0: return false
        case 1: return true
        default: throw Rejection(.optionOutOfRange, "\(name) is neither 0 nor 1")
        }
    }

    private func checkedProof() throws(Rejection) -> Proof? {
        guard let proof = field(places.proof) else { return nil }
        guard let checked = Proof(proof) else { throw Rejection(.malformed, "the proof must be 16 bytes") }
        return checked
    }

    private func checkedSignature() throws(Rejection) -> SignaturePlaces? {
        switch (places.senderKey, places.signature) {
        case (nil, nil):
            guard places.succession == nil else { throw Rejection(.malformed, "a succession needs a sender key") }
            return nil
        case (let key?, let signature?):
            guard key.count == Ed25519.publicKeyLength, signature.count == Ed25519.signatureLength else {
                throw Rejection(.malformed, "the sender key must be 32 bytes and the signature 64")
            }
            if let succession = places.succession, succession.count != Succession.length {
                throw Rejection(.malformed, "the succession must be 96 bytes")
            }
            return SignaturePlaces(key: key, signature: signature, succession: places.succession)
        default: throw Rejection(.malformed, "sender key and signature must both be present or both be absent")
        }
    }
}
