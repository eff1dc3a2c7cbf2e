// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import TocsinClient

struct PairRead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read", abstract: "Check a pairing token, and report which apps would accept it.",
        discussion: """
            Checks the four parts and explains what is wrong. Of key and device token it prints only the length.

            EXIT CODES
              0   Tocsin accepts it
              64  wrong usage
              65  Tocsin rejects it

            EXAMPLES
              tocsin pair read - < pairing
              tocsin pair read 'iOS|iPhone 15|KEY|TOKEN'
            """)

    @OptionGroup var phone: PairingArgument

    func run() throws {
        let review = PairingReview(PairingArgument.text(phone.pairing))
        for line in PairingTable(review).lines { Terminal.print(line) }
        guard review.isAcceptedByTocsin else { throw ExitCode.rejected }
    }
}
