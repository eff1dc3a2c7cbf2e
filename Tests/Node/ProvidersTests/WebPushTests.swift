// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing

@testable import HTTP1
@testable import HTTP2
@testable import Providers

@Suite(.tags(.computing)) struct WebPushTests {
    private func endpoint(_ url: String) throws -> PushEndpoint { try PushEndpoint(Array(url.utf8)[...]) }

    @Test func `every status has an outcome, and none affects another server`() {
        for status in 100...599 {
            let result = WebPushAnswers.attemptResult(status: status, retryAfter: nil, from: "push.example")
            #expect(!result.answer.isEmpty)
            if status >= 200 { #expect(result.answer != "unknown") }
            #expect((result.outcome.kind == .delivered) == (200...299).contains(status))
            #expect((result.outcome.kind == .gone) == [404, 410].contains(status))
            // What a sender can provoke concerns its subscription, and never the whole server.
            #expect(result.disposition.lane != .trip)
            #expect(result.disposition.mayRefuseCredential == [401, 403].contains(status))
        }
        let throttled = WebPushAnswers.attemptResult(status: 429, retryAfter: "30", from: "push.example")
        #expect(throttled.retryAfter == 30 && throttled.outcome.reason == .providerThrottles)
        #expect(
            WebPushAnswers.attemptResult(status: 429, retryAfter: "Sun, 06 Nov 2044 08:49:37 GMT", from: "push.example")
                .retryAfter == nil)
        #expect(
            WebPushAnswers.attemptResult(status: 401, retryAfter: nil, from: "push.example").outcome.reason
                == .credentialsRefused)
        #expect(
            WebPushAnswers.attemptResult(status: 507, retryAfter: nil, from: "push.example").disposition.lane
                == .success)
    }

    @Test func `Windows' push server says 406 when a sender is over its rate, and stores nothing if told so`() throws {
        let throttled = WebPushAnswers.attemptResult(
            status: 406, retryAfter: "120", from: "wns2-by3p.notify.windows.com")
        #expect(throttled.outcome.reason == .providerThrottles && throttled.retryAfter == 120)
        for host in ["push.example", "notify.windows.com.evil.example", "evilnotify.windows.com"] {
            #expect(WebPushAnswers.attemptResult(status: 406, retryAfter: nil, from: host).outcome.kind == .rejected)
        }
        let name: StaticString = "x-wns-cache-policy"
        for (url, ttl, value) in [
            ("https://a.notify.windows.com/?token=x", 0, "no-cache"),
            ("https://a.notify.windows.com/?token=x", 60, nil),
            ("https://push.example/x", 0, nil),
        ] as [(String, Int64, String?)] {
            let envelope = try Envelope(
                magic: .web, deviceToken: Array(url.utf8)[...], iv: [], ciphertext: [1, 2, 3], format: .pipe)
            let request = PushRequest(envelope, to: try endpoint(url), ttl: ttl, authorization: "x", notice: "")
            #expect(request.http2.headers.text(name) == value, "\(url) \(ttl)")
            let text = String(decoding: request.http1.bytes, as: UTF8.self)
            #expect(text.contains("\r\n\(name): no-cache\r\n") == (value != nil), "\(url) \(ttl)")
        }
    }

    @Test func `the policy allows listed servers on listed ports, and local ones by name and port`() throws {
        let policy = PushServerPolicy(
            servers: [.name("ntfy.sh"), .suffix(".push.example")], ports: [443, 8443], localServers: ["ntfy.lan:8080"])
        func addresses(_ url: String) throws -> AddressPolicy? { policy.addresses(for: try endpoint(url)) }
        for url in ["https://ntfy.sh/x", "https://ntfy.sh:8443/x"] { #expect(try addresses(url) == .publicOnly) }
        // Whose first part a stranger chose.
        for url in ["https://a.push.example/", "https://a.b.push.example/"] {
            #expect(try addresses(url) == .foreign)
        }
        for url in [
            "https://ntfy.sh:444/x", "https://a.ntfy.sh/x", "https://push.example/", "https://evilpush.example/",
            "https://ntfy.lan/x", "https://ntfy.sh.evil.example/", "http://\(String(repeating: "a", count: 56)).onion/",
        ] {
            #expect(try addresses(url) == nil)
        }
        #expect(try addresses("https://ntfy.lan:8080/x") == .any)
        let windows = PushServerPolicy(
            servers: [.any], ports: [443], localServers: [], queryServers: [.suffix(".notify.windows.com")])
        for (url, isAllowed) in [
            ("https://ntfy.sh/up?up=1", true), ("https://ntfy.sh/up", true),
            ("https://ntfy.sh/up?email=a@b.example", false),
            ("https://ntfy.sh/up?up=1&email=a@b.example", false), ("https://w.notify.windows.com/?token=a", true),
            ("https://notify.windows.com.evil.example/?token=a", false),
        ] {
            #expect(try windows.allowsQuery(of: endpoint(url)) == isAllowed, "\(url)")
        }
        let any = PushServerPolicy(servers: [.any], ports: [443], localServers: [])
        #expect(any.addresses(for: try endpoint("https://evil.example/")) == .foreign)
        #expect(any.addresses(for: try endpoint("http://\(String(repeating: "a", count: 56)).onion/")) == .foreign)
    }

    @Test func `the servers with whole names are named by their origins`() {
        let onion = String(repeating: "a", count: 56) + ".onion"
        let policy = PushServerPolicy(
            servers: [.any, .suffix(".push.example"), .name("ntfy.sh"), .name(onion)], ports: [443, 8443],
            localServers: ["ntfy.lan:443"])
        #expect(
            policy.namedOrigins == [
                "https://ntfy.sh", "https://ntfy.sh:8443", "https://\(onion)", "https://\(onion):8443",
                "http://\(onion)", "http://\(onion):443", "http://\(onion):8443", "https://ntfy.lan",
            ])
    }

    @Test func `patterns are any, names and suffixes`() {
        typealias Pattern = PushServerPolicy.Pattern
        #expect(
            Pattern("any") == .any && Pattern("ntfy.sh") == .name("ntfy.sh") && Pattern("*.x.org") == .suffix(".x.org"))
        #expect(Pattern("*.onion") == .suffix(".onion"))
        for text in [
            "", "*", "*.", "*.*", "a.*", "NTFY.sh", "127.0.0.1", "ntfy.sh:443", "https://ntfy.sh", "ntfy.sh/x",
            "*ntfy.sh",
        ] {
            #expect(Pattern(text) == nil, "\(text)")
        }
    }

    @Test func `a node makes its key once`() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "vapid-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: file) }
        let made = try VAPIDKey(readingOrCreating: file, subject: "mailto:a@b.example")
        #expect(try VAPIDKey(readingOrCreating: file, subject: "mailto:a@b.example").publicKey == made.publicKey)
        #expect(Base64.decodeURLSafe(Array(made.publicKey.utf8)).map(P256.isPublicKey) == true)
        chmod(file, 0o644)
        #expect(throws: PrivateFileError.self) { try VAPIDKey(readingOrCreating: file, subject: "mailto:a@b.example") }
        chmod(file, 0o600)
        try SigningKey.generate(.rs256).pem.withUnsafeBytes { try Data($0).write(to: URL(filePath: file)) }
        chmod(file, 0o600)
        #expect(throws: PrivateFileError.self) { try VAPIDKey(readingOrCreating: file, subject: "mailto:a@b.example") }
    }

    @Test func `a token names server, contact and an expiry within a day`() throws {
        let signer = SigningKey.randomP256()
        let key = try #require(VAPIDKey(signer, subject: "mailto:a@b.example"))
        let field = key.authorization(for: "https://push.example", at: 1_000_000)
        let parts = field.dropFirst("vapid t=".count).split(separator: ",k=")
        #expect(field.hasPrefix("vapid t=") && parts.count == 2 && parts[1] == key.publicKey)
        let token = parts[0].split(separator: ".")
        let claims = try #require(Base64.decodeURLSafe(Array(token[1].utf8)))
        #expect(
            String(decoding: claims, as: UTF8.self)
                == #"{"aud":"https://push.example","exp":1043200,"sub":"mailto:a@b.example"}"#)
        let signature = try #require(Base64.decodeURLSafe(Array(token[2].utf8)))
        let verifier = try #require(VerifyingKey(p256: Base64.decodeURLSafe(Array(key.publicKey.utf8)) ?? []))
        #expect(verifier.isValid(signature: signature, of: Array("\(token[0]).\(token[1])".utf8)))
    }
}
