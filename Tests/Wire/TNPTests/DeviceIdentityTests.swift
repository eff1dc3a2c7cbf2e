// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TNP

@Suite(.tags(.computing)) struct DeviceIdentityTests {
    private func identity(_ token: String, _ magic: Magic) -> DeviceIdentity {
        DeviceIdentity(Array(token.utf8)[...], of: magic)
    }

    @Test(arguments: [
        ("ABcd01", Magic.iOS, "abcd01", Magic.iOSDev), ("https://p.example/a", .web, "https://p.example/a", .android),
        ("https://p.example/?t=%2b%aF", .web, "https://p.example/?t=%2B%AF", .web),
    ])
    func `two ways to write a device token are one phone`(
        _ one: String, _ oneMagic: Magic, _ other: String, _ otherMagic: Magic
    ) {
        #expect(identity(one, oneMagic) == identity(other, otherMagic))
    }

    @Test(arguments: [
        ("https://p.example/a", Magic.web, "https://p.example/A", Magic.web),
        ("https://p.example/?t=a%2b", .web, "https://p.example/?t=A%2b", .web),
        ("aBc", .android, "abc", .android), ("abcd", .iOS, "abcd", .android),
    ])
    func `two phones are never one`(_ one: String, _ oneMagic: Magic, _ other: String, _ otherMagic: Magic) {
        #expect(identity(one, oneMagic) != identity(other, otherMagic))
    }

    @Test func `an identity prints as redacted`() { #expect("\(identity("abcd", .iOS))" == "<redacted>") }
}
