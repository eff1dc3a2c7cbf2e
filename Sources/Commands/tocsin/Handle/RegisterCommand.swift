// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import TNP
import TocsinClient

struct RegisterCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "register",
        abstract: "Get a handle for a phone, to give to desktops in place of its device token.",
        discussion: """
            Prints the phone's pairing token with the handle in place of the device token. Use it like any other, e.g. \
            with tocsin send, within ten minutes: the node drops a handle by which the phone has not rung. When the \
            phone has another device token, tocsin rotate puts it behind the handle, and desktops keep their pairing.

            The key of the handle's owner is in the file --owner; keep it. If the file does not exist, the command \
            creates it from the pairing token, so that a phone that was rung by its device token before stays bound to \
            the same key.

            EXIT CODES
              0   registered
              64  wrong usage
              65  rejected: the request is not the owner's, or the node does not serve the phone
              69  the node could not be reached
              75  try again later
              78  the owner's key cannot be used

            EXAMPLES
              tocsin register - --owner phone.key --node ADDRESS.onion:7077 < pairing > pairing-by-handle
              tocsin register 'iOS|iPhone 15|KEY|TOKEN' --owner phone.key --node 127.0.0.1:7077 --direct
            """)

    @OptionGroup var phone: PairingArgument

    @Option(help: "The file of the owner's private key.", completion: .file())
    var owner: String

    @Option(help: "The name of an app of the node. Default: its first app.")
    var app: String = ""

    @OptionGroup var senderKeys: SenderKeyOptions
    @OptionGroup var connection: ConnectionOptions

    func validate() throws { try connection.requireOneNode() }

    func run() async throws {
        let (pairing, registration) = try phone.readRegistration(senderKeys: try senderKeys.read())
        let key = try failing(with: .configuration) { try ownerKey(pairing) }
        let handle = try await NodeAccess.ask(connection, "registering the phone") {
            try await $0.register(registration, app: app, owner: key, timeout: .seconds(connection.timeout))
        }
        Terminal.print(pairing.text(by: handle))
    }

    /// The key in the file; creates the file if it does not exist.
    private func ownerKey(_ pairing: PairingToken) throws -> Ed25519.PrivateKey {
        do {
            return try Ed25519.PrivateKey(keyFile: owner)
        } catch PrivateFileError.missing {
            try PrivateFile.create(owner, holding: Ed25519.PrivateKey.senderSeed(of: pairing))
            return try Ed25519.PrivateKey(keyFile: owner)
        }
    }
}
