// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import TNP
import TocsinClient

struct PairConfirm: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "confirm", abstract: "Tell a phone that it is paired.",
        discussion: """
            Sends SETUP_CONFIRMATION, with a sound: the app then closes its QR code and shows notifications.

            EXIT CODES
              as tocsin send

            EXAMPLES
              tocsin pair confirm - --node ADDRESS.onion:7077 < pairing
              tocsin pair confirm 'iOS|iPhone 15|KEY|TOKEN' --node 127.0.0.1:7077 --direct
            """)

    @OptionGroup var phone: PairingArgument
    @OptionGroup var delivery: DeliveryOptions

    func run() async throws {
        let pairing = try phone.read()
        let notification = BisqNotification.confirmation(
            for: delivery.format ?? pairing.defaultFormat, delivery.schema, sentDate: .unixMillisecondsNow)
        try await NotificationDelivery(pairing: pairing, options: delivery).deliver(notification, sound: true)
    }
}
