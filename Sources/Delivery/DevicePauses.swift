// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time

/// Device tokens that a provider wants left alone for a while; all others go on. Bounded: when it is full, those whose
/// time is over go, then anybody.
struct DevicePauses {
    private struct Pause {
        var until: MonotonicTime
        var backoff = Backoff(base: .seconds(10), cap: .seconds(600))
    }

    private let capacity: Int
    private var pauses: [Int: Pause] = [:]
    private var nextSweep = MonotonicTime(nanoseconds: 0)

    init(capacity: Int) { self.capacity = capacity }

    /// How much longer this one is left alone; nil: it is not.
    func left(_ token: Bytes, now: MonotonicTime) -> Duration? {
        guard !pauses.isEmpty, let pause = pauses[token.tableKey], pause.until > now else { return nil }
        return pause.until - now
    }

    /// The provider wants this one left alone for at least so many seconds, and longer each time.
    mutating func pause(_ token: Bytes, seconds: UInt32, now: MonotonicTime, random: Double) {
        let key = token.tableKey
        if pauses.count >= capacity, pauses[key] == nil { makeRoom(now) }
        var pause = pauses[key] ?? Pause(until: now)
        // What was already under way when the pause began makes it no longer than its own retryAfter.
        let own = pause.until > now ? .zero : pause.backoff.next(random: random)
        pause.until = max(pause.until, now + max(.seconds(Int64(seconds)), own))
        pauses[key] = pause
    }

    /// The provider has accepted something for this one.
    mutating func end(_ token: Bytes) {
        if !pauses.isEmpty { pauses[token.tableKey] = nil }
    }

    private mutating func makeRoom(_ now: MonotonicTime) {
        // Looking through all of them once a second is often enough.
        if now >= nextSweep {
            pauses = pauses.filter { $0.value.until > now }
            nextSweep = now + .seconds(1)
        }
        if pauses.count >= capacity, let anybody = pauses.keys.first { pauses[anybody] = nil }
    }
}

extension Bytes {
    /// Their key in a table of this process: SipHash under a key that the process has drawn, so that nobody outside can
    /// make two that meet, and no table holds a device token.
    var tableKey: Int {
        var hasher = Hasher()
        withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }
}
