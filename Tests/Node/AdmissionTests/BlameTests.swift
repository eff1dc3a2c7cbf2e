// SPDX-License-Identifier: Apache-2.0

import Cryptography
import StandIns
import TNP
import TestSupport
import Testing
import Time

@testable import Admission

/// Who is charged for what, and what one sender can do to another.
@Suite(.tags(.computing)) struct BlameTests {
    private let site = CircuitID.site(7)

    private func harness(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let harness = AdmissionHarness(change)
        harness.connect()
        harness.connect(.tor(2))
        harness.connect(site)
        return harness
    }

    private func endpoint(_ url: String, _ magic: Magic = .web) throws -> Envelope {
        try Envelope(
            magic: magic, deviceToken: Array(url.utf8)[...],
            iv: magic == .web ? [] : [UInt8](repeating: 65, count: 16)[...],
            ciphertext: [UInt8](repeating: 7, count: 16)[...], format: .pipe)
    }

    // MARK: One identity for a phone

    @Test func `a push endpoint in another case is another phone`() throws {
        let harness = harness()
        harness.conclude(harness.submit(try endpoint("https://push.example/Up/AbC")))
        // A stranger toggles letters, and the server answers that there is no such subscription.
        harness.conclude(harness.submit(try endpoint("https://push.example/uP/aBc"), on: .tor(2)), .gone(since: nil))
        #expect(harness.submit(try endpoint("https://push.example/Up/AbC")).ticket?.isUnproven == false)
    }

    @Test func `a push endpoint is the same phone under web and under android`() throws {
        let harness = harness { $0.device = Rate(burst: 1, perMinute: 1) }
        #expect(harness.submit(try endpoint("https://push.example/up")).isAdmitted)
        let other = harness.submit(try endpoint("https://push.example/up", .android))
        #expect(other.refusal?.outcome?.reason == .deviceTokenOverRate || !other.isAdmitted)
    }

    @Test func `the operator unbinds a push endpoint`() throws {
        let harness = harness { $0.senders = .optional }
        let envelope = try endpoint("https://push.example/up")
        let key = try Ed25519.PrivateKey.numbered(1)
        harness.conclude(harness.submit(envelope, signature: SenderSignature(of: envelope.digest, by: key)))
        #expect(harness.submit(try endpoint("https://push.example/up")).reason == .senderKeyRequired)
        let hash = KeyedHash(key: SecretBytes(Array(repeating: UInt8(7), count: 32)))
        let names = Admission.hashes(of: Array("https://push.example/up".utf8), app: "app", under: hash)
        #expect(harness.admission.unbind(names) == 1)
        #expect(harness.submit(try endpoint("https://push.example/up")).isAdmitted)
    }

    // MARK: Sites

    @Test func `a site is never blocked for device tokens, and gets 209 past its allowance`() throws {
        let harness = harness { $0.sites = [7: AdmissionHarness.wide] }
        harness.conclude(try harness.submit(to: 1, on: site))
        for device in 100..<119 {
            #expect(try harness.send(to: device, on: site, .rejected(.badDeviceToken)) == nil)
        }
        #expect(try harness.send(to: 119, on: site, .rejected(.badDeviceToken)) == nil)
        #expect(try harness.submit(to: 120, on: site).reason == .tooManyUnproven)
        // Its living phones ring, and it may connect.
        #expect(try harness.submit(to: 1, on: site).isAdmitted)
        #expect(harness.connect(site) == nil)
    }

    @Test func `a surge of uninstalled phones is no abuse`() throws {
        let harness = harness { $0.sites = [7: AdmissionHarness.wide] }
        for circuit in [site, .tor(1)] {
            for device in 1...30 { harness.conclude(try harness.submit(to: device, on: circuit)) }
            for device in 1...30 { #expect(try harness.send(to: device, on: circuit, .gone(since: nil)) == nil) }
            #expect(try harness.submit(to: 40, on: circuit).isAdmitted)
            for device in 1...30 { harness.conclude(try harness.submit(to: device, on: circuit)) }
        }
    }

    // MARK: Known bad device tokens

    @Test(arguments: [Admission.SenderProtocol.tnp, .http])
    func `a dead registration does not silence its neighbour`(senderProtocol: Admission.SenderProtocol) throws {
        let harness = harness()
        harness.conclude(try harness.submit(to: 1, through: senderProtocol))
        var refused = Outcome.rejected(.badDeviceToken)
        refused.isTokenUnknown = true
        var asked = 0
        for _ in 0..<32 {
            let dead = try harness.submit(to: 2, through: senderProtocol)
            if dead.isAdmitted {
                asked += 1
                #expect(harness.conclude(dead, refused) == nil)
            } else {
                #expect(dead.refusal?.outcome == refused && dead.refusal?.goAway == nil)
            }
            let living = try harness.submit(to: 1, through: senderProtocol)
            #expect(living.isAdmitted)
            harness.conclude(living)
            harness.pass(.seconds(60))
        }
        #expect(asked == 1)
        // The push service is asked again after an hour, and that is not charged either.
        harness.pass(.seconds(3600))
        let again = try harness.submit(to: 2, through: senderProtocol)
        #expect(again.isAdmitted)
        harness.conclude(again)
        #expect(try harness.submit(to: 2, through: senderProtocol).isAdmitted)
    }

    @Test func `the table of bad device tokens is bounded, and forgets the oldest`() {
        var tokens = BadTokens(capacity: 4)
        let now = MonotonicTime(nanoseconds: 1_000_000_000)
        let refused = Outcome.rejected(.badDeviceToken)
        for token in 1...6 as ClosedRange<UInt64> {
            let isFirst = tokens.refused(token, with: refused, at: now)
            #expect(isFirst)
        }
        #expect(tokens.count == 4)
        #expect(tokens.outcome(for: 2, at: now) == nil && tokens.outcome(for: 3, at: now) != nil)
        let isFirst = tokens.refused(6, with: refused, at: now + .seconds(4000))
        #expect(!isFirst && tokens.outcome(for: 6, at: now + .seconds(4000)) != nil)
        #expect(tokens.outcome(for: 5, at: now + .seconds(4000)) == nil)
    }

    // MARK: When a phone was gone

    @Test func `a sender learns since when a phone is gone only if the push service said so`() throws {
        let harness = harness()
        try harness.send(to: 1, .gone(since: nil))
        let unnamed = try harness.submit(to: 1)
        #expect(unnamed.reason == .unregistered && unnamed.refusal?.outcome?.goneSince == nil)
        try harness.send(to: 2, .gone(since: 77_000))
        let named = try harness.submit(to: 2)
        #expect(named.refusal?.outcome?.goneSince == 77_000)
    }

    // MARK: Proofs

    @Test func `a proof pays once, also beyond the replay window`() throws {
        let harness = harness { $0.puzzle = .init(mode: .always, minimum: 256, maximum: 4096) }
        let envelope = try harness.envelope(for: 1)
        let proof = harness.admission.puzzle(at: harness.now).solve(for: envelope.digest, tries: 1 << 24)
        // A submission to be sent again keeps its proof.
        harness.conclude(harness.submit(envelope, proof: proof), .retry(.providerUnreachable, after: 0))
        harness.conclude(harness.submit(envelope, proof: proof))
        let again = harness.submit(envelope, proof: proof)
        #expect(again.reason == .proofRequired && again.refusal?.puzzle != nil)
        harness.pass(.seconds(1800))
        #expect(harness.submit(envelope, proof: proof).reason == .proofRequired)
        // A new proof for the same envelope pays.
        var other = try #require(proof)
        let puzzle = harness.admission.puzzle(at: harness.now)
        repeat { other.nonce += 1 } while !puzzle.isValid(other, for: envelope.digest)
        #expect(harness.submit(envelope, proof: other).isAdmitted)
    }

    @Test func `spent proofs are kept for two seeds and bounded`() {
        var spent = SpentProofs(capacity: 3)
        for name in 1...5 as ClosedRange<UInt64> { spent.insert(name) }
        #expect(spent.count == 3 && spent.contains(3) && !spent.contains(4))
        spent.seedChanged()
        spent.insert(9)
        #expect(spent.contains(3) && spent.contains(9))
        spent.seedChanged()
        #expect(!spent.contains(3) && spent.contains(9))
    }
}
