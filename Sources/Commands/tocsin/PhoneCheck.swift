// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Diagnostics
import EventLoop
import Settings
import TNP
import TocsinClient

/// Sends a notification to the operator's own phone through the running node, as a sender would.
struct PhoneCheck {
    let pairing: PairingToken
    /// The name of an app of the node; `nil` for its first app.
    let app: String?
    /// The format that the app decrypts; `nil` to derive it from the pairing's key.
    let format: EnvelopeFormat?
    /// The fields that the app reads.
    let schema: TextSchema
    /// The endpoint of the node and the proxy to reach it through; `nil` if unknown.
    let address: (node: Endpoint, proxy: Endpoint?)?
    let loop: EventLoop

    /// Time for the whole attempt: a circuit through tor, proof of work, and the node's own retries.
    private static let patience = Duration.seconds(90)

    /// Sends the notification and returns the result.
    func finding() async -> Finding {
        guard let address else {
            return finding(.failed, "not tried: the onion is unknown, and the node only accepts connections from tor")
        }
        let notification = BisqNotification(
            kind: .trade, title: "Tocsin", message: "The node reaches this phone.",
            sentDate: .unixMillisecondsNow)
        let sealer = Sealer(pairing, format: format)
        let envelope: Envelope
        do {
            envelope = try sealer.seal(notification, schema: schema, app: app ?? "", ttl: 600)
        } catch {
            return finding(.failed, "\(error)")
        }
        let label = SOCKS5.Credentials(user: "tocsin-check", password: "\(UInt64.random(in: 0...UInt64.max))")
        let client = TocsinClient(
            TocsinClient.Options(nodes: [address.node], proxy: address.proxy.map { .socks5($0, label) }),
            on: loop)
        defer { Task { await client.close() } }
        do {
            return finding(on: try await client.submitTest(envelope, of: sealer, timeout: Self.patience))
        } catch {
            return finding(.failed, "not delivered: \(error)")
        }
    }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.phone, pairing.magic.rawValue, grade, text)
    }

    private func finding(on outcome: Outcome) -> Finding {
        let reason = OutcomeText(outcome).reason
        return switch (outcome.kind, outcome.reason) {
        case (.delivered, _), (.queued, _):
            finding(.ok, "accepted by the push service: look at the phone")
        case (.rejected, .senderKeyRequired), (.rejected, .senderKeyMismatch):
            finding(
                .warning,
                "the node answers, but this phone is bound to a sender key of another pairing: see tocsin unbind")
        case (.rejected, _): finding(.failed, "rejected: \(reason)")
        case (.retry, _): finding(.failed, "try again later: \(reason)")
        case (.gone, _): finding(.failed, "the phone no longer has this device token: pair it again")
        }
    }
}
