// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Cryptography
import EventLoop
import Glibc
import TNP
import TocsinClient

/// Seals one notification for a phone, delivers it through a node and says what came of it.
struct NotificationDelivery {
    let pairing: PairingToken
    let options: DeliveryOptions

    /// Returns when the notification is delivered, or queued where that is enough.
    /// - Throws: the exit code of everything else, whose reason has been said.
    func deliver(_ notification: BisqNotification, sound: Bool) async throws {
        let endpoint = try NodeAddress.endpoint(options.node, direct: options.direct)
        guard let proxy = Endpoint(options.tor) else {
            throw fail("--tor must be like 127.0.0.1:9050, not \(options.tor)", ExitStatus.usage)
        }
        let sealer = Sealer(pairing, format: options.format)
        let envelope: Envelope
        do {
            envelope = try sealer.seal(notification, app: options.app, ttl: options.ttl, sound: sound)
        } catch {
            throw fail("\(error)", ExitStatus.rejected)
        }
        // A label of its own for each call keeps it on a circuit of its own.
        let label = SOCKS5.Credentials(
            user: "tocsin-send", password: "\(getpid())-\(UInt64.random(in: 0...UInt64.max))")
        let clientOptions = TocsinClient.Options(
            node: endpoint, proxy: options.direct ? nil : .socks5(proxy, label),
            workLimit: .seconds(options.maxWork))
        let through = options.direct ? "" : " through tor"
        let loop = EventLoop(name: "send")
        let client = TocsinClient(clientOptions, on: loop) { progress in
            switch progress {
            case .dialling: Terminal.progress("reaching the node\(through) …")
            case .connected: Terminal.progress("node reached; handing the notification over …")
            case .welcomed: Terminal.progress("waiting for the push service …")
            case .queued: Terminal.progress("stored by the node; waiting for the push service …")
            case .working: Terminal.progress("the node asks for proof of work: computing …")
            case .retrying(let reason, let after):
                Terminal.progress(
                    "\(reason); trying again in \(Terminal.number(after.milliseconds / 1000, digits: 1)) s …")
            }
        }
        let loan = try options.onionKey.loan(for: endpoint, on: loop)
        let outcome: Outcome
        do {
            try await loan?.take()
        } catch {
            throw fail("tor was not lent the onion's key: \(error)", ExitStatus.unreachable)
        }
        do {
            outcome = try await client.submit(
                envelope, patience: .seconds(options.timeout), acceptQueued: options.queue,
                returnsWhenQueued: options.queue, signedBy: options.noKey ? nil : sealer.senderKey)
        } catch ClientError.refused(let goAway) {
            Terminal.endProgress()
            await loan?.giveBack()
            throw fail(
                "\(ClientError.refused(goAway))", goAway.retryAfter > 0 ? ExitStatus.tryLater : ExitStatus.rejected)
        } catch {
            Terminal.endProgress()
            await loan?.giveBack()
            throw fail("\(error)\(Self.advice(on: error, options))", ExitStatus.unreachable)
        }
        await client.close()
        await loan?.giveBack()
        Terminal.endProgress()
        try report(outcome)
    }

    /// What to do about it, where that is known.
    static func advice(on error: any Error, _ options: DeliveryOptions) -> String {
        switch error {
        case ClientError.proxyUnreachable:
            ". This is tor's SOCKS port: start tor, name another port with --tor (Tor Browser's is 127.0.0.1:9150), or use "
                + "--direct where the node is on this machine"
        default: ""
        }
    }

    private func report(_ outcome: Outcome) throws {
        let words = OutcomeText(outcome)
        if let allowance = words.allowance { Terminal.error("tocsin: \(allowance)") }
        switch outcome.kind {
        case .delivered: Terminal.print("delivered" + (outcome.providerID.map { ": \(TerminalText.line($0))" } ?? ""))
        case .queued: Terminal.print("queued")
        case .rejected: throw fail("rejected: \(words.why)", ExitStatus.rejected)
        case .retry: throw fail("try again \(words.when): \(words.why)", ExitStatus.tryLater)
        case .gone: throw fail("gone: \(words.why). Forget this pairing", ExitStatus.gone)
        }
    }
}
