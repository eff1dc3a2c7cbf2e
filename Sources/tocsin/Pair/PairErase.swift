// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import TocsinClient

struct PairErase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase", abstract: "Have a phone's app forget its pairing and all notifications.",
        discussion: """
            Sends ERASE, silently. It cannot be taken back: the phone has to be paired anew. Asks before, unless --yes \
            is given.

            EXIT CODES
              as those of tocsin send; 1 where the answer was not yes

            EXAMPLES
              tocsin pair erase 'iOS|iPhone 15|KEY|TOKEN' --node ADDRESS.onion:7077
              tocsin pair erase - --node ADDRESS.onion:7077 --yes < pairing
            """)

    @OptionGroup var phone: PairingArgument

    @Flag(help: "Do not ask. Needed where standard input is not a terminal.")
    var yes = false

    @OptionGroup var delivery: DeliveryOptions

    func run() async throws {
        let pairing = try phone.read()
        guard Sealer(pairing, format: delivery.format).format == .pipe else {
            throw fail(
                "a sealed app knows no ERASE: delete the pairing in the app itself, or remove the app", ExitStatus.usage
            )
        }
        let question = "All notifications and the pairing of the app on “\(pairing.descriptor)” will be gone."
        switch Self.consent(isGiven: yes, isTerminal: isatty(STDIN_FILENO) == 1, answer: { Self.ask(question) }) {
        case .given: break
        case .refused: throw fail("nothing was sent", ExitStatus.failure)
        case .nobodyToAsk:
            throw fail("standard input is not a terminal, so that nobody can be asked: add --yes", ExitStatus.usage)
        }
        let notification = BisqNotification(kind: .erase, title: "", message: "", sentDate: .unixMillisecondsNow)
        try await NotificationDelivery(pairing: pairing, options: delivery).deliver(notification, sound: false)
    }

    /// Whether a person wants it.
    enum Consent: Equatable { case given, refused, nobodyToAsk }

    /// - Parameter answer: asks; nil at the end of the input.
    static func consent(isGiven: Bool, isTerminal: Bool, answer: () -> String?) -> Consent {
        if isGiven { return .given }
        guard isTerminal else { return .nobodyToAsk }
        return ["yes", "y"].contains(answer()?.lowercased() ?? "") ? .given : .refused
    }

    private static func ask(_ question: String) -> String? {
        Terminal.error("\(question) Type yes to go on:")
        return readLine()
    }
}
