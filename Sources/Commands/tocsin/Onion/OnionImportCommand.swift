// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Confinement
import Console
import FoundationEssentials
import NodeConfiguration
import Tor

struct OnionImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Take over the address of another onion by importing its keys.",
        discussion: """
            Copies the keys, and the authorised senders if there are any, from the directory that is tor's \
            HiddenServiceDir. Two tors must not serve the same onion at the same time: stop the other one.

            EXAMPLES
              tocsin onion import /var/lib/tor/tocsin
              tocsin onion import /mnt/backup/onion --config /etc/tocsin/tocsin.toml
            """)

    @Argument(help: "The other onion's HiddenServiceDir, or a backup of it.", completion: .directory)
    var directory: String

    @OptionGroup var options: OnionOptions

    func run() async throws {
        _ = ProcessHardening.forbidCoreDumps()
        let state = try options.configuration.load().state
        let settings = try options.settings(toChange: true)
        guard settings.isManaged else {
            throw fail(
                """
                tor.managed is false, so the onion's keys belong to another tor: copy them to \
                \(settings.serviceDirectory) as its user, or set tor.managed = true
                """, .configuration)
        }
        let (keys, others) = try source(settings, state: state)
        try OnionOptions.attempt { () throws(OnionFileError) in
            // Copies the authorised senders before the keys, so that a closed onion is never open in between.
            let present = try OnionKeys.present(in: settings.serviceDirectory)
            guard present == nil || present?.address == keys.address else {
                throw .occupied(directory: settings.serviceDirectory, address: present?.address ?? keys.address)
            }
            try AuthorizedClients(serviceDirectory: settings.serviceDirectory).add(others)
            try keys.write(to: settings.serviceDirectory)
        }
        Terminal.print("\(keys.address)")
        Terminal.error(
            "The keys are in \(settings.serviceDirectory)"
                + (others.isEmpty ? "." : ", with \(others.count) authorised senders."))
        Terminal.error("Stop the tor that served this onion, then start the node.")
    }

    /// The keys and authorised senders to import. Afterwards the process acts as the user who will own them.
    private func source(
        _ settings: TorSettings, state: String
    ) throws -> (OnionKeys, [(name: ClientName, publicKey: [UInt8])]) {
        func read() throws(OnionFileError) -> (OnionKeys, [(name: ClientName, publicKey: [UInt8])]) {
            (try OnionKeys(directory: directory), try AuthorizedClients(serviceDirectory: directory).keys())
        }
        let node = URL(filePath: state)
        let source = URL(filePath: directory)
        let isOfNode = [source.standardized, source.resolvingSymlinksInPath()].contains { path in
            [node.standardized, node.resolvingSymlinksInPath()].contains {
                path.pathComponents.starts(with: $0.pathComponents)
            }
        }
        guard isOfNode else {
            // The user who gave the command can read these files; tor's user may not be able to.
            return try OnionOptions.attempt { () throws(OnionFileError) in
                try DirectoryOwner.asCaller { () throws(OnionFileError) in try read() }
            }
        }
        // The node can put links there: they must not lead to files that the node cannot read.
        try DirectoryOwner.actAsOwner(of: state)
        let found = try OnionOptions.attempt { () throws(OnionFileError) in try read() }
        try DirectoryOwner.actAsOwnerOfOnions(settings, state: state)
        return found
    }
}
