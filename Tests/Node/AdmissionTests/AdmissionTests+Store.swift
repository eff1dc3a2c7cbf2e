// SPDX-License-Identifier: Apache-2.0

import StandIns
import TNP
import Testing

@testable import Admission

/// The changes handed to the store, and what a new process knows from them.
extension AdmissionTests {
    /// A store that works.
    private struct Store {
        private(set) var rows: [UInt64: TokenRecord] = [:]

        var all: [TokenRecord] { rows.values.sorted { ($1.day, $0.token) < ($0.day, $1.token) } }

        mutating func save(_ changes: Admission.Changes?) {
            guard let changes else { return }
            #expect(Set(changes.records.map(\.token)).count == changes.records.count)
            for token in changes.forgotten { rows[token] = nil }
            for row in changes.records { rows[row.token] = row }
        }
    }

    private func makeHarness(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let harness = AdmissionHarness(change)
        harness.connect()
        return harness
    }

    // MARK: Changes

    @Test func `when nothing is known there is nothing to save`() throws {
        let harness = makeHarness()
        #expect(harness.takeChanges() == nil)
        for device in 1...10 { try harness.send(to: device, .rejected(.payloadRefused)) }
        #expect(harness.takeChanges() == nil)
    }

    @Test func `each change is handed out once`() throws {
        let harness = makeHarness()
        let key = try Ed25519Key.numbered(1)
        try harness.send(to: 1, .delivered())
        try harness.send(to: 2, by: key, .delivered())
        try harness.send(to: 3, .gone(since: 5))
        let changes = try #require(harness.takeChanges())
        #expect(changes.forgotten.isEmpty)
        #expect(changes.records.map(\.standing.rawValue) == [1, 1, 2])
        #expect(changes.records.map { $0.binding != 0 } == [false, true, false])
        #expect(changes.records.map(\.since) == [1_760_000_000_000, 1_760_000_000_000, 5])
        #expect(changes.records.map(\.day) == [20_370, 20_370, 20_370])
        #expect(harness.takeChanges() == nil)
    }

    @Test func `changes beyond the list are found in the table`() throws {
        let harness = makeHarness()
        harness.admission.maximumListed = 5
        for device in 1...23 { try harness.send(to: device, .delivered()) }
        let pending = harness.admission.tables.first { $0.name == "unsaved device tokens" }
        #expect(pending?.entries == 5)
        var tokens: Set<UInt64> = []
        while let changes = harness.takeChanges(atMost: 3) {
            if tokens.isEmpty { harness.admission.requeue(changes) }
            for record in changes.records { tokens.insert(record.token) }
        }
        #expect(tokens.count == 23)
        #expect(harness.takeChanges() == nil)
    }

    @Test func `at the end, one transaction after another writes neighbours of the store`() throws {
        let harness = makeHarness()
        for device in 1...60 { try harness.send(to: device, .delivered()) }
        harness.admission.orderChanges()
        var tokens: [Int64] = []
        while let changes = harness.takeChanges(atMost: 7) {
            #expect(changes.records.count <= 7)
            tokens = changes.records.map { Int64(bitPattern: $0.token) } + tokens
        }
        #expect(tokens.count == 60 && tokens == tokens.sorted())
    }

    @Test func `only the first delivery of a day to a proven device token is saved`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        #expect(harness.takeChanges()?.records.count == 1)
        for _ in 0..<5 {
            for _ in 0..<10 { try harness.send(to: 1, .delivered()) }
            #expect(harness.takeChanges() == nil)
            harness.pass(days: 1)
            for _ in 0..<10 { try harness.send(to: 1, .delivered()) }
            #expect(harness.takeChanges()?.records.count == 1)
        }
    }

    @Test func `no delivery to a proven device token is saved while the clock is behind`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        #expect(harness.takeChanges()?.records.count == 1)
        harness.unix -= 100 * 86_400
        for _ in 0..<10 { try harness.send(to: 1, .delivered()) }
        #expect(harness.takeChanges() == nil)
    }

    @Test func `a bound record whose proof has expired is saved as unproven`() throws {
        let harness = makeHarness {
            $0.provenDays = 90
            $0.senderForgetDays = 180
        }
        try harness.send(to: 1, by: .numbered(1), .delivered())
        #expect(harness.takeChanges()?.records.first?.standing == .proven)
        harness.pass(days: 90)
        for _ in 0..<100 { harness.tick() }
        let changes = try #require(harness.takeChanges())
        #expect(changes.records.count == 1 && changes.forgotten.isEmpty)
        #expect(changes.records.first?.standing == .unproven && changes.records.first?.binding != 0)
    }

    @Test func `changes are handed out in bounded batches until none are left`() throws {
        let harness = makeHarness()
        var store = Store()
        for device in 0..<95 { try harness.send(to: device, .delivered()) }
        for (count, total) in zip([40, 40, 15], [40, 80, 95]) {
            let changes = harness.takeChanges(atMost: 40)
            #expect(changes?.records.count == count)
            store.save(changes)
            #expect(store.rows.count == total)
        }
        #expect(harness.takeChanges(atMost: 40) == nil)
        harness.admission.settings.abuse = AdmissionHarness.wide
        for device in 0..<95 { try harness.send(to: device, .rejected(.badDeviceToken)) }
        for total in [55, 15, 0] {
            let changes = harness.takeChanges(atMost: 40)
            #expect(changes?.forgotten.count ?? 0 <= 40)
            store.save(changes)
            #expect(store.rows.count == total)
        }
        #expect(harness.takeChanges(atMost: 40) == nil)
    }

    @Test func `a record that changed several times is saved once, in its latest state`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        harness.pass(.seconds(1))
        try harness.send(to: 1, by: .numbered(1), .delivered())
        try harness.send(to: 1, by: .numbered(1), .gone(since: nil))
        let changes = try #require(harness.takeChanges())
        #expect(changes.records.count == 1 && changes.forgotten.isEmpty)
        #expect(changes.records.first?.standing == .dead && changes.records.first?.binding == 0)
    }

    @Test func `a record that is no longer persistent is removed from the store`() throws {
        let harness = makeHarness()
        var store = Store()
        try harness.send(to: 1, .delivered())
        try harness.send(to: 2, .delivered())
        store.save(harness.takeChanges())
        #expect(store.rows.count == 2)
        try harness.send(to: 1, .rejected(.badDeviceToken))
        let changes = try #require(harness.takeChanges())
        #expect(changes.records.isEmpty && changes.forgotten.count == 1)
        store.save(changes)
        #expect(store.rows.count == 1)
        // The other row expires.
        harness.pass(days: 180)
        for _ in 0..<3600 { harness.tick() }
        store.save(harness.takeChanges())
        #expect(store.rows.isEmpty)
        #expect(harness.takeChanges() == nil)
    }

    @Test func `a record that is removed and returns between two saves is kept`() throws {
        let harness = makeHarness()
        var store = Store()
        try harness.send(to: 1, .delivered())
        store.save(harness.takeChanges())
        try harness.send(to: 1, .rejected(.badDeviceToken))
        try harness.send(to: 1, .delivered())
        store.save(harness.takeChanges())
        #expect(store.rows.count == 1)
    }

    @Test func `an evicted record is removed from the store unless it has returned`() throws {
        let harness = makeHarness { $0.deviceTokens = 1 }
        var store = Store()
        for device in [1, 2, 1, 2, 2, 1] {
            try harness.send(to: device, .delivered())
            store.save(harness.takeChanges())
            #expect(store.rows.count == 1)
        }
        // All of these between two saves.
        for device in [2, 1, 2, 1, 2, 1, 2, 1] { try harness.send(to: device, .delivered()) }
        store.save(harness.takeChanges())
        #expect(store.rows.count == 1)
        harness.restart(store.all)
        harness.connect()
        #expect(try harness.isUnproven(1) == false)
    }

    // MARK: Restart

    @Test func `after a restart proven, dead and bound records are known and nothing needs saving`() throws {
        let harness = makeHarness()
        var store = Store()
        let (owner, thief) = (try Ed25519Key.numbered(1), try Ed25519Key.numbered(2))
        try harness.send(to: 1, .delivered())
        try harness.send(to: 2, .gone(since: 1_750_000_000_000))
        try harness.send(to: 3, by: owner, .delivered())
        try harness.send(to: 4, .rejected(.badDeviceToken))
        store.save(harness.takeChanges())
        for _ in 0..<3 {
            harness.restart(store.all)
            #expect(harness.takeChanges() == nil)
            #expect(harness.admission.known.deviceTokens == 3)
            harness.connect()
            #expect(try harness.isUnproven(1) == false)
            #expect(try harness.submit(to: 2).refusal?.outcome == .gone(since: 1_750_000_000_000))
            #expect(try harness.submit(to: 3, by: thief).reason == .senderKeyMismatch)
            #expect(try harness.isUnproven(3, by: owner) == false)
            #expect(try harness.isUnproven(4) == true)
            #expect(harness.takeChanges() == nil)
        }
    }

    @Test func `a bound device token that was reported bad stays bound across a restart`() throws {
        let harness = makeHarness()
        var store = Store()
        try harness.send(to: 1, by: .numbered(1), .delivered())
        try harness.send(to: 1, by: .numbered(1), .rejected(.badDeviceToken))
        store.save(harness.takeChanges())
        harness.restart(store.all)
        harness.connect()
        #expect(try harness.submit(to: 1, by: .numbered(2)).reason == .senderKeyMismatch)
        #expect(try harness.isUnproven(1, by: .numbered(1)) == true)
    }

    @Test func `rows that are too old are dropped on restart and removed from the store`() throws {
        let harness = makeHarness { $0.senderForgetDays = 90 }
        var store = Store()
        for device in 1...10 { try harness.send(to: device, .delivered()) }
        for device in 11...15 { try harness.send(to: device, .gone(since: nil)) }
        for device in 16...25 { try harness.send(to: device, by: .numbered(1), .delivered()) }
        store.save(harness.takeChanges())
        // Days without the node, known records, and rows to remove from the store.
        for (days, known, forgotten) in [
            (29, 25, 0), (30, 20, 5), (89, 20, 0), (90, 20, 0), (179, 20, 0), (180, 0, 20),
        ] {
            harness.unix = 1_760_000_000 + Int64(days) * 86_400
            harness.restart(store.all)
            #expect(harness.admission.known.deviceTokens == known, "\(days) days")
            let changes = harness.takeChanges()
            #expect(changes?.forgotten.count ?? 0 == forgotten, "\(days) days")
            #expect(changes?.records.isEmpty != false)
            store.save(changes)
            #expect(store.rows.count == known)
            if days == 90 {
                harness.connect()
                #expect(try harness.isUnproven(16) == false)
            }
        }
    }

    @Test func `a clock that is set back before a restart loses nothing`() throws {
        let harness = makeHarness()
        var store = Store()
        try harness.send(to: 1, by: .numbered(1), .delivered())
        try harness.send(to: 2, .gone(since: nil))
        store.save(harness.takeChanges())
        harness.unix = 1000
        harness.restart(store.all)
        harness.connect()
        try harness.send(to: 1, by: .numbered(1), .delivered())
        store.save(harness.takeChanges())
        harness.unix = 1_760_000_000
        harness.restart(store.all)
        harness.connect()
        #expect(try harness.submit(to: 1).reason == .senderKeyRequired)
        #expect(try harness.isUnproven(1, by: .numbered(1)) == false)
        #expect(try harness.submit(to: 2).reason == .unregistered)
    }

    @Test func `a restart with a smaller capacity keeps the highest-ranked rows and removes the others`() throws {
        let harness = makeHarness()
        var store = Store()
        for device in 1...10 { try harness.send(to: device, .gone(since: nil)) }
        for device in 11...20 { try harness.send(to: device, .delivered()) }
        harness.unix -= 20 * 86_400
        for device in 21...30 { try harness.send(to: device, by: .numbered(1), .delivered()) }
        harness.unix += 20 * 86_400
        store.save(harness.takeChanges())
        #expect(store.rows.count == 30)
        // The order of the rows does not matter.
        for rows in [store.all, store.all.reversed()] {
            harness.restart(rows) { $0.deviceTokens = 15 }
            harness.connect()
            #expect(harness.admission.known.deviceTokens == 15)
            var smaller = store
            smaller.save(harness.takeChanges())
            #expect(smaller.rows.count == 15)
            #expect(smaller.rows.values.count { $0.binding != 0 } == 10)
            #expect(smaller.rows.values.count { $0.standing == .proven } == 15)
        }
    }

    @Test func `invalid rows are dropped and removed from the store`() throws {
        let harness = makeHarness()
        let rows = [
            TokenRecord(token: 0, standing: 1, since: 1, day: 20_370, binding: 0),
            TokenRecord(token: 0, standing: 0, since: 1, day: 20_370, binding: 7),
            TokenRecord(token: 1, standing: 0, since: 1, day: 20_370, binding: 0),
            TokenRecord(token: 2, standing: 3, since: 1, day: 20_370, binding: 0),
            TokenRecord(token: 3, standing: 255, since: .max, day: .max, binding: 0),
            TokenRecord(token: 4, standing: 1, since: .max, day: .max, binding: .max),
            TokenRecord(token: .max, standing: 2, since: 0, day: .max, binding: 0),
        ]
        harness.restart(rows + rows)
        #expect(harness.admission.known.deviceTokens == 2)
        #expect(Set(harness.takeChanges()?.forgotten ?? []) == [0, 1, 2, 3])
        for _ in 0..<100 { harness.tick() }
        #expect(harness.admission.known.deviceTokens == 2)
        #expect(harness.takeChanges() == nil)
    }

    // MARK: A store that fails

    @Test func `changes that could not be saved are handed out again in their latest state`() throws {
        let harness = makeHarness()
        try harness.send(to: 1, .delivered())
        try harness.send(to: 2, .delivered())
        let first = try #require(harness.takeChanges())
        harness.pass(.seconds(1))
        try harness.send(to: 2, .gone(since: nil))
        try harness.send(to: 3, .delivered())
        harness.admission.requeue(first)
        let second = try #require(harness.takeChanges())
        #expect(second.records.count == 3)
        #expect(second.records.map(\.standing.rawValue).sorted() == [1, 1, 2])
        harness.admission.requeue(second)
        harness.admission.requeue(second)
        #expect(harness.takeChanges()?.records.count == 3)
        #expect(harness.takeChanges() == nil)
    }

    @Test func `removals that could not be saved are handed out again unless the record has returned`() throws {
        let harness = makeHarness()
        var store = Store()
        for device in [1, 2] { try harness.send(to: device, .delivered()) }
        store.save(harness.takeChanges())
        for device in [1, 2] { try harness.send(to: device, .rejected(.badDeviceToken)) }
        let changes = try #require(harness.takeChanges())
        #expect(changes.forgotten.count == 2)
        try harness.send(to: 1, .delivered())
        harness.admission.requeue(changes)
        store.save(harness.takeChanges())
        #expect(store.rows.count == 1)
        #expect(store.rows.values.first?.standing == .proven)
    }

    @Test func `records evicted while the store failed are removed once it works`() throws {
        let harness = makeHarness { $0.deviceTokens = 5 }
        var store = Store()
        for device in 1...5 { try harness.send(to: device, .delivered()) }
        store.save(harness.takeChanges())
        for device in 6...7 { try harness.send(to: device, .delivered()) }
        let failed = try #require(harness.takeChanges())
        for device in 8...9 { try harness.send(to: device, .delivered()) }
        harness.admission.requeue(failed)
        store.save(harness.takeChanges())
        #expect(store.rows.count == 5)
        harness.restart(store.all)
        harness.connect()
        #expect(try harness.isUnproven(9) == false)
    }

    @Test func `pending changes stay bounded while the store fails`() throws {
        let harness = makeHarness { $0.deviceTokens = 50 }
        for device in 0..<3000 {
            try harness.send(to: device, .delivered())
            if device % 10 == 0, let changes = harness.takeChanges() {
                #expect(changes.records.count <= 50 && changes.forgotten.count <= 100)
                harness.admission.requeue(changes)
            }
        }
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func `after random changes and failed saves the store matches the table`(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let harness = makeHarness {
            $0.deviceTokens = 30
            $0.abuse = Rate(burst: 10_000, perMinute: 100_000)
        }
        var store = Store()
        var inFlight: Admission.Changes?
        for _ in 0..<3000 {
            harness.pass(.seconds(generator.below(20_000)))
            let outcomes: [Outcome] = [
                .delivered(), .delivered(), .rejected(.badDeviceToken), .gone(since: nil), .rejected(.payloadRefused),
            ]
            let device = generator.below(60)
            let key = try generator.below(3) == 0 ? Ed25519Key.numbered(UInt8(device)) : nil
            try harness.send(to: device, by: key, outcomes[generator.below(5)])
            if generator.below(3) == 0 { harness.tick() }
            guard generator.below(4) == 0 else { continue }
            // One save at a time; half of them fail.
            if let changes = inFlight {
                if generator.below(2) == 0 { store.save(changes) } else { harness.admission.requeue(changes) }
                inFlight = nil
            } else {
                inFlight = harness.takeChanges(atMost: 1 + generator.below(20))
            }
        }
        if let inFlight { harness.admission.requeue(inFlight) }
        while let changes = harness.takeChanges(atMost: 3) { store.save(changes) }
        let known = store.rows.keys.count { harness.admission.tokens[$0] != nil }
        #expect(known == store.rows.count)
        for (token, row) in store.rows {
            let record = try #require(harness.admission.tokens[token])
            // The time of the last delivery is needed in memory only.
            #expect(row.standing == record.standing && row.sender == record.sender && row.day == record.day)
        }
        var persistent = 0
        for _ in 0..<10 {
            harness.admission.tokens.sweep { record in
                if record.isPersistent { persistent += 1 }
                return true
            }
        }
        #expect(persistent == store.rows.count)
    }
}
