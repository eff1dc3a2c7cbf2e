// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import TocsinClient

struct PairRead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read", abstract: "Check a pairing token, and say which apps would take it.",
        discussion: """
            Looks at the four parts and says in words what is wrong. Key and device token are not shown, only how long \
            they are.

            EXIT CODES
              0 Tocsin takes it · 64 wrong usage · 65 Tocsin refuses it

            EXAMPLES
              tocsin pair read - < pairing
              tocsin pair read 'iOS|iPhone 15|KEY|TOKEN'
            """)

    @OptionGroup var phone: PairingArgument

    func run() throws {
        let review = PairingReview(phone.text())
        for line in PairingTable(review).lines { Terminal.print(line) }
        guard review.isTakenByTocsin else { throw ExitStatus.rejected }
    }
}
