// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// A pseudorandom number generator that gives the same numbers for the same seed on every machine. Not for secrets.
package struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    /// Creates a generator.
    package init(seed: UInt64) { state = seed }

    /// Returns the next 64 random bits.
    package mutating func next() -> UInt64 { splitMix64(&state) }

    /// Returns a number from 0 up to, but not including, 1.
    package mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    /// Returns a number from 0 up to, but not including, `bound`.
    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
