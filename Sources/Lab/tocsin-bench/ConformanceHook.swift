// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import Dispatch
import EventLoop
import FoundationEssentials
import TNP
import TocsinClient

struct ConformanceHook: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hook", abstract: "Let Tests/Conformance/run.py drive the Swift client.",
        discussion: """
            Reads options and then commands as lines of JSON from standard input, and prints each outcome as a line of \
            JSON. Docs/clients.md describes them.

            EXAMPLES
              Tests/Conformance/run.py -- .build/debug/tocsin-bench hook
            """)

    /// The first line of the input.
    private struct Options: Decodable {
        let nodes: [String]
        let socks: String?
        let work_limit: Double
        let connect_timeout: Double
        let is_isolated: Bool?
        let patience: Double?
    }

    /// Each further line.
    private struct Command: Decodable, Sendable {
        let submit: Int?
        let cancel: Int?
        let close: Bool?
        let app: String?
        let magic: String?
        let device_token: String?
        let iv: String?
        let ciphertext: String?
        let format: String?
        let timeout: Double?
        let pairing: String?
        let accept_queued: Bool?
        let returns_when_queued: Bool?
    }

    /// One line of the output.
    private struct Report: Encodable {
        let id: Int
        var outcome: String?
        var reason: UInt16?
        var retry_after: UInt32?
        var text: String?
        var provider_id: String?
        var error: String?
    }

    func run() async throws {
        let decoder = JSONDecoder()
        var lines = Self.lines().makeAsyncIterator()
        guard let first = await lines.next() else { throw fail("there is no line with options", .usage) }
        let options = try decoder.decode(Options.self, from: Data(first.utf8))
        let loop = EventLoop(name: "hook")
        let client = TocsinClient(
            TocsinClient.Options(
                nodes: options.nodes.compactMap(Endpoint.init),
                proxy: options.socks.flatMap(Endpoint.init).map { .socks5($0, nil) },
                connectTimeout: .seconds(options.connect_timeout), workLimit: .seconds(options.work_limit),
                patience: .seconds(options.patience ?? 600), isolatesPhones: options.is_isolated ?? true),
            on: loop)
        let submissions = Submissions(client, on: loop)
        while let line = await lines.next() {
            await submissions.perform(try decoder.decode(Command.self, from: Data(line.utf8)))
        }
    }

    /// Runs on the client's loop, so that submissions reach the client in the order of the commands.
    private actor Submissions {
        private nonisolated let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        private let client: TocsinClient
        private var tasks: [Int: Task<Void, Never>] = [:]

        init(_ client: TocsinClient, on loop: EventLoop) {
            self.client = client
            self.loop = loop
        }

        func perform(_ command: Command) async {
            if let id = command.submit {
                tasks[id] = Task { ConformanceHook.print(await report(id, command)) }
            } else if let id = command.cancel {
                tasks[id]?.cancel()
            } else if command.close == true {
                await client.close()
            }
        }

        private func report(_ id: Int, _ command: Command) async -> Report {
            do {
                let envelope = try ConformanceHook.envelope(command)
                let key = try command.pairing.map { try Sealer(PairingToken($0)).senderKey }
                let outcome = try await client.submit(
                    envelope, timeout: .seconds(command.timeout ?? 15), acceptQueued: command.accept_queued ?? false,
                    returnsWhenQueued: command.returns_when_queued ?? false, signedBy: key)
                return Report(
                    id: id, outcome: outcome.kind.name, reason: outcome.reason.rawValue,
                    retry_after: outcome.retryAfter, text: outcome.text, provider_id: outcome.providerID)
            } catch let rejection as Rejection {
                return Report(id: id, reason: rejection.reason.rawValue, error: "rejected")
            } catch {
                return Report(id: id, text: "\(error)", error: ConformanceHook.name(of: error))
            }
        }
    }

    private static func name(of error: any Error) -> String {
        switch error {
        case ClientError.unreachable: "unreachable"
        case ClientError.proxyUnreachable: "proxy_unreachable"
        case ClientError.noResult: "no_result"
        case ClientError.noWelcome: "no_welcome"
        case ClientError.connectionClosed: "refused"
        case ClientError.queueFull: "queue_full"
        case ClientError.closed: "closed"
        default: "cancelled"
        }
    }

    private static func envelope(_ command: Command) throws -> Envelope {
        guard let magic = command.magic.flatMap(Magic.init), let format = command.format.flatMap(EnvelopeFormat.init),
            let token = command.device_token, let iv = command.iv.flatMap({ Hex.decode($0) }),
            let ciphertext = command.ciphertext.flatMap({ Hex.decode($0) })
        else { throw fail("a command lacks a field of the envelope", .usage) }
        return try Envelope(
            app: Array((command.app ?? "").utf8)[...], magic: magic, deviceToken: Array(token.utf8)[...], iv: iv[...],
            ciphertext: ciphertext[...], format: format)
    }

    private static func print(_ report: Report) {
        guard let line = try? JSONEncoder().encode(report) else { return }
        Terminal.print(String(decoding: line, as: UTF8.self))
    }

    /// The lines of standard input, read on a thread that may block.
    private static func lines() -> AsyncStream<String> {
        AsyncStream { lines in
            DispatchQueue(label: "input").async {
                while let line = readLine() { lines.yield(line) }
                lines.finish()
            }
        }
    }
}
