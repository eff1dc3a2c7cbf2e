// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The push service and its environment: the first part of a pairing token.
public enum Magic: String, Sendable, CaseIterable {
    /// Apple's production environment.
    case iOS
    /// Apple's development environment.
    case iOSDev
    /// Google's push service.
    case android

    init?(_ bytes: Bytes) {
        guard let magic = Magic.allCases.first(where: { bytes.elementsEqual($0.rawValue.utf8) }) else { return nil }
        self = magic
    }
}

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
    /// The name of an app of the node; empty for its first app.
    public let app: Bytes
    /// The push service that delivers the notification.
    public let magic: Magic
    /// The device token as in the pairing token: hexadecimal for Apple, Google's own text for Google.
    public let deviceToken: Bytes
    /// The initialisation vector: 16 printable ASCII characters for `pipe`, 12 bytes for `sealed`.
    public let iv: Bytes
    /// The encrypted notification; for `sealed` with the 16-byte tag at its end.
    public let ciphertext: Bytes
    /// How long the provider tries to deliver, in seconds; 0 for a single try.
    public let ttl: UInt32
    /// The urgency of the notification.
    public let priority: DeliveryPriority
    /// Whether the notification plays a sound.
    public let sound: Bool
    /// 1–64 bytes of UTF-8: the notification replaces an earlier one with the same collapse id.
    public let collapseID: Bytes?
    /// Whether the sender wants the app to be woken (Apple's `content-available`); `nil` if unspecified. TNP has no field
    /// for this flag; Bisq's HTTP requests do.
    public var contentAvailable: Bool?
    /// Whether the sender wants the app's extension to open the notification before it is shown (Apple's
    /// `mutable-content`); `nil` if unspecified. TNP has no field for this flag.
    public var mutableContent: Bool?
    /// The identity of the envelope (PROTOCOL §3).
    public let digest: Digest256

    /// The longest time that Apple and Google keep a notification, in seconds: 28 days.
    public static let maximumTTL: UInt32 = 2_419_200

    /// Creates an envelope and checks its fields. ``contentAvailable`` and ``mutableContent`` are `nil`.
    /// - Parameters: as the properties of the same names; `format` selects the rules for `iv` and `ciphertext`.
    /// - Throws: ``Rejection`` with the first rule of PROTOCOL §3 that a field breaks.
    public init(
        app: Bytes = [], magic: Magic, deviceToken: Bytes, iv: Bytes, ciphertext: Bytes,
        ttl: UInt32 = Envelope.maximumTTL, priority: DeliveryPriority = .immediate, sound: Bool = true,
        collapseID: Bytes? = nil, format: EnvelopeFormat
    ) throws(Rejection) {
        try FieldRules.check(deviceToken: deviceToken, of: magic)
        try FieldRules.check(iv: iv, format: format)
        try FieldRules.check(ciphertext: ciphertext, format: format)
        guard ttl <= Self.maximumTTL else {
            throw Rejection(.optionOutOfRange, "ttl is above \(Self.maximumTTL) seconds")
        }
        if let collapseID { try FieldRules.check(collapseID: collapseID) }
        self.app = app
        self.magic = magic
        self.deviceToken = deviceToken
        self.iv = iv
        self.ciphertext = ciphertext
        self.ttl = ttl
        self.priority = priority
        self.sound = sound
        self.collapseID = collapseID
        digest = Envelope.digest(app: app, magic: magic, deviceToken: deviceToken, iv: iv, ciphertext: ciphertext)
    }

    static func digest(app: Bytes, magic: Magic, deviceToken: Bytes, iv: Bytes, ciphertext: Bytes) -> Digest256 {
        let label: StaticString = "tnp1-envelope"
        let parts = app.count + 8 + deviceToken.count + iv.count + ciphertext.count
        return BLAKE2b.hash256(scratch: label.utf8CodeUnitCount + 10 + parts) { output in
            func append(_ part: some Collection<UInt8>) {
                output.append(UInt8(truncatingIfNeeded: part.count >> 8), as: UInt8.self)
                output.append(UInt8(truncatingIfNeeded: part.count), as: UInt8.self)
                output.append(contentsOf: part)
            }
            output.append(contentsOf: UnsafeBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount))
            append(app)
            append(magic.rawValue.utf8)
            append(deviceToken)
            append(iv)
            append(ciphertext)
        }
    }
}

extension OutputRawSpan {
    fileprivate mutating func append(contentsOf bytes: some Collection<UInt8>) {
        let copied: Void? = bytes.withContiguousStorageIfAvailable { source in
            withUnsafeMutableBytes { buffer, count in
                UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(
                    from: UnsafeRawBufferPointer(source))
                count += source.count
            }
        }
        if copied == nil {
            for byte in bytes { append(byte, as: UInt8.self) }
        }
    }
}

/// The permanent rejection of a submission, with its reason (PROTOCOL §4).
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
