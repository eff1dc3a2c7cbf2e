import Cryptography
import TNP

/// What Bisq's desktop tells its phone: JSON with the fields, the order and the escapes of the desktop's own.
public struct BisqNotification: Sendable {
    /// What it is about.
    public enum Kind: String, Sendable, CaseIterable {
        case setupConfirmation = "SETUP_CONFIRMATION"
        case offer = "OFFER"
        case trade = "TRADE"
        case dispute = "DISPUTE"
        case price = "PRICE"
        case market = "MARKET"
        case financial = "FINANCIAL"
        case erase = "ERASE"
    }

    public var kind: Kind
    public var title: String
    public var message: String
    /// Short id of the trade or offer; may be empty.
    public var transactionID: String
    /// Unix time in milliseconds.
    public var sentDate: Int64

    /// - Parameters: as the properties of the same names.
    public init(kind: Kind, title: String, message: String, transactionID: String = "", sentDate: Int64) {
        self.kind = kind
        self.title = title
        self.message = message
        self.transactionID = transactionID
        self.sentDate = sentDate
    }

    /// The clear text, UTF-8.
    public var json: [UInt8] {
        let text =
            "{\"sentDate\":\(sentDate),\"txId\":\"\(Self.escaped(transactionID))\",\"title\":\"\(Self.escaped(title))\","
            + "\"message\":\"\(Self.escaped(message))\",\"type\":\"\(kind.rawValue)\",\"actionRequired\":\"\","
            + "\"version\":1}"
        return Array(text.utf8)
    }

    /// As Gson escapes by default: also `'`, `<`, `>`, `&` and `=`, and the two line separators of JavaScript.
    private static func escaped(_ text: String) -> String {
        var output = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": output += "\\\(scalar)"
            case "\n": output += "\\n"
            case "\r": output += "\\r"
            case "\t": output += "\\t"
            case "\u{8}": output += "\\b"
            case "\u{C}": output += "\\f"
            case "'", "<", ">", "&", "=", "\u{2028}", "\u{2029}", "\u{0}"..<"\u{20}":
                let digits = String(scalar.value, radix: 16)
                output += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output
    }
}

/// Seals notifications for one pairing.
public struct Sealer: Sendable {
    private let pairing: PairingToken

    /// For the phone of this pairing token.
    public init(_ pairing: PairingToken) { self.pairing = pairing }

    /// Seals a clear text for a `pipe` app: AES-256-CBC under the 32 UTF-8 bytes of the key, padded with spaces to whole
    /// blocks counted in bytes of UTF-8, so that text of any script works and the phones' own JSON readers do not mind.
    /// - Parameters:
    ///   - iv: 16 printable ASCII characters other than `|`, never used twice.
    ///   - app: the app profile's name; empty: the node's first.
    /// - Throws: `Rejection` where the result breaks a rule of the protocol, e.g. because the text is too long.
    public func seal(
        _ clearText: [UInt8], iv: [UInt8] = Sealer.freshIV(), app: String = "", ttl: UInt32 = Envelope.longestTTL,
        sound: Bool = true
    ) throws(Rejection) -> Envelope {
        let padding = (16 - clearText.count % 16) % 16
        let key = pairing.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let padded = clearText + [UInt8](repeating: UInt8(ascii: " "), count: padding)
        guard let ciphertext = AES256CBC.encrypt(padded, key: key, iv: iv) else { throw Rejection(.iv) }
        return try Envelope(
            app: Array(app.utf8)[...], magic: pairing.magic, deviceToken: Array(pairing.deviceToken.utf8)[...],
            iv: iv[...], ciphertext: ciphertext[...], ttl: ttl, sound: sound, format: .pipe)
    }

    /// 16 characters of `0-9A-Za-z+/`: 96 random bits.
    public static func freshIV() -> [UInt8] { Base64.encode(SecureRandom.bytes(12)) }
}
