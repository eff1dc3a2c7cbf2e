// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

struct PairCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair", abstract: "Read, show, confirm and end the pairing of a phone.",
        discussion: """
            A pairing token, magic|descriptor|key|device token, is what the phone's app shows as a QR code. Whoever \
            has it can read and forge what the phone is sent: keep it in a file that only you may read, and give - in its \
            place to read it from standard input.

            EXAMPLES
              tocsin pair read - < pairing
              tocsin pair show --magic android --png pairing.png
              tocsin pair confirm - --node ADDRESS.onion:7077 < pairing
              tocsin pair erase - --node ADDRESS.onion:7077 --yes < pairing
            """,
        subcommands: [PairRead.self, PairShow.self, PairConfirm.self, PairErase.self])
}
