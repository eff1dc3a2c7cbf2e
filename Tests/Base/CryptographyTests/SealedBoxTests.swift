// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Cryptography

@Suite(.tags(.computing)) struct SealedBoxTests {
    private func makeBox(_ byte: UInt8 = 1) throws -> SealedBox {
        try #require(SealedBox(key: SecretBytes([UInt8](repeating: byte, count: 32))))
    }

    @Test func `sealing matches draft-irtf-cfrg-xchacha-03 A.3.1`() throws {
        let box = try #require(SealedBox(key: SecretBytes([UInt8](0x80...0x9F))))
        let nonce = [UInt8](0x40...0x57)
        let data = try #require(Hex.decode("50515253c0c1c2c3c4c5c6c7"))
        let plain = Array(
            ("Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
                + "sunscreen would be it.").utf8)
        let ciphertext =
            "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39"
            + "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
            + "21f9664c97637da9768812f615c68b13b52e"
        let tag = "c0875924c1c7987947deafd8780acf49"
        let sealed = box.seal(plain, authenticating: data, nonce: nonce)
        #expect(Hex.encode(sealed) == Hex.encode(nonce) + ciphertext + tag)
        #expect(box.open(sealed, authenticating: data) == plain)
    }

    @Test func `texts of any length round-trip`() throws {
        let box = try makeBox()
        for length in [0, 1, 63, 64, 65, 5000] {
            let plain = SecureRandom.bytes(length)
            let sealed = box.seal(plain, authenticating: [9])
            #expect(sealed.count == length + SealedBox.overhead)
            #expect(box.open(sealed, authenticating: [9]) == plain)
        }
    }

    @Test func `sealing the same text twice gives different ciphertexts`() throws {
        let box = try makeBox()
        #expect(box.seal([1, 2, 3], authenticating: []) != box.seal([1, 2, 3], authenticating: []))
    }

    @Test func `an altered, truncated or otherwise sealed ciphertext does not open`() throws {
        let box = try makeBox()
        let sealed = box.seal([1, 2, 3], authenticating: [9])
        for index in sealed.indices {
            var altered = sealed
            altered[index] ^= 1
            #expect(box.open(altered, authenticating: [9]) == nil)
        }
        for length in sealed.indices { #expect(box.open(Array(sealed.prefix(length)), authenticating: [9]) == nil) }
        #expect(box.open(sealed, authenticating: []) == nil)
        #expect(box.open(sealed, authenticating: [8]) == nil)
        let other = try makeBox(2)
        #expect(other.open(sealed, authenticating: [9]) == nil)
    }

    @Test(arguments: [0, 16, 31, 33, 64])
    func `a key that is not 32 bytes is rejected`(_ length: Int) {
        #expect(SealedBox(key: SecretBytes([UInt8](repeating: 1, count: length))) == nil)
    }

    @Test func `a box prints as redacted`() throws {
        let box = try makeBox(115)
        var dumped = ""
        dump(box, to: &dumped)
        #expect("\(box)" == "<redacted>" && !dumped.contains("115"))
    }

    @Test func `a derived key depends on its purpose and its master key`() {
        func bytes(_ key: SecretBytes) -> [UInt8] { key.withUnsafeBytes { Array($0) } }
        let master = [UInt8](repeating: 7, count: 32)
        let one = bytes(SecretBytes(master).derivedKey(for: "one"))
        #expect(one.count == 32)
        #expect(one == bytes(SecretBytes(master).derivedKey(for: "one")))
        #expect(one == BLAKE2b.hash256(Array("one".utf8), key: master).bytes)
        #expect(one != bytes(SecretBytes(master).derivedKey(for: "two")))
        #expect(one != bytes(SecretBytes([UInt8](repeating: 8, count: 32)).derivedKey(for: "one")))
    }

    @Test func `a keyed hash depends on the digest and the key`() {
        let digest = BLAKE2b.hash256([1])
        let key = SecretBytes([UInt8](repeating: 7, count: 32))
        #expect(key.keyedHash(of: digest, count: 16).count == 16)
        #expect(key.keyedHash(of: digest, count: 16) == key.keyedHash(of: digest, count: 16))
        #expect(key.keyedHash(of: digest, count: 16) != key.keyedHash(of: BLAKE2b.hash256([2]), count: 16))
        let other = SecretBytes([UInt8](repeating: 8, count: 32))
        #expect(key.keyedHash(of: digest, count: 16) != other.keyedHash(of: digest, count: 16))
    }
}
