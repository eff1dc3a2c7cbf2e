// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Admission
@testable import Time

@Suite(.tags(.computing)) struct DurationTests {
    /// The whole nanoseconds by the division of 128-bit numbers that ``Duration/wholeNanoseconds`` avoids.
    private static func nanoseconds(of duration: Duration) -> UInt64 {
        UInt64(min(max(0, duration.attoseconds / 1_000_000_000), Int128(1 << 33) * 1_000_000_000))
    }

    @Test func `conversions agree with 128-bit division, at the ends of their ranges, too`() {
        var attoseconds: [Int128] = [0, 1, -1, 999_999_999, 1_000_000_000, .max, .min]
        // 2³³ s is the largest duration, and 1e9 · 2⁶⁴ as the smallest that one division cannot convert.
        for edge in [Int128(1 << 33) * 1_000_000_000_000_000_000, (Int128(1) << 64) * 1_000_000_000] {
            attoseconds += [edge - 1, edge, edge + 1]
        }
        for bits in 0..<127 { attoseconds += [1 << bits, (1 << bits) - 1, (1 << bits) / 3] }
        for attoseconds in attoseconds {
            let duration = Duration(attoseconds: attoseconds)
            let expected = Self.nanoseconds(of: duration)
            #expect(duration.wholeNanoseconds == expected)
            #expect(duration.wholeSeconds == Int64(expected / 1_000_000_000))
        }
    }

    @Test func `milliseconds on the wire are rounded up and limited`() {
        #expect(Duration.zero.wireMilliseconds == 0)
        #expect(Duration.seconds(-1).wireMilliseconds == 0)
        #expect(Duration.nanoseconds(1).wireMilliseconds == 1)
        #expect(Duration.milliseconds(1).wireMilliseconds == 1)
        #expect(Duration.microseconds(1001).wireMilliseconds == 2)
        #expect(Duration.seconds(4_000_000).wireMilliseconds == 4_000_000_000)
        #expect(Duration.seconds(Int64.max).wireMilliseconds == 4_000_000_000)
    }
}
