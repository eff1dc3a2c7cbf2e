// SPDX-License-Identifier: Apache-2.0

import TNP

/// Builds the envelope that an upstream node gets in place of a sender's (PROTOCOL §9).
struct UpstreamEnvelopeBuilder {
    /// The app's name at the upstream nodes; `nil` if envelopes keep the name that their senders use. With another name an
    /// envelope has another digest, so this node replaces the sender's signature by its own.
    private let app: String?
    private let format: EnvelopeFormat
    private let keys: UpstreamKeys
    /// Check the payload size before sending: the upstream node charges an envelope that is too large to this node's
    /// circuit.
    private let apple: APNsRequestBuilder
    private let google: FCMRequestBuilder

    /// - Parameters:
    ///   - app: the app's name at the upstream nodes; `nil` for the name that the senders use.
    ///   - format: the app's envelope format.
    ///   - keys: signs for senders that do not.
    init(app: String?, format: EnvelopeFormat, keys: UpstreamKeys) {
        self.app = app
        self.format = format
        self.keys = keys
        // With the usual texts; the upstream node's may be longer.
        apple = APNsRequestBuilder(
            APNsProfile(
                topic: "", format: format, messageMagic: "BisqMessageiOS", alert: .text("New notification")),
            authority: "")
        google = FCMRequestBuilder(
            FCMProfile(
                format: format, messageMagic: "BisqMessageAndroid", notification: ("Bisq", "Notification")),
            authority: "", projectID: "")
    }

    /// Checks whether an upstream node would take an envelope.
    func check(_ envelope: Envelope) throws(Rejection) {
        guard envelope.hops + 1 < Envelope.maximumHops else { throw Rejection(.tooManyHops) }
        switch envelope.magic {
        case .iOS, .iOSDev: try apple.check(envelope)
        case .android: try google.check(envelope)
        // TNP itself bounds the ciphertext of Web Push.
        default: break
        }
    }

    /// The envelope as the upstream node gets it.
    /// - Parameter ttl: the seconds until it expires.
    func build(from envelope: Envelope, ttl: UInt32) throws(Rejection) -> Envelope {
        // The handle is this node's own: the upstream node does not know it.
        var outgoing = envelope.handle == nil ? envelope : envelope.addressedByDeviceToken()
        if let app, !envelope.app.elementsEqual(app.utf8) {
            outgoing = try Envelope(
                app: Array(app.utf8)[...], magic: envelope.magic, deviceToken: envelope.deviceToken, iv: envelope.iv,
                ciphertext: envelope.ciphertext, priority: envelope.priority, sound: envelope.sound,
                collapseID: envelope.collapseID, format: format)
            outgoing.signature = nil
        }
        // Dispatch signs at acceptance. The signature is missing if another provider had the route then, or if the
        // app's name or the address was changed above.
        if outgoing.signature == nil { keys.sign(&outgoing) }
        outgoing.hops = envelope.hops + 1
        outgoing.ttl = ttl
        return outgoing
    }
}
