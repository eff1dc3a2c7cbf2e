// SPDX-License-Identifier: Apache-2.0

import CoreMetrics
import Synchronization

/// A series whose value only increases.
final class CounterSeries: Series, CounterHandler, FloatingPointCounterHandler {
    let place: SeriesID
    private let drops: DroppedSamples
    /// Whole-number increments, kept separate from fractions so that counting whole numbers is exact and takes one
    /// instruction.
    private let whole = Atomic<UInt64>(0)
    private let fractional = Atomic<Double>(0)

    init(_ place: SeriesID, drops: DroppedSamples) {
        self.place = place
        self.drops = drops
    }

    var reading: SeriesValue? {
        .number(Double(whole.load(ordering: .relaxed)) + fractional.load(ordering: .relaxed))
    }

    func increment(by amount: Int64) {
        guard amount >= 0 else { return drops.count(.value) }
        whole.wrappingAdd(UInt64(amount), ordering: .relaxed)
    }

    func increment(by amount: Double) {
        guard amount >= 0, amount.isFinite else { return drops.count(.value) }
        fractional.add(amount)
    }

    func reset() {
        whole.store(0, ordering: .relaxed)
        fractional.store(0, ordering: .relaxed)
    }
}

extension Atomic<Double> {
    func add(_ amount: Double) {
        var seen = load(ordering: .relaxed)
        while true {
            // Compares bit patterns: NaN equals itself here, so the loop ends.
            let (done, original) = weakCompareExchange(expected: seen, desired: seen + amount, ordering: .relaxed)
            if done { return }
            seen = original
        }
    }
}
