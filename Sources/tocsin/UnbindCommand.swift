// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import Diagnostics
import EventLoop
import Glibc
import TNP
import Time
import TocsinClient
import TocsinNode

struct UnbindCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unbind", abstract: "Remove the sender key that a phone is bound to.",
        discussion: """
            A phone is bound to the key of the first signed notification that reaches it; from then on only that key rings
            it. If somebody else was faster than the owner, remove the binding: the next signed notification that reaches the
            phone binds it anew. The node must be running.

            EXIT CODES
              0 the node has removed it, or there was none · 64 wrong usage · 69 no node runs · 78 the configuration or the
              state directory cannot be read

            EXAMPLES
              tocsin unbind - < pairing
              tocsin unbind - --config /etc/tocsin/tocsin.toml < device-token
            """)

    @Argument(
        help: """
            A file with the phone's pairing token, or with its device token alone; - reads standard input. On the command \
            line other users of this machine would see it.
            """)
    var file: String

    @Option(help: "The app profile. Default: all.")
    var app: String?

    @OptionGroup var options: ConfigurationOption

    private static let patience = Duration.seconds(10)

    func run() async throws {
        let text = PairingArgument.oneLine(try TextArgument.text("@\(file)"))
        let deviceToken = (try? PairingToken(text))?.deviceToken ?? text
        guard !deviceToken.isEmpty, deviceToken.utf8.count <= 512, !deviceToken.contains("|") else {
            throw fail(
                "this is neither a pairing token nor a device token; tocsin pair read says what is wrong with the first",
                ExitStatus.usage)
        }
        let configuration = try options.load()
        let apps = configuration.apps.map(\.name).filter { app == nil || $0 == app }
        guard !apps.isEmpty else {
            throw fail("there is no app \(app ?? "") in \(configuration.file)", ExitStatus.usage)
        }
        try StateOwner.act(onStateAt: configuration.state)
        guard Self.nodeRuns(configuration.state) else {
            throw fail("no node runs on \(configuration.state): start it, then try again", ExitStatus.unreachable)
        }
        do {
            try UnbindRequest.write(deviceToken, apps: apps, state: configuration.state)
        } catch {
            throw fail("\(error)", ExitStatus.configuration)
        }
        let deadline = MonotonicTime.now + Self.patience
        while UnbindRequest.isWaiting(state: configuration.state) {
            guard MonotonicTime.now < deadline else {
                throw fail(
                    "the node has not answered within \(Self.patience.components.seconds) s", ExitStatus.unreachable)
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        Terminal.print("removed: the next signed notification that reaches the phone binds it anew")
    }

    private static func nodeRuns(_ state: String) -> Bool { LockState(ofStateAt: state).isHeld }
}
