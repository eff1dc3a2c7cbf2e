// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import HTTP2

/// Simulates the FCM message endpoint and its OAuth token endpoint.
final class SimulatedFCM: PushService {
    /// The grant of an issued access token.
    private struct Grant {
        let projectID: String
        /// Unix time in seconds.
        let expires: Int64
    }

    static let tokenEndpointPath = "/token"
    private static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    /// Each project has one service account. All accounts share a key, because generating one is slow.
    private let projectIDs: Set<String>
    private let key: VerifyingKey
    private let registry: DeviceRegistry
    private let now: () -> Int64
    /// The URI of the token endpoint in service account files.
    var tokenURI = ""
    /// Lifetime of an access token in seconds.
    var tokenLifetime: Int64 = 3600
    /// Number of access tokens issued.
    private(set) var tokensIssued = 0
    private var accessTokens: [String: Grant] = [:]
    private var messages = 0

    init(projectIDs: Set<String>, key: VerifyingKey, registry: DeviceRegistry, now: @escaping () -> Int64) {
        self.projectIDs = projectIDs
        self.key = key
        self.registry = registry
        self.now = now
    }

    /// The email address of a project's service account.
    static func clientEmail(projectID: String) -> String { "node@\(projectID).iam.gserviceaccount.com" }

    var tokenPath: String? { Self.tokenEndpointPath }

    /// FCM uses access tokens, not provider tokens.
    var providerTokensSeen: Set<Int> { [] }

    var namesRetryAfter: Bool { true }

    func device(of request: ServerRequest) -> String? { JSONValue(request.body)?["message"]?["token"]?.string }

    func answer(_ request: ServerRequest, clientName: String?) -> PushAnswer {
        let path = request.headers.text(":path") ?? ""
        if path == Self.tokenEndpointPath { return PushAnswer(response: grant(request)) }
        guard let projectID = FCMRequestValidator.projectID(inPath: path), projectIDs.contains(projectID) else {
            return PushAnswer(response: Self.response(.notFound))
        }
        let (answer, message) = FCMRequestValidator(projectID: projectID).validate(
            belongsToProject: request, isCurrent: { accessTokens[$0].map { $0.expires > now() } ?? false },
            mayUse: { accessTokens[$0]?.projectID == projectID }, device: { registry[$0] })
        guard answer == .accepted, let message else { return PushAnswer(response: Self.response(answer)) }
        messages += 1
        let name = "projects/\(projectID)/messages/0:\(messages)%simulated"
        let body = Array("{\n  \"name\": \"\(name)\"\n}\n".utf8)
        return PushAnswer(
            response: Response(status: 200, headers: Self.headers(of: answer), body: body),
            delivered: Self.notification(message, name: name))
    }

    func errorResponse(_ error: Faults.ErrorAnswer, to request: ServerRequest) -> Response {
        let words: (code: String, errorCode: String) =
            switch error.status {
            case 429: ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
            case 503: ("UNAVAILABLE", "UNAVAILABLE")
            default: ("INTERNAL", "INTERNAL")
            }
        return Self.response(
            FCMRequestValidator.Answer(
                status: error.status, code: error.reason ?? words.code, errorCode: error.reason ?? words.errorCode,
                retryAfter: error.retryAfter))
    }

    private static func headers(of answer: FCMRequestValidator.Answer) -> HeaderBlock {
        var headers = HeaderBlock()
        headers.append("content-type", "application/json; charset=UTF-8")
        if let retryAfter = answer.retryAfter { headers.append("retry-after", String(retryAfter)) }
        return headers
    }

    private static func response(_ answer: FCMRequestValidator.Answer) -> Response {
        Response(status: answer.status, headers: headers(of: answer), body: body(of: answer))
    }

    private static func body(of answer: FCMRequestValidator.Answer) -> [UInt8] {
        var details: [String] = []
        if let errorCode = answer.errorCode {
            details.append(
                "{\"@type\":\"type.googleapis.com/google.firebase.fcm.v1.FcmError\",\"errorCode\":\"\(errorCode)\"}")
        }
        if let field = answer.field {
            details.append(
                "{\"@type\":\"type.googleapis.com/google.rpc.BadRequest\",\"fieldViolations\":[{\"field\":\"\(field)\","
                    + "\"description\":\"invalid\"}]}")
        }
        return Array(
            ("{\"error\":{\"code\":\(answer.status),\"message\":\"simulated\",\"status\":\"\(answer.code ?? "")\","
                + "\"details\":[\(details.joined(separator: ","))]}}").utf8)
    }

    private static func notification(_ message: JSONValue, name: String) -> ReceivedNotification {
        let block = message["notification"]
        let android = message["android"]
        return ReceivedNotification(
            platform: .fcm, deviceToken: message["token"]?.string ?? "",
            encrypted: message["data"]?["encrypted"]?.string ?? "",
            banner: block.map {
                ReceivedNotification.Banner(title: $0["title"]?.string, text: $0["body"]?.string ?? "")
            },
            hasSound: (block == nil ? message["data"]?["sound"] : android?["notification"]?["sound"]) != nil,
            isContentAvailable: false, isMutableContent: false, isUrgent: android?["priority"]?.string == "high",
            id: name, collapseID: android?["collapse_key"]?.string)
    }

    /// Issues an access token for a valid assertion (RFC 7523 §2.1), else returns an error of RFC 6749 §5.2.
    private func grant(_ request: ServerRequest) -> Response {
        func refused(_ error: String) -> Response {
            Response(status: 400, body: Array("{\"error\":\"\(error)\"}".utf8))
        }
        let form = Self.form(request.body)
        guard form["grant_type"] == Self.grantType else { return refused("unsupported_grant_type") }
        guard let assertion = form["assertion"].flatMap({ WebToken($0) }), assertion.isSigned(by: key),
            let issuer = assertion.claims["iss"]?.string,
            let projectID = projectIDs.first(where: { Self.clientEmail(projectID: $0) == issuer }),
            assertion.claims["aud"]?.string == tokenURI,
            assertion.claims["scope"]?.string == Self.scope,
            let issued = assertion.claims["iat"]?.number, let expires = assertion.claims["exp"]?.number,
            expires - issued <= 3600, expires > Double(now()), issued <= Double(now() + 300)
        else { return refused("invalid_grant") }
        let token = "ya29.simulated-" + Hex.encode(SecureRandom.bytes(24))
        accessTokens[token] = Grant(projectID: projectID, expires: now() + tokenLifetime)
        tokensIssued += 1
        return Response(
            status: 200,
            body: Array(
                "{\"access_token\":\"\(token)\",\"expires_in\":\(tokenLifetime),\"token_type\":\"Bearer\"}".utf8))
    }

    /// Parses an `application/x-www-form-urlencoded` body; malformed fields are skipped.
    private static func form(_ body: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1)
            guard parts.count == 2, let value = percentDecoded(parts[1]) else { continue }
            fields[String(decoding: parts[0], as: UTF8.self)] = value
        }
        return fields
    }

    private static func percentDecoded(_ text: ArraySlice<UInt8>) -> String? {
        var output: [UInt8] = []
        var rest = text
        while let character = rest.popFirst() {
            if character == UInt8(ascii: "%") {
                guard let byte = Hex.decode(rest.prefix(2)), byte.count == 1 else { return nil }
                output += byte
                rest = rest.dropFirst(2)
            } else {
                output.append(character)
            }
        }
        return String(validating: output, as: UTF8.self)
    }
}
