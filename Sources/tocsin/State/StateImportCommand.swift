// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Glibc
import NodeConfiguration
import TocsinNode
import Tor

struct StateImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Read a sealed archive into the empty state directory of a node.",
        discussion: """
            EXIT CODES
              0   imported
              64  wrong usage
              78  nothing was imported

            EXAMPLES
              tocsin state import node.tocsin --config /etc/tocsin/tocsin.toml
              tocsin state import old.tocsin --without-spool     from an old backup, whose waiting notifications may have been delivered
            """)

    @Argument(help: "The archive of tocsin state export.")
    var file: String

    @Flag(help: "Leave out the notifications that waited for delivery.")
    var withoutSpool = false

    @OptionGroup var passphrase: PassphraseOption

    @OptionGroup var options: ConfigurationOption

    func run() async throws {
        let configuration = try options.load()
        let passphrase = try passphrase.passphrase(isNew: false)
        let input = open(file, O_RDONLY | O_CLOEXEC)
        guard input >= 0 else {
            throw fail("cannot read \(file): \(String(cString: strerror(errno)))", .configuration)
        }
        defer { close(input) }
        try StateOwner.actAsOwner(ofStateAt: configuration.state)
        do {
            let summary = try StateArchive.restore(
                from: input, to: configuration.state, passphrase: passphrase, hasSpool: !withoutSpool
            ) { Terminal.progress($0) }
            Terminal.endProgress()
            Terminal.print("imported: \(summary.files) files, \(summary.bytes) bytes")
        } catch {
            Terminal.endProgress()
            throw fail("\(error)", .configuration)
        }
        let settings = configuration.tor.settings(state: configuration.state)
        if let keys = try? OnionKeys.present(in: settings.serviceDirectory) {
            Terminal.error(
                "The onion is \(keys.address). Make sure that the old node never starts again, then: tocsin run")
        }
    }
}
