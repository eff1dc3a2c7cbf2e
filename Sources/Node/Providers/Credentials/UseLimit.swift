// SPDX-License-Identifier: Apache-2.0

import Time

/// A token bucket that limits how often something is used. The time is a parameter.
package struct UseLimit: Sendable {
    private let burst: Double
    private let perSecond: Double
    private var left: Double
    private var last: MonotonicTime?

    /// - Parameters:
    ///   - burst: how often it may be used at once, at least 1.
    ///   - perSecond: how many uses a second the bucket regains.
    package init(burst: Double, perSecond: Double) {
        self.burst = burst
        self.perSecond = perSecond
        left = burst
    }

    /// Takes one use from the bucket; `false` if none is left.
    package mutating func take(at now: MonotonicTime) -> Bool {
        let seconds = last.map { (now - $0).milliseconds / 1000 } ?? 0
        left = min(burst, left + seconds * perSecond)
        last = now
        guard left >= 1 else { return false }
        left -= 1
        return true
    }
}
