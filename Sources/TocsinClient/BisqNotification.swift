// SPDX-License-Identifier: Apache-2.0

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

    /// The clear text for Bisq Connect and for apps that read its notifications, UTF-8: `id`, `title`, `message`,
    /// `category` and, where there is one, `tradeId`.
    /// - Parameter id: an Android phone replaces a notification by another one of the same id.
    public func connectJSON(id: String) -> [UInt8] {
        let category =
            switch kind {
            case .trade, .dispute: "trade_update"
            case .offer: "offer_update"
            case .setupConfirmation, .price, .market, .financial, .erase: "general"
            }
        let trade = transactionID.isEmpty ? "" : ",\"tradeId\":\"\(Self.escaped(transactionID))\""
        let text =
            "{\"id\":\"\(Self.escaped(id))\",\"title\":\"\(Self.escaped(title))\","
            + "\"message\":\"\(Self.escaped(message))\",\"category\":\"\(category)\"\(trade)}"
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
