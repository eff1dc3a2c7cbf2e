// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// Pairing and unpairing, in one call each.
extension TocsinClient {
    /// The confirmation of a pairing was not delivered.
    public struct PairingRefused: Error, Equatable, Sendable, CustomStringConvertible {
        /// The outcome of the confirmation.
        public let outcome: Outcome
        public var description: String {
            "the pairing was not confirmed: \(outcome.text ?? outcome.reason.description)"
        }
    }

    /// The pairings of ``pair(_:app:timeout:)`` and ``remember(_:)`` that are neither erased nor gone.
    public var pairings: [PairingToken] { Array(remembered.values) }

    /// Adds a pairing from an earlier run, so that the client reports when its phone is gone.
    public func remember(_ pairing: PairingToken) { remembered[pairing.address] = pairing }

    /// Reads a pairing token, confirms the pairing to the phone, and remembers it.
    /// - Parameters:
    ///   - text: the text of the phone's QR code, also as pasted from a mail. Store it where secrets belong.
    ///   - app: the name of an app of the node; empty for its first app.
    ///   - timeout: as in ``submit(_:timeout:acceptQueued:returnsWhenQueued:signedBy:succeeding:)``.
    /// - Throws: `PairingToken.FormatError`, ``PairingRefused``, ``ClientError``.
    public func pair(_ text: String, app: String = "", timeout: Duration = .seconds(180)) async throws -> PairingToken {
        let pairing = try PairingToken(pasted: text)
        let notification = BisqNotification.confirmation(for: pairing.defaultFormat, sentDate: UnixTime.now * 1000)
        let outcome = try await notify(pairing, notification, app: app, timeout: timeout)
        guard outcome.kind == .delivered else { throw PairingRefused(outcome: outcome) }
        remember(pairing)
        return pairing
    }

    /// The phone's app does not support ERASE: its user deletes the pairing in the app.
    public struct EraseUnsupported: Error, Equatable, Sendable, CustomStringConvertible {
        public var description: String { "a sealed app does not support ERASE: delete the pairing in the app" }
    }

    /// Makes the phone's app delete its pairing and all notifications, and forgets the pairing here.
    /// - Throws: ``EraseUnsupported`` for an app of the format `sealed`, ``ClientError``.
    @discardableResult
    public func erase(
        _ pairing: PairingToken, app: String = "", timeout: Duration = .seconds(180)
    ) async throws -> Outcome {
        guard pairing.defaultFormat == .pipe else { throw EraseUnsupported() }
        let notification = BisqNotification(kind: .erase, title: "", message: "", sentDate: UnixTime.now * 1000)
        let outcome = try await notify(pairing, notification, app: app, sound: false, timeout: timeout)
        if outcome.kind == .delivered || outcome.endsPairing(byHandle: pairing.handle != nil) {
            remembered[pairing.address] = nil
        }
        return outcome
    }

    /// Seals, signs and submits a notification.
    /// - Parameter earlier: the pairing before this one, if the phone was paired anew and kept its device token. The node then
    ///   accepts the key of `pairing` in place of the earlier one's. `nil` if there is none, and once a notification with it has
    ///   been delivered.
    /// - Throws: `Rejection` if the notification cannot be sealed, ``ClientError``.
    public func notify(
        _ pairing: PairingToken, _ notification: BisqNotification, app: String = "", sound: Bool = true,
        succeeding earlier: PairingToken? = nil, timeout: Duration = .seconds(180)
    ) async throws -> Outcome {
        let sealer = Sealer(pairing)
        return try await submit(
            sealer.seal(notification, app: app, sound: sound), timeout: timeout, signedBy: sealer.senderKey,
            succeeding: earlier.map { Ed25519.PrivateKey(ofSenderFor: $0) })
    }
}

extension TocsinClient {
    /// Submits an envelope that tests the way to a phone: unsigned first, so that the test binds no phone, and signed with
    /// the pairing's key if the phone is bound.
    /// - Throws: ``ClientError``.
    package func submitTest(_ envelope: Envelope, of sealer: Sealer, timeout: Duration) async throws -> Outcome {
        let outcome = try await submit(envelope, timeout: timeout)
        guard outcome.reason == .senderKeyRequired else { return outcome }
        return try await submit(envelope, timeout: timeout, signedBy: sealer.senderKey)
    }
}

extension BisqNotification {
    /// The confirmation of a pairing. A Bisq 1 app shows its own text for it; Bisq Connect shows the text that it
    /// receives.
    /// - Parameter sentDate: the Unix time in milliseconds.
    public static func confirmation(for format: EnvelopeFormat, sentDate: Int64) -> BisqNotification {
        BisqNotification(
            kind: .setupConfirmation, title: format == .sealed ? "Paired" : "",
            message: format == .sealed ? "This phone is paired." : "", sentDate: sentDate)
    }
}
