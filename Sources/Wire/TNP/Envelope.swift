// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The envelope format that an app's phones expect (PROTOCOL §3, "Sealing").
public enum EnvelopeFormat: String, Sendable, CaseIterable {
    /// AES-256-CBC, delivered as `<message magic>|<iv>|<Base64 of ciphertext>`.
    case pipe
    /// AES-256-GCM, delivered as Base64 of `iv ‖ ciphertext`.
    case sealed
}

/// The urgency with which the provider delivers a notification.
public enum DeliveryPriority: UInt8, Sendable {
    /// The provider delivers when it suits the phone's battery.
    case conservePower = 5
    /// The provider delivers at once.
    case immediate = 10
}

/// A sealed notification: the type that travels through the node from sender to provider. Its fields conform to the
/// rules of PROTOCOL §3. Prints as `<redacted>`.
public struct Envelope: Sendable, Redacted {
    /// The immutable fields, in one object, so that a copy of an envelope counts one reference.
    private final class Content: Sendable {
        /// Where the fields stand in ``bytes``.
        let fields: EnvelopeFields
        /// The buffer that all fields share.
        let bytes: [UInt8]
        let digest: Digest256
        let endpoint: ParsedEndpoint?

        init(_ fields: EnvelopeFields, in bytes: [UInt8], digest: Digest256, _ endpoint: ParsedEndpoint?) {
            (self.fields, self.bytes, self.digest, self.endpoint) = (fields, bytes, digest, endpoint)
        }

        func field(_ place: ByteRange) -> Bytes { bytes[place.range] }
    }

    /// A push endpoint, in an object of its own because few envelopes have one.
    private final class ParsedEndpoint: Sendable {
        let value: PushEndpoint

        init(_ value: PushEndpoint) { self.value = value }
    }

    private var content: Content
    /// The push service that delivers the notification. In an envelope that its sender addressed by handle, it is part of
    /// neither the digest nor the SUBMIT.
    public let magic: Magic
    /// How long the provider tries to deliver, in seconds; 0 for a single try.
    public package(set) var ttl: UInt32
    /// The urgency of the notification.
    public let priority: DeliveryPriority
    /// Whether the notification plays a sound.
    public let sound: Bool
    /// Whether the sender wants the app to be woken (Apple's `content-available`); `nil` if unspecified. TNP has no
    /// field for this flag; Bisq's HTTP requests have one.
    public var contentAvailable: Bool?
    /// Whether the sender wants the app's extension to open the notification before it is shown (Apple's
    /// `mutable-content`); `nil` if unspecified. TNP has no field for this flag.
    public var mutableContent: Bool?
    /// The identity of the envelope (PROTOCOL §3).
    public var digest: Digest256 { content.digest }
    /// How many nodes have passed the envelope on (PROTOCOL §9).
    public package(set) var hops: UInt8

    /// The longest ``ttl``, in seconds: the 28 days for which Google keeps a message (PROTOCOL §3).
    public static let maximumTTL: UInt32 = 2_419_200
    /// The longest ciphertext for Apple and Google, in bytes (PROTOCOL §3).
    package static let maximumCiphertext = 3072
    /// The longest ciphertext for Web Push, in bytes (RFC 8291 §4).
    package static let maximumWebPush = 4096
    /// The number of ``hops`` at which a node rejects an envelope (PROTOCOL §9).
    package static let maximumHops: UInt8 = 4

    /// The name of an app of the node; empty for its first app.
    public var app: Bytes { content.field(content.fields.app) }
    /// The device token as in the pairing token: hexadecimal for Apple, Google's own text for Google, the URL of the push
    /// endpoint for Web Push. Empty if the sender knows only the ``handle``.
    public var deviceToken: Bytes { content.field(content.fields.deviceToken) }
    /// The handle by which the sender addressed the phone (PROTOCOL §11); `nil` if the sender used the device token.
    public var handle: Handle? { content.fields.handle.flatMap { Handle(content.field($0)) } }
    /// The initialisation vector: 16 printable ASCII characters for `pipe`, 12 bytes for `sealed`; empty for Web Push.
    public var iv: Bytes { content.field(content.fields.iv) }
    /// The encrypted notification; for `sealed` with the 16-byte tag at its end, for Web Push the whole `aes128gcm` message
    /// (RFC 8291 §4).
    public var ciphertext: Bytes { content.field(content.fields.ciphertext) }
    /// The part that two ciphertexts for one device token must not share: the ``iv``, or for Web Push, which has no iv,
    /// the ciphertext itself.
    package var uniquePart: Bytes { magic == .web ? ciphertext : iv }
    /// ``Magic/web`` if the device token is a push endpoint: always with `web`, and with `android` if it begins with
    /// `https://` (PROTOCOL §15). `nil` for other device tokens.
    package var endpointPlatform: Magic? { magic.isForPushEndpoint(deviceToken) ? .web : nil }
    /// The device token as a push endpoint; `nil` if it is not a valid one.
    package var pushEndpoint: PushEndpoint? { content.endpoint?.value }
    /// 1–64 bytes of UTF-8: the notification replaces an earlier one with the same collapse id.
    public var collapseID: Bytes? { content.fields.collapseID.map { content.field($0) } }
    /// The signature under the sender key; `nil` if the envelope is unsigned. It covers the ``digest``.
    public package(set) var signature: SenderSignature? {
        get {
            content.fields.signature.map {
                SenderSignature(
                    key: content.field($0.key), signature: content.field($0.signature),
                    succession: $0.succession.map { Succession(content.field($0)) })
            }
        }
        set {
            var (fields, bytes) = (content.fields, content.bytes)
            func append(_ field: Bytes) -> ByteRange {
                defer { bytes += field }
                return ByteRange(start: bytes.count, count: field.count)
            }
            fields.signature = newValue.map {
                SignaturePlaces(
                    key: append($0.key), signature: append($0.signature),
                    succession: $0.succession.map { append($0.key + $0.signature) })
            }
            content = Content(fields, in: bytes, digest: digest, content.endpoint)
        }
    }

    /// Creates an envelope and checks its fields. ``contentAvailable`` and ``mutableContent`` are `nil`.
    /// - Parameters: as the properties of the same names; `format` selects the rules for `iv` and `ciphertext`.
    /// - Throws: ``Rejection`` with the first rule of PROTOCOL §3 that a field breaks.
    public init(
        app: Bytes = [], magic: Magic, deviceToken: Bytes, iv: Bytes, ciphertext: Bytes,
        ttl: UInt32 = Envelope.maximumTTL, priority: DeliveryPriority = .immediate, sound: Bool = true,
        collapseID: Bytes? = nil, format: EnvelopeFormat
    ) throws(Rejection) {
        try self.init(
            app: app, magic: magic, deviceToken: deviceToken, handle: nil, iv: iv, ciphertext: ciphertext, ttl: ttl,
            priority: priority, sound: sound, collapseID: collapseID, format: format)
    }

    /// Creates an envelope that may be addressed by a handle. With a handle, a sender leaves the device token empty; a node
    /// adds it when it has looked the handle up.
    package init(
        app: Bytes = [], magic: Magic, deviceToken: Bytes, handle: Handle?, iv: Bytes, ciphertext: Bytes,
        ttl: UInt32 = Envelope.maximumTTL, priority: DeliveryPriority = .immediate, sound: Bool = true,
        collapseID: Bytes? = nil, format: EnvelopeFormat
    ) throws(Rejection) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(
            app.count + deviceToken.count + Handle.length + iv.count + ciphertext.count
                + (collapseID?.count ?? 0))
        func append(_ field: Bytes) -> ByteRange {
            defer { bytes += field }
            return ByteRange(start: bytes.count, count: field.count)
        }
        let fields = EnvelopeFields(
            app: append(app), deviceToken: append(deviceToken), handle: handle.map { append($0.bytes[...]) },
            iv: append(iv), ciphertext: append(ciphertext), collapseID: collapseID.map(append))
        try self.init(fields, of: bytes, magic: magic, ttl: ttl, priority: priority, sound: sound, format: format)
    }

    /// Creates an envelope of fields that stand in one buffer, and checks them.
    init(
        _ fields: EnvelopeFields, of bytes: [UInt8], magic: Magic, ttl: UInt32, priority: DeliveryPriority,
        sound: Bool, hops: UInt8 = 0, format: EnvelopeFormat
    ) throws(Rejection) {
        var endpoint: ParsedEndpoint?
        if fields.handle == nil || fields.deviceToken.count > 0 {
            endpoint = try FieldRules.checkedEndpoint(bytes[fields.deviceToken.range], of: magic).map {
                ParsedEndpoint($0)
            }
        }
        let kind = FieldRules.Content(magic, format)
        try FieldRules.check(iv: bytes[fields.iv.range], of: kind)
        try FieldRules.check(ciphertext: bytes[fields.ciphertext.range], of: kind)
        guard ttl <= Self.maximumTTL else {
            throw Rejection(.optionOutOfRange, "ttl is above \(Self.maximumTTL) seconds")
        }
        if let collapseID = fields.collapseID { try FieldRules.check(collapseID: bytes[collapseID.range]) }
        self.magic = magic
        self.ttl = ttl
        self.priority = priority
        self.sound = sound
        self.hops = hops
        content = Content(fields, in: bytes, digest: Self.digest(of: fields, in: bytes, magic), endpoint)
    }

    /// The same envelope, addressed by this handle: the node knows the device token, but the sender did not name it.
    package func addressed(by handle: Handle) -> Envelope {
        var fields = content.fields
        fields.handle = ByteRange(start: content.bytes.count, count: Handle.length)
        return with(fields, in: content.bytes + handle.bytes)
    }

    /// The same envelope, addressed by its device token. It has another digest, so the sender's signature is removed.
    package func addressedByDeviceToken() -> Envelope {
        var fields = content.fields
        fields.handle = nil
        fields.signature = nil
        return with(fields, in: content.bytes)
    }

    /// The same envelope with another address, and therefore another digest.
    private func with(_ fields: EnvelopeFields, in bytes: [UInt8]) -> Envelope {
        var other = self
        other.content = Content(
            fields, in: bytes, digest: Self.digest(of: fields, in: bytes, magic), content.endpoint)
        return other
    }

    private static func digest(of fields: EnvelopeFields, in bytes: [UInt8], _ magic: Magic) -> Digest256 {
        let label: StaticString = "tnp1-envelope"
        // A handle takes the place of the device token, and the magic is empty (PROTOCOL §3).
        let address = fields.handle ?? fields.deviceToken
        let parts = fields.app.count + 8 + address.count + fields.iv.count + fields.ciphertext.count
        return bytes.withUnsafeBytes { bytes in
            BLAKE2b.hash256(scratch: label.utf8CodeUnitCount + 10 + parts) { output in
                func append(_ part: UnsafeRawBufferPointer) {
                    output.append(UInt8(truncatingIfNeeded: part.count >> 8), as: UInt8.self)
                    output.append(UInt8(truncatingIfNeeded: part.count), as: UInt8.self)
                    output.append(contentsOf: part)
                }
                func append(_ field: ByteRange) { append(UnsafeRawBufferPointer(rebasing: bytes[field.range])) }
                output.append(
                    contentsOf: UnsafeRawBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount))
                append(fields.app)
                if fields.handle == nil {
                    magic.withName { append($0) }
                } else {
                    append(UnsafeRawBufferPointer(start: nil, count: 0))
                }
                append(address)
                append(fields.iv)
                append(fields.ciphertext)
            }
        }
    }
}

/// A field's place in a buffer. Frames are shorter than 4 GiB, so 32 bits suffice.
struct ByteRange {
    private let start: UInt32
    private let length: UInt32

    init(start: Int, count: Int) {
        self.start = UInt32(start)
        length = UInt32(count)
    }

    var count: Int { Int(length) }
    var range: Range<Int> { Int(start)..<Int(start) + Int(length) }
}

/// Where the fields of an envelope stand in their buffer.
struct EnvelopeFields {
    let app, deviceToken: ByteRange
    var handle: ByteRange?
    let iv, ciphertext: ByteRange
    let collapseID: ByteRange?
    var signature: SignaturePlaces?
}

/// Where the parts of a ``SenderSignature`` stand in an envelope's buffer.
struct SignaturePlaces {
    let key, signature: ByteRange
    let succession: ByteRange?
}

extension OutputRawSpan {
    fileprivate mutating func append(contentsOf bytes: UnsafeRawBufferPointer) {
        withUnsafeMutableBytes { buffer, count in
            UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
    }
}

/// The permanent rejection of a submission or of a request about a handle (PROTOCOL §4).
public struct Rejection: Error, Equatable, Sendable, CustomStringConvertible {
    /// The reason that RESULT carries.
    public let reason: Reason
    /// One sentence for a person; contains nothing of what was received.
    public let text: String

    /// Creates a rejection.
    /// - Parameters:
    ///   - reason: a reason from 100 to 399.
    ///   - text: one sentence for a person, which must contain nothing of what was received; `nil` for the reason's
    ///     description.
    public init(_ reason: Reason, _ text: String? = nil) {
        self.reason = reason
        self.text = text ?? reason.description
    }

    /// The outcome that the sender receives.
    public var outcome: Outcome { .rejected(reason, text: text) }
    public var description: String { text }
}
