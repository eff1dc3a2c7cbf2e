import HTTP2
import TNP

/// How an app's notifications look to Apple and on the phone.
public struct APNsProfile: Sendable {
    /// The app's bundle id.
    public var topic: String
    public var format: EnvelopeFormat
    /// What a `pipe` app's phone expects before the first `|`.
    public var messageMagic: String
    /// What the phone shows before the app has opened the envelope.
    public var alert: String
    /// Whether the app is woken to fetch the envelope in the background.
    public var contentAvailable: Bool
    /// Whether the app's notification service extension may open the envelope before it is shown.
    public var mutableContent: Bool

    /// - Parameters: as the properties of the same names.
    public init(
        topic: String, format: EnvelopeFormat, messageMagic: String, alert: String, contentAvailable: Bool = true,
        mutableContent: Bool = true
    ) {
        self.topic = topic
        self.format = format
        self.messageMagic = messageMagic
        self.alert = alert
        self.contentAvailable = contentAvailable
        self.mutableContent = mutableContent
    }
}

/// Makes Apple's request of an envelope (Apple, "Sending notification requests to APNs"). What is the same for every
/// envelope is prepared once.
public struct APNsRequestBuilder: Sendable {
    /// The largest payload in bytes.
    public static let largestPayload = 4096

    private let format: EnvelopeFormat
    private let messageMagic: [UInt8]
    private let pseudoHeaders: HeaderBlock
    private let fixedHeaders: HeaderBlock
    private let payloadStart: [UInt8]
    private let silentPayloadStart: [UInt8]
    private static let payloadEnd = Array("\"}".utf8)

    /// - Parameter authority: host of the environment, with its port where that is not 443.
    public init(_ profile: APNsProfile, authority: String) {
        format = profile.format
        messageMagic = Array(profile.messageMagic.utf8)
        var pseudo = HeaderBlock()
        pseudo.append(":method", "POST")
        pseudo.append(":scheme", "https")
        pseudo.append(":authority", authority)
        pseudoHeaders = pseudo
        var fixed = HeaderBlock()
        fixed.append("apns-topic", profile.topic)
        fixed.append("apns-push-type", "alert")
        fixedHeaders = fixed
        func start(sound: Bool) -> [UInt8] {
            var output = Array("{\"aps\":{\"alert\":{\"body\":\"".utf8) + JSONText.escaped(profile.alert)
            output += Array("\"}".utf8)
            if sound { output += Array(",\"sound\":\"default\"".utf8) }
            if profile.contentAvailable { output += Array(",\"content-available\":1".utf8) }
            if profile.mutableContent { output += Array(",\"mutable-content\":1".utf8) }
            return output + Array("},\"encrypted\":\"".utf8)
        }
        payloadStart = start(sound: true)
        silentPayloadStart = start(sound: false)
    }

    /// The request for an envelope.
    /// - Parameters:
    ///   - authorization: value of the header, where a provider token is used.
    ///   - expiry: until when Apple may keep it.
    /// - Throws: ``Rejection`` with reason 105 where the payload would be larger than ``largestPayload``.
    public func request(
        for envelope: Envelope, authorization: [UInt8]?, expiry: Expiry
    ) throws(Rejection) -> Request {
        var body: [UInt8] = []
        body.reserveCapacity(payloadStart.count + messageMagic.count + envelope.ciphertext.count * 4 / 3 + 64)
        body += envelope.sound ? payloadStart : silentPayloadStart
        envelope.appendDeliveredJSON(format: format, messageMagic: messageMagic, to: &body)
        body += Self.payloadEnd
        guard body.count <= Self.largestPayload else {
            throw Rejection(.tooLarge, "the payload would be \(body.count) bytes; Apple takes \(Self.largestPayload)")
        }
        var headers = HeaderBlock(bytes: 768, fields: 12)
        headers.append(pseudoHeaders)
        headers.append(":path", indexing: .never) {
            $0 += Array("/3/device/".utf8)
            $0 += envelope.deviceToken
        }
        headers.append(fixedHeaders)
        if let authorization { headers.append("authorization", authorization, indexing: .never) }
        headers.append("apns-id", envelope.apnsID, indexing: .firstOnly)
        headers.append("apns-collapse-id", envelope.effectiveCollapseID, indexing: .firstOnly)
        headers.append("apns-expiration", String(expiry.epochSeconds).utf8, indexing: .firstOnly)
        headers.append("apns-priority", envelope.priority == .immediate ? "10" : "5")
        return Request(headers: headers, body: body)
    }
}
