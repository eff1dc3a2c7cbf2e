// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import NodeConfiguration

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show what a running node does: the dashboard, on a terminal.",
        discussion: """
            Asks the node at listen.admin, which must be set. With --json, prints what /status.json answers; \
            json.md describes it.

            EXIT CODES
              0   the node is ready
              1   the node is not ready, or users miss a route that delivered before
              69  no node answers at listen.admin
              78  the configuration cannot be read, or has no listen.admin

            EXAMPLES
              tocsin status
              tocsin status --json | jq .health
              watch -n 5 tocsin status --config /etc/tocsin/tocsin.toml
            """)

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var options: ConfigurationOption

    private static let patience = Duration.seconds(10)
    /// What a node answers at most, with every table full.
    private static let maximumAnswer = 4 << 20

    func run() async throws {
        let configuration = try options.load()
        guard let admin = configuration.listen.admin else {
            throw fail(
                "\(configuration.file) has no listen.admin: set it to \"127.0.0.1:7079\" or \"unix:admin.sock\", and restart the node",
                .configuration)
        }
        let body = try await body(from: admin)
        let status: NodeStatus
        do {
            status = try NodeStatus(json: body)
        } catch {
            throw fail("\(admin) answers, but not as this version's node does: is it another program?", .unreachable)
        }
        if json {
            Terminal.print(String(decoding: body, as: UTF8.self), end: "")
        } else {
            for line in status.lines { Terminal.print(line) }
        }
        if status.health.grade == "bad" { throw ExitCode.failure }
    }

    /// The body of `/status.json`.
    /// - Throws: the exit code, after printing the error.
    private func body(from admin: Endpoint) async throws -> [UInt8] {
        let request = Array("GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        let answer: [UInt8]
        do {
            answer = try await LoopDomain(EventLoop(name: "status")).run { domain in
                let stream = try await domain.loop.dial(admin, timeout: Self.patience)
                return await StreamReader.answer(
                    to: request, on: stream, limit: Self.maximumAnswer, within: Self.patience, domain.loop)
            }
        } catch let error as StreamError {
            throw fail(
                "no node answers at listen.admin, \(admin): \(error). Is it running, and are you its user?",
                .unreachable)
        }
        let mark = Array("\r\n\r\n".utf8)
        guard answer.starts(with: Array("HTTP/1.1 200 ".utf8)), let end = answer.firstRange(of: mark) else {
            throw fail("\(admin) does not answer as a node does", .unreachable)
        }
        return Array(answer[end.upperBound...])
    }
}
