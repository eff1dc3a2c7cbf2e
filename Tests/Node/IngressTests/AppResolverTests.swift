// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns
import TNP
import TestSupport
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

/// The parameters that Bisq 1 sends.
private let bisq: [(String, String)] = [
    ("isAndroid", "false"), ("isProduction", "true"), ("isContentAvailable", "true"), ("snd", "true"),
    ("token", Hex.encode(appleToken.utf8)), ("msg", Hex.encode(pipe("BisqMessageiOS").utf8)),
]

private func changed(_ name: String, _ value: String?) -> [(String, String)] {
    let rest = bisq.filter { $0.0 != name }
    return value.map { rest + [(name, $0)] } ?? rest
}

@Suite(.tags(.computing)) struct RelayRouteTests {
    @Test func `a Bisq 1 request is decoded`() throws {
        let request = try APIRoute(relay(bisq)).apiRequest()
        #expect(request.magic == .iOS)
        #expect(request.deviceToken == Array(appleToken.utf8)[...])
        #expect(request.text == Array(pipe("BisqMessageiOS").utf8))
        #expect(request.sound && request.priority == .immediate)
        #expect(request.contentAvailable == true && request.mutableContent == false)
    }

    @Test func `parameters may come in any order, and unknown ones are ignored`() throws {
        var generator = SplitMix64(seed: 1)
        for _ in 0..<50 {
            let parameters = (bisq + [("more", "1"), ("more", "%31"), ("", "x")]).shuffled(using: &generator)
            let request = try APIRoute(relay(parameters)).apiRequest()
            #expect(request.magic == .iOS && request.deviceToken == Array(appleToken.utf8)[...])
        }
    }

    @Test(arguments: ["true", "TRUE", "on", "yes", "1"])
    func `a flag accepts several words for yes`(_ word: String) throws {
        #expect(try APIRoute(relay(changed("isAndroid", word))).apiRequest().magic == .android)
        #expect(try APIRoute(relay(changed("snd", word))).apiRequest().sound)
    }

    @Test(arguments: ["false", "False", "off", "no", "0"])
    func `a flag accepts several words for no`(_ word: String) throws {
        #expect(try APIRoute(relay(changed("isProduction", word))).apiRequest().magic == .iOSDev)
        #expect(try !APIRoute(relay(changed("snd", word))).apiRequest().sound)
        #expect(try APIRoute(relay(changed("isContentAvailable", word))).apiRequest().contentAvailable == false)
        #expect(try APIRoute(relay(changed("mutableContent", word))).apiRequest().mutableContent == false)
    }

    @Test func `an absent parameter has the default of existing relays`() throws {
        let bare = bisq.filter { ["token", "msg"].contains($0.0) }
        let request = try APIRoute(relay(bare)).apiRequest()
        #expect(
            request.magic == .iOS && request.sound && request.contentAvailable == nil
                && request.mutableContent == false)
    }

    @Test(
        arguments: ["isAndroid", "isProduction", "isContentAvailable", "mutableContent", "snd"],
        ["", "maybe", "2", "%00"])
    func `a flag that is neither yes nor no is rejected by name`(_ name: String, _ value: String) {
        expectRejection(relay(changed(name, value)), naming: name)
    }

    @Test(arguments: ["token", "msg"])
    func `token and msg are required`(_ name: String) {
        expectRejection(relay(changed(name, nil)), naming: name)
        expectRejection(relay(changed(name, "")), naming: name)
    }

    @Test func `a duplicate parameter is rejected by name`() {
        for (name, value) in bisq { expectRejection(relay(bisq + [(name, value)]), naming: name) }
    }

    @Test(arguments: ["%", "%4", "%zz", "a%4", "%%41"])
    func `a percent sign without two digits is rejected`(_ value: String) {
        expectRejection(relay(changed("token", value)), naming: "%")
        expectRejection(relay(bisq + [(value, "1")]), naming: "%")
        expectRejection(
            get("/v1/apns/device/\(value)", method: "POST", body: "{\"encrypted\":\"\(sealed)\"}"), naming: "%")
    }

    @Test(arguments: ["abc", "zz", "invalidMessage", " 41"])
    func `a message that is not hexadecimal is rejected`(_ value: String) {
        expectRejection(relay(changed("msg", value)), naming: "msg")
    }

    /// As Bisq 2 sent them up to 2.1.10.
    @Test func `the bytes of a sealed notification in hexadecimal are taken as their Base64`() throws {
        let bytes = (0..<60).map { UInt8(truncatingIfNeeded: 131 &+ 7 &* $0) }
        let request = try APIRoute(relay(changed("msg", Hex.encode(bytes)))).apiRequest()
        #expect(request.text == Base64.encode(bytes))
        let text = try SealedText(request.text)
        #expect(text.magic == nil && Array(text.iv + text.ciphertext) == bytes)
    }

    @Test(arguments: [
        (Hex.encode(appleToken.utf8), appleToken), (Hex.encode(appleToken.utf8).uppercased(), appleToken),
        (Hex.encode(googleToken.utf8), googleToken), (appleToken, appleToken), (googleToken, googleToken),
        ("4", "4"), ("00", "00"), ("7f", "7f"), ("41", "A"), ("e_M2%3AAPA", "e_M2:APA"),
    ])
    func `a token may be plain or hexadecimal`(_ value: String, _ token: String) throws {
        #expect(try APIRoute(relay(changed("token", value))).apiRequest().deviceToken == Array(token.utf8)[...])
    }

    @Test(arguments: ["/relay", "//relay", "///relay"])
    func `extra slashes at the start of the path are accepted`(_ path: String) throws {
        let query = String(decoding: relay(bisq).target.dropFirst("/relay".utf8.count), as: UTF8.self)
        #expect(try APIRoute(get(path + query)).apiRequest().magic == .iOS)
    }

    @Test(arguments: [
        "/", "", "*", "/Relay", "/relay/", "/relayx", "/v1", "/v1/apns", "/v1/apns/device", "/v1/apns/device/",
        "/v1/apns/device/a/b", "/v1/fcm/device/", "/v2/apns/device/a", "/v1/wns/device/a", "/v1/apns/device/?a",
    ])
    func `an unknown path is not found`(_ path: String) {
        for method in ["GET", "POST", "HEAD", "PUT"] {
            #expect(throws: APIRoute.NoRoute.notFound) { try APIRoute(get(path, method: method)) }
        }
    }

    @Test func `a site's name and secret precede the path`() throws {
        let parameters = bisq.map { "\($0)=\($1)" }.joined(separator: "&")
        for (prefix, site) in [
            ("/s/desk.Sec-ret_1", "desk.Sec-ret_1"), ("//s/desk.x/", "desk.x"), ("/s/x", "x"), ("/s/", ""),
        ] {
            let route = try APIRoute(get("\(prefix)/relay?\(parameters)"))
            #expect(route.site.map { String(decoding: $0, as: UTF8.self) } == site)
            #expect(try route.apiRequest().deviceToken == Array(appleToken.utf8)[...])
            let push = try APIRoute(get("\(prefix)/v1/fcm/device/a", method: "POST"))
            #expect(push.dialect == .device(.android) && push.site?.count == site.utf8.count)
        }
        #expect(try APIRoute(relay(bisq)).site == nil)
        for path in ["/s", "/s/desk.x", "/s/desk.x/", "/s/desk.x/s/desk.x/relay", "/s/desk.x/other"] {
            #expect(throws: APIRoute.NoRoute.notFound) { try APIRoute(get(path)) }
        }
    }

    @Test(arguments: ["HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH"])
    func `an unsupported method is answered with the allowed one`(_ method: String) {
        for path in ["/relay", "/relay?a=b", "//relay"] {
            #expect(throws: APIRoute.NoRoute.methodNotAllowed(allowed: "GET")) {
                try APIRoute(get(path, method: method))
            }
        }
        for path in ["/v1/apns/device/a", "/v1/fcm/device/a"] {
            #expect(throws: APIRoute.NoRoute.methodNotAllowed(allowed: "POST")) {
                try APIRoute(get(path, method: method))
            }
        }
        #expect(throws: APIRoute.NoRoute.methodNotAllowed(allowed: "GET")) {
            try APIRoute(get("/relay", method: "POST"))
        }
    }

    @Test func `a Bisq 2 request is decoded`() throws {
        for (path, token, magic) in [
            ("/v1/apns/device/", appleToken, Magic.iOS), ("/v1/fcm/device/", googleToken, .android),
            ("/v1/fcm/device/", googleToken.replacing(":", with: "%3A"), .android),
        ] {
            let body = "{\"isMutableContent\":true,\"encrypted\":\"\(sealed)\",\"isUrgent\":true,\"other\":{\"a\":[1]}}"
            let request = try APIRoute(get(path + token, method: "POST", body: body)).apiRequest()
            #expect(request.magic == magic)
            #expect(request.deviceToken == Array((magic == .android ? googleToken : appleToken).utf8)[...])
            #expect(request.text == Array(sealed.utf8))
            #expect(request.priority == .immediate && request.sound)
            #expect(request.mutableContent == true && request.contentAvailable == nil)
        }
    }

    @Test func `an absent flag in a body is false`() throws {
        for more in ["", ",\"isUrgent\":null", ",\"isUrgent\":false,\"isMutableContent\":false"] {
            let body = "{\"encrypted\":\"\(sealed)\"\(more)}"
            let request = try APIRoute(get("/v1/apns/device/\(appleToken)", method: "POST", body: body))
                .apiRequest()
            #expect(
                request.priority == .conservePower && request.mutableContent == false
                    && request.sound)
        }
    }

    @Test(arguments: [
        "", " ", "null", "[]", "1", "\"x\"", "{", "{}", "{\"encrypted\":null}", "{\"encrypted\":1}",
        "{\"encrypted\":[]}",
        "{\"encrypted\":\"x\",\"isUrgent\":\"true\"}", "{\"encrypted\":\"x\",\"isUrgent\":1}",
        "{\"encrypted\":\"x\",\"isMutableContent\":{}}", "{\"encrypted\":\"x\"} x", "encrypted=x", "\u{0}",
        String(repeating: "[", count: 16_000), "{\"encrypted\":" + String(repeating: "{\"a\":", count: 3000),
    ])
    func `an invalid body is rejected`(_ body: String) {
        for path in ["/v1/apns/device/\(appleToken)", "/v1/fcm/device/\(googleToken)"] {
            expectRejection(get(path, method: "POST", body: body), naming: "body")
        }
    }

    private func expectRejection(_ request: HTTPRequest, naming name: String) {
        do throws(Rejection) {
            _ = try (try? APIRoute(request))?.apiRequest()
            Issue.record("the request was accepted")
        } catch {
            #expect(error.reason == .malformed)
            #expect(error.text.contains(name), "\(error.text)")
        }
    }
}

@Suite(.tags(.computing)) struct AppResolverTests {
    private let resolver: AppResolver

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
        resolver = AppResolver(try Configuration(text: text, file: file).apps)
    }

    private func request(_ magic: Magic, _ text: String) -> APIRequest {
        APIRequest(
            phone: .device(magic, token: Array((magic == .android ? googleToken : appleToken).utf8)[...]),
            text: Array(text.utf8))
    }

    @Test(arguments: [
        (Magic.iOS, pipe("BisqMessageiOS"), "bisq"), (.iOSDev, pipe("BisqMessageiOS"), "bisq"),
        (.android, pipe("BisqMessageAndroid"), "bisq"), (.iOS, pipe("HavenoMessageiOS"), "haveno"),
        (.android, pipe("HavenoMessageAndroid"), "haveno"), (.iOS, sealed, "apples"), (.android, sealed, "connect"),
    ])
    func `the message magic, or its absence, selects the app`(_ magic: Magic, _ text: String, _ app: String) throws {
        let (envelope, found) = try resolver.envelope(of: request(magic, text))
        #expect(found.name == app)
        #expect(envelope.app.elementsEqual(app.utf8))
    }

    @Test(arguments: [
        (Magic.iOS, pipe("BisqMessageAndroid")), (.android, pipe("BisqMessageiOS")), (.iOS, pipe("bisqmessageios")),
        (.iOS, pipe("")), (.iOS, pipe("Other")),
    ])
    func `a request that matches no app is rejected`(_ magic: Magic, _ text: String) {
        #expect(throws: Rejection.self) { try resolver.envelope(of: request(magic, text)) }
        do throws(Rejection) { _ = try resolver.envelope(of: request(magic, text)) } catch {
            #expect(error.reason == .unknownApp)
        }
    }

    @Test func `the phone gets the sender's text byte for byte`() throws {
        var ivs = [#"0123456789abcdef"#, #"a"b\c'd e~f g h "#, "////++++AAAAzzzz"]
        ivs.append(String(repeating: "%", count: 16))
        for iv in ivs {
            let text = "BisqMessageiOS|\(iv)|\(base64)"
            let (envelope, app) = try resolver.envelope(of: request(.iOS, text))
            var json = Array("\"".utf8)
            envelope.appendDeliveredJSON(format: app.format, messageMagic: Array("BisqMessageiOS".utf8), to: &json)
            let delivered = String(decoding: json.dropFirst(), as: UTF8.self)
            #expect(delivered.replacing("\\\"", with: "\"").replacing("\\\\", with: "\\") == text)
        }
        for length in 29...80 {
            let text = String(decoding: Base64.encode((0..<length).map { UInt8($0) }), as: UTF8.self)
            let (envelope, app) = try resolver.envelope(of: request(.android, text))
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
    func `a text that cannot be delivered unchanged or decrypted is rejected`(_ text: String) {
        #expect(throws: Rejection.self) { try resolver.envelope(of: request(.iOS, text)) }
    }

    @Test(arguments: ["", "xyz", String(repeating: "a", count: 63), String(repeating: "a", count: 202), googleToken])
    func `an invalid device token is rejected`(_ token: String) {
        var request = request(.iOS, pipe("BisqMessageiOS"))
        request.phone = .device(.iOS, token: Array(token.utf8)[...])
        #expect(throws: Rejection.self) { try resolver.envelope(of: request) }
    }

    @Test func `the options of a request are in the envelope`() throws {
        var request = request(.iOS, pipe("BisqMessageiOS"))
        request.sound = false
        request.priority = .conservePower
        request.contentAvailable = false
        request.mutableContent = true
        let envelope = try resolver.envelope(of: request).0
        #expect(!envelope.sound && envelope.priority == .conservePower)
        #expect(envelope.contentAvailable == false && envelope.mutableContent == true)
        #expect(envelope.collapseID == nil && envelope.ttl == Envelope.maximumTTL)
    }
}

@Suite(.tags(.computing)) struct APIResponseTests {
    private func text(_ response: HTTPResponse) -> String { String(decoding: response.body, as: UTF8.self) }
    private func header(_ name: String, of response: HTTPResponse) -> String? {
        response.headers.first { $0.name == name }?.value
    }

    @Test(arguments: [Outcome.delivered(id: "x"), Outcome(.queued)])
    func `a delivered or stored envelope is a success`(_ outcome: Outcome) {
        let response = APIResponse.response(to: .relay, outcome)
        #expect(response.status == 200 && text(response) == "success")
        for magic in [Magic.iOS, .android] {
            let response = APIResponse.response(to: .device(magic), outcome)
            #expect(response.status == 200)
            #expect(text(response) == "{\"wasAccepted\":true,\"isUnregistered\":false}")
        }
    }

    @Test func `a v1 response has four fields in a fixed order`() {
        let gone = APIResponse.response(to: .device(.iOS), .gone(since: 1))
        #expect(gone.status == 400)
        #expect(
            text(gone)
                == "{\"wasAccepted\":false,\"errorCode\":\"Unregistered\",\"errorMessage\":"
                + "\"the app is no longer installed on this device\",\"isUnregistered\":true}")
        var unknown = Outcome.rejected(.badDeviceToken)
        unknown.isTokenUnknown = true
        for (magic, outcome, code, isUnregistered) in [
            (Magic.iOS, unknown, "BadDeviceToken", true), (.android, unknown, "INVALID_ARGUMENT", false),
            // The device token is valid, but for another app.
            (.iOS, .rejected(.badDeviceToken), "DeviceTokenNotForTopic", false),
            (.android, .rejected(.badDeviceToken), "SENDER_ID_MISMATCH", false),
            (.iOS, .rejected(.ciphertextLength), "BadRequest", false),
            (.iOS, .rejected(.tooLarge), "PayloadTooLarge", false),
            (.android, .rejected(.senderKeyMismatch), "BadRequest", false),
        ] {
            var outcome = outcome
            outcome.text = "say \"no\""
            let response = APIResponse.response(to: .device(magic), outcome)
            #expect(response.status == 400)
            #expect(
                text(response)
                    == "{\"wasAccepted\":false,\"errorCode\":\"\(code)\",\"errorMessage\":\"say \\\"no\\\"\","
                    + "\"isUnregistered\":\(isUnregistered)}")
        }
        #expect(text(APIResponse.response(to: .device(.android), .gone(since: nil))).contains("\"UNREGISTERED\""))
    }

    @Test(arguments: Reason.known.map(\.reason), Outcome.Kind.allCases)
    func `each outcome has a status, and RETRY adds retry-after`(_ reason: Reason, _ kind: Outcome.Kind) {
        for dialect in [APIRequest.Dialect.relay, .device(.iOS), .device(.android)] {
            let response = APIResponse.response(to: dialect, Outcome(kind, reason: reason, retryAfter: 1500))
            switch kind {
            case .delivered, .queued: #expect(response.status == 200)
            case .gone: #expect(response.status == 400)
            case .rejected: #expect(response.status == (reason == .tooLarge && dialect == .relay ? 413 : 400))
            case .retry:
                #expect(response.status == ([200, 201, 209, 210].contains(reason.rawValue) ? 429 : 503))
                #expect(header("retry-after", of: response) == "2")
            }
            #expect((header("retry-after", of: response) != nil) == [429, 503].contains(response.status))
            if response.status != 200 { #expect(header("content-type", of: response) == "application/json") }
        }
    }

    @Test func `a rejection by /relay includes the reason number, another error does not`() {
        let refused = APIResponse.response(to: .relay, .rejected(.badDeviceToken, text: "no"))
        #expect(text(refused) == "{\"status\":400,\"error\":\"no\",\"reason\":303}")
        #expect(text(APIResponse.error(404, "nothing")) == "{\"status\":404,\"error\":\"nothing\"}")
    }

    @Test func `a rejected circuit gets a status and retry-after`() {
        let abuse = APIResponse.rejection(GoAway(code: .abuse, retryAfter: 600_000, text: "too much"))
        #expect(abuse.status == 429 && header("retry-after", of: abuse) == nil)
        for (retryAfter, seconds) in [(1, "1"), (4001, "5"), (10_000, "5"), (.max, "5")] as [(UInt32, String)] {
            let busy = APIResponse.rejection(GoAway(code: .busy, retryAfter: retryAfter, text: "busy"))
            #expect(busy.status == 503 && header("retry-after", of: busy) == seconds)
        }
    }
}

/// The phone of a request that names its device token.
extension APIRequest {
    fileprivate var magic: Magic? { if case .device(let magic, _) = phone { magic } else { nil } }
    fileprivate var deviceToken: Bytes? { if case .device(_, let token) = phone { token } else { nil } }
}

extension AppResolver {
    fileprivate func envelope(
        of request: APIRequest
    ) throws(Rejection) -> (Envelope, app: (name: String, format: EnvelopeFormat)) {
        guard case .device(let magic, let token) = request.phone else { preconditionFailure("a handle") }
        return try envelope(of: request, to: magic, deviceToken: token)
    }
}
