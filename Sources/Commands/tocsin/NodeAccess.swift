// SPDX-License-Identifier: Apache-2.0

import Console
import Cryptography
import EventLoop
import Glibc
import TNP
import Time
import TocsinClient
import Tor

/// Connects to a node as a sender, and shows the progress on the terminal.
struct NodeAccess {
    let options: ConnectionOptions
    /// What the command does at the node, e.g. "sending the notification".
    let purpose: String
    /// Whose answer the command waits for after that, e.g. "the push service".
    let awaits: String

    /// Runs `body` with a client for the node.
    /// - Throws: the exit code, after printing why there is no answer.
    func run<Answer: Sendable>(_ body: (TocsinClient) async throws -> Answer) async throws -> Answer {
        let nodes = try options.nodes.map { try NodeAddress.endpoint($0, direct: options.direct) }
        guard let proxy = Endpoint(options.tor) else {
            throw fail("--tor must be like 127.0.0.1:9050, not \(options.tor)", .usage)
        }
        let siteKey = try options.siteKey.map { file in
            try failing(with: .configuration) { try Ed25519.PrivateKey(keyFile: file) }
        }
        let clientOptions = TocsinClient.Options(
            nodes: nodes, proxy: options.direct ? nil : .socks5(proxy, nil), workLimit: .seconds(options.maxWork),
            siteKey: siteKey)
        let through = options.direct ? "" : " through tor"
        let loop = EventLoop(name: "sender")
        let client = TocsinClient(clientOptions, on: loop) { [purpose, awaits] progress in
            switch progress {
            case .connecting(let node): Terminal.progress("connecting to \(node)\(through) …")
            case .connected: Terminal.progress("connected; \(purpose) …")
            case .welcomed: Terminal.progress("waiting for \(awaits) …")
            case .queued: Terminal.progress("stored by the node; waiting for \(awaits) …")
            case .solvingPuzzle: Terminal.progress("the node requires proof of work: computing …")
            case .retrying(let reason, let after), .waiting(let reason, let after):
                Terminal.progress("\(reason); retrying in \(Terminal.number(after.milliseconds / 1000, digits: 1)) s …")
            }
        }
        let temporaryKey = try options.onionKey.temporaryKey(for: nodes, on: loop)
        do {
            try await temporaryKey?.install()
        } catch {
            throw fail("cannot give tor the onion's key: \(error)", .unreachable)
        }
        let result: Result<Answer, any Error>
        do {
            result = .success(try await body(client))
        } catch {
            result = .failure(error)
        }
        await client.close()
        await temporaryKey?.remove()
        Terminal.endProgress()
        switch result {
        case .success(let answer): return answer
        case .failure(ClientError.connectionClosed(let goAway)):
            throw fail("\(ClientError.connectionClosed(goAway))", goAway.retryAfter > 0 ? .tryLater : .rejected)
        case .failure(let error): throw fail("\(error)\(Self.advice(on: error))", .unreachable)
        }
    }

    /// What to do about an error; empty if that is unknown.
    static func advice(on error: any Error) -> String {
        switch error {
        case ClientError.proxyUnreachable:
            ". This is tor's SOCKS port: start tor, give another port with --tor (Tor Browser's is 127.0.0.1:9150), or use "
                + "--direct if the node is on this machine"
        default: ""
        }
    }
}
