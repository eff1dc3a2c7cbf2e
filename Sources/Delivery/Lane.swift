import EventLoop
import Providers
import TNP

/// One provider in one environment under one credential, and what keeps its trouble from the others.
final class Lane {
    let route: Route
    var provider: any Provider
    var breaker = Breaker()
    var wave: RefusalWave
    /// Attempts that are under way, and envelopes that wait in memory for another one.
    var inFlight = 0

    init(_ route: Route, _ provider: any Provider, now: MonotonicTime) {
        self.route = route
        self.provider = provider
        wave = RefusalWave(now: now)
    }
}
