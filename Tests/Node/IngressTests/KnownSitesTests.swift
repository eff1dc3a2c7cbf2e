// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TestSupport
import Testing

@testable import Admission
@testable import Ingress
@testable import NodeConfiguration
@testable import TNP

@Suite(.tags(.computing)) struct KnownSitesTests {
    private let seed = [UInt8](repeating: 7, count: 16)
    private let otherSeed = [UInt8](repeating: 9, count: 16)

    private func onion(_ byte: UInt8) throws -> SignedOnion {
        try #require(SignedOnion(publicKey: [UInt8](repeating: byte, count: 32)))
    }

    private func key(_ byte: UInt8) throws -> Ed25519.PrivateKey {
        try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: byte, count: 32)))
    }

    private func site(_ name: String, _ byte: UInt8, rights: [Site.Right] = [.send]) throws -> Site {
        Site(
            name: name, key: try key(byte).publicKey, pathHash: Site.pathHash(of: "secret".utf8), rights: rights,
            rate: Rate(burst: 1, perMinute: 1))
    }

    private func known(_ mode: SiteMode = .open) throws -> KnownSites {
        KnownSites(mode: mode, sites: [try site("a", 1), try site("b", 2, rights: [.register])])
    }

    @Test func `AUTH proves a site for this connection and one of the node's onions only`() throws {
        let known = try known()
        let authentication = SiteAuthentication(seed: seed, onion: try onion(9), by: try key(1))
        let onions = [try onion(8), try onion(9)]
        #expect(known.site(provedBy: authentication, seed: seed, onions: onions)?.name == "a")
        #expect(known.site(provedBy: authentication, seed: otherSeed, onions: onions) == nil)
        #expect(known.site(provedBy: authentication, seed: seed, onions: [onions[0]]) == nil)
        #expect(known.site(provedBy: authentication, seed: seed, onions: []) == nil)
        let stranger = SiteAuthentication(seed: seed, onion: try onion(9), by: try key(3))
        #expect(known.site(provedBy: stranger, seed: seed, onions: onions) == nil)
    }

    @Test func `a request belongs to the site of its path, which must have the right`() throws {
        let known = try known()
        let (stranger, desk) = (CircuitID.tor(1), CircuitID.site(known.sites[0].number))
        #expect(known.request(with: Array("a.secret".utf8)[...], on: stranger, right: .send) == .of(known.sites[0]))
        #expect(known.request(with: Array("a.secret".utf8)[...], on: desk, right: .send) == .of(known.sites[0]))
        for wrong in ["b.secret", "a.Secret", "c.secret", "a", ""] {
            #expect(known.request(with: Array(wrong.utf8)[...], on: stranger, right: .send) == .refused)
        }
        #expect(known.request(with: Array("b.secret".utf8)[...], on: stranger, right: .register) == .of(known.sites[1]))
        #expect(known.request(with: nil, on: stranger, right: .send) == .ordinary)
        #expect(known.request(with: nil, on: desk, right: .send) == .refused)
        #expect(try self.known(.required).request(with: nil, on: stranger, right: .send) == .refused)
        #expect(try self.known(.off).request(with: nil, on: stranger, right: .send) == .ordinary)
        #expect(try self.known(.off).request(with: Array("a.secret".utf8)[...], on: stranger, right: .send) == .refused)
    }

    @Test func `sites that were removed or altered have changed`() throws {
        let known = try known()
        #expect(known.changed(in: known).isEmpty)
        let other = KnownSites(mode: .open, sites: [try site("b", 2), try site("c", 3)])
        #expect(known.changed(in: other).map(\.name) == ["a", "b"])
    }
}
