// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import FoundationEssentials
import Glibc
import NodeConfiguration
import Tor

struct OnionPrepareCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prepare", abstract: "Write the torrc of the tor that tocsin-tor.service runs.",
        discussion: """
            tocsin-tor.service calls this as root before it starts tor, which runs as a user of its own: tor.run_by = \
            "service". The torrc and the files of closed onions go to tor.directory.

            EXIT CODES, as systemd expects them of ExecCondition=
              0    written
              1    nothing to do: the configuration leaves tor to the node, or to an external tor
              255  nothing was written

            EXAMPLES
              tocsin onion prepare --config /etc/tocsin/tocsin.toml
            """)

    @OptionGroup var configuration: ConfigurationOption

    private static let failure = ExitCode(255)

    /// Warns if the node can still read an onion's key in this directory.
    private func warn(of directory: String) {
        guard access("\(directory)/hs_ed25519_secret_key", F_OK) == 0 else { return }
        Terminal.error(
            "warning: the node can read the onion's key that its own tor left in \(directory): delete that directory")
    }

    func run() async throws {
        let isWritten: Bool
        do {
            isWritten = try await prepare()
        } catch is ExitCode {
            throw Self.failure
        } catch {
            Terminal.error("tocsin: \(error)")
            throw Self.failure
        }
        guard isWritten else {
            Terminal.error("nothing to do: tor.run_by is not \"service\", or the node has no tor of its own")
            throw ExitCode.failure
        }
    }

    /// - Returns: whether there is something to write.
    private func prepare() async throws -> Bool {
        let path = ProcessInfo.processInfo.environment["PATH"]
        let configuration = try ConfigurationOption.load(try configuration.file())
        let settings = configuration.tor.settings(state: configuration.state)
        guard settings.runnerInUse == .service else {
            let former = TorSettings(isManaged: true, directory: TorSettings.systemDirectory)
            try DirectoryOwner.actAsOwner(of: former.directory)
            former.removeControlDirectory()
            return false
        }
        for (name, directory) in settings.onionDirectories {
            // Otherwise tor would make a new onion unnoticed, while desktops use the old address.
            try DirectoryOwner.actAsOwnerOfOnions(settings, state: configuration.state)
            let isPresent = try OnionKeys.present(in: "\(settings.directory)/\(directory)") != nil
            // Not as root: the node can put links there.
            try DirectoryOwner.actAsOwner(of: configuration.state)
            let earlier = "\(TorSettings.childDirectory(in: configuration.state))/\(directory)"
            guard !isPresent else {
                warn(of: earlier)
                continue
            }
            guard try OnionKeys.present(in: earlier) != nil else { continue }
            let option = name.map { " --name \($0)" } ?? ""
            throw TorError(
                """
                an onion of the node is in \(earlier) still, from a tor that the node ran itself. To keep its \
                address: tocsin onion import \(earlier)\(option); for a new address, move that directory away
                """)
        }
        try DirectoryOwner.actAsOwnerOfOnions(settings, state: configuration.state)
        try settings.writeFiles(
            for: settings.services(tnp: configuration.listen.tnp, http: configuration.listen.http),
            try await TorBuild(of: settings.binary, path: path), controller: nil)
        Terminal.print("written: \(settings.torrc)")
        return true
    }
}
