// SPDX-License-Identifier: Apache-2.0

import StandIns
import TestSupport
import Testing

@testable import Admission

@Suite(.tags(.computing)) struct TokenTableTests {
    private let today: UInt16 = 20_000

    private func makeRecord(
        _ token: UInt64, _ standing: TokenRecord.Standing = .unproven, sender: UInt64 = 0, day: UInt16 = 20_000
    ) -> TokenRecord {
        var record = TokenRecord(token: token)
        record.standing = standing
        record.sender = sender
        record.day = day
        return record
    }

    /// A record with random contents.
    private func randomRecord(_ token: UInt64, _ generator: inout SplitMix64) -> TokenRecord {
        var record = makeRecord(
            token, TokenRecord.Standing(rawValue: UInt8(generator.below(3))) ?? .unproven,
            sender: generator.below(4) == 0 ? generator.next() : 0, day: today - UInt16(generator.below(100)))
        record.since = generator.next() >> 16
        record.allowance = Allowance(fullAt: generator.next())
        return record
    }

    // MARK: Records

    @Test func `a record is 32 bytes`() {
        #expect(MemoryLayout<TokenRecord>.size == 32)
        #expect(MemoryLayout<TokenRecord>.stride == 32)
    }

    @Test func `a new record holds only its token`() {
        let record = TokenRecord(token: 7)
        #expect(record.token == 7 && record.sender == 0 && record.standing == .unproven && record.since == 0)
        #expect(!record.isUnsaved && !record.isPersistent)
        #expect(record.allowance == Allowance())
    }

    @Test func `the fields of a record are independent`() {
        var generator = SplitMix64(seed: 4)
        var record = TokenRecord(token: 1)
        var (since, day, standing, isUnsaved): (UInt64, UInt16, TokenRecord.Standing, Bool) = (
            0, 18_262, .unproven, false
        )
        for _ in 0..<5000 {
            switch generator.below(4) {
            case 0:
                since = [0, 1, 0xFFFF_FFFF_FFFF, generator.next() >> 16][generator.below(4)]
                record.since = since
            case 1:
                day = [18_262, 18_263, 26_453, UInt16(18_262 + generator.below(8192))][generator.below(4)]
                record.day = day
            case 2:
                standing = TokenRecord.Standing(rawValue: UInt8(generator.below(3))) ?? .unproven
                record.standing = standing
            default:
                isUnsaved.toggle()
                record.isUnsaved = isUnsaved
            }
            #expect(record.since == since && record.day == day)
            #expect(record.standing == standing && record.isUnsaved == isUnsaved)
            #expect(record.token == 1 && record.sender == 0)
        }
    }

    @Test func `days before 2020 are stored as the first day, days after 2042 as the last`() {
        var record = makeRecord(1, .proven)
        record.since = 5
        for (day, written) in [(0, 18_262), (18_261, 18_262), (26_453, 26_453), (26_454, 26_453), (.max, 26_453)]
            as [(UInt16, UInt16)]
        {
            record.day = day
            #expect(record.day == written)
            #expect(record.standing == .proven && record.since == 5)
        }
    }

    @Test func `a time too large to store is stored as the maximum`() {
        var record = makeRecord(1, .dead)
        record.since = .max
        #expect(record.since == 0xFFFF_FFFF_FFFF)
        #expect(record.standing == .dead && record.day == 20_000)
    }

    @Test func `a record last used after 2042 has age 0 on the same day`() {
        for day in [26_453, 26_454, 30_000, .max] as [UInt16] {
            #expect(makeRecord(1, day: day).age(on: day) == 0)
        }
        #expect(makeRecord(1, day: 26_400).age(on: 30_000) == 53)
    }

    @Test func `age is counted in days, and is zero or negative after the clock was set back`() {
        #expect(makeRecord(1, day: 20_000).age(on: 20_000) == 0)
        #expect(makeRecord(1, day: 20_000).age(on: 20_180) == 180)
        #expect(makeRecord(1, day: 20_000).age(on: 19_999) <= 0)
        #expect(makeRecord(1, day: 20_000).age(on: 0) <= 0)
        #expect(makeRecord(1, day: 0).age(on: 0) <= 0)
    }

    @Test func `the eviction order is unproven, dead, proven, bound`() {
        let ascending = [
            makeRecord(1, .unproven, day: 26_453), makeRecord(1, .dead, day: 18_262), makeRecord(1, .dead, day: 26_453),
            makeRecord(1, .proven, day: 18_262), makeRecord(1, .proven, day: 20_000),
            makeRecord(1, .unproven, sender: 1, day: 18_262), makeRecord(1, .proven, sender: 1, day: 18_263),
        ]
        for (less, more) in zip(ascending, ascending.dropFirst()) { #expect(less.evictionOrder < more.evictionOrder) }
        #expect(ascending.map(\.isPersistent) == [false, true, true, true, true, true, true])
    }

    // MARK: Against a dictionary

    /// The distribution of tokens: even, or a worst case.
    enum Spread: CaseIterable {
        case even, oneShard, oneSlot, end

        func token(_ generator: inout SplitMix64) -> UInt64 {
            switch self {
            case .even: max(1, generator.next())
            case .oneShard: 5 << 61 | generator.next() >> 3
            case .oneSlot: 3 << 60 + UInt64(generator.below(3000))
            case .end: UInt64.max - UInt64(generator.below(3000))
            }
        }
    }

    @Test(arguments: Spread.allCases, [3000, 100_000])
    func `below its capacity the table behaves like a dictionary`(spread: Spread, capacity: Int) {
        var generator = SplitMix64(seed: 5)
        let table = TokenTable(capacity: capacity)
        var model: [UInt64: TokenRecord] = [:]
        let tokens = (0..<(spread == .oneSlot || spread == .end ? 400 : 2500)).map { _ in spread.token(&generator) }
        for _ in 0..<8000 {
            let token = tokens[generator.below(tokens.count)]
            switch generator.below(8) {
            case 0...3:
                let record = randomRecord(token, &generator)
                let evicted = table.insert(record)
                #expect(evicted == nil)
                model[token] = record
            case 4:
                let since = UInt64(generator.below(1_000_000))
                let exists = table.update(token) { $0.since = since }
                #expect(exists == (model[token] != nil))
                model[token]?.since = since
            case 5, 6:
                table.remove(token)
                model[token] = nil
            default: #expect(table[token] == model[token])
            }
            #expect(table.count == model.count)
        }
        for token in tokens { #expect(table[token] == model[token]) }
        #expect(records(of: table).sorted { $0.token < $1.token } == model.values.sorted { $0.token < $1.token })
    }

    @Test(arguments: [1, 2, 3, 15, 16, 17, 500, 5000])
    func `above its capacity the table loses exactly the records that it reports as evicted`(capacity: Int) {
        var generator = SplitMix64(seed: UInt64(capacity))
        let table = TokenTable(capacity: capacity)
        var model: [UInt64: TokenRecord] = [:]
        for _ in 0..<(2 * capacity + 1000) {
            let record = randomRecord(max(1, generator.next()), &generator)
            model[record.token] = record
            if let evicted = table.insert(record) {
                #expect(model.removeValue(forKey: evicted.token) == evicted)
            }
            if generator.below(10) == 0 {
                table.remove(record.token)
                model[record.token] = nil
            }
            #expect(table.count == model.count)
        }
        #expect(model.count >= capacity * 8 / 10)
        #expect(model.count { table[$0] == $1 } == model.count)
        #expect(records(of: table).count == model.count)
    }

    @Test func `every record is found in a full table`() {
        let table = TokenTable(capacity: 16_384)
        var lost = 0
        for number in 1...16_384 as ClosedRange<UInt64> {
            var record = makeRecord(number &* 0x9E37_79B9_7F4A_7C15, .proven)
            record.since = number
            if table.insert(record) != nil { lost += 1 }
            for old in [1, number / 2, number] where old > 0 && table[old &* 0x9E37_79B9_7F4A_7C15]?.since != old {
                lost += 1
            }
        }
        #expect(table.count == 16_384)
        #expect(lost == 0)
    }

    @Test func `a search wraps around from the last slot to the first`() {
        let table = TokenTable(capacity: 10)
        // The home slot of all of them is the last one.
        let tokens = (0..<10).map { UInt64.max - $0 }
        for token in tokens { table.insert(makeRecord(token)) }
        for token in tokens { #expect(table[token]?.token == token) }
        #expect(table[UInt64.max - 10] == nil)
        for removed in [3, 0, 9] {
            table.remove(tokens[removed])
            #expect(table[tokens[removed]] == nil)
        }
        for kept in [1, 2, 4, 5, 6, 7, 8] { #expect(table[tokens[kept]]?.token == tokens[kept]) }
        // A token whose home is the first slot is stored behind them, and moves forward.
        table.insert(makeRecord(1))
        for kept in [1, 2, 4, 5, 6, 7, 8] { table.remove(tokens[kept]) }
        #expect(table[1]?.token == 1)
        #expect(table.count == 1)
    }

    @Test func `an absent token is not found, updated or removed`() {
        let table = TokenTable(capacity: 100)
        #expect(table[1] == nil)
        let exists = table.update(1) { $0.since = 1 }
        #expect(!exists)
        table.remove(1)
        #expect(table.count == 0)
        table.insert(makeRecord(1))
        table.remove(2)
        table.remove(1)
        table.remove(1)
        #expect(table.count == 0)
        #expect(table[1] == nil)
    }

    // MARK: When it is full

    @Test func `the record lowest in the eviction order goes, even if it is the new one`() {
        // With so few slots the table compares all of them.
        var generator = SplitMix64(seed: 6)
        let table = TokenTable(capacity: 16)
        var orders: [UInt64: UInt32] = [:]
        for _ in 0..<2000 {
            let record = randomRecord(max(1, generator.next()), &generator)
            let least = orders.values.min() ?? 0
            orders[record.token] = record.evictionOrder
            guard let evicted = table.insert(record) else { continue }
            // Among equal ranks the new record stays, however long ago it was used.
            #expect(evicted.evictionOrder == (least >> 16 > record.evictionRank ? record.evictionOrder : least))
            orders[evicted.token] = nil
        }
        #expect(table.count == 16)
        #expect(orders.values.allSatisfy { $0 >> 16 == 3 })
    }

    @Test func `the records used last stay when more are restored than fit, in whatever order they come`() {
        var generator = SplitMix64(seed: 10)
        // With so few slots the table compares all of them.
        let table = TokenTable(capacity: 16)
        let days = (1...200 as ClosedRange<UInt64>).map { ($0 << 56, 18_300 + UInt16($0)) }
        for (token, day) in days.shuffled(using: &generator) {
            _ = table.restore(makeRecord(token, .proven, day: day))
        }
        #expect(days.suffix(16).allSatisfy { table[$0.0] != nil })
    }

    @Test func `unproven records cannot enter a table that is full of records of higher rank`() {
        let table = TokenTable(capacity: 1000)
        for token in 1...1000 as ClosedRange<UInt64> {
            table.insert(makeRecord(token << 54, token % 2 == 0 ? .proven : .dead, sender: token % 3, day: 18_300))
        }
        var generator = SplitMix64(seed: 7)
        var taken = 0
        for _ in 0..<5000 {
            let newcomer = makeRecord(max(1, generator.next()))
            if table.insert(newcomer) != newcomer || table[newcomer.token] != nil { taken += 1 }
        }
        #expect(taken == 0)
        #expect((1...1000).count { table[$0 << 54] != nil } == 1000)
    }

    @Test func `in a flood of unproven records the newest is always kept`() {
        let table = TokenTable(capacity: 1000)
        var generator = SplitMix64(seed: 8)
        for _ in 0..<5000 {
            let newcomer = makeRecord(max(1, generator.next()))
            let evicted = table.insert(newcomer)
            #expect(evicted?.token != newcomer.token)
            #expect(table[newcomer.token] == newcomer)
        }
        #expect(table.count == 1000)
    }

    @Test func `proven and bound records are not evicted while half of the table is unproven`() {
        var generator = SplitMix64(seed: 9)
        let table = TokenTable(capacity: 40_000)
        for number in 0..<40_000 {
            let token = max(1, generator.next())
            table.insert(number % 2 == 0 ? makeRecord(token) : makeRecord(token, .proven, sender: token, day: 18_262))
        }
        var evicted = 0
        for _ in 0..<3000 {
            guard let record = table.insert(makeRecord(max(1, generator.next()), .proven)) else { continue }
            evicted += 1
            #expect(record.evictionRank == 0)
        }
        #expect(evicted > 1000)
    }

    @Test func `inserting an existing token replaces its record and evicts none`() {
        let table = TokenTable(capacity: 3)
        for token in [1, 2, 3] as [UInt64] { table.insert(makeRecord(token << 60, .proven)) }
        for _ in 0..<10 { #expect(table.insert(makeRecord(2 << 60)) == nil) }
        #expect(table.count == 3)
        #expect(table[2 << 60]?.standing == .unproven)
        #expect(table[1 << 60]?.standing == .proven && table[3 << 60]?.standing == .proven)
    }

    @Test(arguments: [0, 1, 2, 3, 7, 13, 100, 1000, 16_384, 16_385, 40_000])
    func `a table holds its capacity within the stated number of bytes`(capacity: Int) {
        let maximum = TokenTable.maximumBytes(capacity: capacity)
        // 32 bytes per slot, 8 slots for 7 records, and a margin for uneven shards and for the smallest tables.
        #expect(maximum <= 32 * (capacity * 8 / 7 * 33 / 32 + 10))
        var generator = SplitMix64(seed: 10)
        let table = TokenTable(capacity: capacity)
        var evictedEarly = 0
        for number in 0..<(capacity + capacity / 8 + 20) {
            let evicted = table.insert(makeRecord(max(1, generator.next()), number % 2 == 0 ? .proven : .unproven))
            if number < capacity, evicted != nil { evictedEarly += 1 }
        }
        #expect(evictedEarly == 0)
        #expect(bytes(of: table) <= maximum)
        #expect(table.count >= capacity)
        #expect(table.count <= max(1, capacity) * 33 / 32 + 4)
        #expect(records(of: table).count == table.count)
    }

    @Test func `tokens that all fall into one shard use only that shard's share`() {
        var generator = SplitMix64(seed: 11)
        let capacity = 100_000
        let table = TokenTable(capacity: capacity)
        for _ in 0..<14_000 { table.insert(makeRecord(Spread.oneShard.token(&generator), .proven)) }
        #expect(table.count == 12_500 + 12_500 / 32)
        #expect(records(of: table).count == table.count)
    }

    // MARK: Sweeping

    @Test func `sweeping an empty table visits nothing`() {
        for capacity in [0, 1, 100_000] {
            let table = TokenTable(capacity: capacity)
            var seen = 0
            table.sweep { _ in
                seen += 1
                return true
            }
            #expect(seen == 0)
        }
    }

    @Test(arguments: [20, 3000, 20_000])
    func `an hour of sweeping visits every record, removes the expired ones and keeps changes`(
        count: Int
    ) {
        var generator = SplitMix64(seed: 12)
        let table = TokenTable(capacity: 40_000)
        var tokens: Set<UInt64> = []
        while tokens.count < count { tokens.insert(max(1, generator.next())) }
        for token in tokens { table.insert(makeRecord(token)) }
        var visits: [UInt64: Int] = [:]
        for _ in 0..<3600 where visits.count < count {
            table.sweep { record in
                visits[record.token, default: 0] += 1
                record.since = 1
                return record.token % 3 == 0
            }
        }
        #expect(Set(visits.keys) == tokens)
        #expect(tokens.count { table[$0]?.since == ($0 % 3 == 0 ? nil : 1) } == count)
        // Every record is visited equally often, except in the round that has begun.
        #expect(visits.values.allSatisfy { $0 <= 2 } || count <= 64)
        #expect(table.count == tokens.count { $0 % 3 != 0 })
    }

    @Test func `one sweep visits at most 64 records`() {
        let table = TokenTable(capacity: 40_000)
        var generator = SplitMix64(seed: 13)
        for _ in 0..<40_000 { table.insert(makeRecord(max(1, generator.next()))) }
        for _ in 0..<10 {
            var seen = 0
            table.sweep { _ in
                seen += 1
                return true
            }
            #expect((1...64).contains(seen))
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `interleaved sweeps, inserts and removals neither lose nor duplicate a record`(seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        let table = TokenTable(capacity: 2000)
        var model: [UInt64: TokenRecord] = [:]
        for round in 0..<600 {
            for _ in 0..<3 {
                let record = randomRecord(
                    Spread.allCases[generator.below(4)].token(&generator), &generator)
                if let evicted = table.insert(record) { model[evicted.token] = nil }
                model[record.token] = record
            }
            if let token = model.keys.first, generator.below(2) == 0 {
                table.remove(token)
                model[token] = nil
            }
            let remainder = UInt64(round % 7)
            table.sweep { record in
                guard record.token % 7 == remainder else { return false }
                #expect(model.removeValue(forKey: record.token) == record)
                return true
            }
            #expect(table.count == model.count)
        }
        for (token, record) in model { #expect(table[token] == record) }
        #expect(records(of: table).count == model.count)
    }

    // MARK: Internals

    /// All slots of a table, in memory order.
    private func slots(of table: TokenTable) -> [TokenRecord] {
        let slots = Mirror(reflecting: table).descendant("slots") as? UnsafeMutableBufferPointer<TokenRecord>
        return slots.map { Array($0) } ?? []
    }

    private func records(of table: TokenTable) -> [TokenRecord] { slots(of: table).filter { $0.token != 0 } }

    private func bytes(of table: TokenTable) -> Int { slots(of: table).count * MemoryLayout<TokenRecord>.stride }
}
