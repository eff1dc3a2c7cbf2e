// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import TestSupport
import Testing

@testable import HTTP2
@testable import Providers
@testable import StandIns

@Suite(.tags(.computing)) struct FCMRequestBuilderTests {
    private let deviceToken = "cutUn7ZaTra9q3ayZG5vCQ:APA91bGrc9pTJdqzBgKYWQfP4I1g21rukjFpyKsjGCvFqnQl8owMqD"
    private let dataOnly = FCMProfile(format: .pipe, messageMagic: "BisqMessageAndroid", notification: nil)

    private func request(_ envelope: Envelope, _ profile: FCMProfile? = nil) throws -> Request {
        try FCMRequestBuilder(profile ?? dataOnly, authority: "127.0.0.1:8443", projectID: "example-project").request(
            for: envelope, authorization: Array("Bearer ya29.x".utf8),
            ttl: Int64(envelope.ttl))
    }

    private func json(_ envelope: Envelope, _ profile: FCMProfile? = nil) throws -> JSONValue {
        let body = try request(envelope, profile).body
        return try #require(JSONValue(body))
    }

    private func encrypted(_ envelope: Envelope) -> String {
        let ciphertext = String(decoding: Base64.encode(envelope.ciphertext), as: UTF8.self)
        return "BisqMessageAndroid|\(String(decoding: envelope.iv, as: UTF8.self))|\(ciphertext)"
    }

    @Test func `a request has exactly these header fields in this order`() throws {
        let found = try request(makeEnvelope(to: deviceToken, magic: .android)).headers.all.map {
            "\($0.name): \($0.value)"
        }
        let wanted = [
            ":method: POST", ":scheme: https", ":authority: 127.0.0.1:8443",
            ":path: /v1/projects/example-project/messages:send", "content-type: application/json",
            "authorization: Bearer ya29.x",
        ]
        #expect(found == wanted)
    }

    // MARK: The message

    @Test func `without a notification the message carries only data for the app`() throws {
        let envelope = try makeEnvelope(to: deviceToken, magic: .android)
        let wanted: JSONValue = .object([
            "message": .object([
                "token": .string(deviceToken),
                "data": .object(["encrypted": .string(encrypted(envelope)), "sound": .string("default")]),
                "android": .object(["priority": .string("high"), "ttl": .string("3600s")]),
            ])
        ])
        let found = try json(envelope)
        #expect(found == wanted)
    }

    @Test func `with a notification Android shows text before the app opens the envelope`() throws {
        let notification = (title: "Bisq", body: "New \"message\" \\ zpráva")
        let profile = FCMProfile(format: .pipe, messageMagic: "BisqMessageAndroid", notification: notification)
        let envelope = try makeEnvelope(to: deviceToken, magic: .android)
        let wanted: JSONValue = .object([
            "message": .object([
                "token": .string(deviceToken),
                "data": .object(["encrypted": .string(encrypted(envelope)), "sound": .string("default")]),
                "notification": .object([
                    "title": .string("Bisq"), "body": .string("New \"message\" \\ zpráva"),
                ]),
                "android": .object([
                    "priority": .string("high"), "ttl": .string("3600s"),
                    "notification": .object(["sound": .string("default")]),
                ]),
            ])
        ])
        let found = try json(envelope, profile)
        #expect(found == wanted)
    }

    @Test func `an app may have its own sound, which counts towards the payload size`() throws {
        var other = dataOnly
        other.notification = (title: "Bisq", body: "New message")
        other.sound = "be\"ll"
        let body = try request(makeEnvelope(to: deviceToken, magic: .android), other).body
        let message = try #require(JSONValue(body)?["message"])
        #expect(message["data"]?["sound"]?.string == "be\"ll")
        #expect(message["android"]?["notification"]?["sound"]?.string == "be\"ll")
        let ciphertext = [UInt8](repeating: 1, count: 3008)
        let large = try makeEnvelope(to: deviceToken, magic: .android, ciphertext: ciphertext)
        other.sound = String(repeating: "a", count: 4096)
        #expect(throws: Rejection.self) { try request(large, other) }
    }

    @Test func `a silent message has no sound field, with or without a notification`() throws {
        let notification = (title: "Bisq", body: "New message")
        let envelope = try makeEnvelope(to: deviceToken, magic: .android, sound: false)
        let text: JSONValue = .string(encrypted(envelope))
        for block in [nil, notification] {
            let profile = FCMProfile(format: .pipe, messageMagic: "BisqMessageAndroid", notification: block)
            let message = try #require(try json(envelope, profile)["message"])
            #expect(message["data"]?.object == ["encrypted": text])
            #expect(message["android"]?["notification"] == nil)
            #expect((message["notification"] != nil) == (block != nil))
        }
    }

    @Test func `the payload has exactly these bytes`() throws {
        let envelope = try makeEnvelope(
            to: deviceToken, magic: .android, ciphertext: [UInt8](repeating: 0x41, count: 16), ttl: 0,
            priority: .conservePower, collapseID: "trade")
        let body = try request(envelope).body
        let wanted = """
            {"message":{"token":"\(deviceToken)","data":{"encrypted":"BisqMessageAndroid|0123456789abcdef|\
            QUFBQUFBQUFBQUFBQUFBQQ==","sound":"default"},"android":{"priority":"normal","ttl":"0s",\
            "collapse_key":"trade"}}}
            """
        #expect(String(decoding: body, as: UTF8.self) == wanted)
    }

    @Test func `the phone of a sealed app receives the Base64 of iv and ciphertext`() throws {
        let profile = FCMProfile(format: .sealed, messageMagic: "", notification: nil)
        let iv = [UInt8](0xF0..<0xFC)
        let ciphertext = [UInt8](0..<33)
        let envelope = try makeEnvelope(
            to: deviceToken, magic: .android, iv: iv, ciphertext: ciphertext, format: .sealed)
        let message = try json(envelope, profile)["message"]
        let text = try #require(message?["data"]?["encrypted"]?.string)
        #expect(Base64.decode(text.utf8) == iv + ciphertext)
    }

    @Test func `the priority is high, or normal to conserve power`() throws {
        let immediate = try json(makeEnvelope(to: deviceToken, magic: .android, priority: .immediate))
        let conserving = try json(makeEnvelope(to: deviceToken, magic: .android, priority: .conservePower))
        #expect(immediate["message"]?["android"]?["priority"]?.string == "high")
        #expect(conserving["message"]?["android"]?["priority"]?.string == "normal")
    }

    @Test func `the ttl is in seconds`() throws {
        for ttl in [0, 1, 3600, Envelope.maximumTTL] {
            let message = try json(makeEnvelope(to: deviceToken, magic: .android, ttl: ttl))["message"]
            #expect(message?["android"]?["ttl"]?.string == "\(ttl)s")
        }
    }

    @Test func `a collapse key is present only if the sender gave one`() throws {
        let without = try json(makeEnvelope(to: deviceToken, magic: .android))["message"]
        #expect(without?["android"]?["collapse_key"] == nil)
        for collapseID in ["trade-29384203", "a \"b\" \\ c", "obchod č. 1"] {
            let message = try json(makeEnvelope(to: deviceToken, magic: .android, collapseID: collapseID))["message"]
            #expect(message?["android"]?["collapse_key"]?.string == collapseID)
        }
    }

    @Test func `a device token and an iv with quotation marks survive JSON encoding`() throws {
        let token = #"quoted"and\escaped:APA91b0123456789"#
        let iv = #"a"b\c"d\e'f/g*12"#
        let envelope = try makeEnvelope(to: token, magic: .android, iv: Array(iv.utf8))
        let message = try json(envelope)["message"]
        #expect(message?["token"]?.string == token)
        #expect(message?["data"]?["encrypted"]?.string == encrypted(envelope))
    }

    // MARK: Size limit

    @Test(arguments: [true, false])
    func `the longest ciphertext that fits passes, and 16 bytes more are refused with 105`(_ sound: Bool) throws {
        // 4096 minus the keys, the magic, the iv and two bars leaves 4039 characters of Base64 with sound, 4051
        // without.
        for length in [16, 704, 3024] {
            let ciphertext = [UInt8](repeating: 0x41, count: length)
            let envelope = try makeEnvelope(to: deviceToken, magic: .android, ciphertext: ciphertext, sound: sound)
            let answer = try validated(request(envelope))
            #expect(answer == .accepted)
        }
        for length in [3040, 3056, 3072] {
            let ciphertext = [UInt8](repeating: 0x41, count: length)
            let envelope = try makeEnvelope(to: deviceToken, magic: .android, ciphertext: ciphertext, sound: sound)
            let rejection = #expect(throws: Rejection.self) { try request(envelope) }
            #expect(rejection?.reason.rawValue == 105)
        }
    }

    @Test func `a payload of 4096 bytes passes and one of 4097 is refused, as Google counts them`() throws {
        let envelope = try makeEnvelope(
            to: deviceToken, magic: .android, ciphertext: [UInt8](repeating: 0x41, count: 1024))
        let counted = ["encrypted", encrypted(envelope), "sound", "default", "title", "Bisq", "body"]
        let rest = 4096 - counted.map(\.utf8.count).reduce(0, +)
        func profile(_ length: Int) -> FCMProfile {
            let body = String(repeating: "a", count: length)
            let notification = (title: "Bisq", body: body)
            return FCMProfile(format: .pipe, messageMagic: "BisqMessageAndroid", notification: notification)
        }
        let answer = try validated(request(envelope, profile(rest)))
        #expect(answer == .accepted)
        let rejection = #expect(throws: Rejection.self) { try request(envelope, profile(rest + 1)) }
        #expect(rejection?.reason.rawValue == 105)
    }

    @Test func `every request passes the simulator's FCM validation`() throws {
        let notification = (title: "Bisq", body: "New message")
        for block in [nil, notification] {
            let profile = FCMProfile(format: .pipe, messageMagic: "BisqMessageAndroid", notification: block)
            for sound in [true, false] {
                for collapseID in [nil, "trade"] {
                    for ttl in [0, Envelope.maximumTTL] {
                        let envelope = try makeEnvelope(
                            to: deviceToken, magic: .android, ttl: ttl, sound: sound, collapseID: collapseID)
                        let answer = try validated(request(envelope, profile))
                        #expect(answer == .accepted)
                    }
                }
            }
        }
    }

    private func validated(_ request: Request) -> FCMRequestValidator.Answer {
        let seen = ServerRequest(stream: 1, headers: request.headers, body: request.body, isTooLarge: false)
        return FCMRequestValidator(projectID: "example-project").validate(
            belongsToProject: seen, isCurrent: { $0 == "ya29.x" },
            device: { _ in Device(platform: .fcm, app: "example-project") }
        ).answer
    }
}

@Suite(.tags(.computing)) struct FCMAccessTokenTests {
    @Test func `100 concurrent attempts fetch one access token and get 100 answers`() async throws {
        let stand = try await ProviderStand.start()
        let phone = Phone.new(.android, model: "Pixel")
        await stand.services.register(phone)
        let envelopes: [Envelope] = try (0..<100).map { index in
            let ciphertext = [UInt8](repeating: UInt8(index), count: 32)
            return try makeEnvelope(to: phone.pairing.deviceToken, magic: .android, ciphertext: ciphertext)
        }
        let attemptResults = await withTaskGroup(of: AttemptResult.self, returning: [AttemptResult].self) { group in
            for envelope in envelopes { group.addTask { await stand.toGoogle(envelope) } }
            var all: [AttemptResult] = []
            for await attemptResult in group { all.append(attemptResult) }
            return all
        }
        let delivered = attemptResults.filter { $0.outcome.kind == .delivered }
        #expect(delivered.count == 100)
        #expect(Set(delivered.compactMap(\.outcome.providerID)).count == 100)
        let received = await stand.services.received
        #expect(received.count == 100)
        let issued = await stand.services.accessTokensIssued
        #expect(issued == 1)
        await stand.stop()
    }

    @Test func `an access token is reused until Google rejects it`() async throws {
        let stand = try await ProviderStand.start()
        let good = Phone.new(.android, model: "Pixel")
        await stand.services.register(good)
        let envelope = try makeEnvelope(to: good.pairing.deviceToken, magic: .android)
        for _ in 0..<3 {
            let attemptResult = await stand.toGoogle(envelope)
            #expect(attemptResult.outcome.kind == .delivered)
        }
        let kept = await stand.services.accessTokensIssued
        #expect(kept == 1)

        let refused = Phone.new(.android, model: "Pixel").pairing.deviceToken
        let state = Device.State.answers(status: 401, reason: "UNAUTHENTICATED", retryAfter: nil)
        await stand.services.set(Device(platform: .fcm, app: ProviderStand.projectID, state: state), for: refused)
        let attemptResult = try await stand.toGoogle(makeEnvelope(to: refused, magic: .android))
        #expect(attemptResult.outcome.reason == .credentialsRefused)
        let next = await stand.toGoogle(envelope)
        #expect(next.outcome.kind == .delivered)
        let renewed = await stand.services.accessTokensIssued
        #expect(renewed == 2)
        await stand.stop()
    }
}

@Suite(.tags(.computing)) struct ServiceAccountTests {
    @Test func `an assertion names issuer, scope, audience and lifetime, signed by the account`() throws {
        let key = SigningKey.generate(.rs256)
        let account = try ServiceAccount(json: serviceAccountJSON(key: key))
        let assertion = try #require(account.assertion(at: 1_700_000_000))
        let token = try #require(WebToken(String(decoding: assertion, as: UTF8.self)))
        let header: JSONValue = .object(["alg": .string("RS256"), "typ": .string("JWT")])
        let claims: JSONValue = .object([
            "iss": .string("node@example-project.iam.gserviceaccount.com"),
            "scope": .string("https://www.googleapis.com/auth/firebase.messaging"),
            "aud": .string("https://oauth2.example/token"), "iat": .number(1_700_000_000),
            "exp": .number(1_700_003_600),
        ])
        #expect(token.header == header)
        #expect(token.claims == claims)
        #expect(token.isSigned(by: key.verifyingKey))
    }

    @Test func `an invalid service account file is reported without revealing its key`() throws {
        let key = SigningKey.generate(.rs256)
        let pem = String(String(decoding: key.pem, as: UTF8.self).prefix(60))
        let elliptic = String(decoding: SigningKey.generate(.es256).pem, as: UTF8.self)
        let faults: [(field: String, value: String?, words: String)] = [
            ("type", "authorized_user", "type is not service_account"), ("type", nil, "type is not service_account"),
            ("project_id", nil, "project_id is missing"), ("project_id", "", "project_id is missing"),
            ("client_email", nil, "client_email is missing"), ("token_uri", nil, "token_uri is missing"),
            ("private_key", nil, "private_key is missing"), ("private_key", "no key", "private_key: not a private key"),
            ("private_key", elliptic, "private_key: not an RSA key"),
        ]
        for fault in faults {
            let json = try serviceAccountJSON(key: key, changes: [fault.field: fault.value])
            let error = #expect(throws: ServiceAccount.FormatError.self) { try ServiceAccount(json: json) }
            #expect(error?.description.contains(fault.words) == true, "\(fault.field)")
            #expect(error?.description.contains(pem) == false)
        }
        for text in ["", "no JSON", "[]", "{\"type\":7}"] {
            let error = #expect(throws: ServiceAccount.FormatError.self) { try ServiceAccount(json: Array(text.utf8)) }
            #expect(error?.description == "not a service account JSON file")
        }
    }

    @Test func `a service account prints as redacted`() throws {
        let account = try ServiceAccount(json: serviceAccountJSON(key: SigningKey.generate(.rs256)))
        var dumped = ""
        dump(account, to: &dumped)
        #expect("\(account)" == "<redacted>")
        #expect(String(reflecting: account) == "<redacted>")
        #expect(!dumped.contains("gserviceaccount"))
    }
}

extension FCMRequestBuilder {
    /// A request for an envelope.
    fileprivate func request(for envelope: Envelope, authorization: [UInt8], ttl: Int64) throws(Rejection) -> Request {
        var request = Request(headers: HeaderBlock(), body: [])
        try write(&request, for: envelope, authorization: authorization, ttl: ttl)
        return request
    }
}
