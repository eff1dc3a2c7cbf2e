// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import Glibc
import NodeConfiguration
import Tor

/// Options and helpers that all commands of `tocsin onion` share.
struct OnionOptions: ParsableArguments {
    @OptionGroup var configuration: ConfigurationOption

    @Option(name: .customLong("name"), help: "The name of a further onion, [[tor.onion]]. Default: the first onion.")
    var onion: String?

    /// Loads the configuration's `[tor]` table. From then on, the process acts as the node's user or, with `isChange`,
    /// as the owner of the onions' keys.
    /// - Throws: the exit code, after printing the error.
    func settings(toChange isChange: Bool = false) throws -> TorSettings {
        let configuration = try configuration.load()
        var settings = configuration.tor.settings(state: configuration.state)
        if isChange {
            try DirectoryOwner.actAsOwnerOfOnions(settings, state: configuration.state)
        } else {
            try DirectoryOwner.actAsOwner(of: configuration.state)
        }
        guard !isChange || settings.runnerInUse != .service || access(settings.directory, W_OK) == 0 else {
            throw fail(
                "cannot write to \(settings.directory): \(String(cString: strerror(errno))). Run this as root: tor runs as a user of its own",
                .configuration)
        }
        guard let onion else { return settings }
        guard let further = settings.onions.first(where: { $0.name.description == onion }) else {
            let names = settings.onions.map(\.name.description).joined(separator: ", ")
            throw fail(
                "there is no [[tor.onion]] named \(onion): add it to the configuration"
                    + (names.isEmpty ? "" : ", or use one of: \(names)"), .usage)
        }
        settings.selected = further.name
        return settings
    }

    /// The onion's address.
    /// - Throws: the exit code, after printing why there is none.
    static func address(_ settings: TorSettings) throws -> OnionAddress {
        guard
            let address = try attempt({ () throws(OnionFileError) in
                try OnionKeys.address(in: settings.serviceDirectory)
            })
        else {
            throw fail(
                """
                there is no onion yet in \(settings.serviceDirectory): tor creates it when it first starts with the node; \
                tocsin onion import takes over an existing one
                """, .configuration)
        }
        return address
    }

    /// Runs `body`, which uses the onion's files.
    /// - Throws: the exit code, after printing the error.
    static func attempt<Result>(_ body: () throws(OnionFileError) -> Result) throws -> Result {
        do {
            return try body()
        } catch {
            throw fail("\(error)", error == .badName ? .usage : .configuration)
        }
    }

    /// Makes tor load the changed authorisations, and prints when they take effect.
    static func applyChanges(_ settings: TorSettings) async {
        guard settings.isManaged else {
            Terminal.error("To apply the change, reload tor: kill -HUP PID, or systemctl reload tor")
            return
        }
        let isReloaded = await RunningTor.reload(settings, on: EventLoop(name: "onion"))
        Terminal.error(
            isReloaded
                ? "The node's tor has loaded the change. It takes effect when tor republishes the onion's descriptor, within a minute."
                : "The node's tor is not running, or does not accept this user: the change takes effect when tor next starts."
        )
    }
}
