// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import HTTP2
import Providers
import StandIns
import TNP
import TestSupport
import Testing

/// The answers of APNs and FCM come from the simulated services over real HTTP/2 and TLS.
@Suite(.tags(.computing)) struct OutcomeTableTests {
    /// Shared by all cases, because APNs accepts one provider token in 20 minutes.
    private static let stand: Task<ProviderStand, any Error> = Task { try await ProviderStand.start() }
    private static let goneSince: UInt64 = 1_700_000_000_000

    /// Sends an envelope to an iPhone in this state at APNs.
    private func apple(_ state: Device.State, platform: Device.Platform = .apnsProduction) async throws -> AttemptResult
    {
        let stand = try await Self.stand.value
        try await stand.waitForApple()
        let deviceToken = Phone.new(.iOS, model: "iPhone").pairing.deviceToken
        await stand.services.set(Device(platform: platform, app: ProviderStand.topic, state: state), for: deviceToken)
        return try await stand.toApple(makeEnvelope(to: deviceToken))
    }

    /// Sends an envelope to an Android phone in this state at FCM.
    private func google(_ state: Device.State, app: String = ProviderStand.projectID) async throws -> AttemptResult {
        let stand = try await Self.stand.value
        let deviceToken = Phone.new(.android, model: "Pixel").pairing.deviceToken
        await stand.services.set(Device(platform: .fcm, app: app, state: state), for: deviceToken)
        return try await stand.toGoogle(makeEnvelope(to: deviceToken, magic: .android))
    }

    /// The result that a row of a table stands for.
    private func attemptResult(_ disposition: Disposition, answer: String, goneSince: UInt64? = nil) -> AttemptResult {
        var outcome = Outcome(
            disposition.kind, reason: disposition.reason, retryAfter: disposition.defaultRetryAfter * 1000,
            text: disposition.kind == .rejected ? disposition.reason.description : nil, goneSince: goneSince)
        outcome.isTokenUnknown = ["BadDeviceToken", "INVALID_ARGUMENT"].contains(answer)
        return AttemptResult(outcome, disposition: disposition, answer: answer)
    }

    // MARK: The tables

    @Test(arguments: APNsAnswers.table.indices)
    func `each APNs answer has the outcome in its row`(_ index: Int) async throws {
        let row = APNsAnswers.table[index]
        let state: Device.State
        switch row.reason {
        case "Unregistered": state = .unregistered(since: Self.goneSince)
        case "ExpiredToken": state = .expired(since: Self.goneSince)
        default: state = .answers(status: row.status, reason: row.reason, retryAfter: nil)
        }
        let goneSince: UInt64? = row.disposition.kind == .gone ? Self.goneSince : nil
        var wanted = attemptResult(row.disposition, answer: row.reason, goneSince: goneSince)
        if row.reason == "TooManyProviderTokenUpdates" { wanted.outcome.text = APNsAnswers.tooManyTokens }
        let found = try await apple(state)
        #expect(found.withoutDetail == wanted)
    }

    @Test(arguments: FCMAnswers.table.indices)
    func `each FCM answer has the outcome in its row`(_ index: Int) async throws {
        let row = FCMAnswers.table[index]
        for status in row.status.map({ [$0] }) ?? [400, 500, 503] {
            // Without a field violation the answer is about the registration token, unlike the row.
            let wanted = attemptResult(row.code == "INVALID_ARGUMENT" ? .badToken : row.disposition, answer: row.code)
            let found = try await google(.answers(status: status, reason: row.code, retryAfter: nil))
            #expect(found.withoutDetail == wanted)
        }
    }

    @Test func `every reason that Apple documents has a row with the decided outcome`() {
        #expect(documentedByApple.count == 32)
        #expect(Set(documentedByApple.map(\.reason)).count == 32)
        for documented in documentedByApple {
            let row = APNsAnswers.table.first { $0.reason == documented.reason && $0.status == documented.status }
            let found = row.map { summary($0.disposition) }
            #expect(found == documented.wanted, "\(documented.reason)")
        }
    }

    @Test func `every code that Google documents has a row with the decided outcome`() {
        for documented in documentedByGoogle {
            let row = FCMAnswers.table.first { $0.code == documented.code && $0.status == documented.status }
            let found = row.map { summary($0.disposition) }
            #expect(found == documented.wanted, "\(documented.code)")
        }
        #expect(FCMAnswers.table.count == documentedByGoogle.count)
    }

    @Test func `exactly the outcomes to retry have a default retry-after`() {
        for disposition in APNsAnswers.table.map(\.disposition) + FCMAnswers.table.map(\.disposition) {
            #expect((disposition.defaultRetryAfter > 0) == (disposition.kind == .retry))
        }
    }

    // MARK: Undocumented answers

    @Test(arguments: [400, 403, 404, 405, 410, 413, 429, 500, 502, 503])
    func `an undocumented APNs answer is judged by its status`(_ status: Int) async throws {
        let found = try await apple(.answers(status: status, reason: "NeverHeardOf", retryAfter: nil))
        let wanted: String
        switch status {
        case 403: wanted = Wanted.alarm
        case 410: wanted = Wanted.gone
        case 413: wanted = Wanted.tooLarge
        case 429: wanted = Wanted.slowDown
        case 400..<500: wanted = Wanted.fault
        default: wanted = Wanted.again
        }
        #expect(summary(found) == wanted)
        #expect(found.answer == "unknown")
        #expect(found.outcome.goneSince == nil)
    }

    @Test(arguments: [400, 401, 403, 404, 409, 429, 500, 502, 503])
    func `an undocumented FCM answer is judged by its status`(_ status: Int) async throws {
        let found = try await google(.answers(status: status, reason: "NEVER_HEARD_OF", retryAfter: nil))
        let wanted: String
        switch status {
        case 401, 403, 404: wanted = Wanted.alarm
        case 429: wanted = Wanted.slowDown
        case 400..<500: wanted = Wanted.fault
        default: wanted = Wanted.again
        }
        #expect(summary(found) == wanted)
        #expect(found.answer == "unknown")
    }

    @Test func `a documented reason under another status is ignored`() async throws {
        let fromApple = try await apple(.answers(status: 500, reason: "BadDeviceToken", retryAfter: nil))
        #expect(summary(fromApple) == Wanted.again)
        #expect(fromApple.answer == "unknown")
        let fromGoogle = try await google(.answers(status: 503, reason: "UNREGISTERED", retryAfter: nil))
        #expect(summary(fromGoogle) == Wanted.again)
        #expect(fromGoogle.answer == "unknown")
    }

    @Test(
        arguments: [
            "", "<html>502</html>", "{}", "[]", "{\"reason\":7}", "{\"error\":7}", "{\"reason\":", "sorry",
            "{\"name\":7}",
        ], [200, 302, 400, 403, 404, 410, 413, 429, 500, 502, 503])
    func `an answer that has not the provider's form is an unavailable provider, whatever its status`(
        _ body: String, _ status: Int
    ) {
        let response = Response(status: status, body: Array(body.utf8))
        for (result, service) in [
            (APNsAnswers.attemptResult(on: response), "Apple"), (FCMAnswers.attemptResult(on: response), "Google"),
        ] {
            #expect(summary(result) == Wanted.again)
            #expect(result.answer == "foreign-answer" && result.outcome.goneSince == nil)
            #expect(result.detail?.contains("between the node and \(service)") == true)
            #expect(result.detail?.contains("HTML") == body.hasPrefix("<"))
        }
    }

    @Test func `only a message id of the provider makes 200 a delivery`() {
        func apple(_ id: String?) -> AttemptResult {
            var headers = HeaderBlock()
            if let id { headers.append("apns-id", id) }
            return APNsAnswers.attemptResult(on: Response(status: 200, headers: headers))
        }
        #expect(apple("4FE0FFF4-717B-8458-A42A-672D0F7DF212").outcome.kind == .delivered)
        for id in [nil, ""] { #expect(apple(id).outcome.kind == .retry) }
        func google(_ body: String) -> Outcome.Kind {
            FCMAnswers.attemptResult(on: Response(status: 200, body: Array(body.utf8))).outcome.kind
        }
        #expect(google("{\n  \"name\": \"projects/p/messages/0:1\"\n}\n") == .delivered)
        #expect(google("{\"success\":true}") == .retry)
    }

    @Test func `a device token is gone even if the timestamp of APNs is invalid`() {
        for timestamp in ["-1", "1.5", "\"yesterday\"", "null"] {
            let body = Array("{\"reason\":\"Unregistered\",\"timestamp\":\(timestamp)}".utf8)
            let attemptResult = APNsAnswers.attemptResult(on: Response(status: 410, body: body))
            #expect(summary(attemptResult) == Wanted.gone)
            #expect(attemptResult.outcome.goneSince == nil)
        }
    }

    // MARK: retry-after

    @Test func `the provider's retry-after is passed on for outcomes to retry`() async throws {
        let throttled = try await apple(.answers(status: 429, reason: "TooManyRequests", retryAfter: 7))
        #expect(throttled.outcome.retryAfter == 7000)
        let unavailable = try await apple(.answers(status: 503, reason: "ServiceUnavailable", retryAfter: 125))
        #expect(unavailable.outcome.retryAfter == 125_000)
        let exhausted = try await google(.answers(status: 429, reason: "QUOTA_EXCEEDED", retryAfter: 90))
        #expect(exhausted.outcome.retryAfter == 90_000)
        let unknown = try await google(.answers(status: 503, reason: "NEVER_HEARD_OF", retryAfter: 33))
        #expect(unknown.outcome.retryAfter == 33_000)
        let rejected = try await apple(.answers(status: 400, reason: "BadDeviceToken", retryAfter: 7))
        #expect(rejected.outcome.retryAfter == 0)
    }

    @Test func `a retry-after of more than a day is limited to one day`() async throws {
        let attemptResult = try await apple(.answers(status: 503, reason: "ServiceUnavailable", retryAfter: 1_000_000))
        #expect(attemptResult.outcome.retryAfter == 86_400_000)
    }

    @Test(arguments: ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "", "soon", "99999999999999"])
    func `a retry-after that is not a number of seconds is ignored`(_ value: String) {
        var headers = HeaderBlock()
        headers.append("retry-after", value)
        let body = Array("{\"reason\":\"ServiceUnavailable\"}".utf8)
        let attemptResult = APNsAnswers.attemptResult(on: Response(status: 503, headers: headers, body: body))
        #expect(attemptResult.outcome.retryAfter == 60_000)
    }

    // MARK: Beyond the tables

    @Test func `an accepted envelope has the provider's id and no failure source`() async throws {
        let stand = try await Self.stand.value
        let phone = Phone.new(.iOS, model: "iPhone")
        await stand.services.register(phone)
        let envelope = try makeEnvelope(to: phone.pairing.deviceToken)
        let fromApple = await stand.toApple(envelope)
        let id = String(decoding: envelope.apnsID, as: UTF8.self)
        #expect(fromApple == AttemptResult(.delivered(id: id), disposition: .delivered, answer: "accepted"))

        let fromGoogle = try await google(.registered)
        #expect(summary(fromGoogle) == "delivered 0 none")
        let name = try #require(fromGoogle.outcome.providerID)
        #expect(name.hasPrefix("projects/\(ProviderStand.projectID)/messages/"))
    }

    @Test func `a device token of the other APNs environment is bad`() async throws {
        let production = try await apple(.registered, platform: .apnsDevelopment)
        #expect(summary(production) == Wanted.drop)
        #expect(production.answer == "BadDeviceToken")
        let stand = try await Self.stand.value
        let phone = Phone.new(.iOSDev, model: "iPhone")
        await stand.services.register(phone)
        let development = try await stand.toAppleDevelopment(
            makeEnvelope(to: phone.pairing.deviceToken, magic: .iOSDev))
        #expect(development.outcome.kind == .delivered)
    }

    @Test func `APNs accepts a certificate instead of a provider token`() async throws {
        let stand = try await Self.stand.value
        let phone = Phone.new(.iOS, model: "iPhone")
        await stand.services.register(phone)
        let attemptResult = try await stand.toAppleByCertificate(makeEnvelope(to: phone.pairing.deviceToken))
        #expect(attemptResult.outcome.kind == .delivered)
    }

    @Test func `a provider token by another key alerts the operator, and one made too soon is a retry`() async throws {
        let stand = try await Self.stand.value
        let phone = Phone.new(.iOS, model: "iPhone")
        await stand.services.register(phone)
        let envelope = try makeEnvelope(to: phone.pairing.deviceToken)
        // This attempt comes first, so that APNs knows its provider token.
        let good = await stand.toApple(envelope)
        #expect(good.outcome.kind == .delivered)

        let foreign = await stand.toAppleWithNewToken(envelope, key: SigningKey.generate(.es256))
        #expect(foreign.answer == "InvalidProviderToken")
        #expect(summary(foreign) == Wanted.alarm)
        let early = await stand.toAppleWithNewToken(envelope)
        #expect(early.answer == "TooManyProviderTokenUpdates")
        #expect(early.outcome.retryAfter == 60_000)
    }

    @Test func `a provider token that a wrong clock has made invalid is replaced`() {
        let answers = Dictionary(uniqueKeysWithValues: APNsAnswers.table.map { ($0.reason, $0.disposition) })
        #expect(answers["InvalidProviderToken"]?.credential == .renewed)
        #expect(answers["InvalidProviderToken"]?.connection == .drainAll)
        #expect(answers["BadCertificate"]?.credential != .renewed)
    }

    @Test func `INVALID_ARGUMENT blames the device token only if Google names it`() async throws {
        let stand = try await Self.stand.value
        let unknown = Phone.new(.android, model: "Pixel").pairing.deviceToken
        let token = try await stand.toGoogle(makeEnvelope(to: unknown, magic: .android))
        #expect(token.answer == "INVALID_ARGUMENT")
        #expect(summary(token) == Wanted.drop)
        #expect(token.outcome.reason.rawValue == 303)

        for field in ["message", "message.data", "message.android.ttl", "message.data[0].value", "message.tokens"] {
            let attemptResult = FCMAnswers.attemptResult(on: badRequest(field: field))
            #expect(attemptResult.answer == "INVALID_ARGUMENT")
            #expect(summary(attemptResult) == Wanted.fault)
            #expect(attemptResult.outcome.reason.rawValue == 306)
        }
        #expect(summary(FCMAnswers.attemptResult(on: badRequest(field: "message.token"))) == Wanted.drop)
    }

    /// Firebase's page "FCM error codes" gives this answer as its example of an invalid registration token.
    @Test func `the documented FCM answer for a bad device token blames the token`() {
        let body = """
            {"error":{"code":400,"message":"The registration token is not a valid FCM registration token",\
            "status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError",\
            "errorCode":"INVALID_ARGUMENT"}]}}
            """
        let attemptResult = FCMAnswers.attemptResult(on: Response(status: 400, body: Array(body.utf8)))
        #expect(summary(attemptResult) == Wanted.drop)
    }

    @Test func `UNREGISTERED means a dead device token, and a bare 404 a wrong project`() async throws {
        for state in [Device.State.unregistered(since: 5), .expired(since: 5)] {
            let gone = try await google(state)
            #expect(gone == AttemptResult(.gone(since: nil), disposition: .gone, answer: "UNREGISTERED"))
        }
        let stand = try await Self.stand.value
        let phone = Phone.new(.android, model: "Pixel")
        await stand.services.register(phone)
        let bare = try await stand.toGoogle(
            makeEnvelope(to: phone.pairing.deviceToken, magic: .android), projectID: "elsewhere")
        #expect(summary(bare) == Wanted.alarm)
        #expect(bare.answer == "unknown")
    }

    @Test func `a device token of another Firebase project is bad`() async throws {
        let attemptResult = try await google(.registered, app: "another-project")
        #expect(attemptResult.answer == "SENDER_ID_MISMATCH")
        #expect(summary(attemptResult) == Wanted.drop)
    }

    @Test func `a service account that Google rejects alerts the operator`() async throws {
        let stand = try await Self.stand.value
        let phone = Phone.new(.android, model: "Pixel")
        await stand.services.register(phone)
        let otherAccount = try ServiceAccount(json: serviceAccountJSON(key: SigningKey.generate(.rs256)))
        let attemptResult = try await stand.toGoogle(
            makeEnvelope(to: phone.pairing.deviceToken, magic: .android), account: otherAccount)
        #expect(summary(attemptResult) == Wanted.alarm)
        #expect(attemptResult.answer == "access-token-refused")
        #expect(attemptResult.outcome.retryAfter == 300_000)
    }

    @Test func `an envelope that is too large is never sent and alerts no one`() async throws {
        let stand = try await Self.stand.value
        let ciphertext = [UInt8](repeating: 0x41, count: 3072)
        let iPhone = Phone.new(.iOS, model: "iPhone").pairing.deviceToken
        let pixel = Phone.new(.android, model: "Pixel").pairing.deviceToken
        let apple = try await stand.toApple(makeEnvelope(to: iPhone, ciphertext: ciphertext))
        let google = try await stand.toGoogle(makeEnvelope(to: pixel, magic: .android, ciphertext: ciphertext))
        for attemptResult in [apple, google] {
            #expect(summary(attemptResult) == "rejected 105 none")
            #expect(attemptResult.answer == "not-sent")
        }
    }

    @Test func `an unreachable push service is a retry`() async throws {
        let stand = try await ProviderStand.start()
        await stand.services.stop()
        let iPhone = Phone.new(.iOS, model: "iPhone").pairing.deviceToken
        let pixel = Phone.new(.android, model: "Pixel").pairing.deviceToken
        let apple = try await stand.toApple(makeEnvelope(to: iPhone))
        #expect(apple.outcome == .retry(.providerUnreachable, after: 30_000))
        #expect(apple.disposition.failureSource == .provider)
        #expect(apple.answer == "unreachable")
        #expect(apple.detail?.contains(iPhone) == false)
        let google = try await stand.toGoogle(makeEnvelope(to: pixel, magic: .android))
        #expect(google.outcome == .retry(.providerUnreachable, after: 30_000))
        #expect(google.disposition.failureSource == .provider)
        #expect(google.answer == "access-token-unreachable")
        await stand.stop()
    }
}

// MARK: - The decided outcomes

/// The result of ``summary(_:)`` for each kind of disposition.
private enum Wanted {
    /// The node sent an invalid request: rejected for good.
    static let fault = "rejected 306 developer"
    static let tooLarge = "rejected 105 developer"
    /// The device token is not valid here.
    static let drop = "rejected 303 deviceToken"
    /// The device token is dead.
    static let gone = "gone 304 deviceToken"
    /// The operator must act; the sender may retry.
    static let alarm = "retry 305 nodeOperator"
    static let slowDown = "retry 302 provider"
    static let again = "retry 301 provider"
}

extension AttemptResult {
    /// The result as in the table, without clock skew and retry-after, which other tests cover.
    fileprivate var withoutDetail: AttemptResult { AttemptResult(outcome, disposition: disposition, answer: answer) }
}

private func summary(_ disposition: Disposition) -> String {
    "\(disposition.kind) \(disposition.reason.rawValue) \(disposition.failureSource)"
}

private func summary(_ attemptResult: AttemptResult) -> String {
    "\(attemptResult.outcome.kind) \(attemptResult.outcome.reason.rawValue) \(attemptResult.disposition.failureSource)"
}

/// All 32 reasons of Apple's page "Handling notification responses from APNs".
private let documentedByApple: [(status: Int, reason: String, wanted: String)] = [
    (400, "BadCollapseId", Wanted.fault),
    (400, "BadDeviceToken", Wanted.drop),
    (400, "BadExpirationDate", Wanted.fault),
    (400, "BadMessageId", Wanted.fault),
    (400, "BadPriority", Wanted.fault),
    (400, "BadTopic", Wanted.alarm),
    (400, "DeviceTokenNotForTopic", Wanted.drop),
    (400, "DuplicateHeaders", Wanted.fault),
    (400, "IdleTimeout", Wanted.again),
    (400, "InvalidPushType", Wanted.fault),
    (400, "MissingDeviceToken", Wanted.fault),
    (400, "MissingTopic", Wanted.alarm),
    (400, "PayloadEmpty", Wanted.fault),
    (400, "TopicDisallowed", Wanted.alarm),
    (403, "BadCertificate", Wanted.alarm),
    (403, "BadCertificateEnvironment", Wanted.alarm),
    (403, "ExpiredProviderToken", Wanted.alarm),
    (403, "Forbidden", Wanted.alarm),
    (403, "InvalidProviderToken", Wanted.alarm),
    (403, "MissingProviderToken", Wanted.alarm),
    (403, "UnrelatedKeyIdInToken", Wanted.alarm),
    (403, "BadEnvironmentKeyIdInToken", Wanted.alarm),
    (404, "BadPath", Wanted.fault),
    (405, "MethodNotAllowed", Wanted.fault),
    (410, "ExpiredToken", Wanted.gone),
    (410, "Unregistered", Wanted.gone),
    (413, "PayloadTooLarge", Wanted.tooLarge),
    (429, "TooManyProviderTokenUpdates", Wanted.slowDown),
    (429, "TooManyRequests", Wanted.slowDown),
    (500, "InternalServerError", Wanted.again),
    (503, "ServiceUnavailable", Wanted.again),
    (503, "Shutdown", Wanted.again),
]

/// The codes of Firebase's page "FCM error codes", and those of Google's API front end.
private let documentedByGoogle: [(status: Int?, code: String, wanted: String)] = [
    (nil, "UNSPECIFIED_ERROR", Wanted.again),
    (400, "INVALID_ARGUMENT", Wanted.fault),
    (404, "UNREGISTERED", Wanted.gone),
    (403, "SENDER_ID_MISMATCH", Wanted.drop),
    (429, "QUOTA_EXCEEDED", Wanted.slowDown),
    (429, "RESOURCE_EXHAUSTED", Wanted.slowDown),
    (503, "UNAVAILABLE", Wanted.again),
    (500, "INTERNAL", Wanted.again),
    (401, "THIRD_PARTY_AUTH_ERROR", Wanted.alarm),
    (401, "UNAUTHENTICATED", Wanted.alarm),
    (403, "PERMISSION_DENIED", Wanted.alarm),
]

/// Google's answer to a request with one invalid field.
private func badRequest(field: String) -> Response {
    let body = """
        {"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT","details":[\
        {"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"INVALID_ARGUMENT"},\
        {"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"\(field)",\
        "description":"invalid"}]}]}}
        """
    return Response(status: 400, body: Array(body.utf8))
}

// MARK: - Shared by all tests of providers

/// Simulated APNs and FCM behind real HTTP/2 and TLS with one provider for each, on their own event loop.
actor ProviderStand {
    static let topic = "bisqremote.joachimneumann.com"
    static let projectID = "bisqnotifications"

    /// The credentials that the simulated services wrote for a node.
    private struct Files: Sendable {
        let endpoints: SimulatedServices.Endpoints
        let context: TLSContext
        let contextWithCertificate: TLSContext
        let key: SigningKey
        let account: ServiceAccount
    }

    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    nonisolated let services: SimulatedServices
    private let files: Files
    private let production: APNsProvider
    private let development: APNsProvider
    private let google: FCMProvider

    /// Starts the simulated services in a temporary directory, which is removed once the providers have read it.
    static func start() async throws -> ProviderStand {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "tocsin-providers-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func file(_ name: String) throws -> [UInt8] {
            Array(try Data(contentsOf: URL(filePath: "\(directory)/\(name)")))
        }
        let loop = EventLoop(name: "providers")
        let services = SimulatedServices(
            SimulatedServices.Options(directory: directory, topic: topic, projectID: projectID), on: loop)
        let endpoints = try await services.start()
        let authorities = try file("ca.pem")
        let password = SecretBytes(try file("apns.p12.password"))
        let identity = try PKCS12.open(try file("apns.p12"), password: password)
        let files = Files(
            endpoints: endpoints,
            context: try TLSContext.client(
                authorities: TrustedAuthorities(and: authorities), applicationProtocol: "h2"),
            contextWithCertificate: try TLSContext.client(
                authorities: TrustedAuthorities(and: authorities), identity: identity, applicationProtocol: "h2"),
            key: try SigningKey(pem: try file("apns.p8"), algorithm: .es256),
            account: try ServiceAccount(json: try file("service-account.json")))
        return ProviderStand(files, services: services, on: loop)
    }

    private init(_ files: Files, services: SimulatedServices, on loop: EventLoop) {
        self.loop = loop
        self.services = services
        self.files = files
        production = ProviderStand.apple(files.endpoints.production, files.context, key: files.key, on: loop)
        development = ProviderStand.apple(files.endpoints.development, files.context, key: files.key, on: loop)
        google = ProviderStand.google(files, files.account, projectID: ProviderStand.projectID, on: loop)
    }

    private static func apple(
        _ endpoint: Endpoint, _ context: TLSContext, key: SigningKey?, on loop: EventLoop
    ) -> APNsProvider {
        let profile = APNsProfile(
            topic: topic, format: .pipe, messageMagic: "BisqMessageiOS", alert: .text("New message"))
        var token: APNsProviderToken?
        if let key {
            token = APNsProviderToken(
                AppleKey(key, keyID: SimulatedServices.keyID, teamID: SimulatedServices.teamID))
        }
        return APNsProvider(
            APNsRequestBuilder(profile, authority: endpoint.description), token: token,
            pool: ConnectionPool(Destination(endpoint, tls: context), on: loop))
    }

    private static func google(
        _ files: Files, _ account: ServiceAccount, projectID: String, on loop: EventLoop
    ) -> FCMProvider {
        let endpoint = files.endpoints.fcm
        let target = Destination(endpoint, tls: files.context)
        let profile = FCMProfile(format: .pipe, messageMagic: "BisqMessageAndroid", notification: nil)
        return FCMProvider(
            FCMRequestBuilder(profile, authority: endpoint.description, projectID: projectID),
            token: FCMAccessToken(
                account, authority: endpoint.description, path: "/token", pool: ConnectionPool(target, on: loop)),
            pool: ConnectionPool(target, on: loop))
    }

    /// One attempt at the APNs production environment, always by the same provider.
    func toApple(_ envelope: Envelope) async -> AttemptResult {
        await production.attempt(envelope, expiry: .nowOrNever)
    }

    /// Waits until APNs accepts an envelope: after a refused credential the provider drops the connection, and the next
    /// dial is delayed.
    func waitForApple() async throws {
        let phone = Phone.new(.iOS, model: "iPhone")
        await services.register(phone)
        let envelope = try makeEnvelope(to: phone.pairing.deviceToken)
        for _ in 0..<100 {
            if await toApple(envelope).outcome.kind == .delivered { return }
            await loop.sleep(for: .milliseconds(20))
        }
    }

    /// One attempt at the APNs development environment, always by the same provider.
    func toAppleDevelopment(_ envelope: Envelope) async -> AttemptResult {
        await development.attempt(envelope, expiry: .nowOrNever)
    }

    /// One attempt at FCM, always by the same provider.
    func toGoogle(_ envelope: Envelope) async -> AttemptResult { await google.attempt(envelope, expiry: .nowOrNever) }

    /// One attempt by a new provider with a new provider token. `nil` stands for the key that APNs knows.
    func toAppleWithNewToken(_ envelope: Envelope, key: SigningKey? = nil) async -> AttemptResult {
        let provider = ProviderStand.apple(files.endpoints.production, files.context, key: key ?? files.key, on: loop)
        let attemptResult = await provider.attempt(envelope, expiry: .nowOrNever)
        provider.close()
        return attemptResult
    }

    /// One attempt by a new provider that presents a certificate and no provider token.
    func toAppleByCertificate(_ envelope: Envelope) async -> AttemptResult {
        let provider = ProviderStand.apple(files.endpoints.production, files.contextWithCertificate, key: nil, on: loop)
        let attemptResult = await provider.attempt(envelope, expiry: .nowOrNever)
        provider.close()
        return attemptResult
    }

    /// One attempt by a new provider for this project.
    func toGoogle(_ envelope: Envelope, projectID: String) async -> AttemptResult {
        let provider = ProviderStand.google(files, files.account, projectID: projectID, on: loop)
        let attemptResult = await provider.attempt(envelope, expiry: .nowOrNever)
        provider.close()
        return attemptResult
    }

    /// One attempt by a new provider with this service account.
    func toGoogle(_ envelope: Envelope, account: ServiceAccount) async -> AttemptResult {
        let provider = ProviderStand.google(files, account, projectID: ProviderStand.projectID, on: loop)
        let attemptResult = await provider.attempt(envelope, expiry: .nowOrNever)
        provider.close()
        return attemptResult
    }

    /// Closes the providers' connections and stops the simulated services.
    func stop() async {
        production.close()
        development.close()
        google.close()
        await services.stop()
    }
}

/// An envelope with defaults for all other fields.
func makeEnvelope(
    to deviceToken: String, magic: Magic = .iOS, iv: [UInt8] = Array("0123456789abcdef".utf8),
    ciphertext: [UInt8] = [UInt8](repeating: 0x41, count: 32), ttl: UInt32 = 3600,
    priority: DeliveryPriority = .immediate, sound: Bool = true, collapseID: String? = nil,
    format: EnvelopeFormat = .pipe
) throws -> Envelope {
    try Envelope(
        magic: magic, deviceToken: Array(deviceToken.utf8)[...], iv: iv[...], ciphertext: ciphertext[...], ttl: ttl,
        priority: priority, sound: sound, collapseID: collapseID.map { Array($0.utf8)[...] }, format: format)
}

/// A service account file; `nil` in `changes` omits a field.
func serviceAccountJSON(key: SigningKey, changes: [String: String?] = [:]) throws -> [UInt8] {
    var fields = [
        "type": "service_account", "project_id": "example-project",
        "private_key": String(decoding: key.pem, as: UTF8.self),
        "client_email": "node@example-project.iam.gserviceaccount.com", "token_uri": "https://oauth2.example/token",
    ]
    for (name, value) in changes { fields[name] = value }
    return Array(try JSONEncoder().encode(fields))
}

/// Resumes a task with the result of one attempt.
private final class AttemptWaiter: AttemptReceiver {
    private let continuation: UnsafeContinuation<AttemptResult, Never>

    init(_ continuation: UnsafeContinuation<AttemptResult, Never>) { self.continuation = continuation }

    func attempted(_ number: UInt64, _ result: AttemptResult) { continuation.resume(returning: result) }
}

extension Provider {
    /// Makes one attempt and waits for its result.
    nonisolated(nonsending) fileprivate func attempt(_ envelope: Envelope, expiry: Expiry) async -> AttemptResult {
        await withUnsafeContinuation {
            attempt(envelope, expiry: expiry, number: 0, for: AttemptWaiter($0))
        }
    }
}
