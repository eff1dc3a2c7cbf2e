// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import Diagnostics
import EventLoop
import TNP
import TocsinClient
import TocsinNode

/// Rings the operator's own phone through the running node, as a sender would.
struct PhoneCheck {
    private let pairing: PairingToken
    /// The app profile's name; nil: the node's first.
    private let app: String?
    /// How that app opens envelopes; nil: by the pairing's key.
    private let format: EnvelopeFormat?
    private let senderProtocol: (node: Endpoint, proxy: Endpoint?)?
    private let loop: EventLoop

    /// For all of it: a way through tor, a proof of work, and what the node tries.
    private static let patience = Duration.seconds(90)

    /// - Parameter endpoint: where the node is reached; nil: nobody knows.
    init(
        _ pairing: PairingToken, app: String?, format: EnvelopeFormat?,
        _ senderProtocol: (node: Endpoint, proxy: Endpoint?)?,
        on loop: EventLoop
    ) {
        self.pairing = pairing
        self.app = app
        self.format = format
        self.senderProtocol = senderProtocol
        self.loop = loop
    }

    /// The pairing token of the command line, or says what is wrong with it and ends.
    static func pairing(_ argument: String) throws -> PairingToken {
        do {
            return try PairingToken(PairingArgument.oneLine(PairingArgument.text(argument)))
        } catch {
            throw fail("\(error)", ExitStatus.usage)
        }
    }

    func finding() async -> Finding {
        guard let senderProtocol else {
            return finding(.failed, "not rung: the node's onion is not known, and it takes no connection without tor")
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
            TocsinClient.Options(node: senderProtocol.node, proxy: senderProtocol.proxy.map { .socks5($0, label) }),
            on: loop)
        defer { Task { await client.close() } }
        do {
            var outcome = try await client.submit(envelope, patience: Self.patience)
            // Unsigned first, so that the check binds no phone; one that is bound is rung with the key of its pairing.
            if outcome.reason == .senderKeyNeeded {
                outcome = try await client.submit(envelope, patience: Self.patience, signedBy: sealer.senderKey)
            }
            return Self.finding(on: outcome, subject: subject)
        } catch {
            return finding(.failed, "not rung: \(error)")
        }
    }

    private var subject: String { pairing.magic.rawValue }

    private func finding(_ grade: Finding.Grade, _ text: String) -> Finding {
        Finding(.phone, subject, grade, text)
    }

    /// What an outcome says of the way to the phone.
    static func finding(on outcome: Outcome, subject: String) -> Finding {
        let words = OutcomeText(outcome)
        switch (outcome.kind, outcome.reason) {
        case (.delivered, _), (.queued, _):
            return Finding(
                .phone, subject, .ok,
                "\(subject == Magic.android.rawValue ? "Google" : "Apple") has taken it: look at it")
        case (.rejected, .senderKeyNeeded), (.rejected, .notThisSenderKey):
            return Finding(
                .phone, subject, .warning,
                "the node answers, but this phone is bound to another sender key than its pairing's: see tocsin unbind")
        case (.rejected, _): return Finding(.phone, subject, .failed, "rejected: \(words.why)")
        case (.retry, _): return Finding(.phone, subject, .failed, "not now: \(words.why)")
        case (.gone, _):
            return Finding(.phone, subject, .failed, "the phone has no such device token any more: pair it anew")
        }
    }
}
