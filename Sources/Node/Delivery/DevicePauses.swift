// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Tables
import Time

/// The device tokens for which a provider asked the node to pause; other tokens are not affected. After a pause, the
/// node sends one notification to the device. If the provider accepts it, the node sends twice as many in the next
/// second, and so on, because all waiting notifications at once would only cause the next pause. Bounded: when the
/// table is full, it removes expired pauses, then an arbitrary one.
struct DevicePauses {
    private struct Pause {
        var until: MonotonicTime
        var batchEnd = MonotonicTime(nanoseconds: 0)
        /// The number of pauses so far.
        var failures: UInt16 = 0
        /// How many attempts may begin in a batch, and how many more may begin in the current batch.
        var size: UInt8 = 1
        var left: UInt8 = 0
        /// Whether an attempt of the current batch was accepted.
        var isAccepted = false
    }

    private static let backoff = Backoff(base: .seconds(10), cap: .seconds(600))
    /// The time from the beginning of one batch to the next after a pause.
    private static let batchTime = Duration.seconds(1)
    /// The size of a batch after which the device counts as working again.
    private static let maximumBatch: UInt8 = 32

    private let capacity: Int
    private var pauses = FlatTable<Pause>(empty: Pause(until: MonotonicTime(nanoseconds: 0)))
    private var nextSweep = MonotonicTime(nanoseconds: 0)

    init(capacity: Int) { self.capacity = capacity }

    /// The number of entries, some of whose pauses have expired.
    var count: Int { pauses.count }

    /// The time left of the token's pause; `nil` if it is not paused.
    func remaining(_ token: TableKey, now: MonotonicTime) -> Duration? {
        guard pauses.count > 0, let pause = pauses[token.bits], pause.until > now else { return nil }
        return pause.until - now
    }

    /// Decides whether an attempt may begin.
    /// - Returns: `nil` if it may, else how long it has to wait.
    mutating func admit(_ token: TableKey, now: MonotonicTime) -> Duration? {
        guard pauses.count > 0, var pause = pauses[token.bits] else { return nil }
        guard pause.until <= now else { return pause.until - now }
        if pause.batchEnd <= now {
            pause.batchEnd = now + Self.batchTime
            pause.left = pause.size
            pause.isAccepted = false
        }
        guard pause.left > 0 else { return pause.batchEnd - now }
        pause.left -= 1
        pauses.set(token.bits, to: pause)
        return nil
    }

    /// Pauses the token for `seconds`, or for a random part of a time that doubles with each pause, if that is longer.
    mutating func pause(_ token: TableKey, seconds: UInt32, now: MonotonicTime, random: Double) {
        if pauses.count >= capacity, pauses[token.bits] == nil { makeRoom(now) }
        var pause = pauses[token.bits] ?? Pause(until: now)
        // An answer to an attempt that was in flight when the pause began extends it only by its own retry-after.
        var own = Duration.zero
        if pause.until <= now {
            own = Self.backoff.ceiling(afterFailures: Int(pause.failures)) * random
            pause.failures = min(pause.failures + 1, 1000)
        }
        pause.until = max(pause.until, now + max(.seconds(Int64(seconds)), own))
        pause.size = 1
        pause.batchEnd = pause.until
        pauses.set(token.bits, to: pause)
    }

    /// Records that the provider accepted a notification for this token: doubles the next batch, or forgets the token's
    /// pauses once the batches are large enough.
    mutating func accepted(_ token: TableKey, now: MonotonicTime) {
        guard pauses.count > 0, var pause = pauses[token.bits] else { return }
        // An attempt that is accepted during a pause was in flight when the pause began. Only the first acceptance of a
        // batch counts.
        guard pause.until <= now, !pause.isAccepted else { return }
        pause.isAccepted = true
        pause.size *= 2
        if pause.size > Self.maximumBatch { pauses.remove(token.bits) } else { pauses.set(token.bits, to: pause) }
    }

    private mutating func makeRoom(_ now: MonotonicTime) {
        // One scan a second is enough.
        if now >= nextSweep {
            pauses.removeAll { $0.until <= now }
            nextSweep = now + .seconds(1)
        }
        if pauses.count >= capacity, let victim = pauses.anyKey { pauses.remove(victim) }
    }
}
