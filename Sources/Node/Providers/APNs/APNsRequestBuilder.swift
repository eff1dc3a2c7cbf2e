// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP2
import TNP

/// How an app's notifications are addressed to APNs and shown on the phone.
package struct APNsProfile: Sendable {
    /// The app's bundle ID.
    package var topic: String
    /// How the envelope is encoded for the phone.
    package var format: EnvelopeFormat
    /// The text that a `pipe` app on the phone expects before the first `|`.
    package var messageMagic: String
    /// What the phone shows before the app has decrypted the envelope.
    package var alert: Alert
    /// The name of a sound in the app, or `default` for the system sound.
    package var sound: String
    /// Whether iOS wakes the app in the background to process the notification (`content-available`).
    package var contentAvailable: FlagRule
    /// Whether the app's notification service extension may decrypt the envelope before it is shown
    /// (`mutable-content`).
    package var mutableContent: FlagRule

    /// Text that the phone shows.
    package enum Alert: Sendable, Equatable {
        /// A fixed text.
        case text(String)
        /// A key in the app's table of strings (`loc-key`), for a text in the phone's language.
        case localized(key: String)
    }

    /// When a flag of the payload is set.
    package enum FlagRule: String, CaseIterable, Sendable {
        /// Regardless of what the sender requests.
        case always, never
        /// As the sender requests; set if the request does not have the flag.
        case request

        func isSet(_ requested: Bool?) -> Bool {
            switch self {
            case .always: true
            case .never: false
            case .request: requested ?? true
            }
        }
    }

    package init(
        topic: String, format: EnvelopeFormat, messageMagic: String, alert: Alert, sound: String = "default",
        contentAvailable: FlagRule = .request, mutableContent: FlagRule = .request
    ) {
        self.topic = topic
        self.format = format
        self.messageMagic = messageMagic
        self.alert = alert
        self.sound = sound
        self.contentAvailable = contentAvailable
        self.mutableContent = mutableContent
    }
}

/// Builds the APNs request for an envelope (Apple, "Sending notification requests to APNs"). The parts that all
/// envelopes share are prepared once.
package struct APNsRequestBuilder: Sendable {
    /// APNs' payload limit in bytes.
    package static let maximumPayload = 4096

    private let format: EnvelopeFormat
    private let messageMagic: [UInt8]
    /// The fields of all requests; those of ``ownFields`` have no value.
    private let sharedHeaders: HeaderBlock
    /// The indices of the fields whose values differ between requests.
    private let ownFields: (path: Int, id: Int, collapseID: Int, expiration: Int, priority: Int)
    /// The payload up to the envelope, indexed by ``Flags``.
    private let payloadStarts: [[UInt8]]
    private let contentAvailable: APNsProfile.FlagRule
    private let mutableContent: APNsProfile.FlagRule
    private static let payloadEnd = Array("\"}".utf8)

    /// Creates a builder.
    /// - Parameter authority: host of the APNs environment, with its port if that is not 443.
    package init(_ profile: APNsProfile, authority: String) {
        format = profile.format
        messageMagic = Array(profile.messageMagic.utf8)
        var headers = HeaderBlock(postTo: authority)
        let path = headers.reserve(":path", indexing: .never)
        headers.append("apns-topic", profile.topic)
        headers.append("apns-push-type", "alert")
        ownFields = (
            path, headers.reserve("apns-id", indexing: .firstOnly),
            headers.reserve("apns-collapse-id", indexing: .firstOnly),
            headers.reserve("apns-expiration", indexing: .firstOnly),
            headers.reserve("apns-priority", indexing: .allowed)
        )
        sharedHeaders = headers
        contentAvailable = profile.contentAvailable
        mutableContent = profile.mutableContent
        payloadStarts = (0..<Flags.combinations).map { Self.payloadStart(profile, Flags(rawValue: $0)) }
    }

    private struct Flags: OptionSet {
        let rawValue: Int
        static let sound = Flags(rawValue: 1)
        static let contentAvailable = Flags(rawValue: 2)
        static let mutableContent = Flags(rawValue: 4)
        static let combinations = 8
    }

    private static func payloadStart(_ profile: APNsProfile, _ flags: Flags) -> [UInt8] {
        let alert =
            switch profile.alert {
            case .text(let text): "\"body\":\"\(JSONText.escaped(text))\""
            case .localized(let key): "\"loc-key\":\"\(JSONText.escaped(key))\""
            }
        var output = "{\"aps\":{\"alert\":{\(alert)}"
        if flags.contains(.sound) { output += ",\"sound\":\"\(JSONText.escaped(profile.sound))\"" }
        if flags.contains(.contentAvailable) { output += ",\"content-available\":1" }
        if flags.contains(.mutableContent) { output += ",\"mutable-content\":1" }
        return Array("\(output)},\"encrypted\":\"".utf8)
    }

    /// The index of the envelope's payload start in ``payloadStarts``.
    private func payloadStart(of envelope: Envelope) -> Int {
        var flags: Flags = []
        if envelope.sound { flags.insert(.sound) }
        if contentAvailable.isSet(envelope.contentAvailable) { flags.insert(.contentAvailable) }
        if mutableContent.isSet(envelope.mutableContent) { flags.insert(.mutableContent) }
        return flags.rawValue
    }

    private func payloadLength(of envelope: Envelope) -> Int {
        payloadStarts[payloadStart(of: envelope)].count
            + envelope.deliveredJSONLength(format: format, messageMagicLength: messageMagic.count)
            + Self.payloadEnd.count
    }

    /// Checks the size of the payload.
    /// - Throws: ``Rejection`` with reason 105 if the payload would exceed ``maximumPayload``.
    package func check(_ envelope: Envelope) throws(Rejection) {
        try check(length: payloadLength(of: envelope))
    }

    private func check(length: Int) throws(Rejection) {
        guard length <= Self.maximumPayload else {
            throw Rejection(.tooLarge, "the payload would be \(length) bytes; the APNs limit is \(Self.maximumPayload)")
        }
    }

    /// Writes the request for an envelope.
    /// - Parameters:
    ///   - request: any request; its contents are replaced, and its memory is reused.
    ///   - authorization: value of the `authorization` header; `nil` if the node authenticates with a certificate.
    ///   - expiry: until when APNs may store the notification.
    /// - Throws: ``Rejection`` with reason 105 if the payload would exceed ``maximumPayload``.
    package func write(
        _ request: inout Request, for envelope: Envelope, authorization: [UInt8]?, expiry: Expiry
    ) throws(Rejection) {
        request.body.removeAll(keepingCapacity: true)
        request.body.append(copying: payloadStarts[payloadStart(of: envelope)])
        envelope.appendDeliveredJSON(format: format, messageMagic: messageMagic, to: &request.body)
        request.body.append(copying: Self.payloadEnd)
        try check(length: request.body.count)
        request.headers.start(with: sharedHeaders)
        request.headers.setValue(ofField: ownFields.path) {
            $0.append(copying: "/3/device/")
            $0.append(copying: envelope.deviceToken)
        }
        request.headers.setValue(ofField: ownFields.id) { envelope.appendAPNsID(to: &$0) }
        request.headers.setValue(ofField: ownFields.collapseID) { envelope.appendCollapseID(to: &$0) }
        request.headers.setValue(ofField: ownFields.expiration) {
            $0.append(decimal: UInt64(clamping: expiry.epochSeconds))
        }
        request.headers.setValue(ofField: ownFields.priority) {
            $0.append(copying: envelope.priority == .immediate ? "10" : "5")
        }
        if let authorization {
            request.headers.append("authorization", indexing: .never) { $0.append(copying: authorization) }
        }
    }
}
