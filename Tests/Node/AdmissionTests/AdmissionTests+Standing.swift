// SPDX-License-Identifier: Apache-2.0

import TNP
import Testing

@testable import Admission

/// The standing of device tokens, and how Unix time changes it.
extension AdmissionTests {
    /// A harness with one connection of circuit 1.
    private func makeHarness(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let harness = AdmissionHarness(change)
        harness.connect()
        return harness
    }

    // MARK: Proven, dead and proven again

    @Test func `only a delivery proves an unknown device token`() throws {
        let harness = makeHarness()
        let others: [Outcome] = [
            .retry(.providerUnreachable, after: 1), .rejected(.payloadRefused), .rejected(.badDeviceToken),
            .rejected(.ttlRanOut), .retry(.credentialsRefused, after: 1),
        ]
        for (device, outcome) in others.enumerated() {
            try harness.send(to: device, outcome)
            // Until then, the node answers for a bad device token itself.
            harness.pass(BadTokens.answerTime)
            #expect(try harness.isUnproven(device) == true, "\(outcome)")
        }
        try harness.send(to: 9, .delivered())
        #expect(try harness.isUnproven(9) == false)
    }

    @Test func `a proven device token stays proven unless the push service reports it bad`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        for outcome in [.retry(.providerUnreachable, after: 1), .rejected(.payloadRefused), .rejected(.ttlRanOut)]
            as [Outcome]
        {
            try harness.send(to: 1, outcome)
            #expect(try harness.isUnproven(1) == false, "\(outcome)")
        }
        try harness.send(to: 1, .rejected(.badDeviceToken))
        #expect(try harness.isUnproven(1) == true)
        try harness.send(to: 1, .delivered())
        #expect(try harness.isUnproven(1) == false)
    }

    @Test func `a dead device token is answered GONE at once, with the time that the push service named`() throws {
        let harness = makeHarness { $0.node = Rate(burst: 2, perMinute: 1) }
        try harness.send(to: 1, .delivered())
        harness.pass(.seconds(100))
        try harness.send(to: 1, .gone(since: 1_760_000_050_000))
        for _ in 0..<10 {
            let refusal = try #require(try harness.submit(to: 1).refusal)
            #expect(refusal.outcome == .gone(since: 1_760_000_050_000))
            #expect(refusal.goAway == nil && refusal.puzzle == nil)
        }
    }

    @Test func `a death without a named time counts, and is reported without one`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        harness.pass(.seconds(100))
        try harness.send(to: 1, .gone(since: nil))
        #expect(try harness.submit(to: 1).refusal?.outcome == .gone(since: nil))
    }

    @Test func `the submission that finds an unknown device token dead is charged, later ones are not`() throws {
        let harness = makeHarness()
        #expect(try harness.send(to: 1, .gone(since: nil)) == nil)
        for _ in 0..<40 {
            let refusal = try #require(try harness.submit(to: 1).refusal)
            #expect(refusal.outcome?.kind == .gone && refusal.goAway == nil)
        }
        for number in 2...19 { #expect(try harness.send(to: number, .gone(since: nil)) == nil) }
        #expect(try harness.send(to: 20, .gone(since: nil))?.code == .abuse)
    }

    @Test func `a death older than the last delivery is not believed and not charged`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        for since in [0, 1, 1_759_999_999_999] as [UInt64] {
            for _ in 0..<20 { #expect(try harness.send(to: 1, .gone(since: since)) == nil) }
            #expect(try harness.isUnproven(1) == false)
        }
        // The last delivery counts, not the first.
        harness.pass(.seconds(1000))
        try harness.send(to: 1, .delivered())
        try harness.send(to: 1, .gone(since: 1_760_000_999_999))
        #expect(try harness.isUnproven(1) == false)
        try harness.send(to: 1, .gone(since: 1_760_001_000_000))
        #expect(try harness.submit(to: 1).refusal?.outcome?.kind == .gone)
    }

    @Test func `a device token that was never proven is dead whatever time is named`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .gone(since: 1))
        #expect(try harness.submit(to: 1).refusal?.outcome == .gone(since: 1))
    }

    @Test func `a delivery after death makes a device token proven again`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        let inFlight = try harness.submit(to: 1)
        try harness.send(to: 1, .gone(since: nil))
        #expect(try harness.submit(to: 1).reason == .unregistered)
        harness.pass(.seconds(1))
        harness.conclude(inFlight)
        #expect(try harness.isUnproven(1) == false)
        // A report of the earlier death is no longer believed.
        try harness.send(to: 1, .gone(since: 1_760_000_000_000))
        #expect(try harness.isUnproven(1) == false)
    }

    @Test func `APNs environments share a device token; FCM and each app have their own`() throws {
        let harness = makeHarness()
        func isUnproven(_ magic: Magic, app: String = "app") throws -> Bool? {
            let answer = harness.submit(try harness.envelope(for: 1, magic: magic), app: app)
            return answer.ticket?.isUnproven
        }
        try harness.send(to: 1, .delivered())
        #expect(try isUnproven(.iOS) == false)
        #expect(try isUnproven(.iOSDev) == false)
        #expect(try isUnproven(.android) == true)
        #expect(try isUnproven(.iOS, app: "other") == true)
    }

    @Test func `upper and lower case spellings of an APNs device token share one allowance`() throws {
        let harness = makeHarness { $0.device = Rate(burst: 6, perMinute: 1) }
        let spellings = ["abcdef0123456789", "ABCDEF0123456789", "aBcDeF0123456789"]
        var admitted = 0
        for _ in 0..<10 {
            for token in spellings where harness.submit(try harness.envelope(for: 0, token: token)).isAdmitted {
                admitted += 1
            }
        }
        #expect(admitted == 6)
        // FCM tokens are case-sensitive.
        for token in spellings {
            #expect(harness.submit(try harness.envelope(for: 0, magic: .android, token: token)).isAdmitted)
        }
        #expect(harness.admission.known.deviceTokens == 4)
    }

    // MARK: Age

    @Test func `a proven device token expires after provenDays without use, and not a day earlier`() throws {
        for (days, isUnproven) in [(179, false), (180, true), (5000, true)] {
            let harness = makeHarness()
            try harness.send(to: 1, .delivered())
            harness.pass(days: days)
            #expect(try harness.isUnproven(1) == isUnproven, "\(days) days")
            // Use does not renew an expired standing.
            #expect(try harness.isUnproven(1) == isUnproven, "\(days) days")
        }
    }

    @Test func `use keeps a device token proven`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        for _ in 0..<10 {
            harness.pass(days: 150)
            #expect(try harness.isUnproven(1) == false)
        }
    }

    @Test func `a dead device token is tried again after deadDays, and not a day earlier`() throws {
        for (days, isDead) in [(0, true), (29, true), (30, false), (5000, false)] {
            let harness = makeHarness()
            try harness.send(to: 1, .gone(since: nil))
            harness.pass(days: days)
            let answer = try harness.submit(to: 1)
            #expect(answer.isAdmitted == !isDead, "\(days) days")
            #expect(answer.ticket?.isUnproven == (isDead ? nil : true), "\(days) days")
        }
    }

    @Test func `submissions do not keep a device token dead`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .gone(since: nil))
        for _ in 1...29 {
            harness.pass(days: 1)
            #expect(try harness.submit(to: 1).reason == .unregistered)
        }
        harness.pass(days: 1)
        #expect(try harness.submit(to: 1).isAdmitted)
    }

    @Test func `new values of provenDays and deadDays take effect immediately`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        try harness.send(to: 2, .gone(since: nil))
        harness.pass(days: 10)
        #expect(try harness.submit(to: 2).reason == .unregistered)
        harness.admission.settings.deadDays = 10
        #expect(try harness.submit(to: 2).isAdmitted)
        harness.admission.settings.provenDays = 10
        #expect(try harness.isUnproven(1) == true)
    }

    // MARK: Sweeping

    @Test func `a record that is no longer useful is removed within an hour`() throws {
        let harness = makeHarness { $0.device = Rate(burst: 20, perMinute: 1) }
        for device in 0..<200 {
            try harness.send(to: device, device < 100 ? .rejected(.payloadRefused) : .delivered())
        }
        #expect(harness.admission.known.deviceTokens == 200)
        // Each has used 1 of its 20, which takes 60 s to refill.
        for _ in 0..<59 { harness.tick() }
        #expect(harness.admission.known.deviceTokens == 200)
        for _ in 0..<3600 { harness.tick() }
        #expect(harness.admission.known.deviceTokens == 100)
        harness.pass(days: 180)
        for _ in 0..<3600 { harness.tick() }
        #expect(harness.admission.known.deviceTokens == 0)
    }

    @Test func `sweeping removes no allowance, standing or key before its time`() throws {
        let harness = makeHarness { $0.device = Rate(burst: 4, perMinute: 1) }
        let key = try Ed25519Key.numbered(1)
        try harness.send(to: 1, by: key, .delivered())
        try harness.send(to: 2, .delivered())
        try harness.send(to: 3, .gone(since: nil))
        harness.pass(days: 29)
        for _ in 0..<3600 { harness.tick() }
        #expect(try harness.admitted(of: 10, to: 4) == 4)
        for _ in 0..<50 { harness.tick() }
        #expect(try harness.submit(to: 4).reason == .deviceTokenOverRate)
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
        #expect(try harness.isUnproven(1, by: key) == false)
        #expect(try harness.isUnproven(2) == false)
        #expect(try harness.submit(to: 3).reason == .unregistered)
    }

    // MARK: Capacity

    @Test func `a flood of unknown device tokens evicts no proven, dead or bound one`() throws {
        let harness = AdmissionHarness { $0.deviceTokens = 500 }
        let key = try Ed25519Key.numbered(1)
        for id in 0..<10 as Range<UInt32> { harness.connect(.tor(id)) }
        for device in 0..<300 { try harness.send(to: device, .delivered()) }
        for device in 300..<400 { try harness.send(to: device, by: key, .delivered()) }
        for device in 400..<500 { try harness.send(to: device, on: .tor(UInt32(device % 10)), .gone(since: 7)) }
        harness.pass(days: 29)
        for device in 1000..<6000 { try harness.send(to: device, .rejected(.payloadRefused)) }
        #expect(harness.admission.known.deviceTokens == 500)
        #expect(try (0..<300).count { try harness.isUnproven($0) == false } == 300)
        #expect(try (300..<400).count { try harness.submit(to: $0).reason == .senderKeyRequired } == 100)
        #expect(
            try (400..<500).count { try harness.submit(to: $0, on: .tor(UInt32($0 % 10))).reason == .unregistered }
                == 100
        )
    }

    @Test func `an outcome for an evicted device token is still recorded`() throws {
        for (outcome, reason) in [(.delivered(), nil), (.gone(since: nil), .unregistered)] as [(Outcome, Reason?)] {
            let harness = makeHarness { $0.deviceTokens = 1 }
            let answer = try harness.submit(to: 1)
            try harness.send(to: 2, .rejected(.payloadRefused))
            harness.conclude(answer, outcome)
            #expect(try harness.submit(to: 1).reason == reason)
            #expect(harness.admission.known.deviceTokens == 1)
        }
    }

    @Test func `with no room, only a delivery evicts a proven device token`() throws {
        let harness = makeHarness { $0.deviceTokens = 1 }
        try harness.send(to: 1, .delivered())
        for outcome in [.retry(.providerUnreachable, after: 1), .rejected(.badDeviceToken), .gone(since: nil)]
            as [Outcome]
        {
            try harness.send(to: 2, outcome)
            #expect(harness.admission.known.deviceTokens == 1)
            #expect(try harness.isUnproven(1) == false)
        }
        // A record of the same rank replaces it.
        harness.pass(BadTokens.answerTime)
        try harness.send(to: 2, .delivered())
        #expect(try harness.isUnproven(2) == false)
        #expect(try harness.isUnproven(1) == true)
    }

    // MARK: Clock steps

    @Test(arguments: [-1, -1000, -20_000])
    func `a clock that is set back and corrected changes no standing`(days: Int) throws {
        let harness = makeHarness()
        let key = try Ed25519Key.numbered(1)
        try harness.send(to: 1, by: key, .delivered())
        try harness.send(to: 2, .delivered())
        try harness.send(to: 3, .gone(since: nil))
        let right = harness.unix
        harness.unix += Int64(days) * 86_400
        func check() throws {
            for _ in 0..<100 { harness.tick() }
            #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
            #expect(try harness.isUnproven(1, by: key) == false)
            #expect(try harness.isUnproven(2) == false)
            #expect(try harness.submit(to: 3).reason == .unregistered)
        }
        try check()
        try harness.send(to: 1, by: key, .delivered())
        try harness.send(to: 2, .delivered())
        try check()
        harness.unix = right
        try check()
    }

    @Test func `standing learned while the clock is behind survives the correction`() throws {
        let harness = makeHarness()
        let key = try Ed25519Key.numbered(1)
        for device in 1...2 { try harness.send(to: device, .delivered()) }
        harness.unix -= 1000 * 86_400
        try harness.send(to: 1, by: key, .delivered())
        try harness.send(to: 2, .gone(since: nil))
        harness.unix = 1_760_000_000
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
        #expect(try harness.isUnproven(1, by: key) == false)
        #expect(try harness.submit(to: 2).reason == .unregistered)
    }

    @Test func `a clock that was years ahead does not hide a death once it is corrected`() throws {
        let harness = makeHarness()
        harness.unix += 3 * 365 * 86_400
        try harness.send(to: 1, .delivered())
        harness.unix = 1_760_000_000
        try harness.send(to: 1, .gone(since: 1_759_990_000_000))
        #expect(try harness.submit(to: 1).refusal?.outcome == .gone(since: 1_759_990_000_000))
    }

    @Test func `a clock jump of less than the retention time loses nothing`() throws {
        let harness = makeHarness()
        let key = try Ed25519Key.numbered(1)
        try harness.send(to: 1, by: key, .delivered())
        try harness.send(to: 2, .gone(since: nil))
        harness.unix += 29 * 86_400
        for _ in 0..<3600 { harness.tick() }
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
        #expect(try harness.submit(to: 2).reason == .unregistered)
    }

    @Test(arguments: [0, -1, -1_000_000, 1, 2_400_000_000, 4_000_000_000, 100_000_000_000] as [Int64])
    func `standing is learned and kept at any Unix time`(unix: Int64) throws {
        let harness = makeHarness()
        harness.unix = unix
        let key = try Ed25519Key.numbered(1)
        for _ in 0..<2 {
            try harness.send(to: 1, by: key, .delivered())
            try harness.send(to: 3, .gone(since: .max))
            for _ in 0..<100 { harness.tick() }
            #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
            #expect(try harness.isUnproven(1, by: key) == false)
            #expect(try harness.submit(to: 3).reason == .unregistered)
        }
    }
}
