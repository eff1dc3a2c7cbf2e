// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import Tor

struct OnionAuthorizeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "authorize", abstract: "Make a key for one sender, without which the onion cannot be reached.",
        discussion: """
            From the first authorised sender on, the onion is closed to all others: they cannot even find out where it
            is. The public half of the key stays here, the private half is shown once and not kept. The sender puts it
            into a file of mode 600 and names that: tocsin send --onion-key FILE. tor also takes the file, as
            NAME.auth_private, in its ClientOnionAuthDir.

            EXAMPLES
              tocsin onion authorize alice
              tocsin onion authorize alice --output alice.auth_private
            """)

    @Argument(help: "What to call the sender: letters, digits, - and _.")
    var name: String

    @Option(help: "Write the private half to this new file, of mode 600. Default: standard output.")
    var output: String?

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings()
        let address = try OnionOptions.keys(settings).address
        let clients = AuthorizedClients(serviceDirectory: settings.serviceDirectory)
        let pair = ClientAuthorization(for: address)
        try OnionOptions.attempt { () throws(OnionFileError) in
            let name = try ClientName(name)
            // Before the onion is closed: nobody should be authorised whose key is lost.
            if let output { try StateOwner.asCaller { () throws(OnionFileError) in try pair.key.write(to: output) } }
            do throws(OnionFileError) {
                try clients.install(pair.publicKey, as: name)
            } catch {
                if let output { _ = StateOwner.asCaller { unlink(output) } }
                throw error
            }
        }
        if let output {
            Terminal.error("The private half is in \(output): hand it to \(name) by a way that nobody else reads.")
        } else {
            Terminal.print(String(decoding: pair.key.line, as: UTF8.self))
            Terminal.error(
                "The line above is a secret and is not kept: hand it to \(name) by a way that nobody else reads.")
        }
        await OnionOptions.announce(settings)
    }
}
