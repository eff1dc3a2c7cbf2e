// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
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
              tocsin status --ready               for a container's health check
              watch -n 5 tocsin status --config /etc/tocsin/tocsin.toml
            """)

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Only tell by the exit code whether the node is ready, as /readyz does; print why if it is not.")
    var ready = false

    @OptionGroup var options: ConfigurationOption

    private static let patience = Duration.seconds(10)
    /// Maximum size of the answer, in bytes: enough for a node whose tables are full.
    private static let maximumAnswer = 4 << 20

    func run() async throws {
        let configuration = try options.load()
        guard let admin = configuration.listen.admin else {
            throw fail(
                "\(configuration.file) has no listen.admin: set it to \"127.0.0.1:7079\" or \"unix:admin.sock\", and restart the node",
                .configuration)
        }
        let token = try failing(with: .configuration) { try configuration.adminToken() }
        if ready { return try await tellReadiness(at: admin, token) }
        let body = try await body(of: "/status.json", from: admin, token)
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

    /// Returns if the node is ready.
    /// - Throws: the exit code, after printing why the node is not ready.
    private func tellReadiness(at admin: Endpoint, _ token: AdminToken?) async throws {
        let body = try await body(of: "/readyz", from: admin, token)
        guard let readiness = try? JSONDecoder().decode(Readiness.self, from: Data(body)) else {
            throw fail("\(admin) answers, but not as this version's node does", .unreachable)
        }
        guard !readiness.ready else { return }
        for reason in readiness.reasons ?? [] { Terminal.print(TerminalText.line(reason)) }
        throw ExitCode.failure
    }

    /// What `/readyz` answers.
    private struct Readiness: Decodable {
        let ready: Bool
        let reasons: [String]?
    }

    /// The body of the answer to a request.
    /// - Throws: the exit code, after printing the error.
    private func body(of path: String, from admin: Endpoint, _ token: AdminToken?) async throws -> [UInt8] {
        let authorization = token.map { "Authorization: \($0.authorization)\r\n" } ?? ""
        let request = Array(
            "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(authorization)Connection: close\r\n\r\n".utf8)
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
        guard !answer.starts(with: Array("HTTP/1.1 401 ".utf8)) else {
            throw fail(
                "\(admin) does not take the token in listen.admin_token_file: after a change, reload the node",
                .configuration)
        }
        let mark = Array("\r\n\r\n".utf8)
        // 503: a node that is not ready.
        let isAnswer = ["200", "503"].contains { answer.starts(with: Array("HTTP/1.1 \($0) ".utf8)) }
        guard isAnswer, let end = answer.firstRange(of: mark) else {
            throw fail("\(admin) does not answer as a node does", .unreachable)
        }
        return Array(answer[end.upperBound...])
    }
}
