// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import EventLoop
import TNP
import TocsinClient
import TocsinNode

/// Sends a notification to the operator's own phone through the running node, as a sender would.
struct PhoneCheck {
    private let pairing: PairingToken
    /// The app profile's name; `nil` for the node's first.
    private let app: String?
    /// The format that the app decrypts; `nil` to derive it from the pairing's key.
    private let format: EnvelopeFormat?
    private let address: (node: Endpoint, proxy: Endpoint?)?
    private let loop: EventLoop

    /// Time for the whole attempt: a circuit through tor, proof of work, and the node's own retries.
    private static let patience = Duration.seconds(90)

    /// - Parameter address: the endpoint of the node and the proxy to reach it through; `nil` if unknown.
    init(
        _ pairing: PairingToken, app: String?, format: EnvelopeFormat?,
        _ address: (node: Endpoint, proxy: Endpoint?)?,
        on loop: EventLoop
    ) {
        self.pairing = pairing
        self.app = app
        self.format = format
        self.address = address
        self.loop = loop
    }

    /// Parses the pairing token of the command line.
    /// - Throws: the exit code, after printing the error.
    static func pairing(_ argument: String) throws -> PairingToken {
        do {
            return try PairingToken(PairingArgument.oneLine(PairingArgument.text(argument)))
        } catch {
            throw fail("\(error)", ExitStatus.usage)
        }
    }

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
            envelope = try sealer.seal(notification, app: app ?? "", ttl: 600)
        } catch {
            return finding(.failed, "\(error)")
        }
        let label = SOCKS5.Credentials(user: "tocsin-check", password: "\(UInt64.random(in: 0...UInt64.max))")
        let client = TocsinClient(
            TocsinClient.Options(node: address.node, proxy: address.proxy.map { .socks5($0, label) }),
            on: loop)
        defer { Task { await client.close() } }
        do {
            var outcome = try await client.submit(envelope, timeout: Self.patience)
            // Unsigned first, so that the check binds no phone. For a bound phone, signed with its pairing's key.
            if outcome.reason == .senderKeyRequired {
                outcome = try await client.submit(envelope, timeout: Self.patience, signedBy: sealer.senderKey)
            }
            return Self.finding(on: outcome, subject: subject)
        } catch {
            return finding(.failed, "not delivered: \(error)")
        }
    }

    private var subject: String { pairing.magic.rawValue }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.phone, subject, grade, text)
    }

    /// The finding for an outcome.
    static func finding(on outcome: Outcome, subject: String) -> Finding {
        let text = OutcomeText(outcome)
        switch (outcome.kind, outcome.reason) {
        case (.delivered, _), (.queued, _):
            return Finding(
                .phone, subject, .ok,
                "accepted by \(subject == Magic.android.rawValue ? "Google" : "Apple"): look at the phone")
        case (.rejected, .senderKeyRequired), (.rejected, .senderKeyMismatch):
            return Finding(
                .phone, subject, .warning,
                "the node answers, but this phone is bound to a sender key of another pairing: see tocsin unbind")
        case (.rejected, _): return Finding(.phone, subject, .failed, "rejected: \(text.reason)")
        case (.retry, _): return Finding(.phone, subject, .failed, "try again later: \(text.reason)")
        case (.gone, _):
            return Finding(.phone, subject, .failed, "the phone no longer has this device token: pair it again")
        }
    }
}
