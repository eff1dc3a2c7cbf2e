// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Testing

@testable import HTTP1
@testable import Ingress
@testable import NodeConfiguration
@testable import TocsinNode

private let file = "/etc/tocsin/tocsin.toml"
private let appleToken = String(repeating: "0a1B", count: 16)
private let googleToken = "e_M2xI21SaeCewtTLH6ZPO:APA91bGdjMdP4uz_YTDJrH-WltXKlAqYMfSHCK-tCR"
private let base64 = String(decoding: Base64.encode([UInt8](repeating: 7, count: 32)), as: UTF8.self)
private let sealed = String(decoding: Base64.encode([UInt8](0..<60)), as: UTF8.self)

private func pipe(_ magic: String) -> String { "\(magic)|0123456789abcdef|\(base64)" }

private func get(_ target: String, method: String = "GET", body: String = "") -> HTTPRequest {
    HTTPRequest(method: method, target: Array(target.utf8), minorVersion: 1, headers: [], body: Array(body.utf8))
}

private func relay(_ parameters: [(String, String)]) -> HTTPRequest {
    get("/relay?" + parameters.map { "\($0)=\($1)" }.joined(separator: "&"))
}

/// What Bisq 1 says of itself.
private let bisq: [(String, String)] = [
    ("isAndroid", "false"), ("isProduction", "true"), ("isContentAvailable", "true"), ("snd", "true"),
    ("token", Hex.encode(appleToken.utf8)), ("msg", Hex.encode(pipe("BisqMessageiOS").utf8)),
]

private func changed(_ name: String, _ value: String?) -> [(String, String)] {
    let rest = bisq.filter { $0.0 != name }
    return value.map { rest + [(name, $0)] } ?? rest
}

@Suite struct RelayRouteTests {
    @Test func `a request of Bisq 1 says what it says`() throws {
        let senderProtocol = try RelayRoute(relay(bisq)).relayRequest()
        #expect(senderProtocol.magic == .iOS)
        #expect(senderProtocol.deviceToken == Array(appleToken.utf8))
        #expect(senderProtocol.text == Array(pipe("BisqMessageiOS").utf8))
        #expect(senderProtocol.sound && senderProtocol.priority == .immediate)
        #expect(senderProtocol.contentAvailable == true && senderProtocol.mutableContent == false)
    }

    @Test func `the order of the parameters does not matter, and others are not looked at`() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<50 {
            let parameters = (bisq + [("more", "1"), ("more", "%31"), ("", "x")]).shuffled(using: &generator)
            let senderProtocol = try RelayRoute(relay(parameters)).relayRequest()
            #expect(senderProtocol.magic == .iOS && senderProtocol.deviceToken == Array(appleToken.utf8))
        }
    }

    @Test(arguments: ["true", "TRUE", "on", "yes", "1"])
    func `yes is said in several ways`(_ word: String) throws {
        #expect(try RelayRoute(relay(changed("isAndroid", word))).relayRequest().magic == .android)
        #expect(try RelayRoute(relay(changed("snd", word))).relayRequest().sound)
    }

    @Test(arguments: ["false", "False", "off", "no", "0"])
    func `no is said in several ways`(_ word: String) throws {
        #expect(try RelayRoute(relay(changed("isProduction", word))).relayRequest().magic == .iOSDev)
        #expect(try !RelayRoute(relay(changed("snd", word))).relayRequest().sound)
        #expect(try RelayRoute(relay(changed("isContentAvailable", word))).relayRequest().contentAvailable == false)
        #expect(try RelayRoute(relay(changed("mutableContent", word))).relayRequest().mutableContent == false)
    }

    @Test func `what is absent has the meaning that today's relays give it`() throws {
        let bare = bisq.filter { ["token", "msg"].contains($0.0) }
        let senderProtocol = try RelayRoute(relay(bare)).relayRequest()
        #expect(
            senderProtocol.magic == .iOS && senderProtocol.sound && senderProtocol.contentAvailable == nil
                && senderProtocol.mutableContent == false)
    }

    @Test(
        arguments: ["isAndroid", "isProduction", "isContentAvailable", "mutableContent", "snd"],
        ["", "maybe", "2", "%00"])
    func `a flag that is neither yes nor no is refused by name`(_ name: String, _ value: String) {
        refuses(relay(changed(name, value)), naming: name)
    }

    @Test(arguments: ["token", "msg"])
    func `token and msg are needed`(_ name: String) {
        refuses(relay(changed(name, nil)), naming: name)
        refuses(relay(changed(name, "")), naming: name)
    }

    @Test func `a parameter that stands there twice is refused by name`() {
        for (name, value) in bisq { refuses(relay(bisq + [(name, value)]), naming: name) }
    }

    @Test(arguments: ["%", "%4", "%zz", "a%4", "%%41"])
    func `a percent sign without its two digits is refused`(_ value: String) {
        refuses(relay(changed("token", value)), naming: "%")
        refuses(relay(bisq + [(value, "1")]), naming: "%")
        refuses(
            get("/v1/apns/device/\(value)", method: "POST", body: "{\"encrypted\":\"\(sealed)\"}"), naming: "%")
    }

    @Test(arguments: ["abc", "zz", "invalidMessage", "ff", "c328", " 41"])
    func `a message that is not the hexadecimal of a text is refused`(_ value: String) {
        refuses(relay(changed("msg", value)), naming: "msg")
    }

    @Test(arguments: [
        (Hex.encode(appleToken.utf8), appleToken), (Hex.encode(appleToken.utf8).uppercased(), appleToken),
        (Hex.encode(googleToken.utf8), googleToken), (appleToken, appleToken), (googleToken, googleToken),
        ("4", "4"), ("00", "00"), ("7f", "7f"), ("41", "A"), ("e_M2%3AAPA", "e_M2:APA"),
    ])
    func `a token comes as it is, or as the hexadecimal of its text`(_ value: String, _ token: String) throws {
        #expect(try RelayRoute(relay(changed("token", value))).relayRequest().deviceToken == Array(token.utf8))
    }

    @Test(arguments: ["/relay", "//relay", "///relay"])
    func `one slash too many at the beginning does not matter`(_ path: String) throws {
        let query = String(decoding: relay(bisq).target.dropFirst("/relay".utf8.count), as: UTF8.self)
        #expect(try RelayRoute(get(path + query)).relayRequest().magic == .iOS)
    }

    @Test(arguments: [
        "/", "", "*", "/Relay", "/relay/", "/relayx", "/v1", "/v1/apns", "/v1/apns/device", "/v1/apns/device/",
        "/v1/apns/device/a/b", "/v1/fcm/device/", "/v2/apns/device/a", "/v1/wns/device/a", "/v1/apns/device/?a",
    ])
    func `other paths are nowhere`(_ path: String) {
        for method in ["GET", "POST", "HEAD", "PUT"] {
            #expect(throws: RelayRoute.NoRoute.notFound) { try RelayRoute(get(path, method: method)) }
        }
    }

    @Test(arguments: ["HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH"])
    func `other methods are named what they may be`(_ method: String) {
        for path in ["/relay", "/relay?a=b", "//relay"] {
            #expect(throws: RelayRoute.NoRoute.methodNotAllowed(allowed: "GET")) {
                try RelayRoute(get(path, method: method))
            }
        }
        for path in ["/v1/apns/device/a", "/v1/fcm/device/a"] {
            #expect(throws: RelayRoute.NoRoute.methodNotAllowed(allowed: "POST")) {
                try RelayRoute(get(path, method: method))
            }
        }
        #expect(throws: RelayRoute.NoRoute.methodNotAllowed(allowed: "GET")) {
            try RelayRoute(get("/relay", method: "POST"))
        }
    }

    @Test func `a request of Bisq 2 says what it says`() throws {
        for (path, token, magic) in [
            ("/v1/apns/device/", appleToken, Magic.iOS), ("/v1/fcm/device/", googleToken, .android),
            ("/v1/fcm/device/", googleToken.replacing(":", with: "%3A"), .android),
        ] {
            let body = "{\"isMutableContent\":true,\"encrypted\":\"\(sealed)\",\"isUrgent\":true,\"other\":{\"a\":[1]}}"
            let senderProtocol = try RelayRoute(get(path + token, method: "POST", body: body)).relayRequest()
            #expect(senderProtocol.magic == magic)
            #expect(senderProtocol.deviceToken == Array((magic == .android ? googleToken : appleToken).utf8))
            #expect(senderProtocol.text == Array(sealed.utf8))
            #expect(senderProtocol.priority == .immediate && senderProtocol.sound)
            #expect(senderProtocol.mutableContent == true && senderProtocol.contentAvailable == nil)
        }
    }

    @Test func `the flags of a body are false where they are absent`() throws {
        for more in ["", ",\"isUrgent\":null", ",\"isUrgent\":false,\"isMutableContent\":false"] {
            let body = "{\"encrypted\":\"\(sealed)\"\(more)}"
            let senderProtocol = try RelayRoute(get("/v1/apns/device/\(appleToken)", method: "POST", body: body))
                .relayRequest()
            #expect(
                senderProtocol.priority == .conservePower && senderProtocol.mutableContent == false
                    && senderProtocol.sound)
        }
    }

    @Test(arguments: [
        "", " ", "null", "[]", "1", "\"x\"", "{", "{}", "{\"encrypted\":null}", "{\"encrypted\":1}",
        "{\"encrypted\":[]}",
        "{\"encrypted\":\"x\",\"isUrgent\":\"true\"}", "{\"encrypted\":\"x\",\"isUrgent\":1}",
        "{\"encrypted\":\"x\",\"isMutableContent\":{}}", "{\"encrypted\":\"x\"} x", "encrypted=x", "\u{0}",
        String(repeating: "[", count: 16_000), "{\"encrypted\":" + String(repeating: "{\"a\":", count: 3000),
    ])
    func `a body that is not what it must be is refused, and nothing of it is said`(_ body: String) {
        for path in ["/v1/apns/device/\(appleToken)", "/v1/fcm/device/\(googleToken)"] {
            refuses(get(path, method: "POST", body: body), naming: "body")
        }
    }

    private func refuses(_ request: HTTPRequest, naming name: String) {
        do throws(Rejection) {
            _ = try (try? RelayRoute(request))?.relayRequest()
            Issue.record("it was taken")
        } catch {
            #expect(error.reason == .malformed)
            #expect(error.text.contains(name), "\(error.text)")
        }
    }
}

@Suite struct AppResolverTests {
    private let senderProtocol: AppResolver

    init() throws {
        func app(_ name: String, _ format: String, _ more: String, google: String? = nil, magic: String? = nil)
            -> String
        {
            """
            [[app]]
            name = "\(name)"
            format = "\(format)"
            \(more)
            """
        }
        func apple(_ magic: String) -> String {
            """
            [app.apns]
            topic = "org.example.app"
            certificate_file = "a.p12"
            \(magic.isEmpty ? "" : "message_magic = \"\(magic)\"")
            """
        }
        func google(_ magic: String) -> String {
            """
            [app.fcm]
            service_account_file = "a.json"
            \(magic.isEmpty ? "" : "message_magic = \"\(magic)\"")
            """
        }
        let text = [
            app("haveno", "pipe", apple("HavenoMessageiOS") + "\n" + google("HavenoMessageAndroid")),
            app("apples", "sealed", apple("")),
            app("bisq", "pipe", apple("") + "\n" + google("")),
            app("connect", "sealed", apple("") + "\n" + google("")),
            app("late", "pipe", apple("")),
        ].joined(separator: "\n")
        senderProtocol = AppResolver(try Configuration(text: text, file: file).apps)
    }

    private func request(_ magic: Magic, _ text: String) -> RelayRequest {
        RelayRequest(
            magic: magic, deviceToken: Array((magic == .android ? googleToken : appleToken).utf8),
            text: Array(text.utf8))
    }

    @Test(arguments: [
        (Magic.iOS, pipe("BisqMessageiOS"), "bisq"), (.iOSDev, pipe("BisqMessageiOS"), "bisq"),
        (.android, pipe("BisqMessageAndroid"), "bisq"), (.iOS, pipe("HavenoMessageiOS"), "haveno"),
        (.android, pipe("HavenoMessageAndroid"), "haveno"), (.iOS, sealed, "apples"), (.android, sealed, "connect"),
    ])
    func `the app is found by the magic, or by its absence`(_ magic: Magic, _ text: String, _ app: String) throws {
        let (envelope, found) = try senderProtocol.envelope(of: request(magic, text))
        #expect(found.name == app)
        #expect(envelope.app.elementsEqual(app.utf8))
    }

    @Test(arguments: [
        (Magic.iOS, pipe("BisqMessageAndroid")), (.android, pipe("BisqMessageiOS")), (.iOS, pipe("bisqmessageios")),
        (.iOS, pipe("")), (.iOS, pipe("Other")),
    ])
    func `where no app fits it is refused`(_ magic: Magic, _ text: String) {
        #expect(throws: Rejection.self) { try senderProtocol.envelope(of: request(magic, text)) }
        do throws(Rejection) { _ = try senderProtocol.envelope(of: request(magic, text)) } catch {
            #expect(error.reason == .unknownApp)
        }
    }

    @Test func `the phone gets what the desktop sent, byte for byte`() throws {
        var ivs = [#"0123456789abcdef"#, #"a"b\c'd e~f g h "#, "////++++AAAAzzzz"]
        ivs.append(String(repeating: "%", count: 16))
        for iv in ivs {
            let text = "BisqMessageiOS|\(iv)|\(base64)"
            let (envelope, app) = try senderProtocol.envelope(of: request(.iOS, text))
            var json = Array("\"".utf8)
            envelope.appendDeliveredJSON(format: app.format, messageMagic: Array("BisqMessageiOS".utf8), to: &json)
            let delivered = String(decoding: json.dropFirst(), as: UTF8.self)
            #expect(delivered.replacing("\\\"", with: "\"").replacing("\\\\", with: "\\") == text)
        }
        for length in 29...80 {
            let text = String(decoding: Base64.encode((0..<length).map { UInt8($0) }), as: UTF8.self)
            let (envelope, app) = try senderProtocol.envelope(of: request(.android, text))
            var json: [UInt8] = []
            envelope.appendDeliveredJSON(format: app.format, messageMagic: [], to: &json)
            #expect(json == Array(text.utf8))
        }
    }

    @Test(arguments: [
        "", "Some Message", "foo", "AAAA", "BisqMessageiOS", "BisqMessageiOS|", "BisqMessageiOS|0123456789abcdef",
        "BisqMessageiOS|0123456789abcdef|", "BisqMessageiOS|0123456789abcdef|AAAA",
        "BisqMessageiOS|0123456789abcdef|\(base64)|", "BisqMessageiOS|0123456789abcde|\(base64)",
        "BisqMessageiOS|0123456789abcdefg|\(base64)", "BisqMessageiOS|0123456789abcdé|\(base64)",
        "BisqMessageiOS|0123456789abcdef|\(base64) ", "BisqMessageiOS|0123456789abcdef|\(base64.dropLast())",
        "BisqMessageiOS|0123456789abcdef|\(base64.replacing("BwcH", with: "B-_H"))", "|0123456789abcdef|\(base64)",
        " \(sealed)", "\(sealed)\n", "QQ", "QR==", String(repeating: "QUFB", count: 2000),
    ])
    func `what could not come out as it went in, or no phone would open, is refused`(_ text: String) {
        #expect(throws: Rejection.self) { try senderProtocol.envelope(of: request(.iOS, text)) }
    }

    @Test(arguments: ["", "xyz", String(repeating: "a", count: 63), String(repeating: "a", count: 202), googleToken])
    func `a device token that is none is refused`(_ token: String) {
        var request = request(.iOS, pipe("BisqMessageiOS"))
        request.deviceToken = Array(token.utf8)
        #expect(throws: Rejection.self) { try senderProtocol.envelope(of: request) }
    }

    @Test func `what the desktop wants is in the envelope`() throws {
        var request = request(.iOS, pipe("BisqMessageiOS"))
        request.sound = false
        request.priority = .conservePower
        request.contentAvailable = false
        request.mutableContent = true
        let envelope = try senderProtocol.envelope(of: request).0
        #expect(!envelope.sound && envelope.priority == .conservePower)
        #expect(envelope.contentAvailable == false && envelope.mutableContent == true)
        #expect(envelope.collapseID == nil && envelope.ttl == Envelope.maximumTTL)
    }
}

@Suite struct RelayResponseTests {
    private func text(_ response: HTTPResponse) -> String { String(decoding: response.body, as: UTF8.self) }
    private func header(_ name: String, of response: HTTPResponse) -> String? {
        response.headers.first { $0.name == name }?.value
    }

    @Test(arguments: [Outcome.delivered(id: "x"), Outcome(.queued)])
    func `what is delivered, or stored for good, is success`(_ outcome: Outcome) {
        let answer = RelayResponse.response(to: .relay, outcome)
        #expect(answer.status == 200 && text(answer) == "success")
        for magic in [Magic.iOS, .android] {
            let answer = RelayResponse.response(to: .device(magic), outcome)
            #expect(answer.status == 200)
            #expect(text(answer) == "{\"wasAccepted\":true,\"isUnregistered\":false}")
        }
    }

    @Test func `the answers of v1 have the four fields in their order`() {
        let gone = RelayResponse.response(to: .device(.iOS), .gone(since: 1))
        #expect(gone.status == 400)
        #expect(
            text(gone)
                == "{\"wasAccepted\":false,\"errorCode\":\"Unregistered\",\"errorMessage\":"
                + "\"the app is no longer installed on this device\",\"isUnregistered\":true}")
        var unknown = Outcome.rejected(.badDeviceToken)
        unknown.isTokenUnknown = true
        for (magic, outcome, code, isUnregistered) in [
            (Magic.iOS, unknown, "BadDeviceToken", true), (.android, unknown, "INVALID_ARGUMENT", false),
            // A registration of another app is alive.
            (.iOS, .rejected(.badDeviceToken), "DeviceTokenNotForTopic", false),
            (.android, .rejected(.badDeviceToken), "SENDER_ID_MISMATCH", false),
            (.iOS, .rejected(.ciphertextLength), "BadRequest", false),
            (.iOS, .rejected(.tooLarge), "PayloadTooLarge", false),
            (.android, .rejected(.senderKeyMismatch), "BadRequest", false),
        ] {
            var outcome = outcome
            outcome.text = "say \"no\""
            let answer = RelayResponse.response(to: .device(magic), outcome)
            #expect(answer.status == 400)
            #expect(
                text(answer)
                    == "{\"wasAccepted\":false,\"errorCode\":\"\(code)\",\"errorMessage\":\"say \\\"no\\\"\","
                    + "\"isUnregistered\":\(isUnregistered)}")
        }
        #expect(text(RelayResponse.response(to: .device(.android), .gone(since: nil))).contains("\"UNREGISTERED\""))
    }

    @Test(arguments: Reason.known.map(\.reason), Outcome.Kind.allCases)
    func `each outcome has a status that says whether to come again`(_ reason: Reason, _ kind: Outcome.Kind) {
        for dialect in [RelayRequest.Dialect.relay, .device(.iOS), .device(.android)] {
            let answer = RelayResponse.response(to: dialect, Outcome(kind, reason: reason, retryAfter: 1500))
            switch kind {
            case .delivered, .queued: #expect(answer.status == 200)
            case .gone: #expect(answer.status == 400)
            case .rejected: #expect(answer.status == (reason == .tooLarge && dialect == .relay ? 413 : 400))
            case .retry:
                #expect(answer.status == ([200, 201, 209, 210].contains(reason.rawValue) ? 429 : 503))
                #expect(header("retry-after", of: answer) == "2")
            }
            #expect((header("retry-after", of: answer) != nil) == [429, 503].contains(answer.status))
            if answer.status != 200 { #expect(header("content-type", of: answer) == "application/json") }
        }
    }

    @Test func `a refusal of relay says its number, and a fault without an outcome does not`() {
        let refused = RelayResponse.response(to: .relay, .rejected(.badDeviceToken, text: "no"))
        #expect(text(refused) == "{\"status\":400,\"error\":\"no\",\"reason\":303}")
        #expect(text(RelayResponse.error(404, "nothing")) == "{\"status\":404,\"error\":\"nothing\"}")
    }

    @Test func `who is sent away is told when to come again`() {
        let abuse = RelayResponse.rejection(GoAway(code: .abuse, retryAfter: 600_000, text: "too much"))
        #expect(abuse.status == 429 && header("retry-after", of: abuse) == "600")
        let busy = RelayResponse.rejection(GoAway(code: .busy, retryAfter: 0, text: "busy"))
        #expect(busy.status == 503 && header("retry-after", of: busy) == "1")
    }
}
