/// How long to wait before the next try: doubling from a base up to a cap, and of that a random part ("full jitter"),
/// so that many senders who lost the same node do not come back at once.
struct Backoff {
    private(set) var failures = 0
    static let base = Duration.milliseconds(250)
    static let cap = Duration.seconds(30)

    /// The wait after one more failure; `random` is from 0 up to 1. The first is at most 0.25 s, the second 0.5 s, …
    mutating func next(random: Double) -> Duration {
        let ceiling = failures < 7 ? min(Self.base * (1 << failures), Self.cap) : Self.cap
        failures += 1
        return ceiling * random
    }

    /// It worked.
    mutating func reset() { failures = 0 }
}
