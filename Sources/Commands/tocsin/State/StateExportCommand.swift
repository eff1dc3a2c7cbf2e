// SPDX-License-Identifier: Apache-2.0

import Archive
import ArgumentParser
import Confinement
import Console
import Glibc
import NodeConfiguration
import TocsinNode
import Tor

struct StateExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the state of a stopped node to a sealed archive.",
        discussion: """
            Never run two nodes with one state: senders would reach one or the other, and notifications that wait in \
            both spools would ring twice. Do not start this node again after its archive has been imported elsewhere.

            EXIT CODES
              0   written
              64  wrong usage
              78  nothing was written

            EXAMPLES
              systemctl stop tocsin && tocsin state export node.tocsin
            """)

    @Argument(help: "The archive, a new file.")
    var file: String

    @OptionGroup var passphrase: PassphraseOption

    @OptionGroup var options: ConfigurationOption

    func run() async throws {
        let configuration = try options.load()
        _ = ProcessHardening.forbidCoreDumps()
        let passphrase = try passphrase.passphrase(isNew: true)
        let tor = configuration.tor.settings(state: configuration.state)
        try DirectoryOwner.actAsOwnerOfOnions(tor, state: configuration.state)
        let onions = try failing(with: .configuration) { try StateArchive.onions(in: tor.directory) }
        try DirectoryOwner.actAsOwner(of: configuration.state)
        let output = DirectoryOwner.asCaller { open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600) }
        guard output >= 0 else {
            throw fail("cannot create \(file): \(String(cString: strerror(errno)))", .configuration)
        }
        defer { close(output) }
        do {
            let summary = try StateArchive.export(configuration.state, onions, to: output, passphrase: passphrase) {
                Terminal.progress($0)
            }
            Terminal.endProgress()
            Terminal.print("written: \(file), \(summary.files) files, \(summary.bytes) bytes")
        } catch {
            Terminal.endProgress()
            _ = DirectoryOwner.asCaller { unlink(file) }
            throw fail("nothing was written: \(error)", .configuration)
        }
        if let key = configuration.spool?.keyFile, !key.hasPrefix("\(configuration.state)/") {
            Terminal.error("spool.key_file is not part of it: copy \(key), too")
        }
        Terminal.error(
            "Copy it, the configuration and its credentials; then, on the new machine: tocsin state import FILE")
    }
}
