// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The device tokens for which a provider asked the node to pause; other tokens are not affected. Bounded: when the
/// table is full, it removes expired pauses, then an arbitrary one.
struct DevicePauses {
    private struct Pause {
        var until: MonotonicTime
        var backoff = Backoff(base: .seconds(10), cap: .seconds(600))
    }

    private let capacity: Int
    private var pauses: [TableKey: Pause] = [:]
    private var nextSweep = MonotonicTime(nanoseconds: 0)

    init(capacity: Int) { self.capacity = capacity }

    /// The number of pauses, with some that have expired.
    var count: Int { pauses.count }

    /// The time left of the token's pause; `nil` if it is not paused.
    func remaining(_ token: TableKey, now: MonotonicTime) -> Duration? {
        guard !pauses.isEmpty, let pause = pauses[token], pause.until > now else { return nil }
        return pause.until - now
    }

    /// Pauses the token for at least `seconds`; each further pause is longer.
    mutating func pause(_ token: TableKey, seconds: UInt32, now: MonotonicTime, random: Double) {
        if pauses.count >= capacity, pauses[token] == nil { makeRoom(now) }
        var pause = pauses[token] ?? Pause(until: now)
        // An answer to an attempt that was in flight when the pause began extends it only by its own retry-after.
        let own = pause.until > now ? .zero : pause.backoff.next(random: random)
        pause.until = max(pause.until, now + max(.seconds(Int64(seconds)), own))
        pauses[token] = pause
    }

    /// Ends the pause: the provider accepted a notification for this token.
    mutating func end(_ token: TableKey) {
        if !pauses.isEmpty { pauses[token] = nil }
    }

    private mutating func makeRoom(_ now: MonotonicTime) {
        // One scan a second is enough.
        if now >= nextSweep {
            pauses = pauses.filter { $0.value.until > now }
            nextSweep = now + .seconds(1)
        }
        if pauses.count >= capacity, let victim = pauses.keys.first { pauses[victim] = nil }
    }
}
