// SPDX-License-Identifier: Apache-2.0

import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What a phone gives a desktop by QR code, and keeps to open notifications (PROTOCOL §3). Prints without its content;
/// encode it (`Codable`) only to store it where secrets belong, for instance in the keychain.
public struct PhonePairing: Sendable, CustomStringConvertible {
    /// How notifications reach the phone.
    public enum Platform: String, Codable, Sendable, CaseIterable {
        /// Apple's production environment: TestFlight and App Store.
        case iOS
        /// Apple's development environment: builds from Xcode.
        case iOSDev
        /// Google's Firebase Cloud Messaging.
        case android
        /// Web Push (RFC 8030): a distributor of UnifiedPush, or a browser.
        case web

        /// Whether notifications are sealed for the keys of a ``WebPushReceiver``.
        var hasReceiver: Bool { self == .web }
    }

    /// The cipher of notifications, which follows from the form of the key in a pairing token.
    public enum Format: String, Codable, Sendable {
        /// AES-256-CBC, as Bisq 1's apps open it: a key of 32 characters.
        case pipe
        /// AES-256-GCM: a key of 44 characters of Base64. Every new pairing has it.
        case sealed
    }

    /// How notifications reach the phone.
    public let platform: Platform
    /// The phone's model, for display at the desktop.
    public let descriptor: String
    /// The cipher of notifications from Apple and Google.
    public let format: Format
    /// The device token of Apple (hexadecimal digits) or Google, or the push endpoint of Web Push; empty after reading
    /// a pairing token with a handle.
    public let deviceToken: String
    /// The handle that the desktop gets in place of the device token; `nil` if it gets the device token.
    public var handle: PhoneHandle?
    /// The keys of Web Push; `nil` for Apple and Google.
    public let receiver: WebPushReceiver?
    let key: [UInt8]

    private static let keyLength = 32

    /// Makes a pairing with a new key.
    /// - Parameters:
    ///   - platform: how notifications reach the phone; not `web`.
    ///   - deviceToken: what the system told the app. Apple's 32 bytes are written as hexadecimal digits.
    ///   - descriptor: the phone's model, for display. A bar or control character in it becomes a space.
    public init(_ platform: Platform, deviceToken: String, descriptor: String) {
        precondition(!platform.hasReceiver, "Web Push has keys of its own")
        self.init(platform, descriptor, .sealed, Self.newKey(), deviceToken, nil)
    }

    /// Makes a pairing for Web Push, with a new key.
    /// - Parameters:
    ///   - endpoint: the URL that the distributor gave the app.
    ///   - receiver: the keys with which the app has subscribed.
    public init(endpoint: String, receiver: WebPushReceiver, descriptor: String) {
        self.init(.web, descriptor, .sealed, Self.newKey(), endpoint, receiver)
    }

    private init(
        _ platform: Platform, _ descriptor: String, _ format: Format, _ key: [UInt8], _ deviceToken: String,
        _ receiver: WebPushReceiver?, handle: PhoneHandle? = nil
    ) {
        self.platform = platform
        self.descriptor = String(
            descriptor.unicodeScalars.map { $0 == "|" || $0.value < 0x20 || $0.value == 0x7F ? " " : Character($0) })
        self.format = format
        self.key = key
        self.deviceToken = deviceToken
        self.receiver = receiver
        self.handle = handle
    }

    private static func newKey() -> [UInt8] { SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) } }

    /// Reads a pairing token that the phone has given out before, for instance one of an earlier version of the app.
    /// - Parameters:
    ///   - text: the text of the QR code.
    ///   - receiver: the keys of Web Push, because the private key is not in the text; `nil` for Apple and Google.
    /// - Throws: ``PhoneError/notAPairing(_:)``.
    public init(_ text: String, receiver: WebPushReceiver? = nil) throws(PhoneError) {
        let parts = text.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
        guard let platform = parts.first.flatMap(Platform.init), parts.count == (platform.hasReceiver ? 6 : 4)
        else {
            throw .notAPairing("it has four parts and begins with iOS, iOSDev or android, or six and begins with web")
        }
        guard platform.hasReceiver == (receiver != nil) else {
            throw .notAPairing("a pairing for Web Push, and no other, needs the keys of its receiver")
        }
        let (format, key): (Format, [UInt8])
        if parts[2].utf8.count == Self.keyLength {
            (format, key) = (.pipe, Array(parts[2].utf8))
        } else if let bytes = Data(base64Encoded: parts[2]), bytes.count == Self.keyLength {
            (format, key) = (.sealed, Array(bytes))
        } else {
            throw .notAPairing("the key is neither 32 characters nor the Base64 of 32 bytes")
        }
        // The prefix is required: an Apple device token has 64 hexadecimal digits, as a handle has.
        let isHandle = parts[3].hasPrefix(PhoneHandle.prefix)
        let handle = isHandle ? PhoneHandle(parts[3]) : nil
        if parts[3].isEmpty || (isHandle && handle == nil) {
            throw .notAPairing("the fourth part is neither a device token nor a handle")
        }
        self.init(platform, parts[1], format, key, handle == nil ? parts[3] : "", receiver, handle: handle)
    }

    /// The same pairing with another device token, for ``HandleService/rotate(_:to:)``.
    public func with(deviceToken: String) -> PhonePairing {
        PhonePairing(self.platform, descriptor, format, key, deviceToken, receiver, handle: handle)
    }

    /// The text of the QR code: `platform|descriptor|key|device token`, or the handle in the place of the device token,
    /// and for Web Push the receiver's public key and authentication secret. It contains secrets: show it to nobody but
    /// the desktop.
    public var text: String {
        let keyText = format == .pipe ? String(decoding: key, as: UTF8.self) : Data(key).base64EncodedString()
        var parts = [platform.rawValue, descriptor, keyText, handle?.text ?? deviceToken]
        if let receiver { parts += [receiver.publicKeyText, receiver.secretText] }
        return parts.joined(separator: "|")
    }

    /// The public half of the key with which desktops that have this pairing sign (PROTOCOL §3): list it as a sender key
    /// of the handle, and only they ring the phone. It differs by device token and by handle.
    public var senderKey: [UInt8] {
        let address = handle?.bytes ?? Array(deviceToken.utf8)
        let seed = BLAKE2b.hash(Array("tnp1-sender-seed".utf8) + address, key: key)
        guard let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed) else {
            preconditionFailure("a seed is 32 bytes")
        }
        return Array(key.publicKey.rawRepresentation)
    }

    /// A text with no part of the content.
    public var description: String { "<PhonePairing redacted>" }
}

extension PhonePairing: Codable {
    private enum CodingKeys: CodingKey { case text, deviceToken, receiver }

    /// Decodes a pairing.
    /// - Throws: ``PhoneError/notAPairing(_:)`` if the text is no pairing token; the decoder's errors.
    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        let pairing = try PhonePairing(
            try fields.decode(String.self, forKey: .text),
            receiver: try fields.decodeIfPresent(WebPushReceiver.self, forKey: .receiver))
        self = pairing.with(deviceToken: try fields.decode(String.self, forKey: .deviceToken))
    }

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(text, forKey: .text)
        try fields.encode(deviceToken, forKey: .deviceToken)
        try fields.encodeIfPresent(receiver, forKey: .receiver)
    }
}
