// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import NodeConfiguration

/// Requests to a node's HTTP endpoint.
extension Stage {
    /// Sends a request that closes its connection and returns the only answer.
    nonisolated func ask(_ request: [UInt8], toHEAD: Bool = false) async throws -> HTTPAnswer {
        let answers = try HTTPAnswer.all(in: try await http(request), toHEAD: toHEAD)
        try #require(answers.count == 1, "\(answers.count) answers instead of one")
        return answers[0]
    }

    /// Sends these requests over one connection, each after the answer to the one before.
    func converse(_ requests: [[UInt8]]) async throws -> [HTTPAnswer] {
        let stream = try await loop.dial(httpSocket, timeout: .seconds(60))
        let reader = StreamReader(stream)
        let timer = Timer(on: loop) { stream.fail(.timedOut) }
        timer.start(after: .seconds(20))
        defer {
            timer.stop()
            stream.close()
        }
        var answers: [HTTPAnswer] = []
        for request in requests {
            stream.write(request)
            var head: [String] = []
            repeat { head.append(try await reader.readLine()) } while head.last != ""
            let length = head.compactMap { line in
                line.lowercased().hasPrefix("content-length:")
                    ? Int(line.dropFirst("content-length:".count).trimmingCharacters(in: .whitespaces)) : nil
            }
            let body = try await reader.read(exactly: length.first ?? 0)
            answers += try HTTPAnswer.all(in: Array(head.map { $0 + "\r\n" }.joined().utf8) + body)
        }
        return answers
    }

    /// The notifications that arrived for a device token.
    nonisolated func received(_ deviceToken: String) async -> [ReceivedNotification] {
        await services.received.filter { $0.deviceToken == deviceToken }
    }

    /// A new phone that is registered with the stand-in for Apple or Google.
    nonisolated func phone(_ magic: Magic, _ app: PhoneApp = .bisq) async -> Phone {
        let phone = Phone.new(magic, model: "test", app: app)
        await services.register(phone)
        return phone
    }

    /// The configuration of an app besides the stage's own.
    /// - Parameter alert: the text that its iPhones show; Android gets data only.
    nonisolated static func profile(_ app: PhoneApp, alert: String = "New notification") -> String {
        profile("\(app)", app.format, topic: app.topic, account: app.serviceAccountFile, alert: alert) { magic in
            app.messageMagic(magic)
        }
    }

    /// An app for the same phones as the stage's own, with envelopes that have no magic.
    static let sealed = profile(
        "sealed", .sealed, topic: PhoneApp.bisq.topic, account: PhoneApp.bisq.serviceAccountFile,
        alert: "New notification"
    ) { _ in nil }

    private nonisolated static func profile(
        _ name: String, _ format: EnvelopeFormat, topic: String, account: String, alert: String,
        magic: (Magic) -> String?
    ) -> String {
        func line(_ system: Magic) -> String { magic(system).map { "message_magic = \"\($0)\"" } ?? "" }
        return """
            [[app]]
            name = "\(name)"
            format = "\(format)"
            [app.apns]
            topic = "\(topic)"
            key_file = "apns.p8"
            key_id = "\(SimulatedServices.keyID)"
            team_id = "\(SimulatedServices.teamID)"
            alert = "\(alert)"
            \(line(.iOS))
            [app.fcm]
            service_account_file = "\(account)"
            data_only = true
            \(line(.android))

            """
    }
}

/// The HTTP endpoint, as today's desktops use it.
@Suite(.tags(.node)) struct HTTPEndpointTests {
    private static let appleMagic = "BisqMessageiOS"
    private static let googleMagic = "BisqMessageAndroid"

    private func relay(_ phone: Phone, _ text: String, sound: Bool = true, contentAvailable: Bool = true) -> [UInt8] {
        RequestBytes.get(
            RequestBytes.relay(
                phone.magic.rawValue, token: phone.deviceToken, text: text, sound: sound,
                contentAvailable: contentAvailable))
    }

    private func expectSuccess(_ answer: HTTPAnswer, _ comment: Comment? = nil) {
        #expect(answer.status == 200, comment)
        #expect(answer.body == Array("success".utf8), comment)
    }

    // MARK: Sites

    @Test func `a site proves itself by the path of its requests`() async throws {
        let stage = Stage()
        let hash = String(decoding: Base64.encode(Site.pathHash(of: "secret".utf8)), as: UTF8.self)
        let site = "[[site]]\nname = \"desk\"\npath_hash = \"\(hash)\"\nrate_burst = 2\nrate_per_minute = 1"
        try await stage.start(more: "[sites]\nmode = \"required\"\n\(site)")
        let phone = await stage.phone(.android)
        func request(_ prefix: String) -> [UInt8] {
            RequestBytes.get(
                prefix
                    + RequestBytes.relay(
                        "android", token: phone.deviceToken, text: RequestBytes.pipe(Self.googleMagic)))
        }
        for prefix in ["", "/s/desk.wrong", "/s/other.secret", "/s/desk.secret0", "/s/desk"] {
            let answer = try await stage.ask(request(prefix))
            #expect(answer.status == 400, "\(prefix): \(answer.status)")
            #expect(String(decoding: answer.body, as: UTF8.self).contains("site"))
        }
        #expect(await stage.services.received.isEmpty)
        for _ in 1...2 { expectSuccess(try await stage.ask(request("/s/desk.secret"))) }
        // Each connection counts against the site's one rate.
        #expect(try await stage.ask(request("//s/desk.secret/")).status == 429)
        #expect(await stage.services.received.count == 2)
        await stage.end()
    }

    @Test func `nobody else can use the connection of a site`() async throws {
        let stage = Stage()
        let hash = String(decoding: Base64.encode(Site.pathHash(of: "secret".utf8)), as: UTF8.self)
        try await stage.start(
            more: "[sites]\nmode = \"open\"\n[[site]]\nname = \"desk\"\npath_hash = \"\(hash)\"")
        let phone = await stage.phone(.android)
        func request(_ prefix: String, closes: Bool) -> [UInt8] {
            let text = RequestBytes.pipe(Self.googleMagic)
            return RequestBytes.get(
                prefix + RequestBytes.relay("android", token: phone.deviceToken, text: text), closes: closes)
        }
        let bytes = try await stage.raw(
            request("", closes: false) + request("/s/desk.secret", closes: false) + request("", closes: true),
            to: stage.httpSocket, readingFor: .seconds(20))
        #expect(try HTTPAnswer.all(in: bytes).map(\.status) == [200, 200, 400])
        await stage.end()
    }

    // MARK: Bisq 1

    @Test func `a phone receives the setup confirmation of Bisq 1 byte for byte and opens it`() async throws {
        let stage = Stage()
        try await stage.start()
        let token = "d45161df3d172837f1b83bb3e411d5a63120de6b435ff9235adb70d619d162a1"
        let phone = try Phone(pairingToken: "iOS|iPhone X|A4C595428CAA4C768F60AE7EBFF85852|\(token)")
        await stage.services.register(phone)
        let target =
            "/relay?isAndroid=false&isProduction=true&isContentAvailable=true&snd=true&token=6434353136316466336431373"
            + "2383337663162383362623365343131643561363331323064653662343335666639323335616462373064363139643136326131"
            + "&msg=426973714d657373616765694f537c323933613462356336643765346639307c535258474d615836457079734c5a6e6f63"
            + "323948645468764c5148634255656e6f6f6d2b56734672676a50533444736a7a4d7264472f7a45342f5a6a49734f436149594"
            + "94d336b744a31697273413662656e38306a417a654c58475436353266387477786e344477664b38773648554c476f2b714d54"
            + "38484d6958514b555457464d78586e306c3850696f4337516b6f7554344b7a6a364b5342575a64794675374278366a526d6c4"
            + "f796f3d"
        #expect(target.utf8.count == 621)
        // The head as Apache's client writes it, except for Connection.
        let head =
            "GET \(target) HTTP/1.1\r\n"
            + "User-Agent: bisq/1.9.17, uid:7f8a6f0e-9f5b-4f0b-8d4e-5f1d7c2b9a10\r\n"
            + "Host: bisqpushv56wo32w2dv7xacvvcrnow6gud5vkvftwsgevczmspzvqgad.onion\r\nConnection: close\r\n"
            + "Accept-Encoding: gzip,deflate\r\n\r\n"
        expectSuccess(try await stage.ask(Array(head.utf8)))
        let received = await stage.services.received
        try #require(received.count == 1)
        #expect(received[0].platform == .apnsProduction)
        #expect(received[0].deviceToken == token)
        #expect(received[0].hasSound)
        #expect(
            received[0].encrypted
                == "BisqMessageiOS|293a4b5c6d7e4f90|SRXGMaX6EpysLZnoc29HdThvLQHcBUenoom+VsFrgjPS4DsjzMrdG/zE4/ZjIsOC"
                + "aIYIM3ktJ1irsA6ben80jAzeLXGT652f8twxn4DwfK8w6HULGo+qMT8HMiXQKUTWFMxXn0l8PioC7QkouT4Kzj6KSBWZdyFu7B"
                + "x6jRmlOyo=")
        let shown = try phone.open(received[0].encrypted)
        #expect([shown.type, shown.title, shown.message] == ["SETUP_CONFIRMATION", "", ""])
        await stage.end()
    }

    @Test func `an Android phone opens a trade notification of Bisq 1`() async throws {
        let stage = Stage()
        try await stage.start()
        let token =
            "cutUn7ZaTra9q3ayZG5vCQ:APA91bGrc9pTJdqzBgKYWQfP4I1g21rukjFpyKsjGCvFqnQl8owMqD_7_HB7viqHYXW5XE5O8B82Vyu9k"
            + "ZbAZ7u-S1sP_qVU9HS-MjZlfFJXc-LU_ycjwdHYE7XPFUQDD7UlnVB-giAI"
        let key = "aximqjxdRhe4HSxyh28m/FiIPlv8HEgV"
        let phone = try Phone(pairingToken: "android|Google sdk_gphone_x86|\(key)|\(token)")
        await stage.services.register(phone)
        let clearText =
            "{\"sentDate\":1533218519000,\"txId\":\"29384203\",\"title\":\"Trade state changed\",\"message\":\"The trade with "
            + "ID 29384203 is completed.\",\"type\":\"TRADE\",\"actionRequired\":\"\",\"version\":1}"
        var padded = Array(clearText.utf8)
        while !padded.count.isMultiple(of: 16) { padded.append(0x20) }
        let iv = "0f1e2d3c4b5a4697"
        let ciphertext = try #require(AES256CBC.encrypt(padded, key: Array(key.utf8), iv: Array(iv.utf8)))
        let text = "BisqMessageAndroid|\(iv)|\(Data(ciphertext).base64EncodedString())"
        let target = RequestBytes.relay("android", token: token, text: text, contentAvailable: false)
        #expect(target.hasPrefix("/relay?isAndroid=true&isProduction=false&isContentAvailable=false&snd=true&token=63"))
        expectSuccess(try await stage.ask(RequestBytes.get(target)))
        let received = try #require(await stage.received(token).first)
        #expect(received.encrypted == text)
        #expect(try phone.open(received.encrypted).message == "The trade with ID 29384203 is completed.")
        await stage.end()
    }

    @Test func `query parameters may come in any order, with unknown ones between them`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.iOSDev)
        func orders(_ rest: [String]) -> [[String]] {
            guard rest.count > 1 else { return [rest] }
            return rest.indices.flatMap { index in
                var others = rest
                let first = others.remove(at: index)
                return orders(others).map { [first] + $0 }
            }
        }
        let all = orders(["isAndroid", "isProduction", "isContentAvailable", "snd", "token", "msg"])
        #expect(all.count == 720)
        var sent: [String] = []
        // Every 17th order: 17 has no common factor with the size of any group of orders that begin alike.
        for (index, order) in all.enumerated() where index.isMultiple(of: 17) {
            let text = RequestBytes.pipe(Self.appleMagic)
            let values = [
                "isAndroid": "false", "isProduction": "false", "isContentAvailable": "true", "snd": "false",
                "token": RequestBytes.hex(phone.deviceToken), "msg": RequestBytes.hex(text),
            ]
            let query = order.map { "\($0)=\(values[$0] ?? "")" }.joined(separator: "&utm=\(index)&")
            expectSuccess(try await stage.ask(RequestBytes.get("/relay?\(query)")), "\(order)")
            sent.append(text)
        }
        let received = await stage.received(phone.deviceToken)
        #expect(received.map(\.encrypted) == sent)
        #expect(received.allSatisfy { $0.platform == .apnsDevelopment && !$0.hasSound })
        await stage.end()
    }

    @Test func `the request sets sound, environment, content-available and mutable-content`() async throws {
        let stage = Stage()
        try await stage.start()
        let phones = (await stage.phone(.iOS), await stage.phone(.iOSDev))
        for (phone, platform) in [(phones.0, Device.Platform.apnsProduction), (phones.1, .apnsDevelopment)] {
            for (sound, contentAvailable, mutableContent) in [
                (true, true, true), (false, true, true), (true, false, true), (true, true, false),
                (false, false, false),
            ] {
                let text = RequestBytes.pipe(Self.appleMagic)
                let target =
                    RequestBytes.relay(
                        phone.magic.rawValue, token: phone.deviceToken, text: text, sound: sound,
                        contentAvailable: contentAvailable) + "&mutableContent=\(mutableContent)"
                expectSuccess(try await stage.ask(RequestBytes.get(target)))
                let received = try #require(await stage.services.received.last { $0.encrypted == text })
                #expect(received.platform == platform)
                #expect(received.hasSound == sound)
                #expect(received.isContentAvailable == contentAvailable)
                #expect(received.isMutableContent == mutableContent)
            }
        }
        let silent = RequestBytes.pipe(Self.googleMagic)
        let android = await stage.phone(.android)
        expectSuccess(try await stage.ask(relay(android, silent, sound: false)))
        #expect(await stage.received(android.deviceToken).map(\.hasSound) == [false])
        await stage.end()
    }

    @Test func `every notification has a collapse id of its own`() async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        let phone = await stage.phone(.iOS)
        for _ in 0..<3 {
            expectSuccess(try await stage.ask(relay(phone, RequestBytes.pipe(Self.appleMagic))))
            let path = "/v1/apns/device/\(phone.deviceToken)"
            let answer = try await stage.ask(RequestBytes.post(path, RequestBytes.push(RequestBytes.sealed())))
            #expect(answer.status == 200)
        }
        #expect(Set(await stage.received(phone.deviceToken).map(\.collapseID)).count == 6)
        await stage.end()
    }

    @Test func `a repeated request gets the same answer and rings the phone once`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.android)
        let request = relay(phone, RequestBytes.pipe(Self.googleMagic))
        for _ in 0..<3 { expectSuccess(try await stage.ask(request)) }
        // The same with concurrent requests.
        let other = relay(phone, RequestBytes.pipe(Self.googleMagic))
        try await withThrowingTaskGroup(of: HTTPAnswer.self) { group in
            for _ in 0..<4 { group.addTask { try await stage.ask(other) } }
            for try await answer in group { expectSuccess(answer) }
        }
        #expect(await stage.received(phone.deviceToken).count == 2)
        await stage.end()
    }

    // MARK: Bisq 2 and the other apps

    @Test(arguments: [Magic.iOS, .android])
    func `a phone opens a notification of Bisq 2`(_ magic: Magic) async throws {
        let stage = Stage()
        try await stage.start(more: Stage.profile(.bisqConnect))
        let phone = await stage.phone(magic, .bisqConnect)
        let key = phone.key.withBytes { span in span.withUnsafeBytes { Array($0) } }
        let nonce = SecureRandom.bytes(12)
        let clearText = "{\"id\":\"1\",\"title\":\"Trade\",\"message\":\"Zpráva ✓\",\"category\":\"trade_update\"}"
        let sealed = try #require(AESGCM.seal(Array(clearText.utf8), key: key, nonce: nonce))
        let encrypted = Data(nonce + sealed).base64EncodedString()
        let path = "/v1/\(magic == .android ? "fcm" : "apns")/device/\(phone.deviceToken)"
        let answer = try await stage.ask(RequestBytes.post(path, RequestBytes.push(encrypted)))
        #expect(answer.status == 200)
        #expect(answer.text == "{\"wasAccepted\":true,\"isUnregistered\":false}")
        let received = try #require(await stage.received(phone.deviceToken).first)
        #expect(received.encrypted == encrypted)
        #expect(received.hasSound)
        #expect((received.alert == nil) == (magic == .android))
        #expect(try phone.open(received.encrypted).message == "Zpráva ✓")
        await stage.end()
    }

    @Test func `v1 finds the development environment by itself`() async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        let phone = await stage.phone(.iOSDev)
        let path = "/v1/apns/device/\(phone.deviceToken)"
        let answer = try await stage.ask(RequestBytes.post(path, RequestBytes.push(RequestBytes.sealed())))
        #expect(answer.status == 200)
        #expect(await stage.received(phone.deviceToken).map(\.platform) == [.apnsDevelopment])
        await stage.end()
    }

    @Test func `the envelope's format and magic select the app`() async throws {
        let stage = Stage()
        try await stage.start(
            more: Stage.profile(.haveno, alert: "Haveno") + Stage.profile(.bisqConnect, alert: "Connect"))
        for (app, alert) in [(PhoneApp.bisq, "New notification"), (.haveno, "Haveno"), (.bisqConnect, "Connect")] {
            for magic in Magic.appleAndGoogle {
                let phone = await stage.phone(magic, app)
                let text = app.messageMagic(magic).map { RequestBytes.pipe($0) } ?? RequestBytes.sealed()
                // Apple and Google reject a notification under another app's name.
                expectSuccess(try await stage.ask(relay(phone, text)), "\(app) \(magic)")
                let received = try #require(await stage.received(phone.deviceToken).first)
                #expect(received.encrypted == text)
                if magic != .android { #expect(received.alert == alert) }
            }
        }
        await stage.end()
    }

    @Test func `an envelope that matches no configured app gets 400 and reaches no push service`() async throws {
        let stage = Stage()
        try await stage.start()
        let (apple, google) = (await stage.phone(.iOS), await stage.phone(.android))
        for (phone, text) in [
            (apple, RequestBytes.pipe("HavenoMessageiOS")), (apple, RequestBytes.pipe("BisqMessageAndroid")),
            (apple, RequestBytes.pipe("")), (apple, RequestBytes.sealed()),
            (google, RequestBytes.pipe("BisqMessageiOS")),
            (google, RequestBytes.sealed()),
        ] {
            let answer = try await stage.ask(relay(phone, text))
            #expect(answer.status == 400)
            #expect(answer.json?["reason"] as? Int == 107)
        }
        #expect(await stage.services.requests(.apnsProduction) == 0)
        #expect(await stage.services.requests(.fcm) == 0)
        await stage.end()
    }

    // MARK: Rejections and retries

    @Test func `a request over the phone's rate limit gets 429 with Retry-After, and succeeds after it`()
        async throws
    {
        let stage = Stage()
        try await stage.start(gates: "[limits]\ndevice_burst = 1\ndevice_per_minute = 60", more: Stage.sealed)
        let phone = await stage.phone(.android)
        expectSuccess(try await stage.ask(relay(phone, RequestBytes.pipe(Self.googleMagic))))
        let again = relay(phone, RequestBytes.pipe(Self.googleMagic))
        let refused = try await stage.ask(again)
        #expect(refused.status == 429)
        #expect(refused.headers["retry-after"] == "1")
        #expect(refused.json?["status"] as? Int == 429)
        #expect(refused.json?["reason"] as? Int == 200)
        // v1 selects another app, so the token counts as another device.
        let path = "/v1/fcm/device/\(phone.deviceToken)"
        #expect(try await stage.ask(RequestBytes.post(path, RequestBytes.push(RequestBytes.sealed()))).status == 200)
        let refusedV1 = try await stage.ask(RequestBytes.post(path, RequestBytes.push(RequestBytes.sealed())))
        #expect(refusedV1.status == 429)
        #expect(refusedV1.headers["retry-after"] == "1")
        #expect(refusedV1.json?["errorCode"] as? String == "TooManyRequests")
        #expect(refusedV1.json?["isUnregistered"] as? Bool == false)
        #expect(await stage.received(phone.deviceToken).count == 2)
        try await Task.sleep(for: .milliseconds(1100))
        expectSuccess(try await stage.ask(again))
        await stage.end()
    }

    @Test(arguments: [Magic.iOS, .android])
    func `a push service that is down yields 503 with Retry-After in both dialects`(_ magic: Magic) async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0", more: Stage.sealed)
        let phone = await stage.phone(magic)
        var faults = Faults()
        faults.errors = [Faults.ErrorAnswer(perMille: 1000, status: 503, retryAfter: 7)]
        let platform: Device.Platform = magic == .android ? .fcm : .apnsProduction
        try await stage.services.set(faults, on: platform)
        let text = RequestBytes.pipe(magic == .android ? Self.googleMagic : Self.appleMagic)
        let answer = try await stage.ask(relay(phone, text))
        #expect(answer.status == 503)
        // The push service's 7 s are too long for a desktop that sleeps through them.
        #expect(answer.headers["retry-after"] == "5")
        #expect(answer.json?["status"] as? Int == 503)
        #expect(answer.json?["reason"] as? Int == 301)
        let path = "/v1/\(magic == .android ? "fcm" : "apns")/device/\(phone.deviceToken)"
        let answerV1 = try await stage.ask(RequestBytes.post(path, RequestBytes.push(RequestBytes.sealed())))
        #expect(answerV1.status == 503)
        #expect((Int(answerV1.headers["retry-after"] ?? "") ?? 0) > 0)
        #expect(answerV1.json?["errorCode"] as? String == "ServiceUnavailable")
        #expect(answerV1.json?["isUnregistered"] as? Bool == false)
        await stage.end()
    }

    @Test
    func
        `a slow push service yields 503 after the answer timeout, and a resend rings once`()
        async throws
    {
        let stage = Stage()
        try await stage.start(limits: "http_answer_timeout = 1")
        let phone = await stage.phone(.iOS)
        var faults = Faults()
        faults.latency = .fixed(3000)
        try await stage.services.set(faults, on: .apnsProduction)
        let request = relay(phone, RequestBytes.pipe(Self.appleMagic))
        let answer = try await stage.ask(request)
        #expect(answer.status == 503)
        #expect((Int(answer.headers["retry-after"] ?? "") ?? 0) > 0)
        #expect(answer.json?["status"] as? Int == 503)
        for _ in 0..<6000 where await stage.received(phone.deviceToken).isEmpty {
            try await Task.sleep(for: .milliseconds(50))
        }
        // Delivered meanwhile: the resend gets success and does not ring the phone again.
        var last = try await stage.ask(request)
        for _ in 0..<100 where last.status == 503 { last = try await stage.ask(request) }
        expectSuccess(last)
        #expect(await stage.received(phone.deviceToken).count == 1)
        await stage.end()
    }

    @Test func `with a spool, success means stored, and the phone rings once the push service is back`() async throws {
        let stage = Stage()
        try await stage.start(more: "[spool]\nenabled = true")
        let phone = await stage.phone(.iOS)
        await stage.services.kill(.apnsProduction)
        expectSuccess(try await stage.ask(relay(phone, RequestBytes.pipe(Self.appleMagic))))
        #expect(await stage.services.received.isEmpty)
        try await stage.services.restart(.apnsProduction)
        for _ in 0..<6000 where await stage.services.received.isEmpty { try await Task.sleep(for: .milliseconds(50)) }
        #expect(await stage.services.received.count == 1)
        await stage.end()
    }

    @Test func `an unsigned request cannot ring a phone that is bound to a sender key`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.iOS)
        let client = stage.client()
        let signer = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 9, count: 32)))
        let envelope = try stage.envelope(for: phone)
        #expect(try await client.submit(envelope, timeout: .seconds(60), signedBy: signer).kind == .delivered)
        await client.close()
        let refused = try await stage.ask(relay(phone, RequestBytes.pipe(Self.appleMagic)))
        #expect(refused.status == 400)
        #expect(refused.json?["reason"] as? Int == 205)
        #expect(await stage.received(phone.deviceToken).count == 1)
        await stage.end()
    }

    // MARK: HTTP

    @Test func `a wrong method gets 405 with Allow, an unknown path gets 404`() async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        let token = String(repeating: "ab", count: 32)
        for (path, right) in [
            ("/relay", "GET"), ("//relay?token=a", "GET"), ("/v1/apns/device/\(token)", "POST"),
            ("/v1/fcm/device/\(token)", "POST"),
        ] {
            for method in ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "GET", "POST"] where method != right {
                let answer = try await stage.ask(
                    RequestBytes.request(method, path, fields: method == "PUT" ? ["Content-Length: 0"] : []),
                    toHEAD: method == "HEAD")
                #expect(answer.status == 405, "\(method) \(path)")
                #expect(answer.headers["allow"] == right, "\(method) \(path)")
                if method != "HEAD" { #expect(answer.json?["status"] as? Int == 405, "\(method) \(path)") }
            }
        }
        for path in [
            "/", "/relay/", "/Relay", "/relays", "/v1", "/v1/apns", "/v1/apns/device", "/v1/apns/device/",
            "/v1/fcm/device/", "/v1/apns/device/\(token)/", "/v1/apns/device/\(token)/x", "/v2/apns/device/\(token)",
            "/v1/gcm/device/\(token)", "/actuator/health", "/metrics", "/../relay",
        ] {
            for method in ["GET", "POST"] {
                let answer = try await stage.ask(
                    RequestBytes.request(method, path, fields: method == "POST" ? ["Content-Length: 0"] : []))
                #expect(answer.status == 404, "\(method) \(path)")
                #expect(answer.json?["status"] as? Int == 404, "\(method) \(path)")
            }
        }
        #expect(await stage.services.requests(.apnsProduction) + stage.services.requests(.fcm) == 0)
        await stage.end()
    }

    @Test(arguments: [("GET", "/nowhere", 404), ("PUT", "/relay", 405)])
    func `repeated 404 and 405 answers close the connection`(
        _ method: String, _ path: String, _ status: Int
    ) async throws {
        let stage = Stage()
        try await stage.start(gates: "[limits]\nabuse_burst = 20\nabuse_per_minute = 1", more: Stage.sealed)
        let request = RequestBytes.request(method, path, fields: ["Content-Length: 0"], closes: false)
        let answers = try HTTPAnswer.all(in: try await stage.http(Array(repeatElement(request, count: 30).joined())))
        // The node may already have read the request after the last one that the limit allows.
        #expect((20...21).contains(answers.count))
        #expect(answers.allSatisfy { $0.status == status })
        #expect(answers.last?.headers["connection"] == "close")
        await stage.end()
    }

    @Test func `an answer has only the required headers and contains no device token`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0", more: Stage.sealed)
        let phone = await stage.phone(.iOS)
        await stage.services.kill(.fcm)
        let needed: Set = ["content-type", "content-length", "connection", "retry-after", "allow"]
        let unknown = String(repeating: "ab", count: 32)
        for (request, type) in [
            (relay(phone, RequestBytes.pipe(Self.appleMagic)), "text/plain"),
            (RequestBytes.get("/relay"), "application/json"), (RequestBytes.get("/"), "application/json"),
            (RequestBytes.post("/relay", "{}"), "application/json"),
            (
                RequestBytes.post("/v1/apns/device/\(unknown)", RequestBytes.push(RequestBytes.sealed())),
                "application/json"
            ),
            (relay(await stage.phone(.android), RequestBytes.pipe(Self.googleMagic)), "application/json"),
            (Array("\u{1}\r\n\r\n".utf8), "application/json"),
        ] {
            let answer = try await stage.ask(request)
            #expect(Set(answer.headers.keys).isSubset(of: needed))
            #expect(answer.headers["content-type"]?.split(separator: ";").first.map(String.init) == type)
            #expect(!answer.text.contains(unknown) && !answer.text.contains(phone.deviceToken))
        }
        await stage.end()
    }

    @Test func `a connection stays open for the next request, also after an error`() async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        let (apple, google) = (await stage.phone(.iOS), await stage.phone(.android))
        let answers = try await stage.converse([
            RequestBytes.get(
                RequestBytes.relay("iOS", token: apple.deviceToken, text: RequestBytes.pipe(Self.appleMagic)),
                closes: false),
            RequestBytes.get("/nowhere", closes: false), RequestBytes.get("/relay?token=%", closes: false),
            RequestBytes.post(
                "/v1/fcm/device/\(google.deviceToken)", RequestBytes.push(RequestBytes.sealed()), closes: false),
            RequestBytes.get(
                RequestBytes.relay("iOS", token: apple.deviceToken, text: RequestBytes.pipe(Self.appleMagic)),
                fields: ["Connection: Keep-Alive"], closes: false),
        ])
        #expect(answers.map(\.status) == [200, 404, 400, 200, 200])
        #expect(answers.map { $0.text == "success" } == [true, false, false, false, true])
        #expect(await stage.services.received.count == 3)
        await stage.end()
    }

    @Test func `pipelined requests are answered in order`() async throws {
        let stage = Stage()
        try await stage.start(more: Stage.sealed)
        let (apple, google) = (await stage.phone(.iOS), await stage.phone(.android))
        // The first request takes the longest.
        var faults = Faults()
        faults.latency = .fixed(300)
        try await stage.services.set(faults, on: .apnsProduction)
        let bytes =
            RequestBytes.get(
                RequestBytes.relay("iOS", token: apple.deviceToken, text: RequestBytes.pipe(Self.appleMagic)),
                closes: false)
            + RequestBytes.post(
                "/v1/fcm/device/\(google.deviceToken)", RequestBytes.push(RequestBytes.sealed()), closes: false)
            + RequestBytes.get("/nowhere", closes: false)
            + RequestBytes.get(
                RequestBytes.relay("android", token: google.deviceToken, text: RequestBytes.pipe(Self.googleMagic)))
        let answers = try HTTPAnswer.all(in: try await stage.http(bytes))
        #expect(answers.map(\.status) == [200, 200, 404, 200])
        #expect(answers.map { $0.text == "success" } == [true, false, false, true])
        #expect(await stage.services.received.count == 3)
        await stage.end()
    }

    @Test func `an HTTP 1.0 request without Host is answered`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.iOS)
        let target = RequestBytes.relay("iOS", token: phone.deviceToken, text: RequestBytes.pipe(Self.appleMagic))
        // Without the fields Host and Connection.
        expectSuccess(try await stage.ask(Array("GET \(target) HTTP/1.0\r\n\r\n".utf8)))
        await stage.end()
    }

    // MARK: Circuits

    @Test func `with circuit ids the PROXY line is required, and rate limits apply per circuit`() async throws {
        let stage = Stage()
        try await stage.start(circuitIDs: true, gates: "[limits]\ncircuit_burst = 1\ncircuit_per_minute = 1")
        let phone = await stage.phone(.iOS)
        func line(_ circuit: String) -> [UInt8] {
            Array("PROXY TCP6 fc00:dead:beef:4dad::0:\(circuit) ::1 183 80\r\n".utf8)
        }
        expectSuccess(try await stage.ask(line("b7") + relay(phone, RequestBytes.pipe(Self.appleMagic))))
        let refused = try await stage.ask(line("b7") + relay(phone, RequestBytes.pipe(Self.appleMagic)))
        #expect(refused.status == 429)
        #expect(refused.json?["reason"] as? Int == 201)
        #expect((Int(refused.headers["retry-after"] ?? "") ?? 0) > 0)
        expectSuccess(try await stage.ask(line("b8") + relay(phone, RequestBytes.pipe(Self.appleMagic))))
        #expect(try await stage.ask(relay(phone, RequestBytes.pipe(Self.appleMagic))).status == 400)
        #expect(await stage.services.received.count == 2)
        await stage.end()
    }

    @Test func `without circuit ids a PROXY line gets 400`() async throws {
        let stage = Stage()
        try await stage.start()
        let phone = await stage.phone(.iOS)
        let line = Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8)
        #expect(try await stage.ask(line + relay(phone, RequestBytes.pipe(Self.appleMagic))).status == 400)
        #expect(await stage.services.received.isEmpty)
        await stage.end()
    }

    // MARK: Privacy

    @Test func `no part of a request is logged, not even at trace level`() async throws {
        let stage = Stage()
        try await stage.start(limits: "patience = 0", more: Stage.sealed)
        let (phone, unknown) = (await stage.phone(.iOS), Phone.new(.iOS, model: "unknown"))
        let (text, sealed) = (RequestBytes.pipe(Self.appleMagic), RequestBytes.sealed())
        let uid = UUID().uuidString
        let agent = ["User-Agent: bisq/1.9.17, uid:\(uid)"]
        func target(_ phone: Phone, _ text: String) -> String {
            RequestBytes.relay("iOS", token: phone.deviceToken, text: text)
        }
        for request in [
            RequestBytes.get(target(phone, text), fields: agent),
            RequestBytes.get(target(unknown, text), fields: agent),
            RequestBytes.get(target(phone, text + "x"), fields: agent),
            RequestBytes.get(target(phone, text) + "&token=ab", fields: agent),
            RequestBytes.get(target(phone, "Nobody|" + text), fields: agent),
            RequestBytes.post("/v1/apns/device/\(phone.deviceToken)", RequestBytes.push(sealed), fields: agent),
            RequestBytes.post("/v1/apns/device/\(unknown.deviceToken)", RequestBytes.push(sealed), fields: agent),
            RequestBytes.post("/v1/apns/device/\(phone.deviceToken)", "{\"\(sealed)\": 1", fields: agent),
            RequestBytes.get("/\(uid)", fields: agent), RequestBytes.request("BREW", "/\(uid)", fields: agent),
        ] {
            _ = try await stage.http(request)
        }
        let parts = text.split(separator: "|").map(String.init)
        let secrets =
            [phone, unknown].flatMap { [$0.deviceToken, RequestBytes.hex($0.deviceToken)] }
            + [parts[1], parts[2], RequestBytes.hex(text), sealed, uid, "bisq/1.9"]
        // Without any line the check below would prove nothing.
        #expect(!stage.log.lines.isEmpty)
        let leaks = stage.log.lines.count { line in
            secrets.contains { line.lowercased().contains($0.lowercased()) }
        }
        #expect(leaks == 0)
        await stage.end()
    }
}
