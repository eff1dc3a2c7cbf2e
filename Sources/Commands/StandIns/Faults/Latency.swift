// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The artificial latency of answers, in milliseconds.
package enum Latency: Sendable, Equatable {
    /// No added latency.
    case none
    /// A constant latency.
    case fixed(Int)
    /// Uniformly distributed over this range.
    case uniform(ClosedRange<Int>)
    /// Exponentially distributed, with a maximum of ten times the mean.
    case exponential(mean: Int)

    /// Draws the latency of one answer.
    func draw(using random: inout some RandomNumberGenerator) -> Duration {
        switch self {
        case .none: .zero
        case .fixed(let milliseconds): .milliseconds(milliseconds)
        case .uniform(let range):
            .microseconds(Int.random(in: (range.lowerBound * 1000)...(range.upperBound * 1000), using: &random))
        case .exponential(let mean):
            // Inverse of the cumulative distribution function; the logarithm's argument is never 0.
            .milliseconds(Double(mean) * min(-log(1 - Double.random(in: 0..<1, using: &random)), 10))
        }
    }
}
