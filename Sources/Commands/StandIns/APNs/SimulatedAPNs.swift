// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP2

/// Simulates one APNs environment.
final class SimulatedAPNs: PushService {
    private var validator: APNsRequestValidator
    private let registry: DeviceRegistry
    private let now: () -> Int64

    init(_ validator: APNsRequestValidator, registry: DeviceRegistry, now: @escaping () -> Int64) {
        self.validator = validator
        self.registry = registry
        self.now = now
    }

    /// APNs has no token endpoint: providers sign their tokens themselves.
    var tokenPath: String? { nil }

    var providerTokensSeen: Set<Int> { validator.tokensSeen }

    var namesRetryAfter: Bool { false }

    func device(of request: ServerRequest) -> String? {
        APNsRequestValidator.deviceToken(inPath: request.headers.text(":path") ?? "")
    }

    func answer(_ request: ServerRequest, clientName: String?) -> PushAnswer {
        // Apple names device tokens by "the hexadecimal bytes" ("Sending notification requests to APNs"), so their case
        // makes no difference.
        let answer = validator.validate(request, clientName: clientName, now: now()) {
            registry[$0] ?? registry[$0.lowercased()]
        }
        let id = request.headers.text("apns-id") ?? Self.newID()
        return PushAnswer(
            response: Self.response(answer, id: id),
            delivered: answer == .accepted ? notification(request, id: id) : nil)
    }

    func errorResponse(_ error: Faults.ErrorAnswer, to request: ServerRequest) -> Response {
        let reason =
            switch error.status {
            case 429: "TooManyRequests"
            case 503: "ServiceUnavailable"
            default: "InternalServerError"
            }
        return Self.response(
            APNsRequestValidator.Answer(
                status: error.status, reason: error.reason ?? reason, retryAfter: error.retryAfter),
            id: request.headers.text("apns-id") ?? Self.newID())
    }

    private static func response(_ answer: APNsRequestValidator.Answer, id: String) -> Response {
        var headers = HeaderBlock()
        headers.append("apns-id", id)
        if let retryAfter = answer.retryAfter { headers.append("retry-after", String(retryAfter)) }
        var body: [UInt8] = []
        if let reason = answer.reason {
            let timestamp = answer.timestamp.map { ",\"timestamp\":\($0)" } ?? ""
            body = Array("{\"reason\":\"\(reason)\"\(timestamp)}".utf8)
        }
        return Response(status: answer.status, headers: headers, body: body)
    }

    private func notification(_ request: ServerRequest, id: String) -> ReceivedNotification {
        let payload = JSONValue(request.body)
        let aps = payload?["aps"]
        return ReceivedNotification(
            platform: validator.platform,
            deviceToken: APNsRequestValidator.deviceToken(inPath: request.headers.text(":path") ?? "") ?? "",
            encrypted: payload?["encrypted"]?.string ?? "", banner: aps?["alert"].flatMap(Self.banner),
            hasSound: aps?["sound"] != nil, isContentAvailable: aps?["content-available"]?.number == 1,
            isMutableContent: aps?["mutable-content"]?.number == 1,
            isUrgent: request.headers.text("apns-priority") ?? "10" == "10", id: id,
            collapseID: request.headers.text("apns-collapse-id"))
    }

    private static func banner(_ alert: JSONValue) -> ReceivedNotification.Banner? {
        if let text = alert.string { return ReceivedNotification.Banner(text: text) }
        guard let title = alert["title"]?.string ?? alert["title-loc-key"]?.string else {
            return (alert["body"]?.string ?? alert["loc-key"]?.string).map { ReceivedNotification.Banner(text: $0) }
        }
        return ReceivedNotification.Banner(title: title, text: alert["body"]?.string ?? alert["loc-key"]?.string ?? "")
    }

    private static func newID() -> String {
        var text = Hex.encode(SecureRandom.bytes(16))
        for offset in [20, 16, 12, 8] { text.insert("-", at: text.index(text.startIndex, offsetBy: offset)) }
        return text
    }
}
