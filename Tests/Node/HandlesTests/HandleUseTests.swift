// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import TestSupport
import Testing

@testable import Handles

@Suite(.tags(.computing)) struct HandleUseTests {
    private func handle(_ number: Int) throws -> Handle {
        try #require(Handle([UInt8](repeating: UInt8(number), count: Handle.length)))
    }

    @Test func `the oldest unconfirmed handle of a phone yields, unless it has just been rung`() throws {
        var use = HandleUse(maximum: 10)
        for number in 1...HandleBounds.maximumUnconfirmed {
            #expect(use.registered(try handle(number), token: 1) == nil)
        }
        #expect(use.registered(try handle(100), token: 1) == (try handle(1)))
        use.rang(try handle(2), confirming: nil)
        #expect(use.registered(try handle(101), token: 1) == nil)
        #expect(use.unsaved == [try handle(2)])
        use.saved([try handle(2)])
        #expect(use.unsaved.isEmpty)
    }

    @Test func `an owner cannot confirm handles of one phone without end`() throws {
        var use = HandleUse(maximum: 10)
        let owner = HandleBounds.Owner(token: 1, key: [7])
        for number in 1...20 { use.rang(try handle(number), confirming: owner) }
        #expect(use.unsaved.count == HandleBounds.maximumConfirmed)
    }

    @Test func `a handle that another node may know is not gone, unless its owner has ended it here`() throws {
        var use = HandleUse(maximum: 10)
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
        #expect(use.outcome(ofUnknown: try handle(1), isAlone: false) == HandleEntry.unknown)
        #expect(use.outcome(ofUnknown: try handle(1), isAlone: true) == HandleEntry.unknownHere)
        let registration = HandleRequest.Registration(magic: .iOS, deviceToken: Array("a".utf8), senderKeys: [])
        let request = HandleRequest(.forget(try handle(1)), sequence: 2, at: .none, by: owner)
        let record = HandleEntry.Record(
            app: "bisq", registration: registration, owner: owner.publicKey, sequence: 1, lastRequest: request.hash)
        use.performed(
            request,
            HandleStore.Answer(outcome: .delivered(), handle: try handle(1), ended: record))
        #expect(use.outcome(ofUnknown: try handle(1), isAlone: true) == HandleEntry.unknown)
    }
}
