// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import TestSupport
import Testing

@testable import HTTP2
@testable import StandIns

/// A valid request with one header field changed or removed, and the expected answer.
struct FieldFault: Sendable, CustomStringConvertible {
    let field: String
    let value: String?
    let status: Int
    let reason: String

    init(_ field: String, _ value: String?, _ status: Int, _ reason: String) {
        self.field = field
        self.value = value
        self.status = status
        self.reason = reason
    }

    var description: String { "\(field): \(value ?? "absent")" }
}

/// Answers of Apple's stand-in; each request differs from a valid one in one thing only.
@Suite(.tags(.sockets)) struct APNsStrictnessTests {
    private let key = SigningKey.generate(.es256)
    private let now: Int64 = 1_700_000_000
    private let deviceToken = String(repeating: "0f", count: 32)
    private let topic = "org.example.app"
    private let certificateName = "Apple Push Services: org.example.app"
    private let goodBody = #"{"aps":{"alert":{"body":"New message"}},"encrypted":"x"}"#

    private func makeValidator() -> APNsRequestValidator {
        APNsRequestValidator(
            platform: .apnsProduction, topics: [topic, "org.example.other"],
            key: APNsRequestValidator.Key(keyID: "KEY0000001", teamID: "TEAM000001", key: key.verifyingKey),
            certificateName: certificateName)
    }

    /// The value of `authorization` with a provider token.
    private func bearer(
        algorithm: String = "ES256", keyID: String = "KEY0000001", claims: String? = nil, issued: Int64? = nil,
        by other: SigningKey? = nil
    ) -> String {
        let header = "{\"alg\":\"\(algorithm)\",\"kid\":\"\(keyID)\"}"
        let body = claims ?? "{\"iss\":\"TEAM000001\",\"iat\":\(issued ?? now)}"
        let signed = Base64.encodeURLSafe(header.utf8) + [UInt8(ascii: ".")] + Base64.encodeURLSafe(body.utf8)
        let signature = Base64.encodeURLSafe((other ?? key).sign(signed))
        return "bearer " + String(decoding: signed + [UInt8(ascii: ".")] + signature, as: UTF8.self)
    }

    /// A valid request with these fields changed (`nil` removes one), this body and one field duplicated.
    private func request(
        _ changes: [String: String?] = [:], body: String? = nil, isTooLarge: Bool = false, twice: String? = nil
    ) -> ServerRequest {
        let fields: [(String, String)] = [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"),
            (":path", "/3/device/\(deviceToken)"), ("apns-topic", topic), ("apns-push-type", "alert"),
            ("authorization", bearer()), ("apns-id", "123e4567-e89b-82d3-a456-426614174000"),
            ("apns-collapse-id", "trade"), ("apns-expiration", "1700003600"), ("apns-priority", "10"),
        ]
        var headers = HeaderBlock()
        for (name, value) in fields {
            guard let field = changes[name, default: value] else { continue }
            headers.append(name, field)
            if name == twice { headers.append(name, field) }
        }
        return ServerRequest(
            stream: 1, headers: headers, body: Array((body ?? goodBody).utf8), isTooLarge: isTooLarge)
    }

    /// The answer of a new validator, where the device token belongs to a device with these properties.
    private func answer(
        to request: ServerRequest, clientName: String? = nil, state: Device.State = .registered,
        platform: Device.Platform = .apnsProduction, app: String? = nil
    ) -> APNsRequestValidator.Answer {
        var validator = makeValidator()
        let device = Device(platform: platform, app: app ?? topic, state: state)
        return validator.validate(request, clientName: clientName, now: now) { $0 == deviceToken ? device : nil }
    }

    @Test func `a valid request is accepted, with and without optional fields`() {
        #expect(answer(to: request()) == .accepted)
        let optional = ["apns-id", "apns-collapse-id", "apns-expiration", "apns-priority"]
        for name in optional { #expect(answer(to: request([name: nil])) == .accepted, "\(name)") }
        for priority in ["10", "5", "1"] { #expect(answer(to: request(["apns-priority": priority])) == .accepted) }
        #expect(answer(to: request(["apns-expiration": "0"])) == .accepted)
        let longest = String(repeating: "c", count: 64)
        #expect(answer(to: request(["apns-collapse-id": longest])) == .accepted)
        #expect(answer(to: request(["authorization": "Bearer \(bearer().dropFirst(7))"])) == .accepted)
    }

    @Test(arguments: appleFieldFaults)
    func `a wrong header field is rejected with its reason`(_ fault: FieldFault) {
        let found = answer(to: request([fault.field: fault.value]))
        #expect(found == .refused(fault.status, fault.reason))
    }

    @Test(arguments: [":path", "apns-topic", "apns-id", "apns-priority", "authorization"])
    func `a duplicate header field is rejected`(_ name: String) {
        #expect(answer(to: request(twice: name)) == .refused(400, "DuplicateHeaders"))
    }

    // MARK: Sender

    @Test func `a provider token of another key, team or algorithm is invalid`() {
        let foreign = SigningKey.generate(.es256)
        let signed = bearer()
        let wrong: [String] = [
            bearer(by: foreign), bearer(keyID: "KEY0000002"), bearer(algorithm: "none"), bearer(algorithm: "RS256"),
            bearer(claims: "{\"iss\":\"TEAM000002\",\"iat\":\(now)}"), bearer(claims: "{\"iss\":\"TEAM000001\"}"),
            bearer(claims: "{\"iss\":\"TEAM000001\",\"iat\":\"\(now)\"}"), bearer(claims: "no JSON"),
            String(signed.dropLast(4)), signed + ".more", "basic \(signed.dropFirst(7))",
            signed.replacing("bearer ", with: "bearer"),
        ]
        for authorization in wrong {
            let found = answer(to: request(["authorization": authorization]))
            #expect(found == .refused(403, "InvalidProviderToken"), "\(authorization)")
        }
    }

    @Test func `a provider token is valid for one hour after its time of issue`() {
        let cases: [(Int64, APNsRequestValidator.Answer)] = [
            (now - 3600, .accepted), (now - 3601, .refused(403, "ExpiredProviderToken")),
            (now + 300, .accepted), (now + 301, .refused(403, "InvalidProviderToken")),
        ]
        for (issued, wanted) in cases {
            #expect(answer(to: request(["authorization": bearer(issued: issued)])) == wanted)
        }
    }

    @Test func `a second provider token within 20 minutes is rejected, and the first stays valid`() {
        var validator = makeValidator()
        let device = Device(platform: .apnsProduction, app: topic)
        func validate(_ authorization: String, after seconds: Int64) -> APNsRequestValidator.Answer {
            validator.validate(request(["authorization": authorization]), clientName: nil, now: now + seconds) { _ in
                device
            }
        }
        let first = bearer(issued: now)
        let early = bearer(issued: now + 1199)
        let late = bearer(issued: now + 1200)
        #expect(validate(first, after: 0) == .accepted)
        #expect(validate(first, after: 600) == .accepted)
        #expect(validate(early, after: 1199) == .refused(429, "TooManyProviderTokenUpdates"))
        #expect(validate(first, after: 1199) == .accepted)
        #expect(validate(late, after: 1200) == .accepted)
        #expect(validate(late, after: 4800) == .accepted)
        #expect(validate(late, after: 4801) == .refused(403, "ExpiredProviderToken"))
    }

    @Test func `a certificate with the right name replaces a provider token, another one does not`() {
        let bare = request(["authorization": nil])
        #expect(answer(to: bare, clientName: certificateName) == .accepted)
        #expect(answer(to: bare, clientName: "Apple Push Services: other") == .refused(403, "BadCertificate"))
        #expect(answer(to: request(), clientName: "Apple Push Services: other") == .refused(403, "BadCertificate"))
        #expect(answer(to: bare) == .refused(403, "MissingProviderToken"))
    }

    @Test func `a key is valid for all apps of its team, a certificate only for the app it names`() {
        let other = "org.example.other"
        #expect(answer(to: request(["apns-topic": other]), app: other) == .accepted)
        let bare = request(["apns-topic": other, "authorization": nil])
        #expect(answer(to: bare, clientName: certificateName, app: other) == .refused(400, "TopicDisallowed"))
    }

    // MARK: Delivered notification

    /// The notification that a valid request with this body and these fields delivers.
    private func delivered(_ body: String, _ changes: [String: String?] = [:]) throws -> ReceivedNotification {
        let registry = DeviceRegistry()
        registry[deviceToken] = Device(platform: .apnsProduction, app: topic)
        let apple = SimulatedAPNs(makeValidator(), registry: registry) { now }
        return try #require(apple.answer(request(changes, body: body), clientName: nil).delivered)
    }

    @Test(arguments: [
        (#""Plain""#, nil, "Plain"), (#"{"body":"Body"}"#, nil, "Body"),
        (#"{"loc-key":"notification"}"#, nil, "notification"),
        (#"{"title":"Title","body":"Body"}"#, "Title", "Body"), (#"{"title":"Title"}"#, "Title", ""),
    ])
    func `an alert is a string, a body or a localization key`(_ alert: String, _ title: String?, _ text: String)
        throws
    {
        let received = try delivered("{\"aps\":{\"alert\":\(alert)},\"encrypted\":\"x\"}")
        #expect(received.banner == ReceivedNotification.Banner(title: title, text: text))
        #expect(received.alert == text)
        #expect(received.encrypted == "x")
    }

    @Test func `sound, content-available, mutable-content and priority are recorded as sent`() throws {
        let bare = try delivered(#"{"aps":{"alert":"a"}}"#)
        #expect(!bare.hasSound && !bare.isContentAvailable && !bare.isMutableContent && bare.isUrgent)
        #expect(bare.encrypted.isEmpty)
        #expect(try delivered(#"{"aps":{"alert":"a","sound":"default"}}"#).hasSound)
        #expect(try delivered(#"{"aps":{"alert":"a","content-available":1}}"#).isContentAvailable)
        #expect(try delivered(#"{"aps":{"alert":"a","mutable-content":1}}"#).isMutableContent)
        #expect(try !delivered(#"{"aps":{"alert":"a"}}"#, ["apns-priority": "5"]).isUrgent)
        #expect(try delivered(#"{"aps":{"alert":"a"}}"#, ["apns-priority": nil]).isUrgent)
        let silent = try delivered(
            #"{"aps":{"content-available":1}}"#, ["apns-push-type": "background", "apns-priority": "5"])
        #expect(silent.banner == nil)
    }

    // MARK: Payload

    @Test(arguments: [
        "", "{}", "[]", "no JSON", #"{"aps":{}}"#, #"{"aps":1}"#, #"{"encrypted":"x"}"#, #"{"aps":{"alert":"x"}"#,
    ])
    func `a payload without aps gets PayloadEmpty`(_ body: String) {
        #expect(answer(to: request(body: body)) == .refused(400, "PayloadEmpty"))
    }

    @Test func `a payload may have at most 4096 bytes`() {
        let filling = String(repeating: "x", count: 4096 - goodBody.utf8.count)
        let longest = goodBody.replacing("New message", with: "New message" + filling)
        #expect(longest.utf8.count == 4096)
        #expect(answer(to: request(body: longest)) == .accepted)
        #expect(answer(to: request(body: longest + " ")) == .refused(413, "PayloadTooLarge"))
        #expect(answer(to: request(isTooLarge: true)) == .refused(413, "PayloadTooLarge"))
    }

    @Test func `the push type must match the payload, and a background push must not be urgent`() {
        let silent = #"{"aps":{"content-available":1}}"#
        #expect(answer(to: request(body: silent)) == .refused(400, "InvalidPushType"))
        let urgent = request(["apns-push-type": "background", "apns-priority": "10"], body: silent)
        #expect(answer(to: urgent) == .refused(400, "BadPriority"))
        let patient = request(["apns-push-type": "background", "apns-priority": "5"], body: silent)
        #expect(answer(to: patient) == .accepted)
    }

    // MARK: Device

    @Test func `a device is reached only in its own environment and for its own app`() {
        #expect(answer(to: request(), platform: .apnsDevelopment) == .refused(400, "BadDeviceToken"))
        #expect(answer(to: request(), platform: .fcm) == .refused(400, "BadDeviceToken"))
        #expect(answer(to: request(), app: "org.example.other") == .refused(400, "DeviceTokenNotForTopic"))
        let toTheOther = request(["apns-topic": "org.example.other"])
        #expect(answer(to: toTheOther) == .refused(400, "DeviceTokenNotForTopic"))
        #expect(answer(to: toTheOther, app: "org.example.other") == .accepted)
    }

    @Test func `a dead device token gets 410 with its time, and a device may return any error`() {
        let removed = answer(to: request(), state: .unregistered(since: 1_600_000_000_001))
        #expect(removed == .refused(410, "Unregistered", timestamp: 1_600_000_000_001))
        let expired = answer(to: request(), state: .expired(since: 1_600_000_000_002))
        #expect(expired == .refused(410, "ExpiredToken", timestamp: 1_600_000_000_002))
        let arbitrary = answer(to: request(), state: .answers(status: 503, reason: "Shutdown", retryAfter: 3))
        #expect(
            arbitrary == APNsRequestValidator.Answer(status: 503, reason: "Shutdown", timestamp: nil, retryAfter: 3))
    }
}

/// Requests to Apple with one wrong field.
let appleFieldFaults: [FieldFault] = [
    FieldFault(":method", "GET", 405, "MethodNotAllowed"),
    FieldFault(":method", "PUT", 405, "MethodNotAllowed"),
    FieldFault(":method", nil, 405, "MethodNotAllowed"),
    FieldFault(":path", "/", 404, "BadPath"),
    FieldFault(":path", "/4/device/0f0f", 404, "BadPath"),
    FieldFault(":path", "/3/device", 404, "BadPath"),
    FieldFault(":path", nil, 404, "BadPath"),
    FieldFault(":path", "/3/device/", 400, "MissingDeviceToken"),
    FieldFault(":path", "/3/device/0f0f", 400, "BadDeviceToken"),
    FieldFault(":path", "/3/device/not-hexadecimal", 400, "BadDeviceToken"),
    FieldFault("authorization", nil, 403, "MissingProviderToken"),
    FieldFault("authorization", "", 403, "InvalidProviderToken"),
    FieldFault("authorization", "bearer a.b.c", 403, "InvalidProviderToken"),
    FieldFault("apns-topic", nil, 400, "MissingTopic"),
    FieldFault("apns-topic", "", 400, "BadTopic"),
    FieldFault("apns-topic", "example", 400, "BadTopic"),
    FieldFault("apns-topic", "org.example.unknown", 400, "TopicDisallowed"),
    FieldFault("apns-push-type", nil, 400, "InvalidPushType"),
    FieldFault("apns-push-type", "Alert", 400, "InvalidPushType"),
    FieldFault("apns-push-type", "loud", 400, "InvalidPushType"),
    FieldFault("apns-priority", "", 400, "BadPriority"),
    FieldFault("apns-priority", "7", 400, "BadPriority"),
    FieldFault("apns-priority", "010", 400, "BadPriority"),
    FieldFault("apns-expiration", "", 400, "BadExpirationDate"),
    FieldFault("apns-expiration", "-1", 400, "BadExpirationDate"),
    FieldFault("apns-expiration", "1.5", 400, "BadExpirationDate"),
    FieldFault("apns-expiration", "tomorrow", 400, "BadExpirationDate"),
    FieldFault("apns-id", "", 400, "BadMessageId"),
    FieldFault("apns-id", "123e4567e89b82d3a456426614174000", 400, "BadMessageId"),
    FieldFault("apns-id", "123E4567-E89B-82D3-A456-426614174000", 400, "BadMessageId"),
    FieldFault("apns-id", "123e4567-e89b-82d3-a456-42661417400", 400, "BadMessageId"),
    FieldFault("apns-id", "123e4567-e89b-82d3-a456-42661417400g", 400, "BadMessageId"),
    FieldFault("apns-collapse-id", "", 400, "BadCollapseId"),
    FieldFault("apns-collapse-id", String(repeating: "c", count: 65), 400, "BadCollapseId"),
]

/// Answers of Google's stand-in.
@Suite(.tags(.sockets)) struct FCMStrictnessTests {
    private let deviceToken = "cutUn7ZaTra9q3ayZG5vCQ:APA91bGrc9pTJdqzBgKYWQfP4I1g21rukjFpyKsjGCvFqnQl8owMqD"
    private let project = "example-project"

    /// A valid message except for these parts.
    private func message(
        token: String? = nil, data: String = #"{"encrypted":"x"}"#,
        android: String = #"{"priority":"high","ttl":"60s"}"#, more: String = ""
    ) -> String {
        "{\"message\":{\"token\":\"\(token ?? deviceToken)\",\"data\":\(data),\"android\":\(android)\(more)}}"
    }

    private func answer(
        _ body: String, path: String? = nil, method: String = "POST", authorization: String? = "Bearer good",
        isTooLarge: Bool = false, device: Device? = Device(platform: .fcm, app: "example-project")
    ) -> FCMRequestValidator.Answer {
        var headers = HeaderBlock()
        headers.append(":method", method)
        headers.append(":path", path ?? "/v1/projects/\(project)/messages:send")
        if let authorization { headers.append("authorization", authorization) }
        let request = ServerRequest(stream: 1, headers: headers, body: Array(body.utf8), isTooLarge: isTooLarge)
        return FCMRequestValidator(projectID: project).validate(
            belongsToProject: request, isCurrent: { $0 == "good" }, device: { $0 == deviceToken ? device : nil }
        ).answer
    }

    @Test func `a valid message is accepted, with and without optional fields`() {
        #expect(answer(message()) == .accepted)
        #expect(answer("{\"message\":{\"token\":\"\(deviceToken)\"}}") == .accepted)
        let everything = message(
            android: #"{"priority":"normal","ttl":"2419200s","collapse_key":"k","notification":{"sound":"default"}}"#,
            more: #","notification":{"title":"t","body":"b"}"#)
        #expect(answer(everything) == .accepted)
        #expect(answer(message(android: #"{"ttl":"0s"}"#)) == .accepted)
    }

    @Test(arguments: [
        "/", "/token", "/v1/projects/another/messages:send", "/v1/projects/example-project/messages",
        "/v1/projects/example-project/messages:send/",
    ])
    func `any path other than the project's send method gets NOT_FOUND`(_ path: String) {
        #expect(answer(message(), path: path) == FCMRequestValidator.Answer(status: 404, code: "NOT_FOUND"))
    }

    @Test func `a message must be sent with POST`() {
        #expect(answer(message(), method: "GET") == FCMRequestValidator.Answer(status: 404, code: "NOT_FOUND"))
    }

    @Test(arguments: [nil, "", "good", "Bearer", "Bearer ", "Bearer unknown", "Basic good", "Bearer good "])
    func `a request without a valid access token gets UNAUTHENTICATED, whatever its body`(_ authorization: String?) {
        let wanted = FCMRequestValidator.Answer(status: 401, code: "UNAUTHENTICATED")
        #expect(answer(message(), authorization: authorization) == wanted)
        #expect(answer("no JSON", authorization: authorization) == wanted)
    }

    @Test(arguments: ["", "no JSON", "{}", "[]", #"{"message":7}"#, #"{"messages":{}}"#])
    func `a body without a message is invalid`(_ body: String) { #expect(answer(body) == .invalid("message")) }

    @Test func `an unknown field is invalid`() {
        let good = message()
        #expect(answer(String(good.dropLast()) + #","validate":true}"#) == .invalid("message"))
        #expect(answer(String(good.dropLast()) + #","validate_only":false}"#) == .accepted)
        #expect(answer(message(more: #","encrypted":"x""#)) == .invalid("message"))
        #expect(answer(message(android: #"{"sound":"default"}"#)) == .invalid("message.android"))
        #expect(answer(message(android: #"{"collapseKey":"k"}"#)) == .invalid("message.android"))
        #expect(answer(message(android: "7")) == .invalid("message.android"))
        #expect(answer(message(android: #"{"notification":"x"}"#)) == .invalid("message.android.notification"))
    }

    @Test(arguments: [
        #"{"encrypted":7}"#, #"{"encrypted":null}"#, #"{"encrypted":true}"#, #"{"encrypted":{"a":"b"}}"#,
        #"{"encrypted":["x"]}"#, "7", #"["x"]"#, #""x""#,
    ])
    func `data must be an object of strings`(_ data: String) {
        #expect(answer(message(data: data)) == .invalid("message.data"))
    }

    @Test(arguments: ["from", "gcm", "gcm.notification", "google", "google.sent_time"])
    func `keys that Google reserves are invalid in data`(_ name: String) {
        #expect(answer(message(data: "{\"\(name)\":\"x\"}")) == .invalid("message.data"))
    }

    @Test func `a notification must be an object of strings`() {
        #expect(answer(message(more: #","notification":{"title":7}"#)) == .invalid("message.notification"))
        #expect(answer(message(more: #","notification":"x""#)) == .invalid("message.notification"))
    }

    @Test func `data and notification together may have at most 4096 bytes`() {
        func data(_ length: Int) -> String {
            "{\"encrypted\":\"\(String(repeating: "x", count: length))\"}"
        }
        #expect(answer(message(data: data(4096 - 9))) == .accepted)
        #expect(answer(message(data: data(4096 - 8))) == .invalid("message"))
        let notification = #","notification":{"title":"t","body":"b"}"#
        #expect(answer(message(data: data(4096 - 9 - 11), more: notification)) == .accepted)
        #expect(answer(message(data: data(4096 - 9 - 10), more: notification)) == .invalid("message"))
        #expect(answer(message(), isTooLarge: true) == .invalid("message"))
    }

    @Test(arguments: [#""60""#, "60", #""s""#, #""-1s""#, #""2419201s""#, #""60 s""#, #""1m""#, "null", "\"\""])
    func `a ttl must be seconds with the suffix s, at most four weeks`(_ ttl: String) {
        #expect(answer(message(android: "{\"ttl\":\(ttl)}")) == .invalid("message.android.ttl"))
    }

    @Test(arguments: [#""HIGH""#, #""urgent""#, "10", "null", "\"\""])
    func `a priority must be high or normal`(_ priority: String) {
        #expect(answer(message(android: "{\"priority\":\(priority)}")) == .invalid("message.android.priority"))
    }

    @Test func `a missing, malformed or unknown device token is named as the invalid field`() {
        #expect(answer(#"{"message":{"data":{"encrypted":"x"}}}"#) == .invalid("message.token"))
        #expect(answer(#"{"message":{"token":7}}"#) == .invalid("message.token"))
        #expect(answer(message(token: "short")) == .invalid("message.token"))
        #expect(answer(message(token: deviceToken + "x")) == .invalid("message.token"))
        #expect(answer(message(), device: nil) == .invalid("message.token"))
        let iPhone = Device(platform: .apnsProduction, app: project)
        #expect(answer(message(), device: iPhone) == .invalid("message.token"))
    }

    @Test func `a device of another project gets SENDER_ID_MISMATCH, a dead one UNREGISTERED`() {
        let foreign = Device(platform: .fcm, app: "another")
        let mismatch = FCMRequestValidator.Answer(
            status: 403, code: "PERMISSION_DENIED", errorCode: "SENDER_ID_MISMATCH")
        #expect(answer(message(), device: foreign) == mismatch)
        let gone = FCMRequestValidator.Answer(status: 404, code: "NOT_FOUND", errorCode: "UNREGISTERED")
        for state in [Device.State.unregistered(since: 1), .expired(since: 1)] {
            #expect(answer(message(), device: Device(platform: .fcm, app: project, state: state)) == gone)
        }
    }

    @Test func `an access token is valid only for its own account's project`() throws {
        let key = SigningKey.generate(.rs256)
        let registry = DeviceRegistry()
        registry[deviceToken] = Device(platform: .fcm, app: "second")
        let google = SimulatedFCM(projectIDs: ["first", "second"], key: key.verifyingKey, registry: registry) { 1000 }
        google.tokenURI = "https://localhost/token"
        func post(_ path: String, _ body: String, _ authorization: String? = nil) -> PushAnswer {
            var headers = HeaderBlock()
            headers.append(":method", "POST")
            headers.append(":path", path)
            if let authorization { headers.append("authorization", authorization) }
            return google.answer(
                ServerRequest(stream: 1, headers: headers, body: Array(body.utf8), isTooLarge: false), clientName: nil)
        }
        func requestToken(by issuer: String) -> Response {
            let claims = """
                {"iss":"\(issuer)","aud":"https://localhost/token","iat":1000,"exp":1600,\
                "scope":"https://www.googleapis.com/auth/firebase.messaging"}
                """
            let signed = Base64.encodeURLSafe(#"{"alg":"RS256"}"#.utf8) + [0x2E] + Base64.encodeURLSafe(claims.utf8)
            let assertion = String(
                decoding: signed + [0x2E] + Base64.encodeURLSafe(key.sign(signed)), as: UTF8.self)
            let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
            return post("/token", grant).response
        }
        func bearer(_ project: String) throws -> String {
            let response = requestToken(by: SimulatedFCM.clientEmail(projectID: project))
            return "Bearer \(try #require(JSONValue(response.body)?["access_token"]?.string))"
        }
        let (first, second) = (try bearer("first"), try bearer("second"))
        #expect(requestToken(by: SimulatedFCM.clientEmail(projectID: "third")).status == 400)
        func send(_ project: String, _ authorization: String) -> PushAnswer {
            post("/v1/projects/\(project)/messages:send", message(), authorization)
        }
        #expect(send("second", second).response.status == 200)
        #expect(send("second", second).delivered?.deviceToken == deviceToken)
        let foreign = send("second", first)
        #expect(foreign.response.status == 403)
        #expect(JSONValue(foreign.response.body)?["error"]?["status"] == .string("PERMISSION_DENIED"))
        #expect(foreign.delivered == nil)
        // The access token is valid, but the phone's app belongs to the other project.
        #expect(String(decoding: send("first", first).response.body, as: UTF8.self).contains("SENDER_ID_MISMATCH"))
        #expect(send("third", first).response.status == 404)
    }

    @Test func `a device may return any error`() {
        let state = Device.State.answers(status: 429, reason: "QUOTA_EXCEEDED", retryAfter: 61)
        let found = answer(message(), device: Device(platform: .fcm, app: project, state: state))
        #expect(found.status == 429)
        #expect(found.errorCode == "QUOTA_EXCEEDED")
        #expect(found.retryAfter == 61)
    }
}
