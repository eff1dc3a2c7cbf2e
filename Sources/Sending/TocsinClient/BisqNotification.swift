// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// A notification from a desktop to its phone, encoded as JSON with the order and escapes of Bisq's desktop.
public struct BisqNotification: Sendable {
    /// The subject of a notification.
    public enum Kind: String, Sendable, CaseIterable {
        /// The desktop confirms the pairing.
        case setupConfirmation = "SETUP_CONFIRMATION"
        /// The notification is about an offer.
        case offer = "OFFER"
        /// The notification is about a trade.
        case trade = "TRADE"
        /// The notification is about a dispute.
        case dispute = "DISPUTE"
        /// The notification is about a price.
        case price = "PRICE"
        /// The notification is about the market.
        case market = "MARKET"
        /// The notification is about a financial matter.
        case financial = "FINANCIAL"
        /// The phone's app deletes its pairing and all notifications.
        case erase = "ERASE"
    }

    /// The subject of the notification.
    public var kind: Kind
    /// The title that the phone shows.
    public var title: String
    /// The text that the phone shows.
    public var message: String
    /// The short id of the trade or offer; may be empty.
    public var transactionID: String
    /// What the user has to do; empty if nothing. Bisq Connect has no field for it.
    public var actionRequired: String
    /// The Unix time in milliseconds at which the notification is sent.
    public var sentDate: Int64

    /// Creates a notification.
    public init(
        kind: Kind, title: String, message: String, transactionID: String = "", actionRequired: String = "",
        sentDate: Int64
    ) {
        self.kind = kind
        self.title = title
        self.message = message
        self.transactionID = transactionID
        self.actionRequired = actionRequired
        self.sentDate = sentDate
    }

    /// The clear text for Bisq 1's apps and for apps of one's own (``TextSchema/tocsin``), in UTF-8.
    public var json: [UInt8] {
        let text =
            "{\"sentDate\":\(sentDate),\"txId\":\"\(Self.escaped(transactionID))\",\"title\":\"\(Self.escaped(title))\","
            + "\"message\":\"\(Self.escaped(message))\",\"type\":\"\(kind.rawValue)\","
            + "\"actionRequired\":\"\(Self.escaped(actionRequired))\",\"version\":1}"
        return Array(text.utf8)
    }

    /// Returns the clear text for Bisq Connect and compatible apps, in UTF-8: `id`, `title`, `message`, `category` and,
    /// unless ``transactionID`` is empty, `tradeId`.
    /// - Parameter id: an id of the notification; an Android phone replaces an earlier notification with the same id.
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

    /// Escapes a JSON string as Gson does by default: also `'`, `<`, `>`, `&`, `=`, U+2028 and U+2029.
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
