// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import EventLoop
import TNP
import Time

/// Makes a resend harmless (PROTOCOL §3): repeats recent outcomes without asking the provider again, and rejects an iv
/// that is reused with another ciphertext. Bounded: the caller makes sure that there is room (``count``), so that no
/// outcome is evicted before it expires.
struct ReplayWindow {
    private struct Pair {
        let ciphertext: Int
        /// Number of envelopes in flight with this pair.
        var claims: Int
        var until: MonotonicTime
    }

    /// An outcome in compact form; most consist of kind and reason alone.
    private struct Kept {
        private let kind: Outcome.Kind
        private let reason: Reason
        private let whole: Whole?

        private final class Whole {
            let outcome: Outcome
            init(_ outcome: Outcome) { self.outcome = outcome }
        }

        /// - Parameter hasDerivedID: whether the provider's id is derived from the digest, and need not be kept.
        init(_ outcome: Outcome, hasDerivedID: Bool) {
            kind = outcome.kind
            reason = outcome.reason
            guard outcome.hasDetails || (outcome.messageID != nil && !hasDerivedID) else {
                whole = nil
                return
            }
            var kept = outcome
            if hasDerivedID { kept.messageID = nil }
            whole = Whole(kept)
        }

        var outcome: Outcome { whole?.outcome ?? Outcome(kind, reason: reason) }
    }

    private struct Remembered {
        let digest: Digest256
        let pair: TableKey?
        let until: MonotonicTime
    }

    /// How long an outcome is remembered.
    let length: Duration
    let capacity: Int
    private var outcomes: [Digest256: Kept] = [:]
    private var order: Deque<Remembered> = []
    /// By device token and iv.
    private var pairs: [TableKey: Pair] = [:]
    private let contentHash = UniversalHash()

    init(length: Duration, capacity: Int) {
        self.length = length
        self.capacity = capacity
    }

    /// The remembered outcome of an envelope with this digest.
    mutating func outcome(of envelope: Envelope, now: MonotonicTime) -> Outcome? {
        purge(now)
        guard var outcome = outcomes[envelope.digest]?.outcome else { return nil }
        if outcome.kind == .delivered, outcome.messageID == nil, envelope.magic.isApple {
            outcome.messageID = MessageID(envelope.apnsID[...])
        }
        return outcome
    }

    /// The key of an envelope's device token and iv.
    /// - Parameter token: the key of its device token.
    static func key(of envelope: Envelope, _ token: TableKey) -> TableKey {
        TableKey(token, with: envelope.uniquePart)
    }

    /// Reserves the envelope's iv for its ciphertext, until ``finished(_:_:_:_:now:)``.
    /// - Parameter token: the key of its device token.
    /// - Returns: `nil` if the iv has been used with another ciphertext for this device.
    mutating func claim(_ envelope: Envelope, _ token: TableKey, now: MonotonicTime) -> TableKey? {
        let (key, ciphertext) = (Self.key(of: envelope, token), contentHash(envelope.ciphertext))
        guard var pair = pairs[key], pair.claims > 0 || pair.until > now else {
            pairs[key] = Pair(ciphertext: ciphertext, claims: 1, until: now)
            return key
        }
        guard pair.ciphertext == ciphertext else { return nil }
        pair.claims += 1
        pairs[key] = pair
        return key
    }

    /// Releases the reserved iv, and remembers the final outcome if a resend would not change it.
    mutating func finished(
        _ digest: Digest256, _ magic: Magic, _ pair: TableKey?, _ outcome: Outcome, now: MonotonicTime
    ) {
        let isRepeated = outcome.isRepeated
        if let pair, var held = pairs[pair] {
            held.claims -= 1
            if isRepeated { held.until = now + length }
            pairs[pair] = held.claims > 0 || held.until > now ? held : nil
        }
        purge(now)
        guard isRepeated else { return }
        if outcomes.updateValue(Kept(outcome, hasDerivedID: magic.isApple), forKey: digest) == nil {
            if order.count >= capacity { forgetOldest() }
            order.append(Remembered(digest: digest, pair: pair, until: now + length))
        }
    }

    /// Number of remembered outcomes.
    var count: Int { order.count }

    /// The number of pairs of device token and iv, those of envelopes in flight included.
    var pairCount: Int { pairs.count }

    /// Milliseconds until the oldest outcome expires.
    func nextFree(now: MonotonicTime) -> UInt32 {
        guard let first = order.first else { return 1000 }
        return UInt32(clamping: Int((first.until - now).milliseconds) + 1)
    }

    private mutating func purge(_ now: MonotonicTime) {
        while let first = order.first, first.until <= now { forgetOldest() }
    }

    private mutating func forgetOldest() {
        guard let first = order.popFirst() else { return }
        outcomes[first.digest] = nil
        // Another envelope may still need this iv: naming the app or omitting it gives two digests for the same
        // content.
        if let key = first.pair, let pair = pairs[key], pair.claims <= 0, pair.until <= first.until { pairs[key] = nil }
    }
}

extension Outcome {
    /// Whether a resend gets this outcome again: true for final answers of the provider that a retry would not change.
    package var isRepeated: Bool {
        switch kind {
        case .delivered, .gone: true
        // Excludes 300 (platform not configured): the operator may change that at any time.
        case .rejected: (301..<400).contains(reason.rawValue)
        case .queued, .retry: false
        }
    }
}
