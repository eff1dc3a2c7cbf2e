// SPDX-License-Identifier: Apache-2.0

import Foundation
import StandIns
import TestSupport
import Testing

@testable import Cryptography

@Suite(.tags(.computing)) struct EncodingTests {
    @Test func `hexadecimal digits are those of either case, one by one and together`() {
        let digits = Set("0123456789abcdefABCDEF".utf8)
        for byte in UInt8.min...UInt8.max {
            #expect(Hex.isDigit(byte) == digits.contains(byte))
            for place in [0, 31, 63] {
                var text = Array(repeating: UInt8(ascii: "7"), count: 64)
                text[place] = byte
                #expect(Hex.areDigits(text[...]) == digits.contains(byte))
            }
        }
        #expect(Hex.areDigits([]))
    }

    @Test func `decimal digits are those of the number's description`() {
        for number in [0, 9, 10, 1_760_000_040, UInt64.max] {
            var text = Array("n".utf8)
            text.append(decimal: number)
            #expect(text == Array("n\(number)".utf8))
        }
    }

    @Test func `Base64 round-trips every length`() throws {
        for length in 0...100 {
            let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 * 37 + length * 11) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Base64.encode(bytes).count == Base64.encodedCount(length))
            #expect(Base64.decodeURLSafe(Base64.encodeURLSafe(bytes)) == bytes)
            #expect(Base64.encode(bytes.lazy.map { $0 }) == Base64.encode(bytes))
            #expect(Base64.encode(bytes) == Array(Data(bytes).base64EncodedString().utf8))
        }
        #expect(String(decoding: Base64.encode([0xFB, 0xFF, 0xFE]), as: UTF8.self) == "+//+")
        #expect(String(decoding: Base64.encodeURLSafe([0xFB, 0xFF, 0xFE, 1]), as: UTF8.self) == "-__-AQ")
    }

    @Test(arguments: ["A", "AA", "AAA", "A===", "AA=A", "AAAA=", "AA AA", "AA\nA", "-___"])
    func `invalid Base64 is rejected`(_ text: String) {
        #expect(Base64.decode(Array(text.utf8)) == nil)
        #expect(Base64.decodeSecret(Array(text.utf8)) == nil)
    }

    @Test func `both decoders of Base64 agree on any text`() {
        var random = SplitMix64(seed: 5)
        for _ in 0..<20_000 {
            var text = Base64.encode(
                (0..<Int.random(in: 0...12, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
            // Most changed texts are invalid, some only in the bits that belong to no byte.
            if !text.isEmpty, Bool.random(using: &random) {
                let characters = Array("Ax09+/=-_|\n\0".utf8) + [0x80, 0xC1, 0xFF]
                text[Int.random(in: text.indices, using: &random)] = characters.randomElement(using: &random)!
            }
            #expect(Base64.decode(text) == Base64.decodeSecret(text), "\(text)")
        }
    }

    @Test func `hexadecimal decodes in either case and rejects anything else`() {
        #expect(Hex.decode("00fFAb") == [0, 255, 171])
        #expect(Hex.encode([0, 255, 171]) == "00ffab")
        #expect(Hex.decode("0") == nil)
        #expect(Hex.decode("0g") == nil)
        #expect(Hex.decode("") == [])
    }
}

@Suite(.tags(.computing)) struct SigningKeyTests {
    @Test(arguments: [SignatureAlgorithm.es256, .rs256])
    func `a signature is valid only for its message and its key`(_ algorithm: SignatureAlgorithm) {
        let key = SigningKey.generate(algorithm)
        let signature = key.sign([1, 2, 3])
        #expect(algorithm == .rs256 || signature.count == 64)
        #expect(key.verifyingKey.isValid(signature: signature, of: [1, 2, 3]))
        #expect(!key.verifyingKey.isValid(signature: signature, of: [1, 2, 4]))
        #expect(!SigningKey.generate(algorithm).verifyingKey.isValid(signature: signature, of: [1, 2, 3]))
        #expect(!key.verifyingKey.isValid(signature: [], of: [1, 2, 3]))
    }

    @Test func `a signing key round-trips through PEM`() throws {
        let key = SigningKey.generate(.es256)
        let read = try SigningKey(pem: key.pem, algorithm: .es256)
        #expect(key.verifyingKey.isValid(signature: read.sign([7]), of: [7]))
    }

    @Test func `a key of the wrong kind is rejected with the expected kind`() {
        #expect(throws: KeyError.wrongKind(expected: .es256)) {
            try SigningKey(pem: SigningKey.generate(.rs256).pem, algorithm: .es256)
        }
        #expect(throws: KeyError.wrongKind(expected: .rs256)) {
            try SigningKey(pem: SigningKey.generate(.es256).pem, algorithm: .rs256)
        }
        #expect(throws: KeyError.self) { try SigningKey(pem: Array("no key".utf8), algorithm: .es256) }
        #expect(throws: KeyError.self) { try SigningKey(pem: [], algorithm: .es256) }
    }

    @Test func `keys print as redacted`() {
        let key = SigningKey.generate(.es256)
        #expect("\(key)" == "<redacted>" && String(reflecting: key) == "<redacted>")
        let secret = SecretBytes(Array("secret".utf8))
        #expect("\(secret)" == "<redacted>")
        var dumped = ""
        dump(secret, to: &dumped)
        #expect(!dumped.contains("secret") && !dumped.contains("115"))
    }
}

@Suite(.tags(.computing)) struct PKCS12Tests {
    private let authority = CertificateAuthority(name: "test")

    @Test func `a certificate round-trips through PKCS#12`() throws {
        let certified = authority.issue(subject: "client", purpose: .client, validFor: 1000)
        let file = PKCS12.pack(certified, password: "pass word")
        let read = try PKCS12.open(file, password: SecretBytes(Array("pass word".utf8)))
        #expect(read.notAfter == certified.notAfter)
        #expect(!read.certificates.isEmpty && (read.pem?.count ?? 0) > 0)
    }

    @Test func `a wrong password is distinguished from an invalid file`() {
        let file = PKCS12.pack(authority.issue(subject: "c", purpose: .client), password: "right")
        #expect(throws: PKCS12Error.wrongPassword) { try PKCS12.open(file, password: SecretBytes(Array("wrong".utf8))) }
        #expect(throws: PKCS12Error.notPKCS12) {
            try PKCS12.open(Array("text".utf8), password: SecretBytes(Array("right".utf8)))
        }
        #expect(throws: PKCS12Error.notPKCS12) {
            try PKCS12.open(Array(file.prefix(100)), password: SecretBytes(Array("right".utf8)))
        }
    }
}

@Suite(.tags(.computing)) struct SealingTests {
    @Test func `an altered ciphertext does not open`() throws {
        let key = [UInt8](repeating: 1, count: 32)
        let nonce = [UInt8](repeating: 2, count: 12)
        var sealed = try #require(AESGCM.seal([1, 2, 3], key: key, nonce: nonce))
        #expect(AESGCM.open(sealed, key: key, nonce: nonce) == [1, 2, 3])
        sealed[0] ^= 1
        #expect(AESGCM.open(sealed, key: key, nonce: nonce) == nil)
        #expect(AESGCM.open([1], key: key, nonce: nonce) == nil)
    }

    @Test func `wrong key and text lengths are rejected`() {
        #expect(
            AES256CBC.encrypt([1], key: [UInt8](repeating: 1, count: 32), iv: [UInt8](repeating: 1, count: 16)) == nil)
        #expect(AES256CBC.encrypt([], key: [1], iv: [UInt8](repeating: 1, count: 16)) == nil)
        #expect(AESGCM.seal([1], key: [1], nonce: [UInt8](repeating: 1, count: 12)) == nil)
    }
}

@Suite(.tags(.computing)) struct PseudonymTests {
    @Test func `a token's pseudonym changes daily`() {
        var names = Pseudonyms()
        let token = Array("token".utf8)
        let today = names.name(of: token, at: 86_400 * 100)
        #expect(today == names.name(of: token, at: 86_400 * 100 + 86_399))
        #expect(today != names.name(of: token, at: 86_400 * 101))
        #expect(today != names.name(of: Array("other".utf8), at: 86_400 * 100))
        var others = Pseudonyms()
        #expect(today != others.name(of: token, at: 86_400 * 100))
    }
}
