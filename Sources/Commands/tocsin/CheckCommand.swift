// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import EventLoop
import FoundationEssentials
import NodeConfiguration
import Settings
import TocsinClient

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check configuration, credentials and connectivity.",
        discussion: """
            Checks the configuration, the state directory, credentials and their expiry, clock, disk, limits, tor and \
            ports, and says what to do about each problem. If no node runs, it then starts one up to its sockets, and ends \
            it. No secret is printed.

            --online also checks name servers and the onion, and sends the credentials with an invented device token \
            to Apple and Google: no phone rings.

            --cluster also checks the Redis or Valkey server that the nodes of a cluster share, and lists the nodes.

            --phone sends a real notification through the running node to that phone. It is signed only if the phone \
            is already bound to a sender key, so the check never binds a phone.

            EXIT CODES
              0   no check failed; there may be warnings
              1   a check failed
              64  wrong usage
              78  the configuration cannot be read

            EXAMPLES
              tocsin check
              tocsin check --online --config /etc/tocsin/tocsin.toml
              tocsin check --online --tor 127.0.0.1:9050 --phone - < pairing
              tocsin check --cluster
              tocsin check --phone - --app connect < pairing
              tocsin check --json
            """)

    @OptionGroup var options: ConfigurationOption

    @Flag(help: "Also check name servers, Apple, Google, upstream nodes and the onion.")
    var online = false

    @Flag(help: "Also check the engine of the cluster, and list its nodes.")
    var cluster = false

    @Option(help: "tor's SOCKS port, through which onions are reached. Default: 127.0.0.1:9050.")
    var tor: String?

    @Option(help: "Send a notification to the phone with this pairing token; - reads the token from standard input.")
    var phone: String?

    @Option(help: "The name of that phone's app in the configuration. Default: the first app.")
    var app: String?

    @Option(help: "What that app reads: bisq (Bisq's and Haveno's apps) or tocsin (an app of your own).")
    var schema: TextSchema = .bisq

    @Flag(help: "Print the findings as JSON.")
    var json = false

    private static let standardTor = Endpoint.tcp(host: "127.0.0.1", port: 9050)

    func run() async throws {
        guard let proxy = tor.map({ Endpoint($0) }) ?? Self.standardTor else {
            throw fail("--tor must be like 127.0.0.1:9050", .usage)
        }
        let pairing = try phone.map { try PairingArgument.parse($0) }
        guard app == nil || phone != nil else { throw fail("--app requires --phone", .usage) }
        let configuration: Configuration
        let file = try options.file()
        do {
            configuration = try ConfigurationOption.load(file)
        } catch {
            if json {
                let errors = (error as? ConfigurationError)?.all.map { "\($0)" } ?? ["\(error)"]
                Terminal.print(errors.map { Finding(.configuration, file, .failed, $0) }.json)
            }
            throw fail("\(error)", .configuration)
        }
        if let app, !configuration.apps.contains(where: { $0.name == app }) {
            let names = configuration.apps.map(\.name).joined(separator: ", ")
            throw fail("\(configuration.file) has no app \(app), only \(names)", .usage)
        }
        let loop = EventLoop(name: "check")
        let checkup = NodeCheck(
            configuration, searchPath: ProcessInfo.processInfo.environment["PATH"], on: loop
        ) { Terminal.progress($0) }
        var findings = await checkup.offline()
        if !findings.hasFailure {
            Terminal.progress("starting a node up to its sockets …")
            if let finding = await StartRehearsal(configuration: configuration).finding() { findings.append(finding) }
        }
        if online {
            findings += await checkup.online()
            findings += await checkup.upstreams(through: proxy)
            findings += await checkup.onion(through: proxy, isWanted: tor != nil)
        }
        if cluster { findings += await checkup.cluster() }
        if let pairing {
            Terminal.progress("sending a notification to the phone …")
            let profile = configuration.apps.first { app == nil || $0.name == app }
            findings.append(
                await PhoneCheck(
                    pairing: pairing, app: app, format: profile?.format, schema: schema,
                    address: checkup.senderEndpoint(through: proxy), loop: loop
                ).finding())
        }
        Terminal.endProgress()
        Self.show(findings, asJSON: json)
        if findings.hasFailure { throw ExitCode.failure }
    }

    static func show(_ findings: [Finding], asJSON: Bool) {
        guard !asJSON else { return Terminal.print(findings.json) }
        let lines = FindingLines(findings: findings, isColoured: Terminal.isOutputATerminal)
        for line in lines.lines { Terminal.print(line) }
        Terminal.print(lines.summary)
    }
}
