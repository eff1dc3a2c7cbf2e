// SPDX-License-Identifier: Apache-2.0

import CoreMetrics
import Synchronization

/// A series whose value can go up and down.
final class GaugeSeries: Series, MeterHandler, RecorderHandler {
    let place: SeriesID
    private let value = Atomic<Double>(0)

    init(_ place: SeriesID) { self.place = place }

    var reading: SeriesValue? { .number(value.load(ordering: .relaxed)) }

    func set(_ value: Int64) { set(Double(value)) }

    func set(_ value: Double) { self.value.store(value, ordering: .relaxed) }

    func increment(by amount: Double) { value.add(amount) }

    func decrement(by amount: Double) { value.add(-amount) }

    func record(_ value: Int64) { set(value) }

    func record(_ value: Double) { set(value) }
}
