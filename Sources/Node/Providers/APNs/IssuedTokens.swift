// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Time

/// The latest provider token of each of Apple's keys. Outlives a key holder, so that a new one issues none that Apple
/// would not accept (Apple, "Establishing a token-based connection to APNs": at most one in 20 minutes).
package struct IssuedTokens: Codable, Equatable, Redacted {
    private struct Token: Codable, Equatable {
        var text: Base64Bytes
        /// When it was issued, by the monotonic clock, in nanoseconds.
        var time: UInt64
        /// The same by the wall clock, Unix time in seconds.
        var unix: Int64
    }

    /// The largest number of keys: more than a node has apps.
    package static let maximum = 64

    package init() {}

    private var tokens: [String: Token] = [:]

    /// Returns the latest token of a key while it is too early to issue another; `nil` if Apple has not seen the token and the
    /// wall clock has stepped since.
    package func reusableToken(of key: Digest256, isUnseen: Bool, at now: ClockReading) -> [UInt8]? {
        guard let token = tokens[Hex.encode(key.bytes)] else { return nil }
        let age = (now.monotonic - MonotonicTime(nanoseconds: token.time)).wholeSeconds
        let hasStepped = abs(now.unix - token.unix - age) > GuardedClock.tolerance
        guard age < APNsProviderToken.shortestInterval, !(isUnseen && hasStepped) else { return nil }
        return token.text.bytes
    }

    /// Adds the tokens that another key holder has issued; of two tokens of a key, the later one counts.
    package mutating func merge(_ other: IssuedTokens) {
        tokens.merge(other.tokens) { $0.time > $1.time ? $0 : $1 }
    }

    package mutating func add(_ token: [UInt8], of key: Digest256, at now: ClockReading) {
        tokens[Hex.encode(key.bytes)] = Token(
            text: Base64Bytes(token), time: now.monotonic.nanoseconds, unix: now.unix)
        while tokens.count > Self.maximum, let oldest = tokens.min(by: { $0.value.time < $1.value.time }) {
            tokens[oldest.key] = nil
        }
    }
}
