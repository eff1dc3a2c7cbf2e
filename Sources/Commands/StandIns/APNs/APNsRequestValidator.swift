// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP2

/// Validates requests to one APNs environment as strictly as the real service, in the same order of checks.
struct APNsRequestValidator {
    struct Answer: Equatable {
        var status: Int
        var reason: String?
        var timestamp: UInt64?
        var retryAfter: Int?

        static let accepted = Answer(status: 200)
        static func refused(_ status: Int, _ reason: String, timestamp: UInt64? = nil) -> Answer {
            Answer(status: status, reason: reason, timestamp: timestamp)
        }
    }

    /// The developer's key that verifies provider tokens.
    struct Key {
        let keyID: String
        let teamID: String
        let key: VerifyingKey
    }

    let platform: Device.Platform
    /// The bundle ids of all known apps.
    let topics: Set<String>
    let key: Key
    /// Common name of the client certificate that a provider may use instead of a token. It is valid only for the topic
    /// in its name.
    let certificateName: String
    /// When the current provider token was issued, and when it came for the first time, in Unix time.
    private var lastUpdate: (issued: Int64, received: Int64)?
    private var lastToken: String?
    /// The hashes of the valid provider tokens seen, including those rejected for too frequent updates; at most 100,000.
    private(set) var tokensSeen: Set<Int> = []
    private static let maximumTokensSeen = 100_000

    private static let pushTypes: Set<String> = [
        "alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
        "pushtotalk", "voip", "widgets",
    ]
    private static let maximumPayload = 4096
    private static let tokenLifetime: Int64 = 3600
    private static let shortestRenewal: Int64 = 20 * 60

    init(platform: Device.Platform, topics: Set<String>, key: Key, certificateName: String) {
        self.platform = platform
        self.topics = topics
        self.key = key
        self.certificateName = certificateName
    }

    /// - Parameter device: looks up the device of the request's device token.
    mutating func validate(
        _ request: ServerRequest, clientName: String?, now: Int64, device: (String) -> Device?
    ) -> Answer {
        let headers = Headers(request.headers)
        guard headers[":method"] == "POST" else { return .refused(405, "MethodNotAllowed") }
        guard let token = Self.deviceToken(inPath: headers[":path"] ?? "") else { return .refused(404, "BadPath") }
        guard !token.isEmpty else { return .refused(400, "MissingDeviceToken") }
        guard !headers.hasDuplicates else { return .refused(400, "DuplicateHeaders") }
        if let refusal = validateProvider(headers, clientName: clientName, now: now) { return refusal }
        if let refusal = validateHeaders(headers, hasCertificate: clientName != nil) { return refusal }
        if let refusal = Self.validatePayload(request, pushType: headers["apns-push-type"] ?? "") { return refusal }
        return validateDevice(device(token), token: token, topic: headers["apns-topic"] ?? "")
    }

    /// The common name of an app's client certificate.
    static func certificateName(topic: String) -> String { "Apple Push Services: \(topic)" }

    static func deviceToken(inPath path: String) -> String? {
        path.hasPrefix("/3/device/") ? String(path.dropFirst("/3/device/".count)) : nil
    }

    private mutating func validateProvider(_ headers: Headers, clientName: String?, now: Int64) -> Answer? {
        if let clientName {
            guard clientName == certificateName else { return .refused(403, "BadCertificate") }
            return nil
        }
        guard let authorization = headers["authorization"] else { return .refused(403, "MissingProviderToken") }
        guard authorization.lowercased().hasPrefix("bearer "), let token = WebToken(String(authorization.dropFirst(7))),
            token.header["kid"]?.string == key.keyID, token.claims["iss"]?.string == key.teamID,
            token.isSigned(by: key.key), let issued = token.claims["iat"]?.number.map({ Int64($0) }),
            issued <= now + 300
        else { return .refused(403, "InvalidProviderToken") }
        guard now - issued <= Self.tokenLifetime else { return .refused(403, "ExpiredProviderToken") }
        if lastToken != authorization {
            if tokensSeen.count < Self.maximumTokensSeen { tokensSeen.insert(authorization.hashValue) }
            if let lastUpdate, abs(issued - lastUpdate.issued) < Self.shortestRenewal,
                abs(now - lastUpdate.received) < Self.shortestRenewal
            {
                return .refused(429, "TooManyProviderTokenUpdates")
            }
            lastToken = authorization
            lastUpdate = (issued, now)
        }
        return nil
    }

    private func validateHeaders(_ headers: Headers, hasCertificate: Bool) -> Answer? {
        guard let topic = headers["apns-topic"] else { return .refused(400, "MissingTopic") }
        guard topics.contains(topic) else {
            return .refused(400, topic.contains(".") ? "TopicDisallowed" : "BadTopic")
        }
        // A team's key is valid for all its apps, a certificate for one.
        if hasCertificate, certificateName != Self.certificateName(topic: topic) {
            return .refused(400, "TopicDisallowed")
        }
        guard let pushType = headers["apns-push-type"], Self.pushTypes.contains(pushType) else {
            return .refused(400, "InvalidPushType")
        }
        if let priority = headers["apns-priority"] {
            guard ["10", "5", "1"].contains(priority), pushType != "background" || priority != "10" else {
                return .refused(400, "BadPriority")
            }
        }
        if let expiration = headers["apns-expiration"] {
            guard let seconds = Int64(expiration), seconds >= 0 else { return .refused(400, "BadExpirationDate") }
        }
        if let id = headers["apns-id"], !Self.isUUID(id) { return .refused(400, "BadMessageId") }
        if let collapseID = headers["apns-collapse-id"], !(1...64).contains(collapseID.utf8.count) {
            return .refused(400, "BadCollapseId")
        }
        return nil
    }

    private static func validatePayload(_ request: ServerRequest, pushType: String) -> Answer? {
        guard !request.isTooLarge, request.body.count <= maximumPayload else {
            return .refused(413, "PayloadTooLarge")
        }
        guard let payload = JSONValue(request.body), let aps = payload["aps"]?.object, !aps.isEmpty else {
            return .refused(400, "PayloadEmpty")
        }
        if pushType == "alert", aps["alert"] == nil { return .refused(400, "InvalidPushType") }
        return nil
    }

    private func validateDevice(_ device: Device?, token: String, topic: String) -> Answer {
        guard Hex.decode(token) != nil, let device, device.platform == platform else {
            return .refused(400, "BadDeviceToken")
        }
        guard device.app == topic else { return .refused(400, "DeviceTokenNotForTopic") }
        switch device.state {
        case .registered: return .accepted
        case .unregistered(let since): return .refused(410, "Unregistered", timestamp: since)
        case .expired(let since): return .refused(410, "ExpiredToken", timestamp: since)
        case .answers(let status, let reason, let retryAfter):
            return Answer(status: status, reason: reason, timestamp: nil, retryAfter: retryAfter)
        }
    }

    private static func isUUID(_ text: String) -> Bool {
        let groups = text.split(separator: "-", omittingEmptySubsequences: false)
        return groups.map(\.utf8.count) == [8, 4, 4, 4, 12] && text == text.lowercased()
            && groups.allSatisfy { $0.utf8.allSatisfy(Hex.isDigit) }
    }
}

/// A request's header fields by name.
struct Headers {
    private var values: [String: String] = [:]
    /// Whether a field occurs more than once.
    private(set) var hasDuplicates = false

    init(_ block: HeaderBlock) {
        for (name, value) in block.all {
            if values.updateValue(value, forKey: name) != nil { hasDuplicates = true }
        }
    }

    subscript(name: String) -> String? { values[name] }
}
