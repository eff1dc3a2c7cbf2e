import DequeModule
import EventLoop
import Providers
import TNP

/// One provider in one environment under one credential, and what keeps its trouble from the others.
final class Lane {
    let route: Route
    let provider: any Provider
    var breaker = Breaker()
    var wave: RefusalWave
    /// Envelopes in memory that are for it.
    var inFlight = 0
    /// Rows of the spool that wait for the breaker to close: reading them before would be in vain.
    var held: Deque<Int64> = []
    /// The one of them that goes ahead when the breaker lets a probe through.
    var scout: Int64?

    init(_ route: Route, _ provider: any Provider, now: MonotonicTime) {
        self.route = route
        self.provider = provider
        wave = RefusalWave(now: now)
    }
}
