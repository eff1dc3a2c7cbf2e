// SPDX-License-Identifier: Apache-2.0

import StandIns
import TestSupport
import Testing

@testable import Tables

@Suite(.tags(.computing)) struct FlatTableTests {
    @Test func `an empty table has nothing`() {
        var table = FlatTable<UInt32>(empty: 0)
        #expect(table.count == 0 && table[0] == nil && table[7] == nil && table.anyKey == nil)
        table.remove(7)
        #expect(table.update(7) { $0 += 1 } == nil)
    }

    /// Keys of one part with neighbouring homes make long runs, which removals must not tear apart.
    @Test(arguments: [UInt64.max, 1 << 58, 40, 3])
    func `a table does what a dictionary does`(_ range: UInt64) {
        var random = SplitMix64(seed: range)
        var table = FlatTable<UInt32>(empty: 0)
        var model: [UInt64: UInt32] = [:]
        for step in 0..<20_000 {
            let key = random.next() % range + 1
            switch random.below(6) {
            case 0...2:
                let isNew = table.set(key, to: UInt32(step))
                #expect(isNew == (model[key] == nil))
                model[key] = UInt32(step)
            case 3:
                let changed = table.update(key) { value in
                    value += 1
                    return value
                }
                model[key] = model[key].map { $0 + 1 }
                #expect(changed == model[key])
            default:
                // Of those that are there, if there are many.
                let victim = range > 100 ? model.keys.first ?? key : key
                table.remove(victim)
                model[victim] = nil
            }
            #expect(table.count == model.count && table[key] == model[key])
        }
        for (key, value) in model { #expect(table[key] == value) }
        table.removeAll { $0.isMultiple(of: 2) }
        model = model.filter { !$0.value.isMultiple(of: 2) }
        #expect(table.count == model.count)
        for (key, value) in model { #expect(table[key] == value) }
        #expect(table.anyKey.map { model[$0] != nil } ?? model.isEmpty)
    }

    @Test(arguments: [1000, 20_000, 210_000])
    func `a table keeps within its bound, at each size`(_ entries: Int) {
        var random = SplitMix64(seed: 1)
        var table = FlatTable<UInt64>(empty: 0)
        for _ in 0..<entries { table.set(random.next(), to: 0) }
        // Small parts grow by more than a quarter.
        let slack = 64 * 16 * 16
        #expect(table.bytes <= FlatTable<UInt64>.maximumBytes(entries: entries) + slack)
    }

    @Test func `the key 0 is one like others`() {
        var table = FlatTable<UInt32>(empty: 0)
        table.set(0, to: 5)
        #expect(table[0] == 5 && table.count == 1)
        table.remove(0)
        #expect(table[0] == nil && table.count == 0)
    }
}

@Suite(.tags(.computing)) struct ChunkedQueueTests {
    @Test func `elements leave in order, and keep their numbers`() {
        var random = SplitMix64(seed: 2)
        var queue = ChunkedQueue<Int>()
        var model: [(number: UInt32, value: Int)] = []
        for step in 0..<30_000 {
            // Grows, shrinks, and becomes empty at times.
            if random.below(10) < (step / 5000 % 2 == 0 ? 7 : 2) {
                model.append((queue.append(step), step))
            } else {
                let first = queue.popFirst()
                #expect(first == model.first?.value)
                if let number = model.first?.number { #expect(queue[number] == nil) }
                model = Array(model.dropFirst())
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty && queue.first == model.first?.value)
            if let some = model.randomElement(using: &random) { #expect(queue[some.number] == some.value) }
        }
        #expect(zip(model, model.dropFirst()).allSatisfy { $0.number &+ 1 == $1.number })
    }
}
