// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import TNP
import TocsinClient

struct ForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget", abstract: "End a handle: nobody can ring the phone by it any more.",
        discussion: """
            EXIT CODES
              as of tocsin rotate

            EXAMPLES
              tocsin forget --handle @pairing-by-handle --owner phone.key --node ADDRESS.onion:7077
            """)

    @OptionGroup var handle: HandleArgument

    @Option(help: "The file of the owner's private key.", completion: .file())
    var owner: String

    @OptionGroup var connection: ConnectionOptions

    func validate() throws { try connection.requireOneNode() }

    func run() async throws {
        let handle = try handle.read()
        let key = try failing(with: .configuration) { try Ed25519.PrivateKey(keyFile: owner) }
        try await NodeAccess.ask(connection, "ending the handle") {
            try await $0.forget(handle, owner: key, timeout: .seconds(connection.timeout))
        }
        Terminal.print("forgotten")
    }
}
