// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography

struct StateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "state", abstract: "Move a node's state to another machine.",
        discussion: """
            An archive holds what the node knows of phones, its keys, the keys of its onions, Apple's provider tokens \
            and the spool, sealed with a passphrase. The configuration and the credentials are not part of it.

            EXAMPLES
              tocsin state export node.tocsin
              tocsin state import node.tocsin
            """,
        subcommands: [StateExportCommand.self, StateImportCommand.self])
}

/// The passphrase of an archive.
struct PassphraseOption: ParsableArguments {
    @Option(
        help: "A file whose first line is the passphrase. Default: ask on the terminal.", completion: .file())
    var passphraseFile: String?

    private static let shortest = 12
    private static let maximumFile = 4096

    /// Reads the passphrase from the file or from the terminal.
    /// - Parameter isNew: whether to ask twice, and to refuse a short one.
    /// - Throws: the exit code, after printing the error.
    func passphrase(isNew: Bool) throws -> [UInt8] {
        let text: String
        if let passphraseFile {
            let bytes = try failing(with: .configuration) { () throws(RegularFile.Failure) in
                try RegularFile.read(passphraseFile, atMost: Self.maximumFile)
            }
            text = String(
                decoding: bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }, as: UTF8.self)
        } else {
            guard let typed = Terminal.secret("Passphrase: ") else {
                throw fail("there is no terminal to ask for the passphrase: give --passphrase-file FILE", .usage)
            }
            if isNew, Terminal.secret("Again: ") != typed { throw fail("the two passphrases differ", .usage) }
            text = typed
        }
        guard !isNew || text.count >= Self.shortest else {
            throw fail(
                "the passphrase is too short: the archive holds the onion's key; use \(Self.shortest) characters or more",
                .usage)
        }
        return Array(text.utf8)
    }
}
