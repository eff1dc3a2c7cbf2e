// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import Glibc
import NodeConfiguration
import TNP
import Time
import TocsinClient
import TocsinNode

struct UnbindCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unbind", abstract: "Remove the sender key that a phone is bound to.",
        discussion: """
            The first signed notification that reaches a phone binds it to its sender key; from then on only that key \
            rings it. If an attacker was faster than the owner, remove the binding: the next signed notification that \
            reaches the phone binds it again. The node must be running.

            EXIT CODES
              0   the node removed the binding, or there was none
              64  wrong usage
              69  the node is not running, or did not answer
              78  the configuration or the state directory cannot be read

            EXAMPLES
              tocsin unbind - < pairing
              tocsin unbind - --config /etc/tocsin/tocsin.toml < device-token
            """)

    @Argument(
        help: """
            A file that contains the phone's pairing token, or only its device token; - reads standard input. Not the \
            token itself: other users of this machine could see it.
            """)
    var file: String

    @Option(help: "The name of the app in the configuration. Default: all apps.")
    var app: String?

    @OptionGroup var options: ConfigurationOption

    private static let patience = Duration.seconds(10)

    func run() async throws {
        let text = try TextArgument.text("@\(file)")
        let pairing = try? PairingToken(pasted: text)
        guard pairing?.handle == nil else {
            throw fail(
                "the pairing token has a handle: give the phone's device token, which it does not contain", .usage)
        }
        let deviceToken = pairing?.deviceToken ?? text.split(whereSeparator: \.isNewline).joined()
        guard Magic.allCases.contains(where: { DeviceTokenForm.fault(deviceToken, of: $0) == nil }) else {
            throw fail(
                "the text is neither a pairing token nor a device token; tocsin pair read shows what is wrong with a pairing token",
                .usage)
        }
        let configuration = try options.load()
        let apps = configuration.apps.map(\.name).filter { app == nil || $0 == app }
        guard !apps.isEmpty else { throw fail("\(configuration.file) has no app \(app ?? "")", .usage) }
        try DirectoryOwner.actAsOwner(of: configuration.state)
        guard LockState(ofStateAt: configuration.state).isHeld else {
            throw fail(
                "no node is running with state directory \(configuration.state): start it, then try again",
                .unreachable)
        }
        try failing(with: .configuration) {
            try UnbindRequest.write(deviceToken, apps: apps, state: configuration.state)
        }
        let deadline = MonotonicTime.now + Self.patience
        while true {
            if let phones = UnbindRequest.takeAnswer(state: configuration.state) {
                return Terminal.print(Self.text(for: phones))
            }
            guard MonotonicTime.now < deadline else {
                throw fail("the node did not answer within \(Self.patience.components.seconds) s", .unreachable)
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// The message for the number of phones whose binding the node has removed.
    static func text(for phones: Int) -> String {
        phones > 0
            ? "removed: the next signed notification that reaches the phone binds it again"
            : "nothing to remove: at this node, no sender key is bound to this device token"
    }
}
