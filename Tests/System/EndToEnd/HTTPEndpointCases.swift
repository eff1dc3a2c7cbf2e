// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TNP
import TestSupport
import Testing

/// A request as in the tests of today's two relays, and what the HTTP endpoint must answer.
struct EndpointCase: Sendable, CustomTestStringConvertible {
    enum Expected: Sendable {
        /// The seven bytes `success` of `/relay`.
        case success
        /// The JSON of v1 for an accepted notification.
        case accepted
        /// A rejection by `/relay`, with the reason code of TNP.
        case refused(status: Int = 400, reason: Int)
        /// A rejection by v1.
        case refusedByV1(code: String, isUnregistered: Bool = false)
        case notFound

        var status: Int {
            switch self {
            case .success, .accepted: 200
            case .refused(let status, _): status
            // As bisq-relay for all that Apple or Google rejects: Bisq 2 reads the fields of no other status.
            case .refusedByV1: 400
            case .notFound: 404
            }
        }
    }

    /// Also the name of a row in Docs/bisq.md, if the endpoint differs from a relay.
    let name: String
    let request: [UInt8]
    let expected: Expected
    /// The status of the relay of 2018, and of bisq-relay 2; `nil` if there is no such case or the status is unknown.
    var relay2018: Int?
    var relay2: Int?
    /// The envelope that must reach the phone; `nil` if none may.
    var delivers: String?

    var testDescription: String { name }
    var differs: Bool { [relay2018, relay2].contains { $0 != nil && $0 != expected.status } }
}

extension EndpointCase {
    // The device tokens of bisq-relay's tests.
    fileprivate static let googleAsHex =
        "655f4d327849323153616543657774544c48365a504f3a41504139316247646a4d645034757a5f5954444a72482d576c74584b6c4171594d"
        + "665348434b2d7443522d646153786e5477754b445a4978785f4b7a64656d41483268794b54746237756d776c35544d48414d4c4f4435"
        + "7753336241454b4761713468574d75723538326a31743570336c79476f305a30394d4e53466d784d566a32465a4b366f507674534e"
    fileprivate static let googleLong = String(decoding: bytes(ofHex: googleAsHex), as: UTF8.self)
    fileprivate static let google = "e_M2xI21SaeCewtTLH6ZPO:APA91bGdjMdP4uz_YTDJrH-WltXKlAqYMfSHCK-tCR-daSxnTwuKDZIxx"
    fileprivate static let apple = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"
    // Device tokens that Apple and Google reject.
    fileprivate static let appleGone = String(repeating: "0d", count: 32)
    fileprivate static let appleUnknown = String(repeating: "7e57ed", count: 11) + "00"
    fileprivate static let appleForeign = String(repeating: "f0", count: 32)
    fileprivate static let googleGone = "gone:APA91b" + String(repeating: "g", count: 130)
    fileprivate static let googleUnknown = "unknown:APA91b" + String(repeating: "u", count: 130)

    private static func bytes(ofHex text: String) -> [UInt8] {
        var rest = Substring(text)
        var bytes: [UInt8] = []
        while let byte = UInt8(rest.prefix(2), radix: 16) {
            bytes.append(byte)
            rest = rest.dropFirst(2)
        }
        return bytes
    }

    /// Registers these device tokens.
    fileprivate static func register(on services: SimulatedServices) async {
        let (topic, project) = ("bisqremote.joachimneumann.com", "bisqnotifications")
        for token in [google, googleLong] { await services.set(Device(platform: .fcm, app: project), for: token) }
        await services.set(Device(platform: .apnsProduction, app: topic), for: apple)
        await services.set(
            Device(platform: .apnsProduction, app: topic, state: .unregistered(since: 1_700_000_000_000)),
            for: appleGone)
        await services.set(Device(platform: .apnsProduction, app: "another.app"), for: appleForeign)
        await services.set(Device(platform: .fcm, app: project, state: .unregistered(since: 1)), for: googleGone)
    }

    // MARK: /relay

    private static func get(_ query: String) -> [UInt8] { RequestBytes.get("/relay?\(query)") }

    private static let some = RequestBytes.hex("Some Message")
    private static let full = "isProduction=true&isContentAvailable=true&snd=true"

    /// A request that reaches its phone: the token as written in the query, the envelope in hexadecimal.
    private static func delivered(
        _ name: String, _ parameters: String, _ token: String, _ magic: String, relay2018: Int? = nil, relay2: Int?,
        hex: (String) -> String = RequestBytes.hex
    ) -> EndpointCase {
        let text = RequestBytes.pipe(magic)
        let separator = parameters.isEmpty ? "" : "&"
        return EndpointCase(
            name: name, request: get("\(parameters)\(separator)token=\(token)&msg=\(hex(text))"), expected: .success,
            relay2018: relay2018, relay2: relay2, delivers: text)
    }

    private static func refused(
        _ name: String, _ query: String, reason: Int, relay2018: Int? = nil, relay2: Int? = nil
    ) -> EndpointCase {
        EndpointCase(
            name: name, request: get(query), expected: .refused(reason: reason), relay2018: relay2018, relay2: relay2)
    }

    static let relay: [EndpointCase] = {
        let (iOS, android) = ("BisqMessageiOS", "BisqMessageAndroid")
        let appleEnvelope = { RequestBytes.hex(RequestBytes.pipe(iOS)) }
        let googleEnvelope = { RequestBytes.hex(RequestBytes.pipe(android)) }
        let tooLarge = RequestBytes.hex(RequestBytes.pipe(iOS, ciphertext: 2976))
        return [
            EndpointCase(
                name: "no parameters", request: RequestBytes.get("/relay"), expected: .refused(reason: 100),
                relay2018: 500, relay2: 400),
            refused(
                "no token", "isAndroid=false&\(full)&msg=\(appleEnvelope())", reason: 100, relay2018: 500, relay2: 400),
            refused("no msg", "isAndroid=false&\(full)&token=\(apple)", reason: 100, relay2018: 500, relay2: 400),
            refused(
                "msg is not hexadecimal", "isAndroid=false&\(full)&token=\(apple)&msg=invalidMessage", reason: 100,
                relay2018: 500, relay2: 400),
            refused("msg is empty", "isAndroid=false&token=\(apple)&msg=", reason: 100, relay2: 400),
            refused("msg is a space", "isAndroid=false&token=\(apple)&msg=20", reason: 100, relay2: 400),
            refused("token is empty", "isAndroid=false&token=&msg=\(appleEnvelope())", reason: 100),
            refused(
                "msg is not an envelope, to Apple", "isAndroid=false&token=\(apple)&msg=\(some)", reason: 100,
                relay2: 200),
            refused(
                "msg is not an envelope, to Google", "isAndroid=true&token=\(google)&msg=\(some)", reason: 100,
                relay2: 200),
            refused(
                "msg is not an envelope, to Google, token in hexadecimal",
                "isAndroid=true&token=\(googleAsHex)&msg=\(some)", reason: 100, relay2: 200),
            refused(
                "a token of Google for Apple", "isAndroid=false&token=\(googleAsHex)&msg=\(appleEnvelope())",
                reason: 102, relay2: 400),
            delivered(
                "Apple, token in hexadecimal", "isAndroid=false&\(full)", RequestBytes.hex(apple), iOS, relay2018: 200,
                relay2: 200),
            delivered("Apple, token as it is", "isAndroid=false", apple, iOS, relay2: 200),
            delivered(
                "Google, token in hexadecimal", "isAndroid=true&\(full)", googleAsHex, android, relay2018: 200,
                relay2: 200),
            delivered("Google, token as it is", "isAndroid=true", google, android, relay2: 200),
            delivered(
                "Google, token percent-encoded", "isAndroid=true", google.replacing(":", with: "%3A"), android,
                relay2: 200),
            delivered("no isAndroid means Apple", "", apple, iOS, relay2: 200),
            delivered("mutableContent", "isAndroid=false&mutableContent=true", apple, iOS, relay2: 200),
            delivered(
                "an unknown parameter", "isAndroid=false&\(full)&color=red", RequestBytes.hex(apple), iOS,
                relay2018: 200,
                relay2: 200),
            delivered(
                "an unknown parameter without a value", "isAndroid=false&&color&=", apple, iOS, relay2: nil),
            delivered(
                "hexadecimal in capitals", "isAndroid=TRUE&\(full)", googleAsHex.uppercased(), android,
                relay2018: 200, relay2: 200, hex: { RequestBytes.hex($0).uppercased() }),
            delivered("isAndroid is 1", "isAndroid=1", google, android, relay2: 200),
            delivered("isAndroid is off", "isAndroid=Off", apple, iOS, relay2: 200),
            refused(
                "isAndroid is neither true nor false",
                "isAndroid=perhaps&\(full)&token=\(RequestBytes.hex(apple))&msg=\(appleEnvelope())", reason: 100,
                relay2018: 200, relay2: 400),
            refused("isAndroid is empty", "isAndroid=&token=\(apple)&msg=\(appleEnvelope())", reason: 100),
            refused("snd is neither true nor false", "snd=loud&token=\(apple)&msg=\(appleEnvelope())", reason: 100),
            refused("token twice", "token=\(apple)&token=\(apple)&msg=\(appleEnvelope())", reason: 100),
            refused(
                "isAndroid twice", "isAndroid=false&isAndroid=true&token=\(apple)&msg=\(appleEnvelope())", reason: 100),
            refused("an unfinished escape", "token=\(apple)&msg=\(appleEnvelope())%4", reason: 100),
            refused("an escape of no digits", "token=%zz&msg=\(appleEnvelope())", reason: 100),
            refused(
                "token of 513 bytes",
                "isAndroid=true&token=\(String(repeating: "t", count: 513))&msg=\(googleEnvelope())", reason: 102),
            refused("token with a space", "isAndroid=true&token=to+ken&msg=\(googleEnvelope())", reason: 102),
            refused("token with NUL", "isAndroid=true&token=to%00ken&msg=\(googleEnvelope())", reason: 102),
            refused("token that is not UTF-8", "isAndroid=true&token=%ff%fe&msg=\(googleEnvelope())", reason: 102),
            refused("token of Apple with an odd length", "token=abc&msg=\(appleEnvelope())", reason: 102),
            refused("msg is not UTF-8", "token=\(apple)&msg=ff00fe", reason: 100),
            refused(
                "msg has two parts", "token=\(apple)&msg=\(RequestBytes.hex("BisqMessageiOS|0123456789abcdef"))",
                reason: 100),
            refused(
                "msg has a short iv",
                "token=\(apple)&msg=\(RequestBytes.hex("BisqMessageiOS|0123456789abcde|AAAAAAAAAAAAAAAAAAAAAA=="))",
                reason: 103),
            refused(
                "msg is not in whole blocks",
                "token=\(apple)&msg=\(RequestBytes.hex(RequestBytes.pipe(iOS, ciphertext: 47)))", reason: 104),
            refused(
                "msg has Base64 of its own kind",
                "token=\(apple)&msg=\(RequestBytes.hex("BisqMessageiOS|0123456789abcdef|____________________-w=="))",
                reason: 100),
            refused(
                "Apple: unknown token",
                "isAndroid=false&\(full)&token=\(RequestBytes.hex(appleUnknown))&msg=\(appleEnvelope())", reason: 303,
                relay2018: 200, relay2: 400),
            refused(
                "Apple: token gone",
                "isAndroid=false&\(full)&token=\(RequestBytes.hex(appleGone))&msg=\(appleEnvelope())",
                reason: 304, relay2018: 200, relay2: 400),
            refused(
                "Google: unknown token",
                "isAndroid=true&\(full)&token=\(RequestBytes.hex(googleUnknown))&msg=\(googleEnvelope())", reason: 303,
                relay2018: 200, relay2: 400),
            refused(
                "Google: token gone",
                "isAndroid=true&\(full)&token=\(RequestBytes.hex(googleGone))&msg=\(googleEnvelope())", reason: 304,
                relay2018: 200, relay2: 400),
            EndpointCase(
                name: "too large for Apple", request: get("token=\(apple)&msg=\(tooLarge)"),
                expected: .refused(status: 413, reason: 105), relay2: 400),
        ]
    }()

    // MARK: v1

    private static func post(_ path: String, _ body: String) -> [UInt8] { RequestBytes.post("/v1/\(path)", body) }

    private static func accepted(
        _ name: String, _ path: String, relay2: Int? = 200, _ text: String = RequestBytes.sealed(),
        body: (String) -> String = { RequestBytes.push($0) }
    ) -> EndpointCase {
        EndpointCase(name: name, request: post(path, body(text)), expected: .accepted, relay2: relay2, delivers: text)
    }

    private static func refusedByV1(
        _ name: String, _ path: String, _ body: String, _ code: String = "BadRequest",
        isUnregistered: Bool = false, relay2: Int? = nil
    ) -> EndpointCase {
        EndpointCase(
            name: name, request: post(path, body),
            expected: .refusedByV1(code: code, isUnregistered: isUnregistered), relay2: relay2)
    }

    static let v1: [EndpointCase] = {
        let (toApple, toGoogle) = ("apns/device/\(apple)", "fcm/device/\(google)")
        let push = { RequestBytes.push(RequestBytes.sealed()) }
        let bare = RequestBytes.sealed()
        return [
            EndpointCase(
                name: "v1: Apple, no token", request: post("apns/device/", push()), expected: .notFound, relay2: 404),
            EndpointCase(
                name: "v1: Google, no token", request: post("fcm/device/", push()), expected: .notFound, relay2: 404),
            refusedByV1("v1: Apple, no body", toApple, "", relay2: 400),
            refusedByV1("v1: Google, no body", toGoogle, "", relay2: 400),
            refusedByV1("v1: no JSON", toApple, "{\"encrypted\":", relay2: 400),
            refusedByV1("v1: JSON, but no object", toApple, "[\"encrypted\"]", relay2: 400),
            accepted("v1: Apple, without isMutableContent", toApple) { "{\"encrypted\":\"\($0)\",\"isUrgent\":true}" },
            accepted("v1: Apple, with isMutableContent", toApple),
            accepted("v1: Google", toGoogle),
            accepted("v1: only what is needed", toGoogle) { "{\"encrypted\":\"\($0)\"}" },
            accepted("v1: not urgent", toApple) { RequestBytes.push($0, isUrgent: false, isMutableContent: false) },
            accepted("v1: an unknown key", toGoogle, relay2: 400) {
                "{\"encrypted\":\"\($0)\",\"color\":\"red\"}"
            },
            accepted("v1: the colon escaped", "fcm/device/\(google.replacing(":", with: "%3A"))"),
            accepted(
                "v1: every byte of the token escaped",
                "fcm/device/" + google.utf8.map { String(format: "%%%02x", $0) }.joined()),
            accepted("v1: a token of 163 characters", "fcm/device/\(googleLong)"),
            accepted("v1: an envelope of Bisq 1, to Apple", toApple, RequestBytes.pipe("BisqMessageiOS")),
            accepted("v1: an envelope of Bisq 1, to Google", toGoogle, RequestBytes.pipe("BisqMessageAndroid")),
            EndpointCase(
                name: "v1: no Content-Type",
                request: RequestBytes.post("/v1/\(toGoogle)", RequestBytes.push(bare), fields: []), expected: .accepted,
                delivers: bare),
            refusedByV1("v1: encrypted is missing", toApple, "{\"isUrgent\":true}", relay2: 200),
            refusedByV1("v1: encrypted is null", toApple, "{\"encrypted\":null}", relay2: 200),
            refusedByV1("v1: encrypted is a number", toApple, "{\"encrypted\":7}"),
            refusedByV1("v1: encrypted is empty", toApple, RequestBytes.push("")),
            refusedByV1("v1: encrypted is not an envelope", toApple, RequestBytes.push("foo"), relay2: 200),
            refusedByV1("v1: encrypted has no tag", toApple, RequestBytes.push(RequestBytes.sealed(ciphertext: 16))),
            refusedByV1(
                "v1: isUrgent is a text", toApple, "{\"encrypted\":\"\(RequestBytes.sealed())\",\"isUrgent\":\"yes\"}"),
            refusedByV1("v1: a token of Google for Apple", "apns/device/\(google)", push(), relay2: 400),
            refusedByV1("v1: an unfinished escape", "fcm/device/abc%4", push()),
            refusedByV1("v1: NUL in the token", "fcm/device/abc%00", push()),
            refusedByV1(
                "v1: Apple: token gone", "apns/device/\(appleGone)", push(), "Unregistered",
                isUnregistered: true, relay2: 400),
            refusedByV1(
                "v1: Apple: unknown token", "apns/device/\(appleUnknown)", push(), "BadDeviceToken",
                isUnregistered: true, relay2: 400),
            refusedByV1(
                "v1: Apple: token of another app", "apns/device/\(appleForeign)", push(), "DeviceTokenNotForTopic",
                isUnregistered: false, relay2: 400),
            refusedByV1(
                "v1: Google: token gone", "fcm/device/\(googleGone)", push(), "UNREGISTERED",
                isUnregistered: true, relay2: 400),
            refusedByV1(
                "v1: Google: unknown token", "fcm/device/\(googleUnknown)", push(), "INVALID_ARGUMENT", relay2: 400),
            refusedByV1(
                "v1: too large for Apple", toApple, RequestBytes.push(RequestBytes.sealed(ciphertext: 3060)),
                "PayloadTooLarge", relay2: 400),
            refusedByV1(
                "v1: too large for any phone", toApple, RequestBytes.push(RequestBytes.sealed(ciphertext: 3073))),
        ]
    }()
}

/// One node for all cases.
private struct OpenEndpoint: SuiteTrait, TestScoping {
    @TaskLocal static var stage: Stage?

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        await EndpointCase.register(on: stage.services)
        try await Self.$stage.withValue(stage) { try await function() }
        await stage.end()
    }
}

@Suite(.tags(.node), OpenEndpoint()) struct HTTPEndpointCaseTests {
    @Test(arguments: EndpointCase.relay)
    func `the relay path answers each case as expected`(_ test: EndpointCase) async throws { try await check(test) }

    @Test(arguments: EndpointCase.v1)
    func `v1 answers each case as expected`(_ test: EndpointCase) async throws { try await check(test) }

    private func check(_ test: EndpointCase) async throws {
        let stage = try #require(OpenEndpoint.stage)
        let before = await stage.services.received.count
        let answer = try await stage.ask(test.request)
        #expect(answer.status == test.expected.status)
        let json = answer.json
        switch test.expected {
        case .success: #expect(answer.body == Array("success".utf8))
        case .accepted:
            #expect(answer.text == "{\"wasAccepted\":true,\"isUnregistered\":false}")
        case .refused(let status, let reason):
            #expect(json?["status"] as? Int == status)
            #expect(json?["reason"] as? Int == reason)
            #expect((json?["error"] as? String)?.isEmpty == false)
        case .refusedByV1(let code, let isUnregistered):
            #expect(json?["wasAccepted"] as? Bool == false)
            #expect(json?["errorCode"] as? String == code)
            #expect((json?["errorMessage"] as? String)?.isEmpty == false)
            #expect(json?["isUnregistered"] as? Bool == isUnregistered)
        case .notFound: #expect(json?["status"] as? Int == 404)
        }
        let received = await stage.services.received
        if let text = test.delivers {
            #expect(received.count { $0.encrypted == text } == 1)
        } else if case .refused(_, reason: ..<300) = test.expected {
            #expect(received.count == before)
        }
    }

    @Test func `the table in bisq.md lists every case that differs from a relay of today`() throws {
        let page = try String(contentsOf: Repository.file("Docs/bisq.md"), encoding: .utf8)
        for test in EndpointCase.relay + EndpointCase.v1 where test.differs {
            #expect(page.contains("| \(test.name) |"), "the table of Docs/bisq.md has no row with this name")
        }
    }
}
