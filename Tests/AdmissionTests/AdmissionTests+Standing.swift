// SPDX-License-Identifier: Apache-2.0

import TNP
import Testing

@testable import Admission

/// The standing of device tokens, and what Unix time does to it.
extension AdmissionTests {
    /// A gatehouse with one connection of circuit 1.
    private func makeHouse(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let house = AdmissionHarness(change)
        house.connect()
        return house
    }

    // MARK: Proven, dead and back

    @Test func `only a delivery proves an unknown device token`() throws {
        let house = makeHouse()
        let others: [Outcome] = [
            .retry(.providerUnreachable, after: 1), .rejected(.payloadRefused), .rejected(.badDeviceToken),
            .rejected(.ttlRanOut), .retry(.credentialsRefused, after: 1),
        ]
        for (device, outcome) in others.enumerated() {
            try house.send(to: device, outcome)
            #expect(try house.isUnproven(device) == true, "\(outcome)")
        }
        try house.send(to: 9, .delivered())
        #expect(try house.isUnproven(9) == false)
    }

    @Test func `a proven device token stays proven unless the push service reports it bad`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        for outcome in [.retry(.providerUnreachable, after: 1), .rejected(.payloadRefused), .rejected(.ttlRanOut)]
            as [Outcome]
        {
            try house.send(to: 1, outcome)
            #expect(try house.isUnproven(1) == false, "\(outcome)")
        }
        try house.send(to: 1, .rejected(.badDeviceToken))
        #expect(try house.isUnproven(1) == true)
        try house.send(to: 1, .delivered())
        #expect(try house.isUnproven(1) == false)
    }

    @Test func `a dead device token is answered GONE at once, with the time that the push service named`() throws
    {
        let house = makeHouse { $0.node = Rate(burst: 2, perMinute: 1) }
        try house.send(to: 1, .delivered())
        house.pass(.seconds(100))
        try house.send(to: 1, .gone(since: 1_760_000_050_000))
        for _ in 0..<10 {
            let refusal = try #require(try house.submit(to: 1).refusal)
            #expect(refusal.outcome == .gone(since: 1_760_000_050_000))
            #expect(refusal.goAway == nil && refusal.puzzle == nil)
        }
    }

    @Test func `a death without a named time counts from now`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        house.pass(.seconds(100))
        try house.send(to: 1, .gone(since: nil))
        #expect(try house.submit(to: 1).refusal?.outcome == .gone(since: 1_760_000_100_000))
    }

    @Test func `every submission to a dead device token is charged, including the one that found it dead`() throws {
        let house = makeHouse()
        #expect(try house.send(to: 1, .gone(since: nil)) == nil)
        for _ in 2...19 { #expect(try house.submit(to: 1).refusal?.goAway == nil) }
        let last = try #require(try house.submit(to: 1).refusal)
        // He is told both.
        #expect(last.outcome?.kind == .gone)
        #expect(last.goAway?.code == .abuse)
    }

    @Test func `a death older than the last delivery is not believed and not charged`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        for since in [0, 1, 1_759_999_999_999] as [UInt64] {
            for _ in 0..<20 { #expect(try house.send(to: 1, .gone(since: since)) == nil) }
            #expect(try house.isUnproven(1) == false)
        }
        // The last delivery counts, not the first.
        house.pass(.seconds(1000))
        try house.send(to: 1, .delivered())
        try house.send(to: 1, .gone(since: 1_760_000_999_999))
        #expect(try house.isUnproven(1) == false)
        try house.send(to: 1, .gone(since: 1_760_001_000_000))
        #expect(try house.submit(to: 1).refusal?.outcome?.kind == .gone)
    }

    @Test func `a device token that was never proven is dead whatever time is named`() throws {
        let house = makeHouse()
        try house.send(to: 1, .gone(since: 0))
        #expect(try house.submit(to: 1).refusal?.outcome == .gone(since: 0))
    }

    @Test func `a delivery after death makes a device token proven again`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        let underWay = try house.submit(to: 1)
        try house.send(to: 1, .gone(since: nil))
        #expect(try house.submit(to: 1).reason == .unregistered)
        house.pass(.seconds(1))
        house.conclude(underWay)
        #expect(try house.isUnproven(1) == false)
        // The death that it has outlived is not believed any more.
        try house.send(to: 1, .gone(since: 1_760_000_000_000))
        #expect(try house.isUnproven(1) == false)
    }

    @Test func `APNs environments share a device token; FCM and each app have their own`() throws {
        let house = makeHouse()
        func isUnproven(_ magic: Magic, app: String = "app") throws -> Bool? {
            let answer = house.submit(try house.envelope(for: 1, magic: magic), app: app)
            return answer.ticket?.isUnproven
        }
        try house.send(to: 1, .delivered())
        #expect(try isUnproven(.iOS) == false)
        #expect(try isUnproven(.iOSDev) == false)
        #expect(try isUnproven(.android) == true)
        #expect(try isUnproven(.iOS, app: "other") == true)
    }

    @Test func `upper and lower case spellings of an APNs device token share one allowance`() throws
    {
        let house = makeHouse { $0.device = Rate(burst: 6, perMinute: 1) }
        let spellings = ["abcdef0123456789", "ABCDEF0123456789", "aBcDeF0123456789"]
        var admitted = 0
        for _ in 0..<10 {
            for token in spellings where house.submit(try house.envelope(for: 0, token: token)).isAdmitted {
                admitted += 1
            }
        }
        #expect(admitted == 6)
        // Google's letters are two.
        for token in spellings {
            #expect(house.submit(try house.envelope(for: 0, magic: .android, token: token)).isAdmitted)
        }
        #expect(house.admission.known.deviceTokens == 4)
    }

    // MARK: Age

    @Test func `a proven device token expires after provenDays without use, and not a day earlier`() throws {
        for (days, isUnproven) in [(179, false), (180, true), (5000, true)] {
            let house = makeHouse()
            try house.send(to: 1, .delivered())
            house.pass(days: days)
            #expect(try house.isUnproven(1) == isUnproven, "\(days) days")
            // What has aged does not become young by being used.
            #expect(try house.isUnproven(1) == isUnproven, "\(days) days")
        }
    }

    @Test func `use keeps a device token proven`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        for _ in 0..<10 {
            house.pass(days: 150)
            #expect(try house.isUnproven(1) == false)
        }
    }

    @Test func `a dead device token is tried again after deadDays, and not a day earlier`() throws {
        for (days, isDead) in [(0, true), (29, true), (30, false), (5000, false)] {
            let house = makeHouse()
            try house.send(to: 1, .gone(since: nil))
            house.pass(days: days)
            let answer = try house.submit(to: 1)
            #expect(answer.isAdmitted == !isDead, "\(days) days")
            #expect(answer.ticket?.isUnproven == (isDead ? nil : true), "\(days) days")
        }
    }

    @Test func `submissions do not keep a device token dead`() throws {
        let house = makeHouse()
        try house.send(to: 1, .gone(since: nil))
        for _ in 1...29 {
            house.pass(days: 1)
            #expect(try house.submit(to: 1).reason == .unregistered)
        }
        house.pass(days: 1)
        #expect(try house.submit(to: 1).isAdmitted)
    }

    @Test func `new values of provenDays and deadDays take effect immediately`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        try house.send(to: 2, .gone(since: nil))
        house.pass(days: 10)
        #expect(try house.submit(to: 2).reason == .unregistered)
        house.admission.settings.deadDays = 10
        #expect(try house.submit(to: 2).isAdmitted)
        house.admission.settings.provenDays = 10
        #expect(try house.isUnproven(1) == true)
    }

    // MARK: Sweeping

    @Test func `a record that is no longer useful is removed within an hour`() throws {
        let house = makeHouse { $0.device = Rate(burst: 20, perMinute: 1) }
        for device in 0..<200 {
            try house.send(to: device, device < 100 ? .rejected(.payloadRefused) : .delivered())
        }
        #expect(house.admission.known.deviceTokens == 200)
        // Each has used 1 of its 20.
        for _ in 0..<59 { house.tick() }
        #expect(house.admission.known.deviceTokens == 200)
        for _ in 0..<3600 { house.tick() }
        #expect(house.admission.known.deviceTokens == 100)
        house.pass(days: 180)
        for _ in 0..<3600 { house.tick() }
        #expect(house.admission.known.deviceTokens == 0)
    }

    @Test func `sweeping removes no allowance, standing or key before its time`() throws {
        let house = makeHouse { $0.device = Rate(burst: 4, perMinute: 1) }
        let key = try Ed25519Key.numbered(1)
        try house.send(to: 1, by: key, .delivered())
        try house.send(to: 2, .delivered())
        try house.send(to: 3, .gone(since: nil))
        house.pass(days: 29)
        for _ in 0..<3600 { house.tick() }
        #expect(try house.admitted(of: 10, to: 4) == 4)
        for _ in 0..<50 { house.tick() }
        #expect(try house.submit(to: 4).reason == .deviceTokenOverRate)
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
        #expect(try house.isUnproven(1, by: key) == false)
        #expect(try house.isUnproven(2) == false)
        #expect(try house.submit(to: 3).reason == .unregistered)
    }

    // MARK: Capacity

    @Test func `a flood of unknown device tokens evicts no proven, dead or bound one`() throws {
        let house = AdmissionHarness { $0.deviceTokens = 500 }
        let key = try Ed25519Key.numbered(1)
        for id in 0..<10 as Range<UInt32> { house.connect(.tor(id)) }
        for device in 0..<300 { try house.send(to: device, .delivered()) }
        for device in 300..<400 { try house.send(to: device, by: key, .delivered()) }
        for device in 400..<500 { try house.send(to: device, on: .tor(UInt32(device % 10)), .gone(since: 7)) }
        house.pass(days: 29)
        for device in 1000..<6000 { try house.send(to: device, .rejected(.payloadRefused)) }
        #expect(house.admission.known.deviceTokens == 500)
        #expect(try (0..<300).count { try house.isUnproven($0) == false } == 300)
        #expect(try (300..<400).count { try house.submit(to: $0).reason == .senderKeyRequired } == 100)
        #expect(
            try (400..<500).count { try house.submit(to: $0, on: .tor(UInt32($0 % 10))).reason == .unregistered } == 100
        )
    }

    @Test func `an outcome for an evicted device token is still recorded`() throws {
        for (outcome, reason) in [(.delivered(), nil), (.gone(since: nil), .unregistered)] as [(Outcome, Reason?)] {
            let house = makeHouse { $0.deviceTokens = 1 }
            let answer = try house.submit(to: 1)
            try house.send(to: 2, .rejected(.payloadRefused))
            house.conclude(answer, outcome)
            #expect(try house.submit(to: 1).reason == reason)
            #expect(house.admission.known.deviceTokens == 1)
        }
    }

    @Test func `with no room, only a delivery evicts a proven device token`() throws {
        let house = makeHouse { $0.deviceTokens = 1 }
        try house.send(to: 1, .delivered())
        for outcome in [.retry(.providerUnreachable, after: 1), .rejected(.badDeviceToken), .gone(since: nil)]
            as [Outcome]
        {
            try house.send(to: 2, outcome)
            #expect(house.admission.known.deviceTokens == 1)
            #expect(try house.isUnproven(1) == false)
        }
        // What is worth as much takes its place.
        try house.send(to: 2, .delivered())
        #expect(try house.isUnproven(2) == false)
        #expect(try house.isUnproven(1) == true)
    }

    // MARK: Clock steps

    @Test(arguments: [-1, -1000, -20_000])
    func `a clock that is set back and corrected changes no standing`(days: Int) throws {
        let house = makeHouse()
        let key = try Ed25519Key.numbered(1)
        try house.send(to: 1, by: key, .delivered())
        try house.send(to: 2, .delivered())
        try house.send(to: 3, .gone(since: nil))
        let right = house.unix
        house.unix += Int64(days) * 86_400
        func check() throws {
            for _ in 0..<100 { house.tick() }
            #expect(try house.submit(to: 1).reason == .senderKeyRequired)
            #expect(try house.isUnproven(1, by: key) == false)
            #expect(try house.isUnproven(2) == false)
            #expect(try house.submit(to: 3).reason == .unregistered)
        }
        try check()
        try house.send(to: 1, by: key, .delivered())
        try house.send(to: 2, .delivered())
        try check()
        house.unix = right
        try check()
    }

    @Test func `standing learned while the clock is behind survives the correction`() throws {
        let house = makeHouse()
        let key = try Ed25519Key.numbered(1)
        for device in 1...2 { try house.send(to: device, .delivered()) }
        house.unix -= 1000 * 86_400
        try house.send(to: 1, by: key, .delivered())
        try house.send(to: 2, .gone(since: nil))
        house.unix = 1_760_000_000
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
        #expect(try house.isUnproven(1, by: key) == false)
        #expect(try house.submit(to: 2).reason == .unregistered)
    }

    @Test func `a clock that was years ahead does not hide a death once it is corrected`() throws {
        let house = makeHouse()
        house.unix += 3 * 365 * 86_400
        try house.send(to: 1, .delivered())
        house.unix = 1_760_000_000
        try house.send(to: 1, .gone(since: 1_759_990_000_000))
        #expect(try house.submit(to: 1).refusal?.outcome == .gone(since: 1_759_990_000_000))
    }

    @Test func `a clock jump of less than the retention time loses nothing`() throws {
        let house = makeHouse()
        let key = try Ed25519Key.numbered(1)
        try house.send(to: 1, by: key, .delivered())
        try house.send(to: 2, .gone(since: nil))
        house.unix += 29 * 86_400
        for _ in 0..<3600 { house.tick() }
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
        #expect(try house.submit(to: 2).reason == .unregistered)
    }

    @Test(arguments: [0, -1, -1_000_000, 1, 2_400_000_000, 4_000_000_000, 100_000_000_000] as [Int64])
    func `standing is learned and kept at any Unix time`(unix: Int64) throws {
        let house = makeHouse()
        house.unix = unix
        let key = try Ed25519Key.numbered(1)
        for _ in 0..<2 {
            try house.send(to: 1, by: key, .delivered())
            try house.send(to: 3, .gone(since: .max))
            for _ in 0..<100 { house.tick() }
            #expect(try house.submit(to: 1).reason == .senderKeyRequired)
            #expect(try house.isUnproven(1, by: key) == false)
            #expect(try house.submit(to: 3).reason == .unregistered)
        }
    }
}
