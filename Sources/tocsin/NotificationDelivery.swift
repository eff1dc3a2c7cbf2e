// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import Glibc
import TNP
import Time
import TocsinClient
import Tor

/// Encrypts one notification for a phone, delivers it through a node and reports the outcome.
struct NotificationDelivery {
    let pairing: PairingToken
    let options: DeliveryOptions

    /// Returns when the notification is delivered, or queued if ``DeliveryOptions/queue`` is set.
    /// - Throws: the exit code of any other result, after printing the reason.
    func deliver(_ notification: BisqNotification, sound: Bool) async throws {
        let nodes = try options.nodes.map { try NodeAddress.endpoint($0, direct: options.direct) }
        guard let proxy = Endpoint(options.tor) else {
            throw fail("--tor must be like 127.0.0.1:9050, not \(options.tor)", .usage)
        }
        let sealer = Sealer(pairing, format: options.format)
        let envelope = try failing(with: .rejected) {
            try sealer.seal(notification, app: options.app, ttl: options.ttl, sound: sound)
        }
        let siteKey = try options.siteKey.map { file in try failing(with: .configuration) { try SiteKeyFile.read(file) }
        }
        let clientOptions = TocsinClient.Options(
            nodes: nodes, proxy: options.direct ? nil : .socks5(proxy, nil), workLimit: .seconds(options.maxWork),
            siteKey: siteKey)
        let through = options.direct ? "" : " through tor"
        let loop = EventLoop(name: "send")
        let client = TocsinClient(clientOptions, on: loop) { progress in
            switch progress {
            case .connecting(let node): Terminal.progress("connecting to \(node)\(through) …")
            case .connected: Terminal.progress("connected; sending the notification …")
            case .welcomed: Terminal.progress("waiting for the push service …")
            case .queued: Terminal.progress("stored by the node; waiting for the push service …")
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
        let result: Result<Outcome, any Error>
        do {
            result = .success(
                try await client.submit(
                    envelope, timeout: .seconds(options.timeout), acceptQueued: options.queue,
                    returnsWhenQueued: options.queue, signedBy: options.noKey ? nil : sealer.senderKey))
        } catch {
            result = .failure(error)
        }
        await client.close()
        await temporaryKey?.remove()
        Terminal.endProgress()
        switch result {
        case .success(let outcome): try report(outcome)
        case .failure(ClientError.connectionClosed(let goAway)):
            throw fail("\(ClientError.connectionClosed(goAway))", goAway.retryAfter > 0 ? .tryLater : .rejected)
        case .failure(let error): throw fail("\(error)\(Self.advice(on: error, options))", .unreachable)
        }
    }

    /// What to do about an error, if that is known.
    static func advice(on error: any Error, _ options: DeliveryOptions) -> String {
        switch error {
        case ClientError.proxyUnreachable:
            ". This is tor's SOCKS port: start tor, give another port with --tor (Tor Browser's is 127.0.0.1:9150), or use "
                + "--direct if the node is on this machine"
        default: ""
        }
    }

    private func report(_ outcome: Outcome) throws {
        let text = OutcomeText(outcome)
        if let allowance = text.allowance { Terminal.error("tocsin: \(allowance)") }
        switch outcome.kind {
        case .delivered: Terminal.print("delivered" + (outcome.providerID.map { ": \(TerminalText.line($0))" } ?? ""))
        case .queued: Terminal.print("queued")
        case .rejected: throw fail("rejected: \(text.reason)", .rejected)
        case .retry: throw fail("try again \(text.retryTime): \(text.reason)", .tryLater)
        case .gone: throw fail("gone: \(text.reason). Forget this pairing", .gone)
        }
    }
}
