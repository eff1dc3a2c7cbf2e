// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// A phone with an app on it: what the app has made and told the desktop, and the key that opens what arrives. What
/// becomes of it as notifications come is ``PhoneState``. Prints as `<redacted>`.
package struct Phone: Sendable, Redacted {
    package let app: PhoneApp
    /// Which push service reaches it.
    package let magic: Magic
    /// Its model, for people.
    package let model: String
    /// What Apple or Google know the phone's app by.
    package let deviceToken: String
    /// Opens its envelopes: 32 bytes.
    package let key: SecretBytes
    private let introduction: Introduction

    /// How a desktop learns of the phone.
    private enum Introduction: Sendable {
        case pairing(PairingToken, text: String)
        case registration(DeviceRegistration)
    }

    /// As a QR code would say it. Only an app that ``PhoneApp/pairs`` has one; to ask another is a mistake in the
    /// program.
    package var pairingToken: String {
        guard case .pairing(_, let text) = introduction else { preconditionFailure(Self.hasNoPairing) }
        return text
    }

    /// The same, read.
    package var pairing: PairingToken {
        guard case .pairing(let pairing, _) = introduction else { preconditionFailure(Self.hasNoPairing) }
        return pairing
    }

    /// What an app that does not pair tells its user's node; nil where it pairs.
    package var registration: DeviceRegistration? {
        if case .registration(let registration) = introduction { registration } else { nil }
    }

    private static let hasNoPairing = "Bisq Connect makes no pairing token: see Phone.registration"

    /// A phone with a fresh key and device token, as its app would make them.
    package static func new(_ magic: Magic, model: String, app: PhoneApp = .bisq) -> Phone {
        let token = newDeviceToken(magic)
        guard app.pairs else { return Phone(magic, model: model, deviceToken: token, registeredBy: app) }
        // 24 bytes are 32 characters of Base64, which are the key themselves; 32 bytes are the key in Base64.
        let bytes = SecureRandom.bytes(app.format == .sealed ? PairingToken.keyLength : 24)
        let key = String(decoding: Base64.encode(bytes), as: UTF8.self)
        do {
            return try Phone(pairingToken: "\(magic.rawValue)|\(model)|\(key)|\(token)", app: app)
        } catch {
            preconditionFailure("a phone made a pairing token that is none: \(error)")
        }
    }

    /// The phone of a pairing token.
    /// - Parameter app: one that ``PhoneApp/pairs``.
    package init(pairingToken: String, app: PhoneApp = .bisq) throws(PairingToken.FormatError) {
        precondition(app.pairs, Self.hasNoPairing)
        let pairing = try PairingToken(pairingToken)
        self.app = app
        magic = pairing.magic
        model = pairing.descriptor
        deviceToken = pairing.deviceToken
        key = pairing.key
        introduction = .pairing(pairing, text: pairingToken)
    }

    private init(_ magic: Magic, model: String, deviceToken: String, registeredBy app: PhoneApp) {
        let key = SecureRandom.bytes(32)
        self.app = app
        self.magic = magic
        self.model = model
        self.deviceToken = deviceToken
        self.key = SecretBytes(key)
        introduction = .registration(
            DeviceRegistration(
                deviceID: Hex.encode(SecureRandom.bytes(16)), platform: magic == .android ? .android : .iOS,
                descriptor: model, deviceToken: deviceToken,
                symmetricKeyBase64: String(decoding: Base64.encode(key), as: UTF8.self)))
    }

    private static func newDeviceToken(_ magic: Magic) -> String {
        switch magic {
        case .iOS, .iOSDev: return Hex.encode(SecureRandom.bytes(32))
        case .android:
            let instance = String(decoding: Base64.encodeURLSafe(SecureRandom.bytes(16)), as: UTF8.self)
            let rest = String(decoding: Base64.encodeURLSafe(SecureRandom.bytes(100)), as: UTF8.self)
            return "\(instance):APA91b\(rest)"
        }
    }
}
