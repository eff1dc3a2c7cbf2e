// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import TNP
import TocsinClient

struct PairErase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase", abstract: "Make a phone's app delete its pairing and all notifications.",
        discussion: """
            Sends ERASE, without a sound. This cannot be undone: the phone has to be paired again. Asks for \
            confirmation, unless --yes is given.

            EXIT CODES
              as tocsin send; 1 if the answer was not yes

            EXAMPLES
              tocsin pair erase 'iOS|iPhone 15|KEY|TOKEN' --node ADDRESS.onion:7077
              tocsin pair erase - --node ADDRESS.onion:7077 --yes < pairing
            """)

    @OptionGroup var phone: PairingArgument

    @Flag(help: "Do not ask for confirmation. Required if standard input is not a terminal.")
    var yes = false

    @OptionGroup var delivery: DeliveryOptions

    func run() async throws {
        let pairing = try phone.read()
        guard BisqNotification.supportsErase(delivery.format ?? pairing.defaultFormat, delivery.schema) else {
            throw fail(
                "Bisq Connect does not support ERASE: delete the pairing in the app or uninstall it. For an app of your "
                    + "own, add --schema tocsin", .usage)
        }
        if !yes {
            guard isatty(STDIN_FILENO) == 1 else {
                throw fail("cannot ask for confirmation, standard input is not a terminal: add --yes", .usage)
            }
            Terminal.error(
                "This deletes all notifications and the pairing of the app on “\(pairing.descriptor)”."
                    + " Type yes to continue:")
            guard Self.isYes(readLine()) else { throw fail("nothing was sent", .failure) }
        }
        let notification = BisqNotification(kind: .erase, title: "", message: "", sentDate: .unixMillisecondsNow)
        try await NotificationDelivery(pairing: pairing, options: delivery).deliver(notification, sound: false)
    }

    /// Whether an answer is a yes.
    static func isYes(_ answer: String?) -> Bool { ["yes", "y"].contains(answer?.lowercased()) }
}
