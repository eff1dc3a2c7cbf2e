// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Providers
import TNP
import TestSupport
import Testing

@testable import HTTP2
@testable import StandIns
@testable import Time

@Suite(.tags(.computing)) struct APNsRequestBuilderTests {
    private let now: Int64 = 1_700_000_000
    private let deviceToken = String(repeating: "0f", count: 32)
    private let profile = APNsProfile(
        topic: "org.example.app", format: .pipe, messageMagic: "BisqMessageiOS", alert: .text("New message"))

    private func request(_ envelope: Envelope, _ other: APNsProfile? = nil) throws -> Request {
        try APNsRequestBuilder(other ?? profile, authority: "127.0.0.1:2197").request(
            for: envelope, authorization: Array("bearer a.b.c".utf8),
            expiry: Expiry(ttl: envelope.ttl, takenAt: now))
    }

    // MARK: Header fields

    @Test func `a request has exactly these header fields in this order`() throws {
        let envelope = try makeEnvelope(to: deviceToken, ttl: 60, collapseID: "trade-29384203")
        let found = try request(envelope).headers.all.map { "\($0.name): \($0.value)" }
        let wanted = [
            ":method: POST", ":scheme: https", ":authority: 127.0.0.1:2197", ":path: /3/device/\(deviceToken)",
            "apns-topic: org.example.app", "apns-push-type: alert",
            "apns-id: \(String(decoding: envelope.apnsID, as: UTF8.self))", "apns-collapse-id: trade-29384203",
            "apns-expiration: 1700000060", "apns-priority: 10", "authorization: bearer a.b.c",
        ]
        #expect(found == wanted)
    }

    @Test func `a request without a provider token has no authorization`() throws {
        let headers = try APNsRequestBuilder(profile, authority: "localhost").request(
            for: makeEnvelope(to: deviceToken), authorization: nil,
            expiry: .at(now)
        ).headers
        #expect(headers.text("authorization") == nil)
        #expect(headers.fields.count == 10)
    }

    @Test func `the path contains the device token as the sender spelled it`() throws {
        for token in ["0F", String(repeating: "aB", count: 100)] {
            let headers = try request(makeEnvelope(to: token)).headers
            #expect(headers.text(":path") == "/3/device/\(token)")
        }
    }

    @Test func `apns-id is a version 8 UUID made from the envelope's digest`() throws {
        let envelope = try makeEnvelope(to: deviceToken)
        let headers = try request(envelope).headers
        let id = try #require(headers.text("apns-id"))
        #expect(id.split(separator: "-").map(\.count) == [8, 4, 4, 4, 12])
        let bytes = try #require(Hex.decode(id.filter { $0 != "-" }))
        var wanted = envelope.digest.prefix(16)
        wanted[6] = wanted[6] & 0x0F | 0x80
        wanted[8] = wanted[8] & 0x3F | 0x80
        #expect(bytes == wanted)
        #expect(id == id.lowercased())
    }

    @Test func `apns-collapse-id is derived from the digest if the sender gave none`() throws {
        let envelope = try makeEnvelope(to: deviceToken)
        let headers = try request(envelope).headers
        let wanted = String(decoding: Base64.encodeURLSafe(envelope.digest.prefix(24)), as: UTF8.self)
        #expect(headers.text("apns-collapse-id") == wanted)
        #expect(wanted.utf8.count == 32)
    }

    @Test func `a resend has the same ids, and another envelope has others`() throws {
        let envelope = try makeEnvelope(to: deviceToken)
        let first = try request(envelope).headers
        let again = try APNsRequestBuilder(profile, authority: "localhost").request(
            for: envelope, authorization: nil, expiry: .at(now + 1000)
        ).headers
        #expect(first.text("apns-id") == again.text("apns-id"))
        #expect(first.text("apns-collapse-id") == again.text("apns-collapse-id"))
        let ciphertext = [UInt8](repeating: 0x42, count: 32)
        let other = try request(makeEnvelope(to: deviceToken, ciphertext: ciphertext)).headers
        #expect(first.text("apns-id") != other.text("apns-id"))
        #expect(first.text("apns-collapse-id") != other.text("apns-collapse-id"))
    }

    @Test func `apns-expiration is now plus ttl, and 0 for now or never`() throws {
        let cases: [(UInt32, String)] = [(0, "0"), (1, "1700000001"), (Envelope.maximumTTL, "1702419200")]
        for (ttl, wanted) in cases {
            let headers = try request(makeEnvelope(to: deviceToken, ttl: ttl)).headers
            #expect(headers.text("apns-expiration") == wanted)
        }
    }

    @Test func `the priority is 10, or 5 to conserve power`() throws {
        let immediate = try request(makeEnvelope(to: deviceToken, priority: .immediate)).headers
        let conserving = try request(makeEnvelope(to: deviceToken, priority: .conservePower)).headers
        #expect(immediate.text("apns-priority") == "10")
        #expect(conserving.text("apns-priority") == "5")
    }

    @Test func `secret and non-repeating header values stay out of the HPACK table`() throws {
        let headers = try request(makeEnvelope(to: deviceToken)).headers
        var found: [String: HeaderBlock.Indexing] = [:]
        for field in headers.fields {
            let name = String(decoding: headers.bytes[field.name], as: UTF8.self)
            found[name] = field.indexing
        }
        let wanted: [String: HeaderBlock.Indexing] = [
            ":method": .allowed, ":scheme": .allowed, ":authority": .allowed, ":path": .never,
            "apns-topic": .allowed, "apns-push-type": .allowed, "authorization": .never, "apns-id": .firstOnly,
            "apns-collapse-id": .firstOnly, "apns-expiration": .firstOnly, "apns-priority": .allowed,
        ]
        #expect(found == wanted)
    }

    // MARK: Payload

    @Test func `the payload has exactly these bytes`() throws {
        let ciphertext = [UInt8](repeating: 0x41, count: 16)
        let body = try request(makeEnvelope(to: deviceToken, ciphertext: ciphertext)).body
        let wanted = """
            {"aps":{"alert":{"body":"New message"},"sound":"default","content-available":1,"mutable-content":1},\
            "encrypted":"BisqMessageiOS|0123456789abcdef|QUFBQUFBQUFBQUFBQUFBQQ=="}
            """
        #expect(String(decoding: body, as: UTF8.self) == wanted)
    }

    @Test(arguments: 0..<8)
    func `sound and both profile flags appear in the payload only if they are set`(_ bits: Int) throws {
        let (sound, contentAvailable, mutableContent) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)
        var other = profile
        other.contentAvailable = contentAvailable ? .always : .never
        other.mutableContent = mutableContent ? .always : .never
        let body = try request(makeEnvelope(to: deviceToken, sound: sound), other).body
        var aps: [String: JSONValue] = ["alert": .object(["body": .string("New message")])]
        if sound { aps["sound"] = .string("default") }
        if contentAvailable { aps["content-available"] = .number(1) }
        if mutableContent { aps["mutable-content"] = .number(1) }
        let payload = try #require(JSONValue(body))
        #expect(payload["aps"]?.object == aps)
        let keys = payload.object.map { $0.keys.sorted() }
        #expect(keys == ["aps", "encrypted"])
    }

    @Test(arguments: APNsProfile.FlagRule.allCases, [nil, true, false])
    func `a flag follows its rule, and the sender's choice if the rule is request`(
        _ rule: APNsProfile.FlagRule, _ requested: Bool?
    ) throws {
        var other = profile
        other.contentAvailable = rule
        other.mutableContent = rule
        for isMutable in [false, true] {
            var envelope = try makeEnvelope(to: deviceToken)
            if isMutable { envelope.mutableContent = requested } else { envelope.contentAvailable = requested }
            let aps = JSONValue(try request(envelope, other).body)?["aps"]?.object
            let isSet = aps?[isMutable ? "mutable-content" : "content-available"] == .number(1)
            switch rule {
            case .always: #expect(isSet)
            case .never: #expect(!isSet)
            case .request: #expect(isSet == (requested ?? true))
            }
        }
    }

    @Test func `an alert may be a localisation key, and the app may have its own sound`() throws {
        var other = profile
        other.alert = .localized(key: "new \"message\"")
        other.sound = "bell.caf"
        let aps = JSONValue(try request(makeEnvelope(to: deviceToken), other).body)?["aps"]
        #expect(aps?["alert"]?.object == ["loc-key": .string("new \"message\"")])
        #expect(aps?["sound"]?.string == "bell.caf")
    }

    @Test func `the phone of a sealed app receives the Base64 of iv and ciphertext`() throws {
        var other = profile
        other.format = .sealed
        let iv = [UInt8](0xF0..<0xFC)
        let ciphertext = [UInt8](0..<33)
        let envelope = try makeEnvelope(to: deviceToken, iv: iv, ciphertext: ciphertext, format: .sealed)
        let body = try request(envelope, other).body
        let encrypted = try #require(JSONValue(body)?["encrypted"]?.string)
        #expect(Base64.decode(encrypted.utf8) == iv + ciphertext)
    }

    @Test func `an iv with quotation marks and backslashes survives JSON encoding`() throws {
        for iv in [#"a"b\c"d\e'f/g*12"#, String(repeating: "\"", count: 16), String(repeating: "\\", count: 16)] {
            let envelope = try makeEnvelope(to: deviceToken, iv: Array(iv.utf8))
            let body = try request(envelope).body
            let ciphertext = String(decoding: Base64.encode(envelope.ciphertext), as: UTF8.self)
            let wanted = "BisqMessageiOS|\(iv)|\(ciphertext)"
            #expect(JSONValue(body)?["encrypted"]?.string == wanted)
        }
    }

    @Test(arguments: ["", "Say \"hello\" \\ bye", "two\nlines\tand\u{1}\u{1F}", "Nová zpráva 🚀", "</script>"])
    func `any alert text survives JSON encoding`(_ alert: String) throws {
        var other = profile
        other.alert = .text(alert)
        let body = try request(makeEnvelope(to: deviceToken), other).body
        #expect(JSONValue(body)?["aps"]?["alert"]?["body"]?.string == alert)
    }

    @Test func `a payload of 4096 bytes passes and one of 4097 is refused`() throws {
        let envelope = try makeEnvelope(to: deviceToken, ciphertext: [UInt8](repeating: 0x41, count: 1024))
        var other = profile
        other.alert = .text("")
        let shortest = try request(envelope, other).body.count
        other.alert = .text(String(repeating: "a", count: 4096 - shortest))
        let longest = try request(envelope, other).body.count
        #expect(longest == 4096)
        other.alert = .text(String(repeating: "a", count: 4097 - shortest))
        let tooLong = other
        let rejection = #expect(throws: Rejection.self) { try request(envelope, tooLong) }
        #expect(rejection?.reason.rawValue == 105)
    }

    @Test func `the longest ciphertext that fits passes, and 16 bytes more are refused with 105`() throws {
        var passed: [Int] = []
        var refused: [Int] = []
        for length in stride(from: 16, through: 3072, by: 16) {
            let ciphertext = [UInt8](repeating: 0x41, count: length)
            let envelope = try makeEnvelope(to: deviceToken, ciphertext: ciphertext)
            do {
                let count = try request(envelope).body.count
                #expect(count <= 4096)
                passed.append(length)
            } catch let rejection as Rejection {
                #expect(rejection.reason.rawValue == 105)
                refused.append(length)
            }
        }
        let longest = try #require(passed.last)
        #expect(refused.first == longest + 16)
        #expect(refused.last == 3072)
        #expect(passed.count + refused.count == 3072 / 16)
    }

    @Test(arguments: EnvelopeFormat.allCases)
    func `every request passes the simulator's APNs validation`(_ format: EnvelopeFormat) throws {
        let key = SigningKey.generate(.es256)
        let token = APNsProviderToken(AppleKey(key, keyID: "KEY0000001", teamID: "TEAM000001"))
        var validator = APNsRequestValidator(
            platform: .apnsProduction, topics: ["org.example.app"],
            key: APNsRequestValidator.Key(keyID: "KEY0000001", teamID: "TEAM000001", key: key.verifyingKey),
            certificateName: "none")
        var other = profile
        other.format = format
        let iv = Array("0123456789abcdef".utf8.prefix(format == .pipe ? 16 : 12))
        for ttl in [0, 60, Envelope.maximumTTL] {
            for priority in [DeliveryPriority.immediate, .conservePower] {
                for collapseID in [nil, "c", String(repeating: "c", count: 64)] {
                    let envelope = try makeEnvelope(
                        to: deviceToken, iv: iv, ttl: ttl, priority: priority, collapseID: collapseID, format: format)
                    let request = try APNsRequestBuilder(other, authority: "localhost").request(
                        for: envelope, authorization: token.authorization(at: now),
                        expiry: Expiry(ttl: envelope.ttl, takenAt: now))
                    let seen = ServerRequest(
                        stream: 1, headers: request.headers, body: request.body, isTooLarge: false)
                    let answer = validator.validate(seen, clientName: nil, now: now) { _ in
                        Device(platform: .apnsProduction, app: "org.example.app")
                    }
                    #expect(answer == .accepted)
                }
            }
        }
    }
}

@Suite(.tags(.computing)) struct APNsProviderTokenTests {
    private let key = SigningKey.generate(.es256)
    private let now: Int64 = 1_700_000_000

    private let clock = MonotonicTime(nanoseconds: 1_000_000_000_000)

    private func makeToken(store: SharedTokenStore? = nil, keyID: String = "KEY0000001") -> APNsProviderToken {
        APNsProviderToken(AppleKey(key, keyID: keyID, teamID: "TEAM000001"), keeping: store)
    }

    /// The provider token that one process stores for the next.
    private final class SharedTokenStore: ProviderTokenStore {
        var token: [UInt8]?
        func load() -> [UInt8]? { token }
        func save(_ token: [UInt8]) { self.token = token }
    }

    private func webToken(_ authorization: [UInt8]?) throws -> WebToken {
        let text = String(decoding: try #require(authorization), as: UTF8.self)
        #expect(text.hasPrefix("bearer "))
        return try #require(WebToken(String(text.dropFirst(7))))
    }

    @Test func `a provider token contains key id, team id and time, signed by the key`() throws {
        let token = try webToken(makeToken().authorization(at: now))
        let header: JSONValue = .object([
            "alg": .string("ES256"), "typ": .string("JWT"), "kid": .string("KEY0000001"),
        ])
        let claims: JSONValue = .object(["iss": .string("TEAM000001"), "iat": .number(1_700_000_000)])
        #expect(token.header == header)
        #expect(token.claims == claims)
        #expect(token.isSigned(by: key.verifyingKey))
        #expect(!token.isSigned(by: SigningKey.generate(.es256).verifyingKey))
    }

    @Test(
        arguments: [(-5, 0), (0, 0), (1000, 1000), (3700, 3600), (9000, nil), (-900, nil), (.max, nil), (.min, nil)]
            as [(Int64, Int64?)])
    func `another node's token is as old as it says, and one from a wrong clock is not used`(
        _ later: Int64, _ age: Int64?
    ) throws {
        let (one, two) = (makeToken(), makeToken())
        _ = one.authorization(at: now, clock: clock)
        let shared = try #require(one.present(at: now, clock: clock))
        let time = later == .max || later == .min ? later : now + later
        #expect(two.adopt(shared, at: time, clock: clock) == (age != nil) && two.age(at: clock) == age)
    }

    @Test func `a provider token is used for 50 minutes and then replaced`() throws {
        let token = makeToken()
        let first = token.authorization(at: now, clock: clock)
        for later: Int64 in [0, 1, 1200, 2999] {
            #expect(token.authorization(at: now + later, clock: clock + .seconds(later)) == first)
        }
        let second = token.authorization(at: now + 3000, clock: clock + .seconds(3000))
        #expect(second != first)
        let claims = try webToken(second).claims
        #expect(claims["iat"]?.number == 1_700_003_000)
        #expect(token.authorization(at: now + 5999, clock: clock + .seconds(5999)) == second)
        #expect(token.authorization(at: now + 6000, clock: clock + .seconds(6000)) != second)
    }

    @Test func `setting the wall clock does not replace the provider token`() throws {
        let token = makeToken()
        let first = token.authorization(at: now, clock: clock)
        token.wasSent(first)
        for step: Int64 in [-86_400, -3600, -1, 3600, 86_400] {
            #expect(token.authorization(at: now + step, clock: clock + .seconds(10)) == first)
        }
        #expect(token.authorization(at: now - 86_400, clock: clock + .seconds(3000)) != first)
    }

    @Test func `a provider token that Apple has not seen is made anew at once when the clock is right`() throws {
        let token = makeToken()
        let first = token.authorization(at: 77, clock: clock)
        #expect(token.authorization(at: 107, clock: clock + .seconds(30)) == first)
        let second = token.authorization(at: now, clock: clock + .seconds(31))
        #expect(try webToken(second).claims["iat"]?.number == Double(now))
        // While the issuer has not answered, nothing is sent with the misdated one.
        let issuer = RemoteIssuer(key)
        let remote = APNsProviderToken(issuer)
        issuer.key.issue(at: 77, inPlaceOfUnseen: false) { issuer.answer = $0 }
        #expect(remote.authorization(at: 77, clock: clock) != nil)
        issuer.waiting = []
        #expect(remote.authorization(at: now, clock: clock + .seconds(31)) == nil && remote.isBeingIssued)
        issuer.waiting?.removeFirst()(issuer.key.token(at: now))
        #expect(
            try webToken(remote.authorization(at: now, clock: clock + .seconds(32))).claims["iat"]?.number
                == Double(now))
        // Apple has seen neither; another header's request says nothing about this one.
        token.wasSent(first)
        #expect(token.authorization(at: now - 86_400, clock: clock + .seconds(32)) != second)
    }

    @Test func `a stored provider token gets its age when the clock is right`() throws {
        let store = SharedTokenStore()
        let first = try #require(makeToken(store: store).authorization(at: now, clock: clock))
        let next = makeToken(store: store)
        // Before the clock is set, nobody knows its age.
        #expect(next.authorization(at: 77, clock: clock) == first)
        #expect(next.authorization(at: now + 600, clock: clock + .seconds(9)) == first)
        #expect(next.age(at: clock + .seconds(9)) == 600)
        let late = makeToken(store: store)
        #expect(late.authorization(at: 77, clock: clock) == first)
        let renewed = late.authorization(at: now + 7200, clock: clock + .seconds(9))
        #expect(try webToken(renewed).claims["iat"]?.number == Double(now + 7200))
    }

    @Test func `at most one provider token is made in 20 minutes, even across a restart`() throws {
        let store = SharedTokenStore()
        let first = try #require(makeToken(store: store).authorization(at: now, clock: clock))
        let restarted = makeToken(store: store)
        #expect(restarted.authorization(at: now + 1199, clock: clock) == first)
        // Even if APNs reports it as expired earlier.
        #expect(!restarted.renew(refused: first, at: now + 1199, clock: clock))
        #expect(restarted.authorization(at: now + 1199, clock: clock) == first)
        // Its age continues across the restart.
        #expect(restarted.authorization(at: now + 2999, clock: clock + .seconds(1800)) == first)
        #expect(restarted.authorization(at: now + 3000, clock: clock + .seconds(1801)) != first)
    }

    @Test func `a stored provider token is used only with its own key and while it is valid`() throws {
        let store = SharedTokenStore()
        let first = makeToken(store: store).authorization(at: now, clock: clock)
        #expect(makeToken(store: store, keyID: "KEY0000002").authorization(at: now, clock: clock) != first)
        _ = makeToken(store: store).authorization(at: now, clock: clock)
        let late = makeToken(store: store).authorization(at: now + 3600, clock: clock)
        #expect(late != first)
        for invalid in ["", "a.b.c", "bearer", String(repeating: ".", count: 5000)] {
            store.token = Array(invalid.utf8)
            let fresh = makeToken(store: store).authorization(at: now, clock: clock)
            #expect(try webToken(fresh).isSigned(by: key.verifyingKey))
        }
        let otherKey = APNsProviderToken(
            AppleKey(SigningKey.generate(.es256), keyID: "KEY0000001", teamID: "TEAM000001"), keeping: store)
        let foreign = otherKey.authorization(at: now, clock: clock)
        #expect(makeToken(store: store).authorization(at: now, clock: clock) != foreign)
    }

    @Test func `setting the clock back between two processes makes no second provider token`() {
        let store = SharedTokenStore()
        let first = makeToken(store: store).authorization(at: now, clock: clock)
        #expect(makeToken(store: store).authorization(at: now - 7200, clock: clock) == first)
    }

    @Test func `ExpiredProviderToken renews once after 20 minutes, for all refused requests`() throws {
        let token = makeToken()
        let first = try #require(token.authorization(at: now, clock: clock))
        let later = clock + .seconds(1200)
        #expect(token.renew(refused: first, at: now + 1200, clock: later))
        let second = try #require(token.authorization(at: now + 1200, clock: later))
        #expect(second != first)
        // Further requests refused with the old token use the same new token.
        for _ in 0..<100 { #expect(token.renew(refused: first, at: now + 1200, clock: later)) }
        #expect(token.authorization(at: now + 1200, clock: later) == second)
        #expect(!token.renew(refused: second, at: now + 1200, clock: later))
    }

    /// A key in another process, which may not answer, and repeats a token.
    private final class RemoteIssuer: ProviderTokenIssuer, @unchecked Sendable {
        let key: AppleKey
        var publicKey: AppleKey.Public { key.publicKey }
        var answer: [UInt8]?
        var requests = 0

        init(_ key: SigningKey) { self.key = AppleKey(key, keyID: "KEY0000001", teamID: "TEAM000001") }

        /// The requests that wait for an answer, if the issuer does not answer at once.
        var waiting: [([UInt8]?) -> Void]?

        func issue(at now: Int64, inPlaceOfUnseen: Bool, _ result: @escaping ([UInt8]?) -> Void) {
            requests += 1
            if waiting == nil { result(answer) } else { waiting?.append(result) }
        }
    }

    @Test func `without an answer the provider token serves until APNs refuses it, and is asked for once a second`()
        throws
    {
        let issuer = RemoteIssuer(key)
        let token = APNsProviderToken(issuer)
        #expect(token.authorization(at: now, clock: clock) == nil)
        #expect(token.authorization(at: now, clock: clock + .milliseconds(999)) == nil)
        #expect(issuer.requests == 1)
        issuer.answer = issuer.key.token(at: now)
        let first = try #require(token.authorization(at: now, clock: clock + .seconds(1)))
        issuer.answer = nil
        #expect(token.authorization(at: now + 3600, clock: clock + .seconds(3600)) == first)
        #expect(!token.renew(refused: first, at: now + 3600, clock: clock + .seconds(3600)))
        #expect(token.authorization(at: now + 3601, clock: clock + .seconds(3601)) == nil)
        #expect(issuer.requests == 4)
    }

    @Test func `while a provider token is issued, requests wait for it, and the issuer is asked once`() throws {
        let issuer = RemoteIssuer(key)
        issuer.waiting = []
        let token = APNsProviderToken(issuer)
        var (waited, renewals) = (0, [Bool]())
        #expect(token.authorization(at: now, clock: clock) == nil && token.isBeingIssued)
        for _ in 0..<3 { token.whenIssued { waited += 1 } }
        #expect(token.authorization(at: now, clock: clock + .seconds(2)) == nil)
        #expect(issuer.requests == 1 && waited == 0)
        issuer.waiting?.removeFirst()(issuer.key.token(at: now))
        #expect(waited == 3 && !token.isBeingIssued)
        let first = try #require(token.authorization(at: now, clock: clock))
        // The old token serves while another one is made.
        let later = clock + .seconds(3000)
        #expect(token.authorization(at: now + 3000, clock: later) == first)
        token.renew(refused: first, at: now + 3000, clock: later) { renewals.append($0) }
        #expect(issuer.requests == 2 && renewals.isEmpty)
        issuer.waiting?.removeFirst()(nil)
        #expect(renewals == [false] && token.authorization(at: now + 3000, clock: later) == first)
        token.renew(refused: first, at: now + 3001, clock: later + .seconds(1)) { renewals.append($0) }
        issuer.waiting?.removeFirst()(issuer.key.token(at: now + 3001))
        #expect(renewals == [false, true] && token.authorization(at: now + 3001, clock: later) != first)
    }

    @Test func `a provider token that is repeated keeps its age`() throws {
        let issuer = RemoteIssuer(key)
        issuer.answer = issuer.key.token(at: now - 600)
        let token = APNsProviderToken(issuer)
        let first = try #require(token.authorization(at: now, clock: clock))
        #expect(token.age(at: clock) == 600)
        #expect(!token.renew(refused: first, at: now + 599, clock: clock + .seconds(599)))
        issuer.answer = issuer.key.token(at: now + 600)
        #expect(token.renew(refused: first, at: now + 600, clock: clock + .seconds(600)))
    }
}

extension APNsProviderToken {
    /// Renews the token with an issuer that answers at once.
    fileprivate func renew(refused header: [UInt8], at now: Int64, clock: MonotonicTime) -> Bool {
        var isRenewed: Bool?
        renew(refused: header, at: now, clock: clock) { isRenewed = $0 }
        return isRenewed == true
    }
}

extension APNsRequestBuilder {
    /// A request for an envelope.
    fileprivate func request(
        for envelope: Envelope, authorization: [UInt8]?, expiry: Expiry
    ) throws(Rejection) -> Request {
        var request = Request(headers: HeaderBlock(), body: [])
        try write(&request, for: envelope, authorization: authorization, expiry: expiry)
        return request
    }
}
