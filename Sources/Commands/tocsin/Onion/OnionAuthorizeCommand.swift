// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import Tor

struct OnionAuthorizeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "authorize", abstract: "Create a key for one sender and close the onion to unauthorised senders.",
        discussion: """
            Before tor's first start, this makes the onion's keys, so that a closed onion is never open. Once a sender is \
            authorised, the onion is closed to all others: without a key they cannot even find it.

            The public key stays here; the private key is printed once and not kept. The sender puts it into a file of \
            mode 600 and uses it with tocsin send --onion-key FILE. tor also reads the file from its \
            ClientOnionAuthDir, as NAME.auth_private.

            EXAMPLES
              tocsin onion authorize alice
              tocsin onion authorize alice --output alice.auth_private
            """)

    @Argument(help: "A name for the sender: letters, digits, - and _.")
    var name: String

    @Option(help: "Write the private key to this new file, with mode 600. Default: standard output.")
    var output: String?

    @OptionGroup var options: OnionOptions

    func run() async throws {
        let settings = try options.settings(toChange: true)
        let keys = try newKeys(settings)
        let address = try keys?.address ?? OnionOptions.address(settings)
        let clients = AuthorizedClients(serviceDirectory: settings.serviceDirectory)
        let pair = ClientAuthorization(for: address)
        try OnionOptions.attempt { () throws(OnionFileError) in
            let name = try ClientName(name)
            guard name != .nobody else { throw .reservedName(name) }
            // Writes the sender's key first: if that fails, no sender is authorised without having a key.
            if let output {
                try DirectoryOwner.asCaller { () throws(OnionFileError) in try pair.key.write(to: output) }
            }
            do throws(OnionFileError) {
                try clients.authorize(pair.publicKey, as: name)
                // Writes the onion's keys last: without an authorised sender, the onion would be open.
                do throws(OnionFileError) {
                    try keys?.write(to: settings.serviceDirectory)
                } catch {
                    try? clients.revoke(name, opensToAll: true)
                    throw error
                }
            } catch {
                if let output { _ = DirectoryOwner.asCaller { unlink(output) } }
                throw error
            }
        }
        if let keys { Terminal.error("The onion is \(keys.address); tor publishes it when it starts with the node.") }
        if let output {
            Terminal.error("The private key is in \(output): give it to \(name) over a confidential channel.")
        } else {
            Terminal.print(String(decoding: pair.key.line, as: UTF8.self))
            Terminal.error("The line above is secret and is not kept: give it to \(name) over a confidential channel.")
        }
        if keys == nil { await OnionOptions.applyChanges(settings) }
    }

    /// Keys for an onion that does not exist yet; `nil` if it does, or if another tor makes them.
    private func newKeys(_ settings: TorSettings) throws -> OnionKeys? {
        guard settings.isManaged else { return nil }
        let present = try OnionOptions.attempt { () throws(OnionFileError) in
            try OnionKeys.address(in: settings.serviceDirectory)
        }
        return present == nil ? OnionKeys.generate() : nil
    }
}
