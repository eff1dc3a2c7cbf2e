// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import EventLoop
import FoundationEssentials
import NodeConfiguration
import TocsinNode

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Look whether everything is right that a node needs, and say what to do.",
        discussion: """
            Looks at the configuration, the state directory, credentials and when they end, clock, disk, limits, tor and
            ports; whether the node runs or not. With --online also asks name servers, Apple and Google, which see the
            credentials and a device token that is none, so that nobody is rung, and reaches the onion through tor. With
            --phone a real notification goes through the running node to that phone; it is signed only where the phone is
            bound already, so that it binds the phone to no key. No secret is printed.

            EXIT CODES
              0 all is well, or there are warnings only · 1 something does not work · 64 wrong usage ·
              78 the configuration cannot be read

            EXAMPLES
              tocsin check
              tocsin check --online --config /etc/tocsin/tocsin.toml
              tocsin check --online --tor 127.0.0.1:9050 --phone - < pairing
              tocsin check --phone - --app connect < pairing
              tocsin check --json
            """)

    @OptionGroup var options: ConfigurationOption

    @Flag(help: "Also ask name servers, Apple and Google, and reach the onion.")
    var online = false

    @Option(help: "tor's SOCKS port, to reach the onion through. Default: 127.0.0.1:9050.")
    var tor: String?

    @Option(help: "Ring this phone through the node; - reads its pairing token from standard input.")
    var phone: String?

    @Option(help: "The app profile of that phone. Default: the first.")
    var app: String?

    @Flag(help: "Print the findings as JSON.")
    var json = false

    private static let standardTor = Endpoint.tcp(host: "127.0.0.1", port: 9050)

    func run() async throws {
        guard let proxy = tor.map({ Endpoint($0) }) ?? Self.standardTor else {
            throw fail("--tor must be like 127.0.0.1:9050", ExitStatus.usage)
        }
        let pairing = try phone.map { try PhoneCheck.pairing($0) }
        guard app == nil || phone != nil else { throw fail("--app goes with --phone", ExitStatus.usage) }
        let configuration: Configuration
        do {
            configuration = try options.load()
        } catch {
            if json {
                Terminal.print(
                    [Finding(.configuration, options.config ?? "tocsin.toml", .failed, "standard error says why")].json)
            }
            throw error
        }
        if let app, !configuration.apps.contains(where: { $0.name == app }) {
            let names = configuration.apps.map(\.name).joined(separator: ", ")
            throw fail("there is no app \(app) in \(configuration.file); there is \(names)", ExitStatus.usage)
        }
        let loop = EventLoop(name: "check")
        let checkup = NodeCheck(
            configuration, searchPath: ProcessInfo.processInfo.environment["PATH"], on: loop
        ) { Terminal.progress($0) }
        var findings = await checkup.offline()
        if online {
            findings += await checkup.online()
            findings += await checkup.onion(through: proxy, isWanted: tor != nil)
        }
        if let pairing {
            Terminal.progress("ringing the phone …")
            let profile = configuration.apps.first { app == nil || $0.name == app }
            findings.append(
                await PhoneCheck(
                    pairing, app: app, format: profile?.format, checkup.httpEndpointForSenders(through: proxy), on: loop
                ).finding())
        }
        Terminal.endProgress()
        Self.show(findings, asJSON: json)
        if findings.hasFailure { throw ExitStatus.failure }
    }

    static func show(_ findings: [Finding], asJSON: Bool) {
        guard !asJSON else { return Terminal.print(findings.json) }
        let lines = FindingLines(findings: findings, isColoured: Terminal.isOutputATerminal)
        for line in lines.lines { Terminal.print(line) }
        Terminal.print(lines.sum)
    }
}
