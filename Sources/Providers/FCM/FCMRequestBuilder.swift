// SPDX-License-Identifier: Apache-2.0

import HTTP2
import TNP

/// How an app's notifications look to Google and on the phone.
package struct FCMProfile: Sendable {
    package var format: EnvelopeFormat
    /// What a `pipe` app's phone expects before the first `|`.
    package var messageMagic: String
    /// What Android shows before the app has opened the envelope; nil: data only, the app shows its own.
    package var notification: Notification?
    /// The name of the sound that it plays, of those in the app; `default` is the system's. Where the app shows its own,
    /// it is told this name.
    package var sound: String

    /// A notification block.
    package struct Notification: Sendable {
        package var title: String
        package var body: String

        /// - Parameters: as the properties of the same names.
        package init(title: String, body: String) {
            self.title = title
            self.body = body
        }
    }

    /// - Parameters: as the properties of the same names.
    package init(
        format: EnvelopeFormat, messageMagic: String, notification: Notification?, sound: String = "default"
    ) {
        self.format = format
        self.messageMagic = messageMagic
        self.notification = notification
        self.sound = sound
    }
}

/// Makes Google's request of an envelope (Firebase, "REST Resource: projects.messages"). What is the same for every
/// envelope is prepared once.
package struct FCMRequestBuilder: Sendable {
    /// The largest sum of the keys and values of a message's data and notification in bytes.
    package static let largestPayload = 4096

    private let format: EnvelopeFormat
    private let messageMagic: [UInt8]
    private let fixedHeaders: HeaderBlock
    private let notification: [UInt8]
    private let silentNotification: [UInt8]
    /// The end of the data, which says what the app plays; and its share of the payload in bytes.
    private let soundKey: [UInt8]
    private let soundPayload: Int
    private let fixedPayload: Int

    /// - Parameters:
    ///   - authority: host of the endpoint, with its port where that is not 443.
    ///   - projectID: of the service account.
    package init(_ profile: FCMProfile, authority: String, projectID: String) {
        format = profile.format
        messageMagic = Array(profile.messageMagic.utf8)
        var headers = HeaderBlock()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        headers.append(":authority", authority)
        headers.append(":path", "/v1/projects/\(projectID)/messages:send")
        headers.append("content-type", "application/json")
        fixedHeaders = headers
        let sound = String(decoding: JSONText.escaped(profile.sound), as: UTF8.self)
        soundKey = Array("\",\"sound\":\"\(sound)\"}".utf8)
        soundPayload = "sound".utf8.count + profile.sound.utf8.count
        if let block = profile.notification {
            let title = String(decoding: JSONText.escaped(block.title), as: UTF8.self)
            let body = String(decoding: JSONText.escaped(block.body), as: UTF8.self)
            silentNotification = Array(",\"notification\":{\"title\":\"\(title)\",\"body\":\"\(body)\"}".utf8)
            notification = Array(",\"notification\":{\"sound\":\"\(sound)\"}".utf8)
            fixedPayload =
                "encrypted".utf8.count + "title".utf8.count + block.title.utf8.count + "body".utf8.count
                + block.body.utf8.count
        } else {
            silentNotification = []
            notification = []
            fixedPayload = "encrypted".utf8.count
        }
    }

    /// - Throws: ``Rejection`` with reason 105 where the payload would be larger than ``largestPayload``.
    package func check(_ envelope: Envelope) throws(Rejection) {
        // Without a notification block the app decides what it plays: it is told by a key of its own.
        let payload =
            fixedPayload + envelope.deliveredJSONLength(format: format, messageMagicLength: messageMagic.count)
            + (envelope.sound ? soundPayload : 0)
        guard payload <= Self.largestPayload else {
            throw Rejection(.tooLarge, "the payload would be \(payload) bytes; Google takes \(Self.largestPayload)")
        }
    }

    /// The request for an envelope.
    /// - Parameters:
    ///   - authorization: value of the header.
    ///   - ttl: seconds that Google may keep it.
    /// - Throws: ``Rejection`` with reason 105 where the payload would be larger than ``largestPayload``.
    package func request(for envelope: Envelope, authorization: [UInt8], ttl: Int64) throws(Rejection) -> Request {
        try check(envelope)
        var body = Array("{\"message\":{\"token\":\"".utf8)
        body.reserveCapacity(1024 + envelope.ciphertext.count * 4 / 3)
        Self.appendEscaped(envelope.deviceToken, to: &body)
        body += Array("\",\"data\":{\"encrypted\":\"".utf8)
        envelope.appendDeliveredJSON(format: format, messageMagic: messageMagic, to: &body)
        body += envelope.sound ? soundKey : Self.dataEnd
        body += silentNotification
        body += Array(",\"android\":{\"priority\":\"".utf8)
        body += Array((envelope.priority == .immediate ? "high" : "normal").utf8)
        body += Array("\",\"ttl\":\"\(ttl)s\"".utf8)
        // Only where the sender wants it: Google keeps at most four collapse keys a device and drops the rest, so a key
        // for each envelope would lose what an offline phone has waiting.
        if let collapseID = envelope.collapseID {
            body += Array(",\"collapse_key\":\"".utf8)
            Self.appendEscaped(collapseID, to: &body)
            body.append(UInt8(ascii: "\""))
        }
        if envelope.sound { body += notification }
        body += Array("}}}".utf8)
        var headers = fixedHeaders
        // The same for an hour: worth a place in Google's table, which it does not ask us to spare.
        headers.append("authorization", authorization)
        return Request(headers: headers, body: body)
    }

    private static let dataEnd = Array("\"}".utf8)

    private static func appendEscaped(_ text: Bytes, to output: inout [UInt8]) {
        for byte in text {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { output.append(UInt8(ascii: "\\")) }
            output.append(byte)
        }
    }
}
