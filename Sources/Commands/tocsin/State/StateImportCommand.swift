// SPDX-License-Identifier: Apache-2.0

import Archive
import ArgumentParser
import Confinement
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
        _ = ProcessHardening.forbidCoreDumps()
        let passphrase = try passphrase.passphrase(isNew: false)
        let input = open(file, O_RDONLY | O_CLOEXEC)
        guard input >= 0 else {
            throw fail("cannot read \(file): \(String(cString: strerror(errno)))", .configuration)
        }
        defer { close(input) }
        let tor = configuration.tor.settings(state: configuration.state)
        let draft = TorSettings.childDirectory(in: configuration.state)
        try DirectoryOwner.actAsOwnerOfOnions(tor, state: configuration.state)
        if tor.directory != draft {
            // tor's directory is not in the state directory, and may belong to another user.
            let present = try failing(with: .configuration) { try StateArchive.onions(in: tor.directory) }
            guard present.isEmpty, access(tor.directory, W_OK) == 0 else {
                throw fail(
                    present.isEmpty
                        ? "cannot write to \(tor.directory): \(String(cString: strerror(errno))). Run this as root"
                        : "\(tor.directory) already holds an onion: move it away, or set another tor.directory",
                    .configuration)
            }
        }
        try DirectoryOwner.actAsOwner(of: configuration.state)
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
        if tor.directory != draft {
            let onions = try failing(with: .configuration) { try StateArchive.onions(in: draft) }
            try DirectoryOwner.actAsOwnerOfOnions(tor, state: configuration.state)
            try failing(with: .configuration) { try StateArchive.write(onions, to: tor.directory) }
            try DirectoryOwner.actAsOwner(of: configuration.state)
            try failing(with: .configuration) { try StateArchive.removeOnions(in: draft) }
        }
        if let address = try? OnionKeys.address(in: tor.serviceDirectory) {
            Terminal.error(
                "The onion is \(address). Make sure that the old node never starts again, then start this one.")
        }
    }
}
