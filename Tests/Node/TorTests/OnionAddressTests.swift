// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns
import TestSupport
import Testing

@testable import Tor

@Suite(.tags(.sockets)) struct OnionAddressTests {
    /// The address of RFC 8032's first test key, computed with Python's hashlib.
    private let known = "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion"

    @Test func `a public key yields the known address`() throws {
        let key = try #require(Hex.decode("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
        let address = try #require(OnionAddress(publicKey: key))
        #expect("\(address)" == known)
        #expect(address.label == String(known.dropLast(6)))
        #expect(OnionAddress(known)?.publicKey == key)
    }

    @Test(arguments: [
        "duckduckgogg42xjoc72x3sjasowoarfbgcmvfimaftt6twagswzczad.onion",
        "2gzyxa5ihm7nsggfxnu52rck2vv4rvmdlkiu3zzui5du4xyclen53wid.onion",
    ])
    func `addresses of the real network are parsed in either case and printed in lower case`(_ text: String) {
        #expect(OnionAddress(text)?.description == text)
        #expect(OnionAddress(text.uppercased())?.description == text)
        #expect(OnionAddress(String(text.dropLast(6)))?.description == text)
    }

    @Test func `an address with one changed letter is invalid`() {
        var random = SplitMix64(seed: 1)
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
        for index in 0..<OnionAddress.labelLength {
            var text = Array(known.utf8)
            var letter = text[index]
            while letter == text[index] { letter = letters[random.below(letters.count)] }
            text[index] = letter
            #expect(OnionAddress(String(decoding: text, as: UTF8.self)) == nil)
        }
    }

    @Test(arguments: [
        "", ".onion", "onion", "example.com", "expyuzz4wqqyqhjn.onion",
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5si.onion",
        "225njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion",
        "25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion.",
        "www.25njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion",
        "1!njqamcweflpvkl73j4szahhihoc4xt3ktcgjnpaingr5yhkenl5sid.onion",
    ])
    func `malformed addresses are not parsed`(_ text: String) { #expect(OnionAddress(text) == nil) }

    @Test func `an address of another version is invalid`() throws {
        let key = [UInt8](repeating: 7, count: 32)
        for version in [UInt8(2), 4] {
            let sum = SHA3.hash256(Array(".onion checksum".utf8) + key + [version]).prefix(2)
            #expect(OnionAddress(String(decoding: Base32.encode(key + sum + [version]), as: UTF8.self)) == nil)
        }
        #expect(OnionAddress(publicKey: Array(key.dropLast())) == nil)
    }

    @Test func `random keys survive a round trip`() {
        var random = SplitMix64(seed: 2)
        for _ in 0..<200 {
            let key = (0..<32).map { _ in UInt8(random.below(256)) }
            let address = OnionAddress(publicKey: key)
            #expect(address != nil && address.flatMap { OnionAddress("\($0)") } == address)
        }
    }
}
