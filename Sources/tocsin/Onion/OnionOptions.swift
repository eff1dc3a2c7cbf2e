// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import Tor

/// What all commands of `tocsin onion` need.
struct OnionOptions: ParsableArguments {
    @OptionGroup var configuration: ConfigurationOption

    /// `[tor]` of the configuration.
    func settings() throws -> TorSettings {
        let configuration = try configuration.load()
        try StateOwner.act(onStateAt: configuration.state)
        return configuration.tor.settings(state: configuration.state)
    }

    /// The onion's keys, or says why there are none.
    static func keys(_ settings: TorSettings) throws -> OnionKeys {
        guard
            let keys = try attempt({ () throws(OnionFileError) in
                try OnionKeys.present(in: settings.serviceDirectory)
            })
        else {
            throw fail(
                """
                there is no onion yet in \(settings.serviceDirectory): tocsin run makes it when it first starts tor, and \
                tocsin onion import takes over one that is
                """, ExitStatus.configuration)
        }
        return keys
    }

    /// Does something with the onion's files, or says what is wrong and ends.
    static func attempt<Result>(_ body: () throws(OnionFileError) -> Result) throws -> Result {
        do {
            return try body()
        } catch {
            throw fail("\(error)", error == .badName ? ExitStatus.usage : ExitStatus.configuration)
        }
    }

    /// Has tor take in who is authorised now.
    static func announce(_ settings: TorSettings) async {
        guard settings.isManaged else {
            Terminal.error("For it to count, have tor read its files anew: kill -HUP PID, or systemctl reload tor")
            return
        }
        let isTold = await RunningTor.reload(settings, on: EventLoop(name: "onion"))
        Terminal.error(
            isTold
                ? "The node's tor has taken it in; it counts when the onion's descriptor is published anew, within a minute."
                : "The node's tor does not run, or does not let this user in: it counts from its next start on.")
    }
}
