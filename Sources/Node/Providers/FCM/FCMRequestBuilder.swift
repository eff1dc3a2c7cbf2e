// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP

/// How an app's notifications are addressed to FCM and shown on the phone.
package struct FCMProfile: Sendable {
    /// How the envelope is encoded for the phone.
    package var format: EnvelopeFormat
    /// The text that a `pipe` app on the phone expects before the first `|`.
    package var messageMagic: String
    /// What Android shows before the app has decrypted the envelope; `nil` for data-only messages, where the app shows
    /// its own notification.
    package var notification: (title: String, body: String)?
    /// The name of a sound in the app, or `default` for the system sound. The data also carries the name, for an app
    /// that shows its own notification.
    package var sound: String

    package init(
        format: EnvelopeFormat, messageMagic: String, notification: (title: String, body: String)?,
        sound: String = "default"
    ) {
        self.format = format
        self.messageMagic = messageMagic
        self.notification = notification
        self.sound = sound
    }
}

/// Builds the FCM request for an envelope (Firebase, "REST Resource: projects.messages"). The parts that all envelopes
/// share are prepared once.
package struct FCMRequestBuilder: Sendable {
    /// FCM's payload limit in bytes: the sum of all keys and values in `data` and `notification`.
    package static let maximumPayload = 4096

    private let format: EnvelopeFormat
    private let messageMagic: [UInt8]
    private let fixedHeaders: HeaderBlock
    private let androidNotification: [UInt8]
    private let notificationBlock: [UInt8]
    /// The end of `data`, with the name of the sound.
    private let soundKey: [UInt8]
    /// The payload bytes of ``soundKey``.
    private let soundPayload: Int
    private let fixedPayload: Int

    /// Creates a builder.
    /// - Parameters:
    ///   - authority: host of the endpoint, with its port if that is not 443.
    ///   - projectID: the Firebase project of the service account.
    package init(_ profile: FCMProfile, authority: String, projectID: String) {
        format = profile.format
        messageMagic = Array(profile.messageMagic.utf8)
        var headers = HeaderBlock(postTo: authority)
        headers.append(":path", "/v1/projects/\(projectID)/messages:send")
        headers.append("content-type", "application/json")
        fixedHeaders = headers
        let sound = JSONText.escaped(profile.sound)
        soundKey = Array("\",\"sound\":\"\(sound)\"}".utf8)
        soundPayload = "sound".utf8.count + profile.sound.utf8.count
        if let block = profile.notification {
            let (title, body) = (JSONText.escaped(block.title), JSONText.escaped(block.body))
            notificationBlock = Array(",\"notification\":{\"title\":\"\(title)\",\"body\":\"\(body)\"}".utf8)
            androidNotification = Array(",\"notification\":{\"sound\":\"\(sound)\"}".utf8)
            fixedPayload =
                "encrypted".utf8.count + "title".utf8.count + block.title.utf8.count + "body".utf8.count
                + block.body.utf8.count
        } else {
            notificationBlock = []
            androidNotification = []
            fixedPayload = "encrypted".utf8.count
        }
    }

    /// Checks the size of the payload.
    /// - Throws: ``Rejection`` with reason 105 if the payload would exceed ``maximumPayload``.
    package func check(_ envelope: Envelope) throws(Rejection) {
        // The data also names the sound, for an app that shows its own notification.
        let payload =
            fixedPayload + envelope.deliveredJSONLength(format: format, messageMagicLength: messageMagic.count)
            + (envelope.sound ? soundPayload : 0)
        guard payload <= Self.maximumPayload else {
            throw Rejection(.tooLarge, "the payload would be \(payload) bytes; the FCM limit is \(Self.maximumPayload)")
        }
    }

    /// Writes the request for an envelope.
    /// - Parameters:
    ///   - request: any request; its contents are replaced, and its memory is reused.
    ///   - authorization: value of the `authorization` header.
    ///   - ttl: seconds that FCM may store the message.
    /// - Throws: ``Rejection`` with reason 105 if the payload would exceed ``maximumPayload``.
    package func write(
        _ request: inout Request, for envelope: Envelope, authorization: [UInt8], ttl: Int64
    ) throws(Rejection) {
        try check(envelope)
        request.headers.start(with: fixedHeaders)
        // Lets HPACK index this field: its value stays the same for an hour, and Google does not require literal encoding.
        request.headers.append("authorization", indexing: .allowed) { $0 += authorization }
        request.body.removeAll(keepingCapacity: true)
        append(envelope, ttl: ttl, to: &request.body)
    }

    private func append(_ envelope: Envelope, ttl: Int64, to body: inout [UInt8]) {
        body += "{\"message\":{\"token\":\"".utf8
        Self.appendEscaped(envelope.deviceToken, to: &body)
        body += "\",\"data\":{\"encrypted\":\"".utf8
        envelope.appendDeliveredJSON(format: format, messageMagic: messageMagic, to: &body)
        body += envelope.sound ? soundKey : Self.dataEnd
        body += notificationBlock
        body += ",\"android\":{\"priority\":\"".utf8
        body += (envelope.priority == .immediate ? "high" : "normal").utf8
        body += "\",\"ttl\":\"\(ttl)s\"".utf8
        // Sets a collapse key only if the sender does: FCM stores up to four collapse keys per device and drops the
        // rest, so a key per envelope would lose notifications that wait for an offline phone.
        if let collapseID = envelope.collapseID {
            body += ",\"collapse_key\":\"".utf8
            Self.appendEscaped(collapseID, to: &body)
            body.append(UInt8(ascii: "\""))
        }
        if envelope.sound { body += androidNotification }
        body += "}}}".utf8
    }

    private static let dataEnd = Array("\"}".utf8)

    private static func appendEscaped(_ text: Bytes, to output: inout [UInt8]) {
        for byte in text {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { output.append(UInt8(ascii: "\\")) }
            output.append(byte)
        }
    }
}
