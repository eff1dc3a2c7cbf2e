// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Cryptography

/// The primitives of an onion service's files and addresses.
@Suite(.tags(.computing)) struct OnionPrimitivesTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func `a signature with a seed that is used once is that of its key, and leaves no seed`() throws {
        let message: [UInt8] = [1, 2, 3]
        var seed = [UInt8](0..<32)
        let key = try #require(Ed25519.PrivateKey(seed: seed))
        let once = try #require(Ed25519.sign(message, consuming: &seed))
        #expect(once.publicKey == key.publicKey && once.signature == key.sign(message))
        #expect(seed == [UInt8](repeating: 0, count: 32))
        var short: [UInt8] = [1]
        #expect(Ed25519.sign(message, consuming: &short) == nil)
    }

    @Test func `Base32 matches RFC 4648, without padding`() {
        let vectors = [
            ("", ""), ("f", "MY"), ("fo", "MZXQ"), ("foo", "MZXW6"), ("foob", "MZXW6YQ"), ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ]
        for (plain, encoded) in vectors {
            #expect(text(Base32.encode(plain.utf8)) == encoded)
            #expect(Base32.encodedCount(plain.utf8.count) == encoded.utf8.count)
            #expect(Base32.decode(encoded.utf8) == Array(plain.utf8))
            #expect(Base32.decode(encoded.lowercased().utf8) == Array(plain.utf8))
        }
    }

    @Test func `Base32 round-trips every length`() {
        for length in 0...100 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 * 37 + length) }
            #expect(Base32.decode(Base32.encode(bytes)) == bytes)
        }
    }

    @Test(arguments: ["A", "AAA", "AAAAAA", "MZ", "MZXR", "MY======", "M1", "M8", "M Y", "MY\n", "ÄA"])
    func `invalid Base32 is rejected`(_ text: String) { #expect(Base32.decode(text.utf8) == nil) }

    @Test func `SHA3-256 matches FIPS 202`() {
        #expect(
            Hex.encode(SHA3.hash256([])) == "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a")
        #expect(
            Hex.encode(SHA3.hash256(Array("abc".utf8)))
                == "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532")
    }

    @Test func `HMAC-SHA-256 matches RFC 4231, and an altered or shorter code is unequal`() {
        var code = HMAC.sha256(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8))
        #expect(Hex.encode(code) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        let same = code
        #expect(HMAC.constantTimeEqual(code, same))
        #expect(!HMAC.constantTimeEqual(code, same.dropLast()))
        code[31] ^= 1
        #expect(!HMAC.constantTimeEqual(code, same))
    }

    @Test func `X25519 derives the public key that another implementation derives`() {
        // python3: X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
        let publicKey = X25519.publicKey(of: SecretBytes(Array(1...32)))
        #expect(publicKey.map(Hex.encode) == "07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c")
        #expect(X25519.publicKey(of: SecretBytes(Array(1...31))) == nil)
        #expect(X25519.publicKey(of: X25519.privateKey()) != X25519.publicKey(of: X25519.privateKey()))
    }

    private func publicKey(of expandedKey: [UInt8]) -> [UInt8]? {
        Ed25519.publicKey(ofExpandedKey: expandedKey.span.bytes)
    }

    @Test func `an expanded Ed25519 key yields the public key of its seed`() throws {
        // RFC 8032 §7.1, test 1: SHA-512 of the seed, clamped.
        let seed = try #require(Hex.decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
        let expanded = try #require(
            Hex.decode(
                "307c83864f2833cb427a2ef1c00a013cfdff2768d980c0a3a520f006904de94f"
                    + "9b4f0afe280b746a778684e75442502057b7473a03f08f96f5a38e9287e01f8f"))
        #expect(publicKey(of: expanded) == Ed25519.PrivateKey(seed: seed)?.publicKey)
        #expect(publicKey(of: expanded.dropLast()) == nil)
        #expect(publicKey(of: [UInt8](repeating: 0, count: 64)) == nil)
    }
}
