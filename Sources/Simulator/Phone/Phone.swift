import Cryptography
import FoundationEssentials
import TNP

/// A phone with the app on it: knows the key of its pairing and opens what arrives.
public struct Phone: Sendable {
    /// What it shows once it has opened an envelope.
    public struct Shown: Sendable, Equatable {
        public let title: String
        public let message: String
        public let type: String
    }

    /// Why it cannot open an envelope.
    public enum Failure: Error, Equatable, Sendable {
        /// Not `magic|iv|ciphertext`.
        case notThreeParts
        /// Meant for another app.
        case wrongMagic
        case wrongIVLength
        case notBase64
        /// Another key, or not whole blocks.
        case cannotDecrypt
        /// The clear text is not the JSON that the app reads.
        case notItsJSON
    }

    /// As a QR code would say it.
    public let pairingToken: String
    /// The same, read.
    public let pairing: PairingToken
    private let messageMagic: String

    /// A phone with a fresh key and device token, as its app would make them.
    public static func new(_ magic: Magic, model: String) -> Phone {
        let key = String(decoding: Base64.encode(SecureRandom.bytes(24)), as: UTF8.self)
        let token: String
        switch magic {
        case .iOS, .iOSDev: token = Hex.encode(SecureRandom.bytes(32))
        case .android:
            let instance = String(decoding: Base64.encodeURLSafe(SecureRandom.bytes(16)), as: UTF8.self)
            let rest = String(decoding: Base64.encodeURLSafe(SecureRandom.bytes(100)), as: UTF8.self)
            token = "\(instance):APA91b\(rest)"
        }
        do {
            return try Phone(pairingToken: "\(magic.rawValue)|\(model)|\(key)|\(token)")
        } catch {
            preconditionFailure("a phone made a pairing token that is none: \(error)")
        }
    }

    /// The phone of a pairing token.
    public init(pairingToken: String) throws(PairingToken.FormatError) {
        pairing = try PairingToken(pairingToken)
        self.pairingToken = pairingToken
        messageMagic = pairing.magic == .android ? "BisqMessageAndroid" : "BisqMessageiOS"
    }

    private var key: [UInt8] { pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } } }

    /// Opens what stands under the key `encrypted`: `magic|iv|ciphertext`, or Base64 of `iv ‖ ciphertext` without it.
    public func open(_ encrypted: String) throws(Failure) -> Shown {
        encrypted.contains("|") ? try openPipe(encrypted) : try openSealed(encrypted)
    }

    private func openPipe(_ text: String) throws(Failure) -> Shown {
        let parts = text.split(separator: "|")
        guard parts.count == 3 else { throw .notThreeParts }
        guard parts[0] == messageMagic else { throw .wrongMagic }
        let iv = Array(parts[1].utf8)
        guard iv.count == 16 else { throw .wrongIVLength }
        guard let ciphertext = Base64.decode(Array(parts[2].utf8)) else { throw .notBase64 }
        guard let clearText = AES256CBC.decrypt(ciphertext, key: key, iv: iv) else { throw .cannotDecrypt }
        // The app's reader wants all seven; anything else it cannot show.
        struct Message: Decodable {
            let version: Int
            let type: String
            let title: String
            let message: String
            let actionRequired: String
            let txId: String
            let sentDate: Double
        }
        guard String(validating: clearText, as: UTF8.self) != nil,
            let message = try? JSONDecoder().decode(Message.self, from: Data(clearText)), message.version >= 1
        else { throw .notItsJSON }
        return Shown(title: message.title, message: message.message, type: message.type)
    }

    private func openSealed(_ text: String) throws(Failure) -> Shown {
        guard let bytes = Base64.decode(Array(text.utf8)) else { throw .notBase64 }
        guard bytes.count > 12 + AES256GCM.tagLength,
            let clearText = AES256GCM.open(Array(bytes.dropFirst(12)), key: key, nonce: Array(bytes.prefix(12)))
        else { throw .cannotDecrypt }
        struct Message: Decodable {
            let id: String
            let title: String
            let message: String
            let category: String?
        }
        guard let message = try? JSONDecoder().decode(Message.self, from: Data(clearText)) else { throw .notItsJSON }
        return Shown(title: message.title, message: message.message, type: message.category ?? "general")
    }
}
