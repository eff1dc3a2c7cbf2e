// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP2
import TNP

/// A push server of Web Push, as strict as the RFCs allow: it checks the header fields of RFC 8030, the structure of
/// RFC 8188 and 8291, and VAPID (RFC 8292), which it requires. A device token is the whole URL of an endpoint.
final class SimulatedWebPush: PushService {
    private let registry: DeviceRegistry
    private let now: () -> Int64
    private var messages = 0

    /// The largest body that every push server accepts (RFC 8291 §4).
    private static let maximumBody = 4096
    /// The minimum record size that a message may state (RFC 8188 §2).
    private static let minimumRecordSize: UInt32 = 18
    /// The longest time for which a VAPID token may be valid (RFC 8292 §2).
    private static let maximumTokenLifetime = 86_400.0

    init(registry: DeviceRegistry, now: @escaping () -> Int64) {
        self.registry = registry
        self.now = now
    }

    var tokenPath: String? { nil }
    /// VAPID has no rule on how often a token may change.
    var providerTokensSeen: Set<Int> { [] }

    var namesRetryAfter: Bool { true }

    func device(of request: ServerRequest) -> String? { request.headers.text(":path") }

    func answer(_ request: ServerRequest, clientName: String?) -> PushAnswer {
        let headers = request.headers
        guard headers.text(":method") == "POST", let authority = headers.text(":authority"),
            let path = headers.text(":path")
        else { return Self.refusal(405) }
        if request.isTooLarge || request.body.count > Self.maximumBody { return Self.refusal(413) }
        let origin = "https://\(authority)"
        guard isAuthorized(headers.text("authorization"), origin) else { return Self.refusal(401) }
        guard let ttl = headers.text("ttl"), UInt32(ttl) != nil, headers.text("content-encoding") == "aes128gcm",
            ["very-low", "low", "normal", "high"].contains(headers.text("urgency") ?? "normal"),
            Self.isTopic(headers.text("topic")), Self.isMessage(request.body)
        else { return Self.refusal(400) }
        let endpoint = origin + path
        guard let device = registry[endpoint], device.platform == .webPush else { return Self.refusal(404) }
        switch device.state {
        case .registered: break
        case .unregistered, .expired: return Self.refusal(410)
        case .answers(let status, _, let retryAfter): return Self.refusal(status, retryAfter: retryAfter)
        }
        messages += 1
        var response = Response(status: 201)
        response.headers.append("location", "\(origin)/message/\(messages)")
        return PushAnswer(
            response: response,
            delivered: ReceivedNotification(
                platform: .webPush, deviceToken: endpoint,
                encrypted: String(decoding: Base64.encode(request.body), as: UTF8.self), banner: nil, hasSound: false,
                isContentAvailable: false, isMutableContent: false, isUrgent: headers.text("urgency") == "high",
                id: "\(messages)", collapseID: headers.text("topic")))
    }

    func errorResponse(_ error: Faults.ErrorAnswer, to request: ServerRequest) -> Response {
        Self.refusal(error.status, retryAfter: error.retryAfter).response
    }

    private static func refusal(_ status: Int, retryAfter: Int? = nil) -> PushAnswer {
        var response = Response(status: status)
        if let retryAfter { response.headers.append("retry-after", "\(retryAfter)") }
        return PushAnswer(response: response)
    }

    /// At most 32 characters of Base64url (RFC 8030 §5.4).
    private static func isTopic(_ topic: String?) -> Bool {
        guard let topic else { return true }
        return (1...32).contains(topic.utf8.count)
            && topic.utf8.allSatisfy { Base64.decodeURLSafe([$0, UInt8(ascii: "A")]) != nil }
    }

    /// One record with a P-256 key as key id (RFC 8291 §4).
    private static func isMessage(_ body: [UInt8]) -> Bool {
        guard body.count >= WebPushContent.overhead, body[20] == P256.publicKeyLength else { return false }
        let size = body[16..<20].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let header = WebPushContent.headerLength
        return size >= minimumRecordSize && body.count - header <= size
            && P256.isPublicKey(Array(body[header - P256.publicKeyLength..<header]))
    }

    /// `vapid t=TOKEN,k=KEY` (RFC 8292 §3).
    private func isAuthorized(_ field: String?, _ origin: String) -> Bool {
        guard let field, field.hasPrefix("vapid ") else { return false }
        var parameters: [Substring: Substring] = [:]
        for part in field.dropFirst("vapid ".count).split(separator: ",") {
            let pair = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            if pair.count == 2 { parameters[pair[0]] = pair[1] }
        }
        guard let token = parameters["t"].flatMap({ WebToken(String($0)) }),
            let point = parameters["k"].flatMap({ Base64.decodeURLSafe(Array($0.utf8)) }),
            let key = VerifyingKey(p256: point), token.isSigned(by: key), token.claims["aud"]?.string == origin,
            let expiry = token.claims["exp"]?.number, let subject = token.claims["sub"]?.string
        else { return false }
        let time = Double(now())
        return expiry > time && expiry <= time + Self.maximumTokenLifetime
            && (subject.hasPrefix("mailto:") || subject.hasPrefix("https://"))
    }
}
