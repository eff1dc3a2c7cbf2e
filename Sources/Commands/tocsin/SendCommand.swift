// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FoundationEssentials
import TocsinClient

extension BisqNotification.Kind: ExpressibleByArgument {}

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Encrypt one notification for a phone and deliver it through a node.",
        discussion: """
            Each notification is signed with a sender key derived from the phone's pairing: all desktops with that \
            pairing have the same key. If the node honours sender keys, the first key that rings a phone becomes the \
            only one that can.

            Other users of this machine can see the arguments of a command. --title @FILE and --message @FILE read the \
            text from a file, @- from standard input.

            EXIT CODES
              0   delivered or queued
              64  wrong usage
              65  rejected: do not send it again
              69  the node could not be reached
              75  try again later
              76  the phone no longer has this device token: forget the pairing
              78  the key to a closed onion cannot be used

            EXAMPLES
              tocsin send - --node ADDRESS.onion:7077 --type TRADE --title Paid --message "Trade 123 is paid" < pairing
              tocsin send - --node ADDRESS.onion:7077 --title @title.txt --message @message.txt < pairing
              tocsin send 'iOS|iPhone 15|KEY|TOKEN' --node 127.0.0.1:7077 --direct --type OFFER --title Taken
              tocsin send - --json --node ADDRESS.onion:7077 --title Paid < pairing | jq -r .outcome
            """)

    @OptionGroup var phone: PairingArgument

    @Option(help: "The notification's type: \(BisqNotification.Kind.allCases.map(\.rawValue).joined(separator: ", ")).")
    var type: BisqNotification.Kind = .trade

    @Option(help: "The title; @FILE reads it from a file, @- from standard input.")
    var title: String = ""

    @Option(help: "The message; @FILE reads it from a file, @- from standard input.")
    var message: String = ""

    @Option(help: "The short id of the trade or offer.")
    var tradeID: String = ""

    @Option(help: "What the user has to do, for apps that show it.")
    var actionRequired: String = ""

    @Flag(help: "Send it without a sound.")
    var silent = false

    @OptionGroup var output: JSONOption

    @OptionGroup var delivery: DeliveryOptions

    func validate() throws {
        guard [phone.pairing == "-", title == "@-", message == "@-"].count(where: { $0 }) <= 1 else {
            throw ValidationError("standard input can be read only once: for the pairing token, --title or --message")
        }
    }

    func run() async throws {
        let notification = BisqNotification(
            kind: type, title: try TextArgument.text(title), message: try TextArgument.text(message),
            transactionID: tradeID, actionRequired: actionRequired, sentDate: .unixMillisecondsNow)
        try await NotificationDelivery(pairing: phone.read(), options: delivery, asJSON: output.json).deliver(
            notification, sound: !silent)
    }
}

extension Int64 {
    /// The current Unix time in milliseconds, as used in notifications.
    static var unixMillisecondsNow: Int64 { Int64(Date.now.timeIntervalSince1970 * 1000) }
}
