// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Bounds what a peer's frames may cost this side: each frame takes a credit, each answer brings some, and some come with
/// time. A server whose frames bring no answers for long (empty DATA, padding, 1xx, SETTINGS, PING, …: RFC 9113 §10.5) runs
/// out of them, and its connection is closed.
struct FrameBudget {
    /// Credits at first and at most: as many streams may answer in pieces at a time.
    static let most = 4096
    /// Credits of a whole answer: it may come in so many frames, on average.
    static let ofAnAnswer = 16
    /// Credits of a second.
    static let ofASecond = 256

    /// What a kilobyte costs on top of its frames.
    static let bytesOfACredit = 1024

    private var credits = Self.most
    private var unpaid = 0
    private var since: MonotonicTime

    init(now: MonotonicTime) { since = now }

    /// A frame has come.
    /// - Returns: false where it is one too many.
    mutating func frame(_ now: MonotonicTime) -> Bool {
        if credits == 0 { refill(now) }
        guard credits > 0 else { return false }
        credits -= 1
        return true
    }

    /// The peer has sent bytes, of frames of any type, including those that nghttp2 reports to no callback.
    /// - Returns: false where they are too many.
    mutating func bytes(_ count: Int, _ now: MonotonicTime) -> Bool {
        unpaid += count
        let cost = unpaid / Self.bytesOfACredit
        guard cost > 0 else { return true }
        unpaid %= Self.bytesOfACredit
        if credits < cost { refill(now) }
        defer { credits = max(0, credits - cost) }
        return credits >= cost
    }

    /// An answer is complete, with so many bytes in its body.
    mutating func answer(bytes: Int = 0) {
        credits = min(Self.most, credits + Self.ofAnAnswer + bytes / Self.bytesOfACredit)
    }

    private mutating func refill(_ now: MonotonicTime) {
        let seconds = (now - since).milliseconds / 1000
        let earned = Int(min(seconds, 3600) * Double(Self.ofASecond))
        guard earned > 0 else { return }
        credits = min(Self.most, credits + earned)
        since = now
    }
}
