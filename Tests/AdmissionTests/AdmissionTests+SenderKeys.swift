// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Testing

@testable import Admission

typealias Ed25519Key = Ed25519.PrivateKey

/// Sender keys: who rings a phone to which a key is bound.
extension AdmissionTests {
    /// A gatehouse with one connection of circuit 1, and the keys of an owner and of a thief.
    private func makeHouse(
        _ mode: SenderKeyMode = .optional, _ change: (inout AdmissionSettings) -> Void = { _ in }
    ) throws -> (house: AdmissionHarness, owner: Ed25519Key, thief: Ed25519Key) {
        let house = AdmissionHarness {
            $0.senders = mode
            change(&$0)
        }
        house.connect()
        return (house, try .numbered(1), try .numbered(2))
    }

    @Test func `the first delivered signed submission binds its key, and other senders are rejected`() throws {
        let (house, owner, thief) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        for _ in 0..<3 {
            #expect(try house.submit(to: 1, by: thief).refusal?.outcome == .rejected(.senderKeyMismatch))
            #expect(try house.submit(to: 1).refusal?.outcome == .rejected(.senderKeyRequired))
            #expect(try house.submit(to: 1, by: owner).isAdmitted)
        }
    }

    @Test func `a key is bound to one device token of one app`() throws {
        let (house, owner, thief) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        #expect(try house.submit(to: 2, by: thief).isAdmitted)
        #expect(try house.submit(to: 2).isAdmitted)
        #expect(try house.submit(to: 1, app: "other", by: thief).isAdmitted)
    }

    @Test func `one key may be bound to many device tokens`() throws {
        let (house, owner, thief) = try makeHouse()
        for device in 1...10 { try house.send(to: device, by: owner, .delivered()) }
        for device in 1...10 {
            #expect(try house.submit(to: device, by: owner).isAdmitted)
            #expect(try house.submit(to: device, by: thief).reason == .senderKeyMismatch)
        }
    }

    @Test func `another spelling of a device token does not bypass its key`() throws {
        let (house, owner, thief) = try makeHouse()
        let token = "abcdef0123456789"
        let first = try house.envelope(for: 0, token: token)
        house.conclude(house.submit(first, signature: SenderSignature(of: first.digest, by: owner)))
        for magic in [Magic.iOS, .iOSDev] {
            let second = try house.envelope(for: 0, magic: magic, token: token.uppercased())
            #expect(house.submit(second).reason == .senderKeyRequired)
            let signature = SenderSignature(of: second.digest, by: thief)
            #expect(house.submit(second, signature: signature).reason == .senderKeyMismatch)
        }
    }

    @Test func `a submission that is not delivered binds no key`() throws {
        let outcomes: [Outcome] = [
            .retry(.providerUnreachable, after: 1), .rejected(.payloadRefused), .rejected(.badDeviceToken),
            .gone(since: 0), .rejected(.ttlRanOut), .retry(.credentialsRefused, after: 1),
        ]
        for outcome in outcomes {
            let (house, owner, thief) = try makeHouse { $0.deadDays = 1 }
            try house.send(to: 1, by: thief, outcome)
            house.pass(days: 1)
            try house.send(to: 1, by: owner, .delivered())
            #expect(try house.submit(to: 1, by: owner).isAdmitted, "\(outcome)")
            #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch, "\(outcome)")
        }
    }

    @Test func `unsigned deliveries prevent binding until they have stopped for the quiet time`()
        throws
    {
        let (house, thief, _) = try makeHouse { $0.senderQuietDays = 30 }
        for _ in 0..<3 {
            try house.send(to: 1, .delivered())
            house.pass(days: 20)
            // Whoever has the device token signs one, and locks nobody out.
            try house.send(to: 1, by: thief, .delivered())
            #expect(try house.submit(to: 1).isAdmitted)
        }
        house.pass(days: 9)
        try house.send(to: 1, by: thief, .delivered())
        try house.send(to: 1, .delivered())
        house.pass(days: 30)
        try house.send(to: 1, by: thief, .delivered())
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
    }

    @Test func `the quiet time survives a restart, and unbinding ends it`() throws {
        let (house, owner, thief) = try makeHouse { $0.senderQuietDays = 30 }
        try house.send(to: 1, .delivered())
        house.restart(house.rows()) { $0.senderQuietDays = 30 }
        house.connect()
        try house.send(to: 1, by: owner, .delivered())
        #expect(try house.submit(to: 1).isAdmitted)
        #expect(house.unbind(1) == 0)
        try house.send(to: 1, by: owner, .delivered())
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
        #expect(house.unbind(1) == 1)
        try house.send(to: 1, by: thief, .delivered())
        #expect(try house.submit(to: 1, by: owner).reason == .senderKeyMismatch)
        #expect(house.unbind(2) == 0)
    }

    @Test func `with a quiet time of zero the first signed submission binds its key`() throws {
        let (house, owner, _) = try makeHouse()
        try house.send(to: 1, .delivered())
        try house.send(to: 1, by: owner, .delivered())
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
    }

    @Test func `of two keys in flight the first to be delivered is bound`() throws {
        let (house, owner, thief) = try makeHouse()
        let early = try house.submit(to: 1, by: thief)
        let late = try house.submit(to: 1, by: owner)
        house.conclude(late)
        house.conclude(early)
        #expect(try house.submit(to: 1, by: owner).isAdmitted)
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
    }

    @Test func `a delivery under another key does not take over a device token, even an unproven one`() throws {
        let (house, owner, thief) = try makeHouse()
        let early = try house.submit(to: 1, by: thief)
        try house.send(to: 1, by: owner, .delivered())
        try house.send(to: 1, by: owner, .rejected(.badDeviceToken))
        house.conclude(early)
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        #expect(try house.isUnproven(1, by: owner) == false)
    }

    @Test func `the wrong key is rejected but not charged`() throws {
        let (house, owner, thief) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        for _ in 1...50 {
            let envelope = try house.envelope(for: 1)
            let refusal = house.submit(envelope, signature: SenderSignature(of: envelope.digest, by: thief)).refusal
            #expect(refusal?.outcome == .rejected(.senderKeyMismatch))
            #expect(refusal?.goAway == nil)
        }
    }

    @Test func `an invalid signature is rejected and charged, for a bound and an unknown key alike`() throws {
        for isBound in [true, false] {
            let (house, owner, _) = try makeHouse()
            if isBound { try house.send(to: 1, by: owner, .delivered()) }
            for number in 1...20 {
                let (envelope, other) = (try house.envelope(for: 1), try house.envelope(for: 1))
                let refusal = house.submit(envelope, signature: SenderSignature(of: other.digest, by: owner)).refusal
                #expect(refusal?.outcome == .rejected(.senderKeyMismatch))
                #expect(refusal?.goAway?.code == (number < 20 ? nil : .abuse))
            }
        }
    }

    @Test func `an unsigned submission to a bound device token is rejected but not charged`() throws {
        let (house, owner, _) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        for _ in 0..<100 { #expect(try house.submit(to: 1).refusal == Refusal(.rejected(.senderKeyRequired))) }
    }

    @Test func `an invalid signature is rejected before any limit is checked`() throws {
        let (house, owner, _) = try makeHouse {
            $0.device = Rate(burst: 1, perMinute: 1)
            $0.unproven = Rate(burst: 2, perMinute: 1)
            $0.node = Rate(burst: 2, perMinute: 1)
        }
        let other = try house.envelope(for: 0)
        let signature = SenderSignature(of: other.digest, by: owner)
        #expect(try house.submit(to: 1).isAdmitted)
        #expect(try house.submit(to: 2).isAdmitted)
        for device in [1, 2, 3] {
            #expect(house.submit(try house.envelope(for: device), signature: signature).reason == .senderKeyMismatch)
        }
    }

    @Test func `with sender keys off signatures are not checked and bind nothing`() throws {
        let (house, owner, thief) = try makeHouse(.off)
        try house.send(to: 1, by: owner, .delivered())
        let (envelope, other) = (try house.envelope(for: 1), try house.envelope(for: 1))
        #expect(house.submit(envelope, signature: SenderSignature(of: other.digest, by: thief)).isAdmitted)
        #expect(try house.submit(to: 1).isAdmitted)
        house.admission.settings.senders = .optional
        #expect(try house.submit(to: 1, by: thief).isAdmitted)
    }

    @Test func `with sender keys required every unsigned submission is rejected`() throws {
        let (house, owner, _) = try makeHouse(.required)
        #expect(try house.submit(to: 1).refusal == Refusal(.rejected(.senderKeyRequired)))
        #expect(try house.submit(to: 1, by: owner).isAdmitted)
        try house.send(to: 2, by: owner, .delivered())
        #expect(try house.submit(to: 2).reason == .senderKeyRequired)
        #expect(try house.submit(to: 2, by: owner).isAdmitted)
    }

    @Test func `a new sender key mode takes effect immediately, and bindings are kept`() throws {
        let (house, owner, thief) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        house.admission.settings.senders = .off
        #expect(try house.submit(to: 1).isAdmitted)
        #expect(try house.submit(to: 1, by: thief).isAdmitted)
        house.admission.settings.senders = .required
        #expect(try house.submit(to: 2).reason == .senderKeyRequired)
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        #expect(try house.submit(to: 1, by: owner).isAdmitted)
    }

    @Test func `a submission admitted or delivered while sender keys are off binds nothing`() throws {
        let (house, owner, thief) = try makeHouse(.off)
        let early = try house.submit(to: 1, by: owner)
        house.admission.settings.senders = .optional
        house.conclude(early)
        let late = try house.submit(to: 1, by: owner)
        house.admission.settings.senders = .off
        house.conclude(late)
        house.admission.settings.senders = .optional
        #expect(try house.submit(to: 1, by: thief).isAdmitted)
    }

    // MARK: Unbinding

    @Test func `a dead device token is unbound`() throws {
        let (house, owner, thief) = try makeHouse { $0.deadDays = 1 }
        try house.send(to: 1, by: owner, .delivered())
        house.pass(.seconds(1))
        try house.send(to: 1, by: owner, .gone(since: nil))
        house.pass(days: 1)
        #expect(try house.submit(to: 1).isAdmitted)
        try house.send(to: 1, by: thief, .delivered())
        #expect(try house.submit(to: 1, by: owner).reason == .senderKeyMismatch)
    }

    @Test func `neither a disbelieved death nor a bad device token unbinds`() throws {
        let (house, owner, thief) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        try house.send(to: 1, by: owner, .gone(since: 1))
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        try house.send(to: 1, by: owner, .rejected(.badDeviceToken))
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        #expect(try house.submit(to: 1, by: owner).ticket?.isUnproven == true)
    }

    @Test func `a key is unbound after senderForgetDays without use, and not a day earlier`() throws {
        for (days, isBound) in [(89, true), (90, false)] {
            let (house, owner, thief) = try makeHouse { $0.senderForgetDays = 90 }
            try house.send(to: 1, by: owner, .delivered())
            house.pass(days: days)
            // Who is refused does not use it.
            #expect(try house.submit(to: 1, by: thief).isAdmitted == !isBound)
            #expect(try house.isUnproven(1, by: owner) == false)
        }
    }

    @Test func `use keeps a key bound, and rejected submissions do not`() throws {
        let (house, owner, thief) = try makeHouse { $0.senderForgetDays = 90 }
        try house.send(to: 1, by: owner, .delivered())
        for _ in 0..<5 {
            house.pass(days: 60)
            #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
            #expect(try house.submit(to: 1, by: owner).isAdmitted)
        }
        house.pass(days: 89)
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        house.pass(days: 1)
        #expect(try house.submit(to: 1, by: thief).isAdmitted)
    }

    @Test func `use of a device token does not restore an expired key`() throws {
        let (house, owner, thief) = try makeHouse { $0.senderForgetDays = 90 }
        try house.send(to: 1, by: owner, .delivered())
        house.pass(days: 90)
        #expect(try house.submit(to: 1).isAdmitted)
        #expect(try house.submit(to: 1).isAdmitted)
        try house.send(to: 1, by: thief, .delivered())
        #expect(try house.submit(to: 1, by: owner).reason == .senderKeyMismatch)
    }

    @Test func `a new value of senderForgetDays takes effect immediately`() throws {
        let (house, owner, thief) = try makeHouse()
        try house.send(to: 1, by: owner, .delivered())
        house.pass(days: 10)
        #expect(try house.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        house.admission.settings.senderForgetDays = 10
        #expect(try house.submit(to: 1, by: thief).isAdmitted)
    }
}
