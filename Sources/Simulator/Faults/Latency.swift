// SPDX-License-Identifier: Apache-2.0

import Glibc

/// How long answers take, in milliseconds.
package enum Latency: Sendable, Equatable {
    /// No longer than they need.
    case none
    /// Each as long.
    case fixed(Int)
    /// Anything in this range, equally often.
    case uniform(ClosedRange<Int>)
    /// Exponentially distributed, but never more than ten times the mean.
    case exponential(mean: Int)

    /// One answer's time.
    func draw(using random: inout some RandomNumberGenerator) -> Duration {
        switch self {
        case .none: .zero
        case .fixed(let milliseconds): .milliseconds(milliseconds)
        case .uniform(let range):
            .microseconds(Int.random(in: (range.lowerBound * 1000)...(range.upperBound * 1000), using: &random))
        case .exponential(let mean):
            // The inverse of the distribution function; the logarithm's argument is never 0.
            .milliseconds(Double(mean) * min(-log(1 - Double.random(in: 0..<1, using: &random)), 10))
        }
    }
}
