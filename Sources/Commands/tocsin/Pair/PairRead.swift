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
              tocsin pair read - --json < pairing
            """)

    @OptionGroup var phone: PairingArgument
    @OptionGroup var output: JSONOption

    private struct Read: Encodable {
        struct Part: Encodable {
            let name: String
            let content: String
            let fault: String?
        }

        struct App: Encodable {
            let app: String
            let accepts: Bool
            let remark: String?
        }

        let accepted: Bool
        let parts: [Part]
        let apps: [App]
        let hints: [String]
    }

    func run() throws {
        let review = PairingReview(PairingArgument.text(phone.pairing))
        if output.json {
            JSONOption.print(
                Read(
                    accepted: review.isAcceptedByTocsin,
                    parts: review.parts.map { Read.Part(name: $0.name, content: $0.content, fault: $0.fault) },
                    apps: review.compatibilities.map {
                        Read.App(app: $0.app.rawValue, accepts: $0.isAccepted, remark: $0.remark)
                    }, hints: review.hints))
        } else {
            for line in PairingTable(review).lines { Terminal.print(line) }
        }
        guard review.isAcceptedByTocsin else { throw ExitCode.rejected }
    }
}
