// SPDX-License-Identifier: Apache-2.0

import Simulator
import TNP
import Testing

@testable import Admission

/// What the store is told, and what a new process knows by it.
extension AdmissionTests {
    /// A store that works.
    private struct Store {
        private(set) var rows: [UInt64: StandingRow] = [:]

        var all: [StandingRow] { rows.values.sorted { ($1.day, $0.token) < ($0.day, $1.token) } }

        mutating func save(_ changes: Admission.Changes?) {
            guard let changes else { return }
            #expect(Set(changes.rows.map(\.token)).count == changes.rows.count)
            for token in changes.forgotten { rows[token] = nil }
            for row in changes.rows { rows[row.token] = row }
        }
    }

    private func makeHouse(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let house = AdmissionHarness(change)
        house.connect()
        return house
    }

    // MARK: Changes

    @Test func `when nothing is known there is nothing to save`() throws {
        let house = makeHouse()
        #expect(house.takeChanges() == nil)
        for device in 1...10 { try house.send(to: device, .rejected(.payloadRefused)) }
        #expect(house.takeChanges() == nil)
    }

    @Test func `each change is handed out once`() throws {
        let house = makeHouse()
        let key = try Ed25519Key.numbered(1)
        try house.send(to: 1, .delivered())
        try house.send(to: 2, by: key, .delivered())
        try house.send(to: 3, .gone(since: 5))
        let changes = try #require(house.takeChanges())
        #expect(changes.forgotten.isEmpty)
        #expect(changes.rows.map(\.standing) == [1, 1, 2])
        #expect(changes.rows.map { $0.sender != 0 } == [false, true, false])
        #expect(changes.rows.map(\.since) == [1_760_000_000_000, 1_760_000_000_000, 5])
        #expect(changes.rows.map(\.day) == [20_370, 20_370, 20_370])
        #expect(house.takeChanges() == nil)
    }

    @Test func `only the first delivery of a day to a proven device token is saved`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        #expect(house.takeChanges()?.rows.count == 1)
        for _ in 0..<5 {
            for _ in 0..<10 { try house.send(to: 1, .delivered()) }
            #expect(house.takeChanges() == nil)
            house.pass(days: 1)
            for _ in 0..<10 { try house.send(to: 1, .delivered()) }
            #expect(house.takeChanges()?.rows.count == 1)
        }
    }

    @Test func `no delivery to a proven device token is saved while the clock is behind`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        #expect(house.takeChanges()?.rows.count == 1)
        house.unix -= 100 * 86_400
        for _ in 0..<10 { try house.send(to: 1, .delivered()) }
        #expect(house.takeChanges() == nil)
    }

    @Test func `a bound record whose proof has expired is saved as unproven`() throws {
        let house = makeHouse {
            $0.provenDays = 90
            $0.senderForgetDays = 180
        }
        try house.send(to: 1, by: .numbered(1), .delivered())
        #expect(house.takeChanges()?.rows.first?.standing == 1)
        house.pass(days: 90)
        for _ in 0..<100 { house.tick() }
        let changes = try #require(house.takeChanges())
        #expect(changes.rows.count == 1 && changes.forgotten.isEmpty)
        #expect(changes.rows.first?.standing == 0 && changes.rows.first?.sender != 0)
    }

    @Test func `changes are handed out in bounded batches until none are left`() throws {
        let house = makeHouse()
        var store = Store()
        for device in 0..<95 { try house.send(to: device, .delivered()) }
        for (count, total) in zip([40, 40, 15], [40, 80, 95]) {
            let changes = house.takeChanges(atMost: 40)
            #expect(changes?.rows.count == count)
            store.save(changes)
            #expect(store.rows.count == total)
        }
        #expect(house.takeChanges(atMost: 40) == nil)
        house.admission.settings.abuse = AdmissionHarness.wide
        for device in 0..<95 { try house.send(to: device, .rejected(.badDeviceToken)) }
        for total in [55, 15, 0] {
            let changes = house.takeChanges(atMost: 40)
            #expect(changes?.forgotten.count ?? 0 <= 40)
            store.save(changes)
            #expect(store.rows.count == total)
        }
        #expect(house.takeChanges(atMost: 40) == nil)
    }

    @Test func `a record that changed several times is saved once, in its latest state`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        house.pass(.seconds(1))
        try house.send(to: 1, by: .numbered(1), .delivered())
        try house.send(to: 1, by: .numbered(1), .gone(since: nil))
        let changes = try #require(house.takeChanges())
        #expect(changes.rows.count == 1 && changes.forgotten.isEmpty)
        #expect(changes.rows.first?.standing == 2 && changes.rows.first?.sender == 0)
    }

    @Test func `a record that is no longer persistent is removed from the store`() throws {
        let house = makeHouse()
        var store = Store()
        try house.send(to: 1, .delivered())
        try house.send(to: 2, .delivered())
        store.save(house.takeChanges())
        #expect(store.rows.count == 2)
        try house.send(to: 1, .rejected(.badDeviceToken))
        let changes = try #require(house.takeChanges())
        #expect(changes.rows.isEmpty && changes.forgotten.count == 1)
        store.save(changes)
        #expect(store.rows.count == 1)
        // The other by its age.
        house.pass(days: 180)
        for _ in 0..<3600 { house.tick() }
        store.save(house.takeChanges())
        #expect(store.rows.isEmpty)
        #expect(house.takeChanges() == nil)
    }

    @Test func `a record that is removed and returns between two saves is kept`() throws {
        let house = makeHouse()
        var store = Store()
        try house.send(to: 1, .delivered())
        store.save(house.takeChanges())
        try house.send(to: 1, .rejected(.badDeviceToken))
        try house.send(to: 1, .delivered())
        store.save(house.takeChanges())
        #expect(store.rows.count == 1)
    }

    @Test func `an evicted record is removed from the store unless it has returned`() throws {
        let house = makeHouse { $0.deviceTokens = 1 }
        var store = Store()
        for device in [1, 2, 1, 2, 2, 1] {
            try house.send(to: device, .delivered())
            store.save(house.takeChanges())
            #expect(store.rows.count == 1)
        }
        // All between two saves.
        for device in [2, 1, 2, 1, 2, 1, 2, 1] { try house.send(to: device, .delivered()) }
        store.save(house.takeChanges())
        #expect(store.rows.count == 1)
        house.restart(store.all)
        house.connect()
        #expect(try house.isUnproven(1) == false)
    }

    // MARK: Restart

    @Test func `after a restart proven, dead and bound records are known and nothing needs saving`() throws {
        let house = makeHouse()
        var store = Store()
        let (owner, thief) = (try Ed25519Key.numbered(1), try Ed25519Key.numbered(2))
        try house.send(to: 1, .delivered())
        try house.send(to: 2, .gone(since: 1_750_000_000_000))
        try house.send(to: 3, by: owner, .delivered())
        try house.send(to: 4, .rejected(.badDeviceToken))
        store.save(house.takeChanges())
        for _ in 0..<3 {
            house.restart(store.all)
            #expect(house.takeChanges() == nil)
            #expect(house.admission.known.deviceTokens == 3)
            house.connect()
            #expect(try house.isUnproven(1) == false)
            #expect(try house.submit(to: 2).refusal?.outcome == .gone(since: 1_750_000_000_000))
            #expect(try house.submit(to: 3, by: thief).reason == .senderKeyMismatch)
            #expect(try house.isUnproven(3, by: owner) == false)
            #expect(try house.isUnproven(4) == true)
            #expect(house.takeChanges() == nil)
        }
    }

    @Test func `a bound device token that was reported bad stays bound across a restart`() throws {
        let house = makeHouse()
        var store = Store()
        try house.send(to: 1, by: .numbered(1), .delivered())
        try house.send(to: 1, by: .numbered(1), .rejected(.badDeviceToken))
        store.save(house.takeChanges())
        house.restart(store.all)
        house.connect()
        #expect(try house.submit(to: 1, by: .numbered(2)).reason == .senderKeyMismatch)
        #expect(try house.isUnproven(1, by: .numbered(1)) == true)
    }

    @Test func `rows that are too old are dropped on restart and removed from the store`() throws {
        let house = makeHouse { $0.senderForgetDays = 90 }
        var store = Store()
        for device in 1...10 { try house.send(to: device, .delivered()) }
        for device in 11...15 { try house.send(to: device, .gone(since: nil)) }
        for device in 16...25 { try house.send(to: device, by: .numbered(1), .delivered()) }
        store.save(house.takeChanges())
        // Days away, what is known, and what the store is told to forget.
        for (days, known, forgotten) in [
            (29, 25, 0), (30, 20, 5), (89, 20, 0), (90, 20, 0), (179, 20, 0), (180, 0, 20),
        ] {
            house.unix = 1_760_000_000 + Int64(days) * 86_400
            house.restart(store.all)
            #expect(house.admission.known.deviceTokens == known, "\(days) days")
            let changes = house.takeChanges()
            #expect(changes?.forgotten.count ?? 0 == forgotten, "\(days) days")
            #expect(changes?.rows.isEmpty != false)
            store.save(changes)
            #expect(store.rows.count == known)
            if days == 90 {
                house.connect()
                #expect(try house.isUnproven(16) == false)
            }
        }
    }

    @Test func `a clock that is set back before a restart loses nothing`() throws {
        let house = makeHouse()
        var store = Store()
        try house.send(to: 1, by: .numbered(1), .delivered())
        try house.send(to: 2, .gone(since: nil))
        store.save(house.takeChanges())
        house.unix = 1000
        house.restart(store.all)
        house.connect()
        try house.send(to: 1, by: .numbered(1), .delivered())
        store.save(house.takeChanges())
        house.unix = 1_760_000_000
        house.restart(store.all)
        house.connect()
        #expect(try house.submit(to: 1).reason == .senderKeyRequired)
        #expect(try house.isUnproven(1, by: .numbered(1)) == false)
        #expect(try house.submit(to: 2).reason == .unregistered)
    }

    @Test func `a restart with a smaller capacity keeps the highest-ranked rows and removes the others`() throws
    {
        let house = makeHouse()
        var store = Store()
        for device in 1...10 { try house.send(to: device, .gone(since: nil)) }
        for device in 11...20 { try house.send(to: device, .delivered()) }
        house.unix -= 20 * 86_400
        for device in 21...30 { try house.send(to: device, by: .numbered(1), .delivered()) }
        house.unix += 20 * 86_400
        store.save(house.takeChanges())
        #expect(store.rows.count == 30)
        // In any order.
        for rows in [store.all, store.all.reversed()] {
            house.restart(rows) { $0.deviceTokens = 15 }
            house.connect()
            #expect(house.admission.known.deviceTokens == 15)
            var smaller = store
            smaller.save(house.takeChanges())
            #expect(smaller.rows.count == 15)
            #expect(smaller.rows.values.count { $0.sender != 0 } == 10)
            #expect(smaller.rows.values.count { $0.standing == 1 } == 15)
        }
    }

    @Test func `invalid rows are dropped and removed from the store`() throws {
        let house = makeHouse()
        let rows = [
            StandingRow(token: 0, standing: 1, since: 1, day: 20_370, sender: 0),
            StandingRow(token: 0, standing: 0, since: 1, day: 20_370, sender: 7),
            StandingRow(token: 1, standing: 0, since: 1, day: 20_370, sender: 0),
            StandingRow(token: 2, standing: 3, since: 1, day: 20_370, sender: 0),
            StandingRow(token: 3, standing: 255, since: .max, day: .max, sender: 0),
            StandingRow(token: 4, standing: 1, since: .max, day: .max, sender: .max),
            StandingRow(token: .max, standing: 2, since: 0, day: .max, sender: 0),
        ]
        house.restart(rows + rows)
        #expect(house.admission.known.deviceTokens == 2)
        #expect(Set(house.takeChanges()?.forgotten ?? []) == [0, 1, 2, 3])
        for _ in 0..<100 { house.tick() }
        #expect(house.admission.known.deviceTokens == 2)
        #expect(house.takeChanges() == nil)
    }

    // MARK: A store that fails

    @Test func `changes that could not be saved are handed out again in their latest state`() throws {
        let house = makeHouse()
        try house.send(to: 1, .delivered())
        try house.send(to: 2, .delivered())
        let first = try #require(house.takeChanges())
        house.pass(.seconds(1))
        try house.send(to: 2, .gone(since: nil))
        try house.send(to: 3, .delivered())
        house.admission.requeue(first)
        let second = try #require(house.takeChanges())
        #expect(second.rows.count == 3)
        #expect(second.rows.map(\.standing).sorted() == [1, 1, 2])
        house.admission.requeue(second)
        house.admission.requeue(second)
        #expect(house.takeChanges()?.rows.count == 3)
        #expect(house.takeChanges() == nil)
    }

    @Test func `removals that could not be saved are handed out again unless the record has returned`() throws {
        let house = makeHouse()
        var store = Store()
        for device in [1, 2] { try house.send(to: device, .delivered()) }
        store.save(house.takeChanges())
        for device in [1, 2] { try house.send(to: device, .rejected(.badDeviceToken)) }
        let changes = try #require(house.takeChanges())
        #expect(changes.forgotten.count == 2)
        try house.send(to: 1, .delivered())
        house.admission.requeue(changes)
        store.save(house.takeChanges())
        #expect(store.rows.count == 1)
        #expect(store.rows.values.first?.standing == 1)
    }

    @Test func `records evicted while the store failed are removed once it works`() throws {
        let house = makeHouse { $0.deviceTokens = 5 }
        var store = Store()
        for device in 1...5 { try house.send(to: device, .delivered()) }
        store.save(house.takeChanges())
        for device in 6...7 { try house.send(to: device, .delivered()) }
        let failed = try #require(house.takeChanges())
        for device in 8...9 { try house.send(to: device, .delivered()) }
        house.admission.requeue(failed)
        store.save(house.takeChanges())
        #expect(store.rows.count == 5)
        house.restart(store.all)
        house.connect()
        #expect(try house.isUnproven(9) == false)
    }

    @Test func `pending changes stay bounded while the store fails`() throws {
        let house = makeHouse { $0.deviceTokens = 50 }
        for device in 0..<3000 {
            try house.send(to: device, .delivered())
            if device % 10 == 0, let changes = house.takeChanges() {
                #expect(changes.rows.count <= 50 && changes.forgotten.count <= 100)
                house.admission.requeue(changes)
            }
        }
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func `after random changes and failed saves the store matches the table`(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let house = makeHouse {
            $0.deviceTokens = 30
            $0.abuse = Rate(burst: 10_000, perMinute: 100_000)
        }
        var store = Store()
        var underWay: Admission.Changes?
        for _ in 0..<3000 {
            house.pass(.seconds(generator.below(20_000)))
            let outcomes: [Outcome] = [
                .delivered(), .delivered(), .rejected(.badDeviceToken), .gone(since: nil), .rejected(.payloadRefused),
            ]
            let device = generator.below(60)
            let key = try generator.below(3) == 0 ? Ed25519Key.numbered(UInt8(device)) : nil
            try house.send(to: device, by: key, outcomes[generator.below(5)])
            if generator.below(3) == 0 { house.tick() }
            guard generator.below(4) == 0 else { continue }
            // One save at a time; half of them fail.
            if let changes = underWay {
                if generator.below(2) == 0 { store.save(changes) } else { house.admission.requeue(changes) }
                underWay = nil
            } else {
                underWay = house.takeChanges(atMost: 1 + generator.below(20))
            }
        }
        if let underWay { house.admission.requeue(underWay) }
        while let changes = house.takeChanges(atMost: 3) { store.save(changes) }
        let known = store.rows.keys.count { house.admission.tokens[$0] != nil }
        #expect(known == store.rows.count)
        for (token, row) in store.rows {
            let record = try #require(house.admission.tokens[token])
            // The moment of the last delivery is of use in memory only.
            #expect(row.standing == record.standing.rawValue && row.sender == record.sender && row.day == record.day)
        }
        var worthKeeping = 0
        for _ in 0..<10 {
            house.admission.tokens.sweep { record in
                if record.isPersistent { worthKeeping += 1 }
                return true
            }
        }
        #expect(worthKeeping == store.rows.count)
    }
}
