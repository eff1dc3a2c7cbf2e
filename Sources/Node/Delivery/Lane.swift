// SPDX-License-Identifier: Apache-2.0

import DequeModule
import Time

/// The state of what serves one route: its breaker, window and queue. No two lanes share these, so a failure stays in
/// one lane.
final class Lane {
    /// Identifies the lane among all lanes that ever served its route: a reload replaces the lane.
    let generation: Int
    var breaker = Breaker()
    var surge: TokenRefusalSurge
    var connectionFailures = ConnectionFailures()
    var deviceThrottling = DeviceThrottling()
    var refusedSubscriptions = RefusedSubscriptions()
    /// The phone whose attempt opened the breaker last. The next probe goes to another phone if a held row has one.
    var lastFailed: TableKey?
    var window: ConcurrencyWindow
    /// Envelopes that wait for room in the window.
    var queue = FairQueue<PendingEnvelope>(quantum: Lane.quantum)
    /// Spool rows that wait for the breaker to close; they are not read until then.
    var heldRows: Deque<Int64> = []
    /// The held row that goes out as the breaker's next probe.
    var probeRow: Int64?

    /// The cost that a flow may consume per turn: about that of the largest envelope, so that each flow sends at least
    /// one envelope per round.
    private static let quantum = 4096
    /// Smallest window, however slow the provider is, and initial window.
    private static let (smallestWindow, initialWindow) = (4, 128)

    init(generation: Int, concurrency: Int, now: MonotonicTime) {
        self.generation = generation
        window = ConcurrencyWindow(range: Self.range(concurrency), start: Self.initialWindow)
        surge = TokenRefusalSurge(now: now)
    }

    /// The range of the concurrency window if at most `concurrency` attempts may be in flight.
    static func range(_ concurrency: Int) -> ClosedRange<Int> { min(smallestWindow, concurrency)...concurrency }
}
