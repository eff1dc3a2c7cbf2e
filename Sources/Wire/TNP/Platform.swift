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
    /// Web Push: the server that the device token names (PROTOCOL §15).
    case web

    /// The push services that only the publisher of an app can use.
    package static let appleAndGoogle = [Magic.iOS, .iOSDev, .android]

    /// Whether this is one of Apple's environments.
    package var isApple: Bool { self == .iOS || self == .iOSDev }

    /// Whether this device token is a push endpoint under this magic.
    func isForPushEndpoint(_ deviceToken: some Sequence<UInt8>) -> Bool {
        self == .web || (self == .android && deviceToken.starts(with: PushEndpoint.secureScheme.utf8))
    }

    /// Whether a pairing token also has the two keys of a Web Push subscription (PROTOCOL §15).
    package var isSubscription: Bool { self == .web }

    /// The name of the push service in texts for people.
    package var vendor: String {
        switch self {
        case .iOS: "Apple, production"
        case .iOSDev: "Apple, development"
        case .android: "Google"
        case .web: "Web Push"
        }
    }

    /// The position in ``allCases``, which tables of platforms use as index.
    package var index: Int {
        switch self {
        case .iOS: 0
        case .iOSDev: 1
        case .android: 2
        case .web: 3
        }
    }

    init?(_ bytes: UnsafeRawBufferPointer) {
        for magic in Magic.allCases where magic.withName({ $0.elementsEqual(bytes) }) {
            self = magic
            return
        }
        return nil
    }

    /// Calls `body` with the bytes of the name.
    func withName<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let name: StaticString =
            switch self {
            case .iOS: "iOS"
            case .iOSDev: "iOSDev"
            case .android: "android"
            case .web: "web"
            }
        return body(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    }
}

// MARK: Device tokens

extension Magic {
    /// The kind of a device token under this magic, for ``DeviceIdentity``.
    func identity(of deviceToken: Bytes) -> DeviceIdentity.Kind {
        if isApple { return .apple }
        return isForPushEndpoint(deviceToken) ? .endpoint : .google
    }
}

extension FieldRules {
    /// Checks a device token by the rule of its platform.
    static func check(deviceToken: Bytes, of magic: Magic) throws(Rejection) {
        _ = try checkedEndpoint(deviceToken, of: magic)
    }

    /// Checks a device token by the rule of its platform.
    /// - Returns: the device token as a push endpoint; `nil` if it is not a valid one.
    static func checkedEndpoint(_ deviceToken: Bytes, of magic: Magic) throws(Rejection) -> PushEndpoint? {
        guard magic == .web || (1...512).contains(deviceToken.count) else {
            throw Rejection(.deviceTokenFormat, "the device token must be 1 to 512 bytes")
        }
        switch magic {
        case .iOS, .iOSDev:
            guard PairingToken.isAppleTokenLength(deviceToken.count),
                Hex.areDigits(deviceToken)
            else {
                throw Rejection(
                    .deviceTokenFormat, "an Apple device token must be 2 to 200 hexadecimal digits, an even number")
            }
        case .android:
            guard deviceToken.allSatisfy({ $0 > 0x20 && $0 != 0x7F }),
                deviceToken.allSatisfy({ $0 < 0x80 }) || String(validating: deviceToken, as: UTF8.self) != nil
            else {
                throw Rejection(
                    .deviceTokenFormat, "a Google device token must be UTF-8 text without spaces or control characters")
            }
        case .web: return try endpoint(deviceToken)
        }
        return magic.isForPushEndpoint(deviceToken) ? try? PushEndpoint(deviceToken) : nil
    }

    @inline(never)
    private static func endpoint(_ deviceToken: Bytes) throws(Rejection) -> PushEndpoint {
        do throws(PushEndpoint.FormatError) {
            return try PushEndpoint(deviceToken)
        } catch {
            throw Rejection(.deviceTokenFormat, "the push endpoint \(error.text)")
        }
    }
}

extension DeviceTokenForm {
    /// What is wrong with the device token of a pairing token; `nil` if nothing is. For Google, pairing tokens have a
    /// stricter rule than the protocol: ``PairingToken/minimumGoogleTokenLength``.
    package static func fault(_ text: String, of magic: Magic) -> String? {
        switch magic {
        case .iOS, .iOSDev:
            guard text.utf8.allSatisfy(Hex.isDigit) else {
                return "must be hexadecimal digits only"
            }
            return PairingToken.isAppleTokenLength(text.utf8.count)
                ? nil
                : "must be an even number of digits up to 200, of which Apple uses \(PairingToken.appleTokenLength) today; it has \(text.utf8.count)"
        case .android:
            guard text.utf8.count >= PairingToken.minimumGoogleTokenLength else {
                return "must be at least \(PairingToken.minimumGoogleTokenLength) bytes, not \(text.utf8.count)"
            }
            return text.contains(where: \.isWhitespace) ? "must not contain whitespace" : nil
        case .web:
            do throws(PushEndpoint.FormatError) {
                _ = try PushEndpoint(Array(text.utf8)[...])
                return nil
            } catch {
                return error.text
            }
        }
    }

    /// Whether a device token has the length of those that Apple or Google issues; `false` for Web Push, whose
    /// endpoints have any length.
    package static func isOfToday(_ token: String, of magic: Magic) -> Bool {
        switch magic {
        case .iOS, .iOSDev:
            token.wholeMatch(of: /[0-9A-Fa-f]*/) != nil && token.utf8.count == PairingToken.appleTokenLength
        case .android: partAfterColon(token)?.count == googleLength
        case .web: false
        }
    }
}
