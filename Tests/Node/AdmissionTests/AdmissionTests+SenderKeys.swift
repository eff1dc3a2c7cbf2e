// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Testing

@testable import Admission

typealias Ed25519Key = Ed25519.PrivateKey

/// Sender keys: which submissions a device token with a bound key accepts.
extension AdmissionTests {
    /// A harness with one connection of circuit 1, and the keys of an owner and of a thief.
    private func makeHarness(
        _ mode: SenderKeyMode = .optional, _ change: (inout AdmissionSettings) -> Void = { _ in }
    ) throws -> (harness: AdmissionHarness, owner: Ed25519Key, thief: Ed25519Key) {
        let harness = AdmissionHarness {
            $0.senders = mode
            change(&$0)
        }
        harness.connect()
        return (harness, try .numbered(1), try .numbered(2))
    }

    @Test func `the first delivered signed submission binds its key, and other senders are rejected`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        for _ in 0..<3 {
            #expect(try harness.submit(to: 1, by: thief).refusal?.outcome == .rejected(.senderKeyMismatch))
            #expect(try harness.submit(to: 1).refusal?.outcome == .rejected(.senderKeyRequired))
            #expect(try harness.submit(to: 1, by: owner).isAdmitted)
        }
    }

    @Test func `a key is bound to one device token of one app`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        #expect(try harness.submit(to: 2, by: thief).isAdmitted)
        #expect(try harness.submit(to: 2).isAdmitted)
        #expect(try harness.submit(to: 1, app: "other", by: thief).isAdmitted)
    }

    @Test func `one key may be bound to many device tokens`() throws {
        let (harness, owner, thief) = try makeHarness()
        for device in 1...10 { try harness.send(to: device, by: owner, .delivered()) }
        for device in 1...10 {
            #expect(try harness.submit(to: device, by: owner).isAdmitted)
            #expect(try harness.submit(to: device, by: thief).reason == .senderKeyMismatch)
        }
    }

    @Test func `another spelling of a device token does not bypass its key`() throws {
        let (harness, owner, thief) = try makeHarness()
        let token = "abcdef0123456789"
        let first = try harness.envelope(for: 0, token: token)
        harness.conclude(harness.submit(first, signature: SenderSignature(of: first.digest, by: owner)))
        for magic in [Magic.iOS, .iOSDev] {
            let second = try harness.envelope(for: 0, magic: magic, token: token.uppercased())
            #expect(harness.submit(second).reason == .senderKeyRequired)
            let signature = SenderSignature(of: second.digest, by: thief)
            #expect(harness.submit(second, signature: signature).reason == .senderKeyMismatch)
        }
    }

    @Test func `a submission that is not delivered binds no key`() throws {
        let outcomes: [Outcome] = [
            .retry(.providerUnreachable, after: 1), .rejected(.payloadRefused), .rejected(.badDeviceToken),
            .gone(since: 0), .rejected(.ttlRanOut), .retry(.credentialsRefused, after: 1),
        ]
        for outcome in outcomes {
            let (harness, owner, thief) = try makeHarness { $0.deadDays = 1 }
            try harness.send(to: 1, by: thief, outcome)
            harness.pass(days: 1)
            try harness.send(to: 1, by: owner, .delivered())
            #expect(try harness.submit(to: 1, by: owner).isAdmitted, "\(outcome)")
            #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch, "\(outcome)")
        }
    }

    @Test func `unsigned deliveries prevent binding until they have stopped for the quiet time`()
        throws
    {
        let (harness, thief, _) = try makeHarness { $0.senderQuietDays = 30 }
        for _ in 0..<3 {
            try harness.send(to: 1, .delivered())
            harness.pass(days: 20)
            // A thief of the device token delivers a signed submission, but locks out no unsigned sender.
            try harness.send(to: 1, by: thief, .delivered())
            #expect(try harness.submit(to: 1).isAdmitted)
        }
        harness.pass(days: 9)
        try harness.send(to: 1, by: thief, .delivered())
        try harness.send(to: 1, .delivered())
        harness.pass(days: 30)
        try harness.send(to: 1, by: thief, .delivered())
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
    }

    @Test func `the quiet time survives a restart, and unbinding ends it`() throws {
        let (harness, owner, thief) = try makeHarness { $0.senderQuietDays = 30 }
        try harness.send(to: 1, .delivered())
        harness.restart(harness.rows()) { $0.senderQuietDays = 30 }
        harness.connect()
        try harness.send(to: 1, by: owner, .delivered())
        #expect(try harness.submit(to: 1).isAdmitted)
        #expect(harness.unbind(1) == 0)
        try harness.send(to: 1, by: owner, .delivered())
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
        #expect(harness.unbind(1) == 1)
        try harness.send(to: 1, by: thief, .delivered())
        #expect(try harness.submit(to: 1, by: owner).reason == .senderKeyMismatch)
        #expect(harness.unbind(2) == 0)
    }

    @Test func `with a quiet time of zero the first signed submission binds its key`() throws {
        let (harness, owner, _) = try makeHarness()
        try harness.send(to: 1, .delivered())
        try harness.send(to: 1, by: owner, .delivered())
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
    }

    @Test func `a new key takes over the binding of the earlier one when its notification is delivered`() throws {
        let (harness, earlier, thief) = try makeHarness()
        let new = try Ed25519Key.numbered(3)
        try harness.send(to: 1, by: earlier, .delivered())
        #expect(try harness.submit(to: 1, by: new).reason == .senderKeyMismatch)
        // Not delivered: the earlier key still rings the phone.
        harness.conclude(
            try harness.submit(to: 1, by: new, succeeding: earlier), .retry(.providerUnreachable, after: 1))
        #expect(try harness.submit(to: 1, by: earlier).isAdmitted)
        harness.conclude(try harness.submit(to: 1, by: new, succeeding: earlier))
        #expect(try harness.submit(to: 1, by: new).isAdmitted)
        #expect(try harness.submit(to: 1, by: earlier).reason == .senderKeyMismatch)
        // Sent again although the binding has moved.
        #expect(try harness.submit(to: 1, by: new, succeeding: earlier).isAdmitted)
        #expect(try harness.submit(to: 1, by: thief, succeeding: earlier).reason == .senderKeyMismatch)
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
    }

    @Test func `only the bound key can name its successor, and only for its own phone`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        try harness.send(to: 2, by: thief, .delivered())
        let accomplice = try Ed25519Key.numbered(3)
        #expect(try harness.submit(to: 1, by: accomplice, succeeding: thief).reason == .senderKeyMismatch)
        // A succession that the owner has signed for another phone.
        let envelope = try harness.envelope(for: 1)
        var signature = SenderSignature(of: envelope.digest, by: thief)
        signature.succession =
            SenderSignature(
                of: try harness.envelope(for: 2), by: thief, succeeding: owner
            ).succession
        #expect(harness.submit(envelope, signature: signature).reason == .senderKeyMismatch)
        #expect(try harness.submit(to: 1, by: owner).isAdmitted)
    }

    @Test func `a new key binds a phone that is bound to none, and none that unsigned notifications reach`() throws {
        let (harness, earlier, _) = try makeHarness { $0.senderQuietDays = 30 }
        let new = try Ed25519Key.numbered(3)
        harness.conclude(try harness.submit(to: 1, by: new, succeeding: earlier))
        #expect(try harness.submit(to: 1, by: earlier).reason == .senderKeyMismatch)
        try harness.send(to: 2, .delivered())
        harness.conclude(try harness.submit(to: 2, by: new, succeeding: earlier))
        #expect(try harness.submit(to: 2).isAdmitted)
    }

    @Test func `where signatures are ignored, so is a false succession`() throws {
        let (harness, owner, thief) = try makeHarness(.off)
        let envelope = try harness.envelope(for: 1)
        var signature = SenderSignature(of: envelope.digest, by: thief)
        signature.succession =
            SenderSignature(of: try harness.envelope(for: 2), by: thief, succeeding: owner).succession
        #expect(harness.submit(envelope, signature: signature).isAdmitted)
    }

    @Test func `of two keys in flight the first to be delivered is bound`() throws {
        let (harness, owner, thief) = try makeHarness()
        let early = try harness.submit(to: 1, by: thief)
        let late = try harness.submit(to: 1, by: owner)
        harness.conclude(late)
        harness.conclude(early)
        #expect(try harness.submit(to: 1, by: owner).isAdmitted)
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
    }

    @Test func `a delivery under another key does not take over a device token, even an unproven one`() throws {
        let (harness, owner, thief) = try makeHarness()
        let early = try harness.submit(to: 1, by: thief)
        try harness.send(to: 1, by: owner, .delivered())
        try harness.send(to: 1, by: owner, .rejected(.badDeviceToken))
        harness.conclude(early)
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        #expect(try harness.isUnproven(1, by: owner) == false)
    }

    @Test func `the wrong key is rejected but not charged`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        for _ in 1...50 {
            let envelope = try harness.envelope(for: 1)
            let refusal = harness.submit(envelope, signature: SenderSignature(of: envelope.digest, by: thief)).refusal
            #expect(refusal?.outcome == .rejected(.senderKeyMismatch))
            #expect(refusal?.goAway == nil)
        }
    }

    @Test func `an invalid signature is rejected and charged, for a bound and an unknown key alike`() throws {
        for isBound in [true, false] {
            let (harness, owner, _) = try makeHarness()
            if isBound { try harness.send(to: 1, by: owner, .delivered()) }
            for number in 1...20 {
                let (envelope, other) = (try harness.envelope(for: 1), try harness.envelope(for: 1))
                let refusal = harness.submit(envelope, signature: SenderSignature(of: other.digest, by: owner)).refusal
                #expect(refusal?.outcome == .rejected(.senderKeyMismatch))
                #expect(refusal?.goAway?.code == (number < 20 ? nil : .abuse))
            }
        }
    }

    @Test func `an unsigned submission to a bound device token is rejected but not charged`() throws {
        let (harness, owner, _) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        for _ in 0..<100 { #expect(try harness.submit(to: 1).refusal == Refusal(.rejected(.senderKeyRequired))) }
    }

    @Test func `an invalid signature is rejected before any limit is checked`() throws {
        let (harness, owner, _) = try makeHarness {
            $0.device = Rate(burst: 1, perMinute: 1)
            $0.unproven = Rate(burst: 2, perMinute: 1)
            $0.node = Rate(burst: 2, perMinute: 1)
        }
        let other = try harness.envelope(for: 0)
        let signature = SenderSignature(of: other.digest, by: owner)
        #expect(try harness.submit(to: 1).isAdmitted)
        #expect(try harness.submit(to: 2).isAdmitted)
        for device in [1, 2, 3] {
            #expect(
                harness.submit(try harness.envelope(for: device), signature: signature).reason == .senderKeyMismatch)
        }
    }

    @Test func `with sender keys off signatures are not checked and bind nothing`() throws {
        let (harness, owner, thief) = try makeHarness(.off)
        try harness.send(to: 1, by: owner, .delivered())
        let (envelope, other) = (try harness.envelope(for: 1), try harness.envelope(for: 1))
        #expect(harness.submit(envelope, signature: SenderSignature(of: other.digest, by: thief)).isAdmitted)
        #expect(try harness.submit(to: 1).isAdmitted)
        harness.admission.settings.senders = .optional
        #expect(try harness.submit(to: 1, by: thief).isAdmitted)
    }

    @Test func `with sender keys required every unsigned submission is rejected`() throws {
        let (harness, owner, _) = try makeHarness(.required)
        #expect(try harness.submit(to: 1).refusal == Refusal(.rejected(.senderKeyRequired)))
        #expect(try harness.submit(to: 1, by: owner).isAdmitted)
        try harness.send(to: 2, by: owner, .delivered())
        #expect(try harness.submit(to: 2).reason == .senderKeyRequired)
        #expect(try harness.submit(to: 2, by: owner).isAdmitted)
    }

    @Test func `a new sender key mode takes effect immediately, and bindings are kept`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        harness.admission.settings.senders = .off
        #expect(try harness.submit(to: 1).isAdmitted)
        #expect(try harness.submit(to: 1, by: thief).isAdmitted)
        harness.admission.settings.senders = .required
        #expect(try harness.submit(to: 2).reason == .senderKeyRequired)
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        #expect(try harness.submit(to: 1, by: owner).isAdmitted)
    }

    @Test func `a submission admitted or delivered while sender keys are off binds nothing`() throws {
        let (harness, owner, thief) = try makeHarness(.off)
        let early = try harness.submit(to: 1, by: owner)
        harness.admission.settings.senders = .optional
        harness.conclude(early)
        let late = try harness.submit(to: 1, by: owner)
        harness.admission.settings.senders = .off
        harness.conclude(late)
        harness.admission.settings.senders = .optional
        #expect(try harness.submit(to: 1, by: thief).isAdmitted)
    }

    // MARK: Unbinding

    @Test func `a dead device token is unbound`() throws {
        let (harness, owner, thief) = try makeHarness { $0.deadDays = 1 }
        try harness.send(to: 1, by: owner, .delivered())
        harness.pass(.seconds(1))
        try harness.send(to: 1, by: owner, .gone(since: nil))
        harness.pass(days: 1)
        #expect(try harness.submit(to: 1).isAdmitted)
        try harness.send(to: 1, by: thief, .delivered())
        #expect(try harness.submit(to: 1, by: owner).reason == .senderKeyMismatch)
    }

    @Test func `neither a disbelieved death nor a bad device token unbinds`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        try harness.send(to: 1, by: owner, .gone(since: 1))
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        try harness.send(to: 1, by: owner, .rejected(.badDeviceToken))
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        #expect(try harness.submit(to: 1, by: owner).ticket?.isUnproven == true)
    }

    @Test func `a key is unbound after senderForgetDays without use, and not a day earlier`() throws {
        for (days, isBound) in [(89, true), (90, false)] {
            let (harness, owner, thief) = try makeHarness { $0.senderForgetDays = 90 }
            try harness.send(to: 1, by: owner, .delivered())
            harness.pass(days: days)
            // A rejected submission is not a use.
            #expect(try harness.submit(to: 1, by: thief).isAdmitted == !isBound)
            #expect(try harness.isUnproven(1, by: owner) == false)
        }
    }

    @Test func `use keeps a key bound, and rejected submissions do not`() throws {
        let (harness, owner, thief) = try makeHarness { $0.senderForgetDays = 90 }
        try harness.send(to: 1, by: owner, .delivered())
        for _ in 0..<5 {
            harness.pass(days: 60)
            #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
            #expect(try harness.submit(to: 1, by: owner).isAdmitted)
        }
        harness.pass(days: 89)
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        harness.pass(days: 1)
        #expect(try harness.submit(to: 1, by: thief).isAdmitted)
    }

    @Test func `use of a device token does not restore an expired key`() throws {
        let (harness, owner, thief) = try makeHarness { $0.senderForgetDays = 90 }
        try harness.send(to: 1, by: owner, .delivered())
        harness.pass(days: 90)
        #expect(try harness.submit(to: 1).isAdmitted)
        #expect(try harness.submit(to: 1).isAdmitted)
        try harness.send(to: 1, by: thief, .delivered())
        #expect(try harness.submit(to: 1, by: owner).reason == .senderKeyMismatch)
    }

    @Test func `a new value of senderForgetDays takes effect immediately`() throws {
        let (harness, owner, thief) = try makeHarness()
        try harness.send(to: 1, by: owner, .delivered())
        harness.pass(days: 10)
        #expect(try harness.submit(to: 1, by: thief).reason == .senderKeyMismatch)
        harness.admission.settings.senderForgetDays = 10
        #expect(try harness.submit(to: 1, by: thief).isAdmitted)
    }
}
