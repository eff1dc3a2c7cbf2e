// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// The device tokens for which a provider asked the node to pause; other tokens are not affected. After a pause, the node
/// sends one notification to the device, and if that is accepted twice as many a second later, and so on: all that have
/// waited at once would only cause the next pause. Bounded: when the table is full, it removes expired pauses, then an
/// arbitrary one.
struct DevicePauses {
    private struct Pause {
        var until: MonotonicTime
        var backoff = Backoff(base: .seconds(10), cap: .seconds(600))
        /// How many attempts may begin in a batch, and how many more may in the present one.
        var size = 1
        var left = 0
        var batchEnd = MonotonicTime(nanoseconds: 0)
        /// Whether an attempt of the present batch was accepted.
        var isAccepted = false
    }

    /// The time between two batches after a pause.
    private static let batchTime = Duration.seconds(1)
    /// The size of a batch after which the device counts as working again.
    private static let maximumBatch = 32

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

    /// Decides whether an attempt may begin.
    /// - Returns: `nil` if it may, else how long it has to wait.
    mutating func admit(_ token: TableKey, now: MonotonicTime) -> Duration? {
        guard !pauses.isEmpty, var pause = pauses[token] else { return nil }
        guard pause.until <= now else { return pause.until - now }
        if pause.batchEnd <= now {
            pause.batchEnd = now + Self.batchTime
            pause.left = pause.size
            pause.isAccepted = false
        }
        guard pause.left > 0 else { return pause.batchEnd - now }
        pause.left -= 1
        pauses[token] = pause
        return nil
    }

    /// Pauses the token for at least `seconds`; each further pause is longer.
    mutating func pause(_ token: TableKey, seconds: UInt32, now: MonotonicTime, random: Double) {
        if pauses.count >= capacity, pauses[token] == nil { makeRoom(now) }
        var pause = pauses[token] ?? Pause(until: now)
        // An answer to an attempt that was in flight when the pause began extends it only by its own retry-after.
        let own = pause.until > now ? .zero : pause.backoff.next(random: random)
        pause.until = max(pause.until, now + max(.seconds(Int64(seconds)), own))
        pause.size = 1
        pause.batchEnd = pause.until
        pauses[token] = pause
    }

    /// Records that the provider accepted a notification for this token: ends the pause, and lets more attempts begin.
    mutating func accepted(_ token: TableKey, now: MonotonicTime) {
        guard !pauses.isEmpty, var pause = pauses[token] else { return }
        // An attempt that was in flight when the pause began.
        guard pause.until <= now, !pause.isAccepted else { return }
        pause.isAccepted = true
        pause.size *= 2
        pauses[token] = pause.size > Self.maximumBatch ? nil : pause
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
