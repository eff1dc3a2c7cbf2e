// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import Providers
import TNP
import Time

/// What serves one ``Route``: its provider, breaker, window and queue. No two lanes share these, so a failure stays in
/// one lane.
final class Lane {
    let route: Route
    let provider: any Provider
    var breaker = Breaker()
    var surge: TokenRefusalSurge
    var connectionFailures = ConnectionFailures()
    /// Number of envelopes of this lane in memory.
    var inFlight = 0
    /// Number of envelopes in memory that the queue has rejected and that still wait for their tasks to resume.
    var rejecting = 0
    /// A queued attempt, resumed with `true` when its turn comes or `false` when it is rejected.
    typealias Waiting = UnsafeContinuation<Bool, Never>
    /// Limits the attempts in flight.
    var window: ConcurrencyWindow
    /// Attempts that wait for room in the window.
    var queue = FairQueue<Waiting>(quantum: Lane.quantum)
    /// Spool rows that wait for the breaker to close, and are not read until then.
    var heldRows: Deque<Int64> = []
    /// The held row that goes out as the breaker's next probe.
    var probeRow: Int64?

    /// Approximate cost of the largest envelope, so that each flow has at least one turn per round.
    private static let quantum = 4096
    /// Smallest window, however slow the provider is, and initial window.
    private static let (smallestWindow, initialWindow) = (4, 128)

    init(_ route: Route, _ provider: any Provider, concurrency: Int, now: MonotonicTime) {
        self.route = route
        self.provider = provider
        window = ConcurrencyWindow(range: Self.range(concurrency), start: Self.initialWindow)
        surge = TokenRefusalSurge(now: now)
    }

    /// The range of the concurrency window if at most `concurrency` attempts may be in flight.
    static func range(_ concurrency: Int) -> ClosedRange<Int> { min(smallestWindow, concurrency)...concurrency }
}
