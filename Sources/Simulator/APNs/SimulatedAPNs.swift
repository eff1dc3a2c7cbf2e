import Cryptography
import HTTP2

/// One of Apple's environments behind HTTP/2.
final class SimulatedAPNs: RequestHandler {
    private var judge: APNsJudge
    private let registry: DeviceRegistry
    private let now: () -> Int64

    init(_ judge: APNsJudge, registry: DeviceRegistry, now: @escaping () -> Int64) {
        self.judge = judge
        self.registry = registry
        self.now = now
    }

    func handle(_ request: ServerRequest, on connection: ServerConnection) {
        let answer = judge.judge(request, clientName: connection.clientCommonName, now: now()) { registry[$0] }
        let id = request.headers.text("apns-id") ?? Self.newID()
        var headers = HeaderBlock()
        headers.append("apns-id", id)
        if let retryAfter = answer.retryAfter { headers.append("retry-after", String(retryAfter)) }
        var body: [UInt8] = []
        if let reason = answer.reason {
            let timestamp = answer.timestamp.map { ",\"timestamp\":\($0)" } ?? ""
            body = Array("{\"reason\":\"\(reason)\"\(timestamp)}".utf8)
        }
        if answer == .accepted { deliver(request, id: id) }
        connection.respond(to: request.stream, Response(status: answer.status, headers: headers, body: body))
    }

    private func deliver(_ request: ServerRequest, id: String) {
        let payload = JSONValue(request.body)
        let aps = payload?["aps"]
        registry.deliver(
            ReceivedNotification(
                platform: judge.platform,
                deviceToken: APNsJudge.deviceToken(inPath: request.headers.text(":path") ?? "") ?? "",
                encrypted: payload?["encrypted"]?.string ?? "",
                alert: aps?["alert"]?.string ?? aps?["alert"]?["body"]?.string, hasSound: aps?["sound"] != nil, id: id,
                collapseID: request.headers.text("apns-collapse-id")))
    }

    private static func newID() -> String {
        var text = Hex.encode(SecureRandom.bytes(16))
        for offset in [20, 16, 12, 8] { text.insert("-", at: text.index(text.startIndex, offsetBy: offset)) }
        return text
    }
}
