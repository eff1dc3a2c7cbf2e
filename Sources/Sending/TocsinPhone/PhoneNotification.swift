// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What a desktop tells the phone's user: the clear text of a notification. Decoding ignores keys that it does not know.
public struct PhoneNotification: Equatable, Sendable, Decodable, CustomStringConvertible {
    /// What a notification is about.
    public struct Kind: RawRepresentable, Hashable, Sendable, Decodable {
        /// The type as it is written in the text.
        public let rawValue: String
        /// Creates the type of this name. The app shows a notification of an unknown type like any other.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The desktop has paired: the app stores the pairing, and shows nothing further.
        public static let setupConfirmation = Kind(rawValue: "SETUP_CONFIRMATION")
        /// The desktop has unpaired: the app deletes the pairing and its notifications.
        public static let erase = Kind(rawValue: "ERASE")
        /// About an offer.
        public static let offer = Kind(rawValue: "OFFER")
        /// About a trade.
        public static let trade = Kind(rawValue: "TRADE")
        /// About a dispute.
        public static let dispute = Kind(rawValue: "DISPUTE")
        /// About a price.
        public static let price = Kind(rawValue: "PRICE")
        /// About the market.
        public static let market = Kind(rawValue: "MARKET")
        /// About a financial matter.
        public static let financial = Kind(rawValue: "FINANCIAL")
    }

    /// The version of the text's fields, from 1. A higher one adds fields, and changes none of these.
    public let version: Int
    /// What the notification is about.
    public let kind: Kind
    /// What the phone shows as its title.
    public let title: String
    /// What the phone shows below the title.
    public let message: String
    /// The Unix time in milliseconds at which the desktop sent the notification.
    public let sentDate: Int64
    /// The short id of the trade or offer; empty if there is none.
    public let transactionID: String
    /// What the user has to do; empty if nothing.
    public let actionRequired: String

    private enum CodingKeys: String, CodingKey {
        case version, title, message, sentDate, actionRequired
        case kind = "type"
        case transactionID = "txId"
    }

    public init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        version = try fields.decode(Int.self, forKey: .version)
        kind = Kind(rawValue: try fields.decode(String.self, forKey: .kind))
        title = try fields.decode(String.self, forKey: .title)
        message = try fields.decode(String.self, forKey: .message)
        sentDate = try fields.decode(Int64.self, forKey: .sentDate)
        transactionID = try fields.decodeIfPresent(String.self, forKey: .transactionID) ?? ""
        actionRequired = try fields.decodeIfPresent(String.self, forKey: .actionRequired) ?? ""
    }

    /// A text with no part of the content.
    public var description: String { "<PhoneNotification redacted>" }

    /// Reads a clear text.
    /// - Throws: ``PhoneError/notANotification(_:)``.
    public init(_ clearText: [UInt8]) throws(PhoneError) {
        do {
            self = try JSONDecoder().decode(PhoneNotification.self, from: Data(clearText))
        } catch {
            // The decoder's own description could quote the text.
            throw .notANotification("it is not JSON with version, type, title, message and sentDate")
        }
    }
}
