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
    var asJSON = false

    /// An outcome as JSON.
    private struct Reported: Encodable {
        let outcome: String
        /// The number of the reason (PROTOCOL §4); 0 if there is none.
        let reason: UInt16
        let text: String
        let providerId: String?
        let retryAfterSeconds: Double?
        let left: UInt32?
    }

    /// Sends the notification, and returns when it is delivered or, with ``DeliveryOptions/queue``, queued.
    /// - Throws: the exit code of any other result, after printing the reason.
    func deliver(_ notification: BisqNotification, sound: Bool) async throws {
        let sealer = Sealer(pairing, format: options.format)
        let earlier = try options.earlierKey(of: pairing)
        let envelope = try failing(with: .rejected) {
            try sealer.seal(
                notification, schema: options.schema, app: options.app, ttl: options.ttl, sound: sound)
        }
        let access = NodeAccess(
            options: options.connection, purpose: "sending the notification", awaits: "the push service")
        let outcome = try await access.run {
            try await $0.submit(
                envelope, timeout: .seconds(options.connection.timeout), acceptQueued: options.queue,
                returnsWhenQueued: options.queue, signedBy: options.noKey ? nil : sealer.senderKey,
                succeeding: earlier)
        }
        try report(outcome)
    }

    private func report(_ outcome: Outcome) throws {
        let text = OutcomeText(outcome)
        if asJSON {
            JSONOption.print(
                Reported(
                    outcome: outcome.kind.name, reason: outcome.reason.rawValue, text: text.reason,
                    providerId: outcome.providerID,
                    retryAfterSeconds: outcome.kind == .retry ? Double(outcome.retryAfter) / 1000 : nil,
                    left: outcome.left.map { UInt32($0) }))
        }
        if let allowance = text.allowance { Terminal.error("tocsin: \(allowance)") }
        switch outcome.kind {
        case .delivered where asJSON, .queued where asJSON: break
        case .delivered: Terminal.print("delivered" + (outcome.providerID.map { ": \(TerminalText.line($0))" } ?? ""))
        case .queued: Terminal.print("queued")
        case .rejected: throw fail("rejected: \(text.reason)", .rejected)
        case .retry: throw fail("try again \(text.retryTime): \(text.reason)", .tryLater)
        case .gone where pairing.handle != nil && outcome.reason == .unregistered:
            throw fail(
                "gone: \(text.reason). Its owner can put its new device token behind the handle with tocsin rotate",
                .gone)
        case .gone: throw fail("gone: \(text.reason). Forget this pairing", .gone)
        }
    }
}
