// SPDX-License-Identifier: Apache-2.0

import DequeModule
import EventLoop
import Providers
import TNP
import Time

/// One provider in one environment under one credential, and what keeps its trouble from the others.
final class Lane {
    let route: Route
    let provider: any Provider
    var breaker = Breaker()
    var wave: TokenRefusalSurge
    var connectionFailures = ConnectionFailures()
    /// Envelopes in memory that are for it.
    var inFlight = 0
    /// Of those, the ones that were sent away from the queue and are about to be answered.
    var leaving = 0
    /// Resumed with whether it is its turn, or with false where it is sent away.
    typealias Waiting = UnsafeContinuation<Bool, Never>
    /// How many attempts may be under way, and who waits for a turn.
    var window: ConcurrencyWindow
    var queue = FairQueue<Waiting>(quantum: Lane.quantum)
    /// Rows of the spool that wait for the breaker to close: reading them before would be in vain.
    var held: Deque<Int64> = []
    /// The one of them that goes ahead when the breaker lets a probe through.
    var probe: Int64?

    /// The cost of the largest envelope, about, so that everybody has at least one turn in each round.
    private static let quantum = 4096
    /// However slow a provider is, so many go on; and with so many it begins.
    private static let (fewest, first) = (4, 128)

    init(_ route: Route, _ provider: any Provider, concurrency: Int, now: MonotonicTime) {
        self.route = route
        self.provider = provider
        window = ConcurrencyWindow(range: Self.range(concurrency), start: Self.first)
        wave = TokenRefusalSurge(now: now)
    }

    /// How many attempts may be under way, where there may be this many at most.
    static func range(_ concurrency: Int) -> ClosedRange<Int> { min(fewest, concurrency)...concurrency }
}
