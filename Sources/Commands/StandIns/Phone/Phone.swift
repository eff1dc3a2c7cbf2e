// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

/// A phone with an installed app: the identity that the app gives to the desktop, and the key that opens its envelopes.
/// ``PhoneState`` is its state as notifications arrive. Prints as `<redacted>`.
package struct Phone: Sendable, Redacted {
    package let app: PhoneApp
    /// The push service, and with iOS its environment, that reaches the phone.
    package let magic: Magic
    /// The phone's model, for display.
    package let model: String
    /// The device token at APNs or FCM, or the push endpoint of Web Push.
    package let deviceToken: String
    /// The key of its envelopes: 32 bytes.
    package let key: SecretBytes
    /// The private key that opens what Web Push delivers; `nil` for Apple and Google.
    let webPushKey: P256.PrivateKey?
    private let introduction: Introduction

    /// How a desktop or node learns of the phone.
    private enum Introduction: Sendable {
        case pairing(PairingToken, text: String)
        case registration(DeviceRegistration)
    }

    /// The pairing token as the app's QR code contains it. Requires ``PhoneApp/usesPairingToken``; for any other app,
    /// this is a programming error.
    package var pairingToken: String {
        guard case .pairing(_, let text) = introduction else { preconditionFailure(Self.hasNoPairing) }
        return text
    }

    /// The parsed pairing token, with the same restriction as ``pairingToken``.
    package var pairing: PairingToken {
        guard case .pairing(let pairing, _) = introduction else { preconditionFailure(Self.hasNoPairing) }
        return pairing
    }

    /// The registration of an app without pairing tokens; `nil` for an app that uses them.
    package var registration: DeviceRegistration? {
        if case .registration(let registration) = introduction { registration } else { nil }
    }

    private static let hasNoPairing = "Bisq Connect has no pairing token: see Phone.registration"

    /// Creates a phone with a random key and device token, in the format of its app.
    /// - Parameter pushServer: for Web Push, the origin of the server at which the phone is registered.
    package static func new(
        _ magic: Magic, model: String, app: PhoneApp = .bisq, pushServer: String = "https://push.example"
    ) -> Phone {
        let token = newDeviceToken(magic, at: pushServer)
        guard app.usesPairingToken else { return Phone(magic, model: model, deviceToken: token, registeredBy: app) }
        // `pipe`: 24 bytes give 32 characters of Base64, which are the key itself. `sealed`: the key's 32 bytes in
        // Base64.
        let bytes = SecureRandom.bytes(app.format == .sealed ? PairingToken.keyLength : 24)
        let key = String(decoding: Base64.encode(bytes), as: UTF8.self)
        var parts = [magic.rawValue, model, key, token]
        let webPushKey = magic == .web ? P256.PrivateKey() : nil
        if let webPushKey {
            parts += [webPushKey.publicKey, SecureRandom.bytes(WebPushContent.secretLength)]
                .map { String(decoding: Base64.encodeURLSafe($0), as: UTF8.self) }
        }
        do {
            return try Phone(pairingToken: parts.joined(separator: "|"), app: app, webPushKey: webPushKey)
        } catch {
            preconditionFailure("the generated pairing token is malformed: \(error)")
        }
    }

    /// Creates a phone without Google's services, whose distributor of UnifiedPush has registered it at a push server.
    /// - Parameter server: the server, on this machine.
    package static func withWebPush(at server: Endpoint, model: String) -> Phone {
        guard case .tcp(_, let port) = server else { preconditionFailure("a push server listens on a port") }
        return new(.web, model: model, pushServer: "https://localhost:\(port)")
    }

    /// Creates the phone of a pairing token.
    /// - Parameters:
    ///   - app: an app with ``PhoneApp/usesPairingToken``.
    ///   - webPushKey: the private key of a phone with Web Push.
    package init(
        pairingToken: String, app: PhoneApp = .bisq, webPushKey: P256.PrivateKey? = nil
    ) throws(PairingToken.FormatError) {
        self.webPushKey = webPushKey
        precondition(app.usesPairingToken, Self.hasNoPairing)
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
        webPushKey = nil
        introduction = .registration(
            DeviceRegistration(
                deviceID: Hex.encode(SecureRandom.bytes(16)), platform: magic == .android ? .android : .iOS,
                descriptor: model, deviceToken: deviceToken,
                symmetricKeyBase64: String(decoding: Base64.encode(key), as: UTF8.self)))
    }

    /// What the phone's QR code shows once a node keeps this handle for it.
    package func pairingToken(by handle: Handle) -> String { pairing.text(by: handle) }

    /// What the phone registers at a node.
    /// - Parameter senderKeys: who may ring it besides the owner of the handle.
    package func handleRegistration(senderKeys: [[UInt8]] = []) -> HandleRequest.Registration {
        HandleRequest.Registration(magic: magic, deviceToken: Array(deviceToken.utf8), senderKeys: senderKeys)
    }

    /// The same phone after its push service has given it another device token, as after a restore. The app keeps its key.
    package func withNewDeviceToken() -> Phone {
        var parts = pairingToken.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
        let pushServer = (try? PushEndpoint(Array(deviceToken.utf8)[...]))?.origin ?? ""
        parts[3] = Self.newDeviceToken(magic, at: pushServer)
        do {
            return try Phone(pairingToken: parts.joined(separator: "|"), app: app, webPushKey: webPushKey)
        } catch {
            preconditionFailure("the generated pairing token is malformed: \(error)")
        }
    }

    /// A common phone model of this platform.
    package static func usualModel(_ magic: Magic) -> String {
        switch magic {
        case .iOS, .iOSDev: "iPhone 15"
        case .android: "Google Pixel 8"
        case .web: "Fairphone 5"
        }
    }

    private static func newDeviceToken(_ magic: Magic, at pushServer: String) -> String {
        func random(_ count: Int) -> String {
            String(decoding: Base64.encodeURLSafe(SecureRandom.bytes(count)), as: UTF8.self)
        }
        return switch magic {
        case .iOS, .iOSDev: Hex.encode(SecureRandom.bytes(32))
        case .android: "\(random(16)):APA91b\(random(100))"
        case .web: "\(pushServer)/push/\(random(24))"
        }
    }
}
