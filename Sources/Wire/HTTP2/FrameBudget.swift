// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Limits what a peer's frames may cost this side. Each frame and each kilobyte takes a credit; each complete response
/// and each second adds some. A server whose frames bring no responses for long (empty DATA, padding, 1xx, SETTINGS,
/// PING, …: RFC 9113 §10.5) runs out of credits, and its connection is closed.
struct FrameBudget {
    /// Initial and maximum credits: enough for one frame on each of this many streams before any of their responses is
    /// complete.
    static let maximumCredits = 4096
    /// Credits for a complete response: the number of frames that it may have, on average.
    static let creditsPerResponse = 16
    /// Credits per second.
    static let creditsPerSecond = 256

    /// Bytes that cost one credit, in addition to the credits for their frames.
    static let bytesPerCredit = 1024

    private var credits = Self.maximumCredits
    private var unpaid = 0
    private var since: MonotonicTime

    init(now: MonotonicTime) { since = now }

    /// Charges for a frame.
    /// - Returns: `false` if no credit is left.
    mutating func frame(_ now: MonotonicTime) -> Bool {
        if credits == 0 { refill(now) }
        guard credits > 0 else { return false }
        credits -= 1
        return true
    }

    /// Charges for received bytes, of frames of any type, including those that nghttp2 reports to no callback.
    /// - Returns: `false` if the credits do not suffice.
    mutating func bytes(_ count: Int, _ now: MonotonicTime) -> Bool {
        unpaid += count
        let cost = unpaid / Self.bytesPerCredit
        guard cost > 0 else { return true }
        unpaid %= Self.bytesPerCredit
        if credits < cost { refill(now) }
        defer { credits = max(0, credits - cost) }
        return credits >= cost
    }

    /// Adds the credits of a complete response with this many bytes in its body.
    mutating func responseCompleted(bytes: Int = 0) {
        credits = min(Self.maximumCredits, credits + Self.creditsPerResponse + bytes / Self.bytesPerCredit)
    }

    private mutating func refill(_ now: MonotonicTime) {
        let milliseconds = Int(clamping: min((now - since).wholeMilliseconds, 3_600_000))
        let earned = milliseconds * Self.creditsPerSecond / 1000
        guard earned > 0 else { return }
        credits = min(Self.maximumCredits, credits + earned)
        since = now
    }
}
