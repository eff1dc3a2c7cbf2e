// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import TNP
import TocsinClient

struct RotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate", abstract: "Put a phone's new device token behind its handle.",
        discussion: """
            Desktops that know the handle ring the phone as before; they need no new pairing. The sender keys are \
            replaced, too.

            EXIT CODES
              as of tocsin register, and 76: the node does not know the handle

            EXAMPLES
              tocsin rotate - --handle @pairing-by-handle --owner phone.key --node ADDRESS.onion:7077 < new-pairing
            """)

    @OptionGroup var phone: PairingArgument
    @OptionGroup var handle: HandleArgument

    @Option(help: "The file of the owner's private key.", completion: .file())
    var owner: String

    @OptionGroup var senderKeys: SenderKeyOptions
    @OptionGroup var connection: ConnectionOptions

    func validate() throws { try connection.requireOneNode() }

    func run() async throws {
        let handle = try handle.read()
        let (_, registration) = try phone.readRegistration(senderKeys: try senderKeys.read())
        let key = try failing(with: .configuration) { try Ed25519.PrivateKey(keyFile: owner) }
        try await NodeAccess.ask(connection, "changing the handle") {
            try await $0.rotate(handle, to: registration, owner: key, timeout: .seconds(connection.timeout))
        }
        Terminal.print("rotated")
    }
}
