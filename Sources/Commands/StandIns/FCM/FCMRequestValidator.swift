// SPDX-License-Identifier: Apache-2.0

import HTTP2

/// Validates requests to the FCM message endpoint as strictly as the real service.
struct FCMRequestValidator {
    struct Answer: Equatable {
        var status: Int
        /// The name of the google.rpc.Code, e.g. `NOT_FOUND`.
        var code: String?
        /// The `errorCode` of the FcmError detail; `nil` if the error has no such detail.
        var errorCode: String?
        /// The invalid field.
        var field: String?
        var retryAfter: Int?

        static let accepted = Answer(status: 200)
        static let notFound = Answer(status: 404, code: "NOT_FOUND")
        static func invalid(_ field: String) -> Answer {
            Answer(status: 400, code: "INVALID_ARGUMENT", errorCode: "INVALID_ARGUMENT", field: field)
        }
    }

    let projectID: String
    private static let pathStart = "/v1/projects/"
    private static let pathEnd = "/messages:send"
    private static let maximumPayload = 4096
    private static let maximumTTL = 2_419_200

    /// - Parameters:
    ///   - isCurrent: whether an access token was issued and has not expired.
    ///   - mayUse: whether a current access token was issued to an account of this project.
    ///   - device: looks up the device of the message's token.
    func validate(
        belongsToProject request: ServerRequest, isCurrent: (String) -> Bool, mayUse: (String) -> Bool = { _ in true },
        device: (String) -> Device?
    ) -> (answer: Answer, message: JSONValue?) {
        let headers = Headers(request.headers)
        guard headers[":path"] == Self.pathStart + projectID + Self.pathEnd, headers[":method"] == "POST" else {
            return (.notFound, nil)
        }
        guard let authorization = headers["authorization"], authorization.hasPrefix("Bearer "),
            isCurrent(String(authorization.dropFirst(7)))
        else { return (Answer(status: 401, code: "UNAUTHENTICATED"), nil) }
        guard mayUse(String(authorization.dropFirst(7))) else {
            return (Answer(status: 403, code: "PERMISSION_DENIED"), nil)
        }
        guard !request.isTooLarge, let body = JSONValue(request.body), let message = body["message"],
            body.object?.keys.allSatisfy({ ["message", "validate_only"].contains($0) }) == true
        else { return (.invalid("message"), nil) }
        if let field = Self.wrongField(of: message) { return (.invalid(field), nil) }
        return (validateDevice(device(message["token"]?.string ?? "")), message)
    }

    /// The project id in a request's path; `nil` if it is not the path of a message endpoint.
    static func projectID(inPath path: String) -> String? {
        guard path.hasPrefix(pathStart), path.hasSuffix(pathEnd) else { return nil }
        return String(path.dropFirst(pathStart.count).dropLast(pathEnd.count))
    }

    /// The first field of a message that FCM would report as invalid.
    private static func wrongField(of message: JSONValue) -> String? {
        guard let object = message.object,
            object.keys.allSatisfy({ ["token", "data", "notification", "android", "apns", "fcm_options"].contains($0) })
        else { return "message" }
        guard let token = message["token"]?.string, token.utf8.count >= 32 else { return "message.token" }
        var payload = 0
        for part in ["data", "notification"] {
            guard let values = object[part] else { continue }
            for (key, value) in values.object ?? ["": .null] {
                guard let text = value.string else { return "message.\(part)" }
                if part == "data", key == "from" || key.hasPrefix("gcm") || key.hasPrefix("google") {
                    return "message.data"
                }
                payload += key.utf8.count + text.utf8.count
            }
        }
        guard payload <= maximumPayload else { return "message" }
        guard let android = object["android"] else { return nil }
        guard let fields = android.object,
            fields.keys.allSatisfy({ ["priority", "ttl", "collapse_key", "notification"].contains($0) })
        else { return "message.android" }
        if let priority = fields["priority"], !["high", "normal"].contains(priority.string ?? "") {
            return "message.android.priority"
        }
        if let notification = fields["notification"], notification.object == nil {
            return "message.android.notification"
        }
        if let ttl = fields["ttl"] {
            guard let text = ttl.string, text.hasSuffix("s"), let seconds = Int(text.dropLast()),
                (0...maximumTTL).contains(seconds)
            else { return "message.android.ttl" }
        }
        return nil
    }

    private func validateDevice(_ device: Device?) -> Answer {
        guard let device, device.platform == .fcm else { return .invalid("message.token") }
        guard device.app == projectID else {
            return Answer(status: 403, code: "PERMISSION_DENIED", errorCode: "SENDER_ID_MISMATCH")
        }
        switch device.state {
        case .registered: return .accepted
        case .unregistered, .expired: return Answer(status: 404, code: "NOT_FOUND", errorCode: "UNREGISTERED")
        case .answers(let status, let reason, let retryAfter):
            return Answer(status: status, code: reason, errorCode: reason, retryAfter: retryAfter)
        }
    }
}
