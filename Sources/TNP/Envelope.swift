// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// Which push service, and which environment of it: the first part of a pairing token.
public enum Magic: String, Sendable, CaseIterable {
    /// Apple's production environment.
    case iOS
    /// Apple's development environment.
    case iOSDev
    /// Google.
    case android

    init?(_ bytes: Bytes) {
        for magic in Magic.allCases where bytes.elementsEqual(magic.rawValue.utf8) {
            self = magic
            return
        }
        return nil
    }
}

/// How an app's phones want their envelopes (PROTOCOL §3, "What the phone gets").
public enum EnvelopeFormat: String, Sendable, CaseIterable {
    /// `<message magic>|<iv>|<Base64 of ciphertext>`, AES-256-CBC.
    case pipe
    /// Base64 of `iv ‖ ciphertext`, AES-256-GCM.
    case sealed
}

/// When the provider should deliver.
public enum DeliveryPriority: UInt8, Sendable {
    /// When it suits the phone's battery.
    case considerate = 5
    /// At once.
    case immediate = 10
}

/// A sealed notification on its way: the one type that travels inward through the node. Its fields have been checked
/// against the rules of PROTOCOL §3. Prints as `<redacted>`.
public struct Envelope: Sendable, Redacted {
    /// The app profile's name; empty: the node's first.
    public let app: Bytes
    public let magic: Magic
    /// As in the pairing token: hexadecimal for Apple, Google's own text for Google.
    public let deviceToken: Bytes
    /// `pipe`: 16 printable ASCII characters; `sealed`: 12 bytes.
    public let iv: Bytes
    public let ciphertext: Bytes
    /// Seconds that the provider may keep it; 0: now or never.
    public let ttl: UInt32
    public let priority: DeliveryPriority
    public let sound: Bool
    /// 1–64 bytes of UTF-8: a later notification with it replaces an earlier one.
    public let collapseID: Bytes?
    /// Whether the sender wants the app to be woken for it (Apple's `content-available`); nil: it does not say. TNP has no
    /// field for it, today's Bisq has.
    public var contentAvailable: Bool?
    /// Whether the sender wants the app's extension to open it before it is shown (Apple's `mutable-content`); nil: it
    /// does not say.
    public var mutableContent: Bool?
    /// The identity of the envelope (PROTOCOL §3).
    public let digest: Digest256

    /// Seconds that Apple and Google keep a notification at most: 28 days.
    public static let longestTTL: UInt32 = 2_419_200

    /// Makes an envelope of fields as they came.
    /// - Throws: ``Rejection``, naming the first rule of PROTOCOL §3 that a field breaks.
    public init(
        app: Bytes = [], magic: Magic, deviceToken: Bytes, iv: Bytes, ciphertext: Bytes,
        ttl: UInt32 = Envelope.longestTTL, priority: DeliveryPriority = .immediate, sound: Bool = true,
        collapseID: Bytes? = nil, format: EnvelopeFormat
    ) throws(Rejection) {
        try FieldRules.check(deviceToken: deviceToken, of: magic)
        try FieldRules.check(iv: iv, format: format)
        try FieldRules.check(ciphertext: ciphertext, format: format)
        guard ttl <= Self.longestTTL else {
            throw Rejection(.optionOutOfRange, "ttl is above \(Self.longestTTL) seconds")
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

/// A submission that is refused for good, and why (PROTOCOL §4).
public struct Rejection: Error, Equatable, Sendable, CustomStringConvertible {
    public let reason: Reason
    /// One sentence for a person; holds nothing of what was received.
    public let text: String

    /// - Parameters:
    ///   - reason: of the hundreds 1 to 3.
    ///   - text: for a person; must hold nothing of what was received. Nil: the reason's own words.
    public init(_ reason: Reason, _ text: String? = nil) {
        self.reason = reason
        self.text = text ?? reason.description
    }

    /// The same as the sender is told it.
    public var outcome: Outcome { .rejected(reason, text: text) }
    public var description: String { text }
}
