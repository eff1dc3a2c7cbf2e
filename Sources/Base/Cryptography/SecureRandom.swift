// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Random bytes and numbers from the operating system, by libsodium.
package enum SecureRandom {
    /// `count` random bytes.
    package static func bytes(_ count: Int) -> [UInt8] {
        Sodium.initialised
        var output = [UInt8](repeating: 0, count: count)
        randombytes_buf(&output, count)
        return output
    }

    /// A random number from 0 to 1, excluding 1.
    package static func fraction() -> Double {
        var generator = Generator()
        return Double.random(in: 0..<1, using: &generator)
    }

    /// A generator of random numbers, for functions of the standard library that take one.
    package struct Generator: RandomNumberGenerator, Sendable {
        /// Makes a generator. All generators share the operating system's source.
        package init() { Sodium.initialised }

        /// 64 random bits.
        package mutating func next() -> UInt64 {
            var number: UInt64 = 0
            randombytes_buf(&number, MemoryLayout<UInt64>.size)
            return number
        }
    }
}
