// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Cryptography

/// The example of RFC 8291, Appendix A.
@Suite(.tags(.computing)) struct WebPushContentTests {
    private func bytes(_ text: String) -> [UInt8] { Base64.decodeURLSafe(Array(text.utf8)) ?? [] }

    private let text = Array("When I grow up, I want to be a watermelon".utf8)
    private let message =
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    private var secret: [UInt8] { bytes("BTBZMqHH6r4Tts7J_aSIgg") }

    private func sender() throws -> P256.PrivateKey {
        try #require(
            P256.PrivateKey(
                bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
                publicKey: bytes(
                    "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8")))
    }

    private func receiver() throws -> P256.PrivateKey {
        try #require(
            P256.PrivateKey(
                bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"),
                publicKey: bytes(
                    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")))
    }

    @Test func `the example of the RFC is sealed and opened`() throws {
        let receiver = try receiver()
        let sealed = WebPushContent.seal(
            text, for: receiver.publicKey, secret: secret, sender: try sender(), salt: bytes("DGv6ra1nlYgDCS1FRnbzlw"))
        #expect(sealed == bytes(message))
        #expect(WebPushContent.open(bytes(message), by: receiver, secret: secret) == text)
    }

    @Test func `each message has keys of its own`() throws {
        let receiver = P256.PrivateKey()
        let one = try #require(WebPushContent.seal(text, for: receiver.publicKey, secret: secret))
        let other = try #require(WebPushContent.seal(text, for: receiver.publicKey, secret: secret))
        #expect(one.prefix(WebPushContent.headerLength) != other.prefix(WebPushContent.headerLength))
        #expect(one.count == text.count + WebPushContent.overhead)
        #expect(WebPushContent.open(one, by: receiver, secret: secret) == text)
        #expect(WebPushContent.open(one, by: P256.PrivateKey(), secret: secret) == nil)
        #expect(WebPushContent.open(one, by: receiver, secret: [UInt8](repeating: 0, count: 16)) == nil)
        for index in one.indices {
            var altered = one
            altered[index] ^= 1
            #expect(WebPushContent.open(altered, by: receiver, secret: secret) == nil || (16..<20).contains(index))
        }
        for count in 0..<WebPushContent.overhead {
            #expect(WebPushContent.open(Array(one.prefix(count)), by: receiver, secret: secret) == nil)
        }
    }

    @Test func `lengths and keys are checked`() {
        let key = P256.PrivateKey().publicKey
        #expect(WebPushContent.seal([UInt8](repeating: 1, count: 4079), for: key, secret: secret) != nil)
        #expect(WebPushContent.seal([UInt8](repeating: 1, count: 4080), for: key, secret: secret) == nil)
        #expect(WebPushContent.seal(text, for: key, secret: Array(secret.dropLast())) == nil)
        #expect(WebPushContent.seal(text, for: [4] + [UInt8](repeating: 1, count: 64), secret: secret) == nil)
        #expect(P256.isPublicKey(key) && !P256.isPublicKey(Array(key.dropLast())))
        // Compressed points are no keys of Web Push.
        #expect(!P256.isPublicKey([2] + key[1..<33]))
        #expect(P256.PrivateKey([UInt8](repeating: 1, count: 32), publicKey: key) == nil)
    }
}
