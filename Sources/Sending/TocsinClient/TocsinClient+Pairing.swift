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
            "the pairing was not confirmed: \(outcome.sentence)"
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
    /// - Throws: `PairingToken.FormatError`, `Rejection` if the notification cannot be sealed, ``PairingRefused``,
    ///   ``ClientError``, `CancellationError`.
    public func pair(_ text: String, app: String = "", timeout: Duration = .seconds(180)) async throws -> PairingToken {
        let pairing = try PairingToken(pasted: text)
        let notification = BisqNotification.confirmation(
            for: pairing.defaultFormat, options.schema, sentDate: UnixTime.now * 1000)
        let outcome = try await notify(pairing, notification, app: app, timeout: timeout)
        guard outcome.kind == .delivered else { throw PairingRefused(outcome: outcome) }
        remember(pairing)
        return pairing
    }

    /// The phone's app does not support ERASE: its user deletes the pairing in the app.
    public struct EraseUnsupported: Error, Equatable, Sendable, CustomStringConvertible {
        public var description: String { "Bisq Connect does not support ERASE: delete the pairing in the app" }
    }

    /// Makes the phone's app delete its pairing and all notifications, and forgets the pairing here.
    /// - Throws: ``EraseUnsupported`` for Bisq Connect, `Rejection`, ``ClientError``, `CancellationError`.
    @discardableResult
    public func erase(
        _ pairing: PairingToken, app: String = "", timeout: Duration = .seconds(180)
    ) async throws -> Outcome {
        guard BisqNotification.supportsErase(pairing.defaultFormat, options.schema) else { throw EraseUnsupported() }
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
    /// - Throws: `Rejection` if the notification cannot be sealed, ``ClientError``, `CancellationError`.
    public func notify(
        _ pairing: PairingToken, _ notification: BisqNotification, app: String = "", sound: Bool = true,
        succeeding earlier: PairingToken? = nil, timeout: Duration = .seconds(180)
    ) async throws -> Outcome {
        let sealed = try Sealer(pairing).seal(notification, schema: options.schema, app: app, sound: sound)
        return try await submit(sealed, of: pairing, succeeding: earlier, timeout)
    }

    /// Seals, signs and submits a clear text of the app's own form, padded with spaces.
    /// - Parameters: as of ``notify(_:_:app:sound:succeeding:timeout:)-(_,BisqNotification,_,_,_,_)``.
    /// - Throws: `Rejection` if the text is too long, ``ClientError``, `CancellationError`.
    public func notify(
        _ pairing: PairingToken, _ clearText: [UInt8], app: String = "", sound: Bool = true,
        succeeding earlier: PairingToken? = nil, timeout: Duration = .seconds(180)
    ) async throws -> Outcome {
        let sealed = try Sealer(pairing).seal(clearText, app: app, sound: sound)
        return try await submit(sealed, of: pairing, succeeding: earlier, timeout)
    }

    private func submit(
        _ envelope: Envelope, of pairing: PairingToken, succeeding earlier: PairingToken?, _ timeout: Duration
    ) async throws -> Outcome {
        try await submit(
            envelope, timeout: timeout, signedBy: Ed25519.PrivateKey(ofSenderFor: pairing),
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
    /// The confirmation of a pairing. A Bisq 1 app shows its own text for it; others may show the text that they receive.
    /// - Parameters:
    ///   - schema: what the phone's app reads.
    ///   - sentDate: the Unix time in milliseconds.
    public static func confirmation(
        for format: EnvelopeFormat, _ schema: TextSchema = .bisq, sentDate: Int64
    ) -> BisqNotification {
        let hasText = format == .sealed || schema == .tocsin
        return BisqNotification(
            kind: .setupConfirmation, title: hasText ? "Paired" : "", message: hasText ? "This phone is paired." : "",
            sentDate: sentDate)
    }

    /// Whether the phone's app deletes its pairing at ERASE: Bisq Connect does not.
    package static func supportsErase(_ format: EnvelopeFormat, _ schema: TextSchema) -> Bool {
        format == .pipe || schema == .tocsin
    }
}
