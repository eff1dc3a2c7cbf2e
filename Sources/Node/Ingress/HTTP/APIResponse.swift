// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP1
import Providers
import TNP

/// Makes the HTTP endpoint's responses.
enum APIResponse {
    /// The response to a request with this outcome.
    static func response(to dialect: APIRequest.Dialect, _ outcome: Outcome) -> HTTPResponse {
        switch (outcome.kind, dialect) {
        case (.delivered, .relay), (.queued, .relay): success
        case (.delivered, .device), (.queued, .device): accepted
        case (_, .relay): error(status(of: outcome, dialect), outcome.sentence, outcome)
        case (_, .device(let magic)): refusal(outcome, magic)
        case (_, .handles(let origin)): handleRefusal(outcome, origin)
        }
    }

    /// Bisq 1 compares the body with these seven bytes.
    private static let success = HTTPResponse(
        status: 200, headers: [("content-type", "text/plain")], body: Array("success".utf8))
    private static let accepted = json(200, "{\"wasAccepted\":true,\"isUnregistered\":false}")

    /// The response to the owner of a handle whose request was accepted.
    static func registered(_ handle: Handle, for origin: String?) -> HTTPResponse {
        json(200, "{\"handle\":\"\(Hex.encode(handle.bytes))\"}", headers: allowing(origin))
    }

    private static func handleRefusal(_ outcome: Outcome, _ origin: String?) -> HTTPResponse {
        let status = status(of: outcome, .handles(origin: origin))
        return json(
            status,
            "{\"outcome\":\"\(outcome.kind.name.uppercased())\",\"reason\":\(outcome.reason.rawValue),"
                + "\"retryAfterMillis\":\(outcome.retryAfter),\"text\":\"\(JSONText.escaped(outcome.sentence))\"}",
            headers: retryAfter(status, outcome.retryAfter) + allowing(origin))
    }

    /// The answer to a browser that asks whether a page of an allowed origin may send requests about handles.
    static func preflight(for origin: String?) -> HTTPResponse {
        let fields = [
            ("access-control-allow-methods", "GET, POST, PUT, DELETE"),
            ("access-control-allow-headers", "content-type"), ("access-control-max-age", "7200"),
        ]
        return HTTPResponse(status: 204, headers: allowing(origin) + fields)
    }

    /// The header fields that let a browser pass the response to a page of this origin (Fetch Standard, "HTTP
    /// responses").
    static func allowing(_ origin: String?) -> [(String, String)] {
        origin.map { [("access-control-allow-origin", $0), ("vary", "origin")] } ?? []
    }

    /// An error response.
    /// - Parameters:
    ///   - text: one sentence for a person.
    ///   - outcome: supplies the reason and the retry-after, if given.
    static func error(
        _ status: Int, _ text: String, _ outcome: Outcome? = nil, headers: [(String, String)] = []
    ) -> HTTPResponse {
        let reason = outcome.map { ",\"reason\":\($0.reason.rawValue)" } ?? ""
        return json(
            status, "{\"status\":\(status),\"error\":\"\(JSONText.escaped(text))\"\(reason)}",
            headers: headers + retryAfter(status, outcome?.retryAfter))
    }

    /// The response to a client that is rejected with this GOAWAY.
    static func rejection(_ goAway: GoAway) -> HTTPResponse {
        let outcome = outcome(of: goAway)
        return error(status(of: outcome, .relay), goAway.text, outcome)
    }

    /// The outcome of a pending request whose sender is rejected with this GOAWAY.
    static func outcome(of goAway: GoAway) -> Outcome {
        // A block lasts longer than a client would wait: the response has no Retry-After.
        goAway.code == .abuse
            ? .retry(.connectionOverRate, after: 0, text: goAway.text)
            : .retry(.nodeBusy, after: goAway.retryAfter, text: goAway.text)
    }

    /// A refusal with the four fields that the clients of `/v1` know. Every final refusal has status 400, as in bisq-relay:
    /// Bisq 2 reads the fields only with that status.
    private static func refusal(_ outcome: Outcome, _ magic: Magic?) -> HTTPResponse {
        let status = status(of: outcome, .device(magic))
        // As in bisq-relay: Apple's Unregistered, ExpiredToken and BadDeviceToken, Google's UNREGISTERED. The desktop
        // then deletes the registration, so a token that only belongs to another app must not be reported like this. A
        // handle counts as unregistered only if the node does not know it: its owner may put another device token
        // behind it.
        let isUnregistered =
            magic == nil
            ? outcome.reason == .unknownHandle
            : outcome.kind == .gone || (outcome.isTokenUnknown && magic?.isApple == true)
        return json(
            status,
            "{\"wasAccepted\":false,\"errorCode\":\"\(code(of: outcome, status, magic))\","
                + "\"errorMessage\":\"\(JSONText.escaped(outcome.sentence))\",\"isUnregistered\":\(isUnregistered)}",
            headers: retryAfter(status, outcome.retryAfter))
    }

    private static func status(of outcome: Outcome, _ dialect: APIRequest.Dialect) -> Int {
        switch (outcome.kind, outcome.reason) {
        case (.delivered, _), (.queued, _): 200
        case (.rejected, .tooLarge) where dialect == .relay: 413
        case (.gone, _): if case .handles = dialect { 410 } else { 400 }
        case (.rejected, _): 400
        case (.retry, .deviceTokenOverRate), (.retry, .connectionOverRate), (.retry, .tooManyUnproven),
            (.retry, .tooManyInFlight):
            429
        case (.retry, _): 503
        }
    }

    /// The push service's own name for the reason, if it has one.
    private static func code(of outcome: Outcome, _ status: Int, _ magic: Magic?) -> String {
        // A handle does not tell the platform of its phone: the names are then Apple's.
        let isApple = magic?.isApple != false
        return switch (outcome.reason, status) {
        case (.unknownHandle, _): "UnknownHandle"
        case (.unregistered, _): isApple ? "Unregistered" : "UNREGISTERED"
        case (.badDeviceToken, _) where outcome.isTokenUnknown:
            isApple ? "BadDeviceToken" : "INVALID_ARGUMENT"
        case (.badDeviceToken, _): isApple ? "DeviceTokenNotForTopic" : "SENDER_ID_MISMATCH"
        case (.tooLarge, _): "PayloadTooLarge"
        case (_, 429): "TooManyRequests"
        case (_, 503): "ServiceUnavailable"
        default: "BadRequest"
        }
    }

    /// The longest Retry-After in seconds. Apache's HttpClient 5, which Bisq 2 uses, sleeps for all of it, in one of the
    /// desktop's five threads for notifications.
    private static let maximumRetryAfter: UInt64 = 5

    private static func retryAfter(_ status: Int, _ milliseconds: UInt32?) -> [(String, String)] {
        guard status == 429 || status == 503, let milliseconds, milliseconds > 0 else { return [] }
        return [("retry-after", "\(min(maximumRetryAfter, (UInt64(milliseconds) + 999) / 1000))")]
    }

    static func json(_ status: Int, _ body: String, headers: [(String, String)] = []) -> HTTPResponse {
        HTTPResponse(status: status, headers: [("content-type", "application/json")] + headers, body: Array(body.utf8))
    }
}
