// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import TNP

extension Phone {
    /// The content that the app shows after it has opened an envelope.
    package struct DisplayedContent: Sendable, Equatable {
        package let title: String
        package let message: String
        /// The message type, or the category for a `sealed` app.
        package let type: String
    }

    /// Why the app cannot open an envelope.
    package enum Failure: Error, Equatable, Sendable {
        /// The text is not `magic|iv|ciphertext`.
        case notThreeParts
        /// The magic belongs to another app or system.
        case wrongMagic
        /// The IV does not have 16 characters.
        case wrongIVLength
        /// The ciphertext is not Base64.
        case notBase64
        /// The text is too short for a nonce and a ciphertext.
        case tooShort
        /// The key is wrong, the ciphertext was altered, or it is not a whole number of blocks.
        case cannotDecrypt
        /// The plaintext is not the JSON that the app expects.
        case unexpectedJSON
        /// The app was erased and has no key.
        case noKey
    }

    /// A plaintext as parsed by the app.
    struct Message: Hashable, Sendable {
        var id: String?
        var type: String
        var title: String
        var message: String
        var actionRequired: String?
        var txId: String?
        var sentDate: Double?
        var version: Int?

        var displayedContent: DisplayedContent { DisplayedContent(title: title, message: message, type: type) }
    }

    /// Opens the text of the field `encrypted` as the app does: a `pipe` app expects `magic|iv|ciphertext`, a `sealed`
    /// app Base64 of `iv ‖ ciphertext`. Neither accepts the other's format.
    package func open(_ encrypted: String) throws(Failure) -> DisplayedContent { try read(encrypted).displayedContent }

    func read(_ encrypted: String) throws(Failure) -> Message {
        if magic == .web { return try readWebPush(encrypted) }
        return switch app.format {
        case .pipe: try readPipe(encrypted)
        case .sealed: try readSealed(encrypted)
        }
    }

    private var keyBytes: [UInt8] { key.withBytes { span in span.withUnsafeBytes { Array($0) } } }

    // MARK: Web Push

    /// Opens the Base64 of what the push server delivers. The clear text has the keys of Bisq 1's app.
    private func readWebPush(_ text: String) throws(Failure) -> Message {
        guard let message = Base64.decode(Array(text.utf8)) else { throw .notBase64 }
        guard let webPushKey, let secret = pairing.webPush?.secret else { throw .noKey }
        let secretBytes = secret.withBytes { span in span.withUnsafeBytes { Array($0) } }
        guard let clearText = WebPushContent.open(message, by: webPushKey, secret: secretBytes) else {
            throw .cannotDecrypt
        }
        guard let opened = Self.androidMessage(clearText) else { throw .unexpectedJSON }
        return opened
    }

    // MARK: Bisq 1 and Haveno

    private func readPipe(_ text: String) throws(Failure) -> Message {
        let parts = Self.parts(text, magic)
        guard parts.count == 3 else { throw .notThreeParts }
        guard let messageMagic = app.messageMagic(magic), parts[0] == messageMagic else { throw .wrongMagic }
        guard parts[1].count == 16 else { throw .wrongIVLength }
        // The real apps skip characters outside the Base64 alphabet. This one rejects them: they occur only if a node
        // has altered the text, which a test must notice.
        guard let ciphertext = Base64.decode(Array(parts[2].utf8)) else { throw .notBase64 }
        guard let clearText = AES256CBC.decrypt(ciphertext, key: keyBytes, iv: Array(parts[1].utf8)) else {
            throw .cannotDecrypt
        }
        let message = magic == .android ? Self.androidMessage(clearText) : Self.iOSMessage(clearText)
        guard let message else { throw .unexpectedJSON }
        return message
    }

    /// iOS drops all empty parts, Android only those at the end.
    private static func parts(_ text: String, _ magic: Magic) -> [Substring] {
        guard magic == .android else { return text.split(separator: "|") }
        var parts = text.split(separator: "|", omittingEmptySubsequences: false)
        while parts.last?.isEmpty == true { parts.removeLast() }
        return parts
    }

    /// iOS requires a value for all seven keys and ignores others.
    private static func iOSMessage(_ clearText: [UInt8]) -> Message? {
        struct Raw: Decodable {
            let version: Int
            let type: String
            let title: String
            let message: String
            let actionRequired: String
            let txId: String
            let sentDate: Double
        }
        guard let raw = decode(Raw.self, clearText), raw.version >= 1 else { return nil }
        return Message(
            type: raw.type, title: raw.title, message: raw.message, actionRequired: raw.actionRequired,
            txId: raw.txId, sentDate: raw.sentDate, version: raw.version)
    }

    /// Android requires none of its ten keys and rejects any other key.
    private static func androidMessage(_ clearText: [UInt8]) -> Message? {
        struct Raw: Decodable {
            let uid: Int?
            let version: Int?
            let type: String?
            let title: String?
            let message: String?
            let actionRequired: String?
            let txId: String?
            let receivedDate: Int64?
            let sentDate: Int64?
            let read: Bool?
        }
        let known: Set = [
            "uid", "version", "type", "title", "message", "actionRequired", "txId", "receivedDate", "sentDate", "read",
        ]
        guard let keys = JSONValue(clearText)?.object?.keys, keys.allSatisfy(known.contains),
            let raw = decode(Raw.self, clearText)
        else { return nil }
        return Message(
            type: raw.type ?? "", title: raw.title ?? "", message: raw.message ?? "",
            actionRequired: raw.actionRequired, txId: raw.txId, sentDate: raw.sentDate.map(Double.init),
            version: raw.version)
    }

    // MARK: Bisq Connect and self-built apps

    private static let nonceLength = 12

    private func readSealed(_ text: String) throws(Failure) -> Message {
        guard let bytes = Base64.decode(Array(text.utf8)) else { throw .notBase64 }
        guard bytes.count > Self.nonceLength else { throw .tooShort }
        let nonce = Array(bytes.prefix(Self.nonceLength))
        guard let clearText = AESGCM.open(Array(bytes.dropFirst(Self.nonceLength)), key: keyBytes, nonce: nonce)
        else { throw .cannotDecrypt }
        struct Raw: Decodable {
            let id: String
            let title: String
            let message: String
            let category: String?
        }
        guard let raw = Self.decode(Raw.self, clearText) else { throw .unexpectedJSON }
        return Message(id: raw.id, type: raw.category ?? "general", title: raw.title, message: raw.message)
    }

    private static func decode<Value: Decodable>(_ type: Value.Type, _ clearText: [UInt8]) -> Value? {
        guard String(validating: clearText, as: UTF8.self) != nil else { return nil }
        return try? JSONDecoder().decode(type, from: Data(clearText))
    }
}

extension Phone.Failure: CustomStringConvertible {
    package var description: String {
        switch self {
        case .notThreeParts: "it does not have three parts separated by |"
        case .wrongMagic: "its magic belongs to another app or system"
        case .wrongIVLength: "its IV does not have 16 characters"
        case .notBase64: "its ciphertext is not Base64"
        case .tooShort: "it is too short"
        case .cannotDecrypt: "it was sealed with another key, altered, or is not a whole number of blocks"
        case .unexpectedJSON: "its plaintext is not the JSON that the app expects"
        case .noKey: "the app was erased and has no key; pair it again"
        }
    }
}
