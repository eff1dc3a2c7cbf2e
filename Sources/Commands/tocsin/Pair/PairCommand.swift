// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

struct PairCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair", abstract: "Check, create and show pairing tokens; confirm or erase a phone's pairing.",
        discussion: """
            A pairing token, magic|descriptor|key|device token, is what the phone's app shows as a QR code. With it, \
            anyone can read and forge notifications to the phone: keep it in a file that only you can read, and pass - \
            to read it from standard input.

            EXAMPLES
              tocsin pair read - < pairing
              tocsin pair show --magic android --png pairing.png
              tocsin pair confirm - --node ADDRESS.onion:7077 < pairing
              tocsin pair erase - --node ADDRESS.onion:7077 --yes < pairing
            """,
        subcommands: [PairRead.self, PairShow.self, PairConfirm.self, PairErase.self])
}
