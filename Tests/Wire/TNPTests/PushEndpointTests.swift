// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TestSupport
import Testing

@testable import TNP

@Suite(.tags(.computing)) struct PushEndpointTests {
    private func parse(_ text: String) throws(PushEndpoint.FormatError) -> PushEndpoint {
        try PushEndpoint(Array(text.utf8)[...])
    }

    @Test func `an endpoint has a server, a port and a path`() throws {
        let plain = try parse("https://push.example/up?id=a%20b&c=d")
        #expect(plain.host == "push.example" && plain.port == 443 && plain.isSecure && !plain.isOnion)
        #expect(String(decoding: plain.path, as: UTF8.self) == "/up?id=a%20b&c=d")
        #expect(plain.origin == "https://push.example" && plain.authority == "push.example")
        let other = try parse("https://push.example:8443/")
        #expect(other.port == 8443 && other.origin == "https://push.example:8443")
        #expect(PushEndpoint.origin("push.example", 443) == plain.origin)
        let onion = try parse("http://\(String(repeating: "a", count: 56)).onion/x")
        #expect(onion.isOnion && !onion.isSecure && onion.port == 80)
        #expect(try parse("https://a.\(String(repeating: "a", count: 56)).onion/").isOnion)
        #expect("\(plain)" == "<redacted>")
    }

    /// Ways to write a URL that parsers understand differently, or that lead to an address and not to a name.
    @Test(
        arguments: [
            "", "push.example/x", "ftp://push.example/", "HTTPS://push.example/", "https:push.example/", "https:///x",
            "https://push.example", "https://push.example?x", "https://push.example#/", "https://push.example/#x",
            "https://user@push.example/", "https://user:word@push.example/", "https://push.example@127.0.0.1/",
            "https://127.0.0.1/", "https://0177.0.0.1/", "https://0x7f.0.0.1/", "https://2130706433/",
            "https://0x7f000001/", "https://127.1/", "https://push.0x1/", "https://push.1/", "https://[::1]/",
            "https://[::ffff:127.0.0.1]/", "https://push.example./", "https://.push.example/", "https://push..example/",
            "https://xn--pfrd-5qa.example/", "https://p\u{FC}sh.example/", "https://PUSH.example/",
            "https://-push.example/",
            "https://push-.example/", "https://push_1.example/", "https://push.example:/", "https://push.example:0/",
            "https://push.example:65536/", "https://push.example:0443/", "https://push.example:+443/",
            "https://push.example:443:1/", "https://push.example\\@evil.example/", "https://push.example/\u{E9}",
            "https://push.example/a b", "https://push.example/a\r\nHost: evil", "https://push.example/a|b",
            "http://push.example/", "http://onion/", "http://short.onion/", "https://push.example%2f.evil.example/",
            "https://push.example\t/", "https://push.example:443/", "https://push.example/a/../b",
            "https://push.example/.", "https://push.example/%2E%2E/b", "https://push.example/%41",
            "https://push.example/%2f", "https://push.example/%", "https://push.example/%2", "https://push.example/%zz",
            "https://push.example/?a=%2", "http://\(String(repeating: "a", count: 56)).onion:80/",
        ])
    func `anything else is no endpoint`(_ text: String) {
        #expect(throws: PushEndpoint.FormatError.self) { try parse(text) }
    }

    @Test(arguments: [("", false), ("?up=1", false), ("?", true), ("?up=1&email=a", true), ("?token=%2b", true)])
    func `a query other than up=1 is unusual`(_ query: String, _ isUnusual: Bool) throws {
        #expect(try parse("https://push.example/up\(query)").hasUnusualQuery == isUnusual)
    }

    @Test func `an endpoint has at most 1024 bytes and a name at most 253`() throws {
        let start = "https://push.example/"
        #expect(throws: Never.self) { try parse(start + String(repeating: "x", count: 1024 - start.utf8.count)) }
        #expect(throws: PushEndpoint.FormatError.self) {
            try parse(start + String(repeating: "x", count: 1025 - start.utf8.count))
        }
        let label = String(repeating: "a", count: 63)
        #expect(throws: Never.self) { try parse("https://\(label).\(label).\(label).\(label.dropLast(2))/") }
        #expect(throws: PushEndpoint.FormatError.self) {
            try parse("https://\(label).\(label).\(label).\(label.dropLast())/")
        }
        #expect(throws: PushEndpoint.FormatError.self) { try parse("https://\(label)a.example/") }
    }

    // MARK: Envelopes

    private let token = Array("https://push.example/up".utf8)[...]

    private func rejection(
        _ token: Bytes? = nil, iv: Bytes = [], ciphertext: Int = 100
    ) -> Reason? {
        do throws(Rejection) {
            _ = try Envelope(
                magic: .web, deviceToken: token ?? self.token, iv: iv,
                ciphertext: [UInt8](repeating: 1, count: ciphertext)[...], format: .pipe)
            return nil
        } catch {
            return error.reason
        }
    }

    @Test func `an envelope for Web Push has an endpoint, no iv and up to 4096 bytes`() {
        #expect(rejection() == nil && rejection(ciphertext: 1) == nil && rejection(ciphertext: 4096) == nil)
        #expect(rejection(Array("https://127.0.0.1/".utf8)[...]) == .deviceTokenFormat)
        #expect(rejection(iv: [UInt8](repeating: 65, count: 16)[...]) == .iv)
        #expect(rejection(ciphertext: 0) == .ciphertextLength && rejection(ciphertext: 4097) == .ciphertextLength)
    }

    @Test func `SUBMIT carries it without an iv`() throws {
        let envelope = try Envelope(
            magic: .web, deviceToken: token, iv: [], ciphertext: [UInt8](repeating: 7, count: 4096)[...],
            format: .sealed)
        var bytes: [UInt8] = []
        Submission(request: 9, envelope: envelope).encode(into: &bytes)
        var decoder = FrameDecoder(maximumLength: 8192)
        decoder.append(bytes)
        guard case .submit(let fields)? = try decoder.next().map(Message.init) else {
            Issue.record("no SUBMIT")
            return
        }
        let read = try fields.checked(format: .pipe).envelope
        #expect(
            read.magic == .web && read.digest == envelope.digest && read.iv.isEmpty && read.ciphertext.count == 4096)
        // No envelope for Apple or Google goes without.
        #expect(read.uniquePart == read.ciphertext)
    }

    @Test func `the digest covers an empty iv`() throws {
        let envelope = try Envelope(
            magic: .web, deviceToken: token, iv: [], ciphertext: [1, 2, 3], format: .pipe)
        var text = Array("tnp1-envelope".utf8)
        for part in [[], Array("web".utf8), Array(token), [], [1, 2, 3]] as [[UInt8]] {
            text += [UInt8(part.count >> 8), UInt8(part.count & 0xFF)] + part
        }
        #expect(envelope.digest == BLAKE2b.hash256(text))
    }

    // MARK: Pairing tokens

    private static let publicKey =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    private static let secret = "BTBZMqHH6r4Tts7J_aSIgg"
    private static let start = "web|Pixel|0123456789abcdef0123456789abcdef"

    @Test func `a pairing token for Web Push has six parts`() throws {
        let pairing = try PairingToken("\(Self.start)|https://push.example/up|\(Self.publicKey)|\(Self.secret)")
        #expect(pairing.magic == .web && pairing.deviceToken == "https://push.example/up")
        #expect(pairing.webPush?.publicKey.count == 65 && pairing.webPush?.secret.count == 16)
        let handle = try #require(Handle([UInt8](repeating: 3, count: 32)[...]))
        let byHandle = try PairingToken(pairing.text(by: handle))
        #expect(byHandle.handle == handle && byHandle.webPush?.publicKey == pairing.webPush?.publicKey)
    }

    @Test(arguments: [
        "\(start)|https://push.example/up", "\(start)|https://push.example/up|\(publicKey)",
        "\(start)|https://127.0.0.1/up|\(publicKey)|\(secret)",
        "\(start)|https://push.example/up|\(secret)|\(publicKey)",
        "\(start)|https://push.example/up|\(publicKey.dropLast())A|\(secret)",
        "\(start)|https://push.example/up|\(publicKey)|\(secret)AAAA",
        "android|Pixel|0123456789abcdef0123456789abcdef|\(String(repeating: "x", count: 40))|\(publicKey)|\(secret)",
    ])
    func `a malformed one is refused without repeating it`(_ text: String) {
        let error = #expect(throws: PairingToken.FormatError.self) { try PairingToken(text) }
        #expect(
            error?.description.contains("push.example") == false && error?.description.contains(Self.secret) == false)
    }
}
