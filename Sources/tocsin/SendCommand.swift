import ArgumentParser
import FoundationEssentials
import TocsinClient

extension BisqNotification.Kind: ExpressibleByArgument {}

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Encrypt one notification for a phone and deliver it through a node.",
        discussion: """
            Each notification is signed with a key that is made at the first one to a phone and kept in a file. Where the
            node honours such keys, the first that rings a phone is from then on the only one that does.

            EXIT CODES
              0 delivered or queued · 64 wrong usage · 65 rejected · 69 node unreachable · 75 try again later ·
              76 the phone no longer has this token: forget the pairing · 78 the sender key cannot be used

            EXAMPLES
              tocsin send - --node ADDRESS.onion:7077 --type TRADE --title Paid --message "Trade 123 is paid" < pairing
              tocsin send 'iOS|iPhone 15|KEY|TOKEN' --node 127.0.0.1:7077 --direct --type OFFER --title Taken
            """)

    @OptionGroup var phone: PairingArgument

    @Option(help: "What it is about: \(BisqNotification.Kind.allCases.map(\.rawValue).joined(separator: ", ")).")
    var type: BisqNotification.Kind = .trade

    @Option(help: "The title.")
    var title: String = ""

    @Option(help: "The text.")
    var message: String = ""

    @Option(help: "Short id of the trade or offer.")
    var tradeID: String = ""

    @Flag(help: "Without a sound.")
    var silent = false

    @OptionGroup var delivery: DeliveryOptions

    func run() async throws {
        let notification = BisqNotification(
            kind: type, title: title, message: message, transactionID: tradeID, sentDate: .unixMillisecondsNow)
        try await NotificationDelivery(pairing: phone.read(), options: delivery).deliver(notification, sound: !silent)
    }
}

extension Int64 {
    /// When a notification is sent, as the phones want it.
    static var unixMillisecondsNow: Int64 { Int64(Date.now.timeIntervalSince1970 * 1000) }
}
