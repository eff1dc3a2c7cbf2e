// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP
import Tables
import Time

/// Makes a resend harmless (PROTOCOL §3): repeats recent outcomes without asking the provider again, and rejects an iv
/// that is reused with another ciphertext. Bounded: the caller makes sure that there is room (``count``), so that no
/// outcome is evicted before it expires.
struct ReplayWindow {
    private struct Pair {
        let ciphertext: Int
        /// ``until`` in whole milliseconds, enough for 34 years, above 24 bits of ``claims``.
        private var packed: UInt64 = 0

        private static let claimBits: UInt64 = 24

        init(ciphertext: Int, until: MonotonicTime, claims: Int) {
            self.ciphertext = ciphertext
            (self.until, self.claims) = (until, claims)
        }

        var until: MonotonicTime {
            get { MonotonicTime(nanoseconds: (packed >> Self.claimBits) * ReplayWindow.nanoseconds) }
            set {
                let milliseconds = newValue.nanoseconds / ReplayWindow.nanoseconds
                packed = packed & (1 << Self.claimBits - 1) | (milliseconds << Self.claimBits)
            }
        }
        /// Number of pending envelopes with this pair.
        var claims: Int {
            get { Int(packed & (1 << Self.claimBits - 1)) }
            set { packed = packed & ~(1 << Self.claimBits - 1) | UInt64(max(0, newValue)) }
        }
    }

    private struct Remembered {
        let digest: Digest256
        /// The key in ``ReplayWindow/pairs``; 0 if there is none.
        let pair: UInt64
        let until: MonotonicTime
        /// The kind in the lowest bits, then the reason.
        private let summary: UInt16
        /// The place of the whole outcome in ``ReplayWindow/details``, if it says more than kind and reason.
        let details: OutcomeDetails.Place

        private static let kindBits: UInt16 = 4
        /// The largest reason that fits; those of the protocol have three digits.
        static let maximumReason = UInt16.max >> kindBits

        init(
            _ digest: Digest256, _ pair: TableKey?, until: MonotonicTime, _ outcome: Outcome,
            _ details: OutcomeDetails.Place
        ) {
            (self.digest, self.pair, self.until, self.details) = (digest, pair?.bits ?? 0, until, details)
            summary = outcome.reason.rawValue << Self.kindBits | UInt16(outcome.kind.rawValue)
        }

        /// The outcome without details.
        var outcome: Outcome {
            let kind = Outcome.Kind(rawValue: UInt8(summary & (1 << Self.kindBits - 1)))
            return Outcome(kind ?? .retry, reason: Reason(rawValue: summary >> Self.kindBits))
        }
    }

    /// How long an outcome is remembered.
    let length: Duration
    let capacity: Int
    /// The outcomes, oldest first.
    private var remembered = ChunkedQueue<Remembered>()
    /// The number in ``remembered`` of each digest.
    private var numbers = FlatTable<UInt32>(empty: 0)
    private var details: OutcomeDetails
    /// For each device token and iv, the ciphertext that used them.
    private var pairs = FlatTable<Pair>(empty: Pair(ciphertext: 0, until: MonotonicTime(nanoseconds: 0), claims: 0))
    private let contentHash = UniversalHash()
    /// Random: with ``summand``, turns a digest into a key that its sender cannot choose.
    private let factor: UInt64
    private let summand: UInt64

    init(length: Duration, capacity: Int) {
        self.length = length
        self.capacity = capacity
        var random = SecureRandom.Generator()
        (factor, summand) = (random.next() | 1, random.next())
        details = OutcomeDetails(maximumBytes: OutcomeDetails.maximumBytes(outcomes: capacity))
    }

    private static let nanoseconds: UInt64 = 1_000_000

    /// The first whole millisecond at or after a time.
    private static func wholeMillisecond(_ time: MonotonicTime) -> MonotonicTime {
        MonotonicTime(nanoseconds: (time.nanoseconds + nanoseconds - 1) / nanoseconds * nanoseconds)
    }

    private func key(of digest: Digest256) -> UInt64 { (digest.leading &+ summand) &* factor }

    private func find(_ digest: Digest256) -> Remembered? {
        guard let number = numbers[key(of: digest)], let found = remembered[number], found.digest == digest else {
            return nil
        }
        return found
    }

    /// The remembered outcome of an envelope with this digest; `nil` if there is none. Removes expired outcomes.
    mutating func outcome(of envelope: Envelope, now: MonotonicTime) -> Outcome? {
        purge(now)
        guard let found = find(envelope.digest) else { return nil }
        var outcome = details[found.details] ?? found.outcome
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
    /// - Returns: the key to release it with; `nil` if the iv has been used with another ciphertext for this device.
    mutating func claim(_ envelope: Envelope, _ token: TableKey, now: MonotonicTime) -> TableKey? {
        let (key, ciphertext) = (Self.key(of: envelope, token), contentHash(envelope.ciphertext))
        guard var pair = pairs[key.bits], pair.claims > 0 || pair.until > now else {
            pairs.set(key.bits, to: Pair(ciphertext: ciphertext, until: MonotonicTime(nanoseconds: 0), claims: 1))
            return key
        }
        guard pair.ciphertext == ciphertext else { return nil }
        pair.claims += 1
        pairs.set(key.bits, to: pair)
        return key
    }

    /// Releases the reserved iv, and remembers the final outcome if a resend would not change it.
    mutating func finished(
        _ digest: Digest256, _ magic: Magic, _ pair: TableKey?, _ outcome: Outcome, now: MonotonicTime
    ) {
        let isRepeated = outcome.isRepeated
        let end = Self.wholeMillisecond(now + length)
        if let pair, var held = pairs[pair.bits] {
            held.claims -= 1
            if isRepeated { held.until = end }
            if held.claims > 0 || held.until > now {
                pairs.set(pair.bits, to: held)
            } else {
                pairs.remove(pair.bits)
            }
        }
        purge(now)
        // The first outcome remains: a sender may have received it.
        guard isRepeated, find(digest) == nil else { return }
        if remembered.count >= capacity { forgetOldest() }
        var kept = outcome
        // Apple's message id is derived from the digest.
        if magic.isApple { kept.messageID = nil }
        let isLong = kept.hasDetails || kept.messageID != nil || kept.reason.rawValue > Remembered.maximumReason
        let place = isLong ? details.append(kept) : .none
        let number = remembered.append(Remembered(digest, pair, until: end, outcome, place))
        numbers.set(key(of: digest), to: number)
    }

    /// Number of remembered outcomes.
    var count: Int { remembered.count }

    /// The number of pairs of device token and iv, including those of pending envelopes.
    var pairCount: Int { pairs.count }

    /// Milliseconds until the oldest outcome expires; 1000 if none is remembered.
    func nextFree(now: MonotonicTime) -> UInt32 {
        guard let first = remembered.first else { return 1000 }
        return UInt32(clamping: Int((first.until - now).milliseconds) + 1)
    }

    private mutating func purge(_ now: MonotonicTime) {
        while let first = remembered.first, first.until <= now { forgetOldest() }
    }

    private mutating func forgetOldest() {
        guard let first = remembered.popFirst() else { return }
        // Two digests may share a key; the newer one has it.
        if numbers[key(of: first.digest)].map({ remembered[$0] == nil }) == true {
            numbers.remove(key(of: first.digest))
        }
        details.release(before: first.details)
        if remembered.isEmpty { details.removeAll() }
        // Another envelope may still need this iv: naming the app or omitting it gives two digests for the same
        // content.
        if first.pair != 0, let pair = pairs[first.pair], pair.claims <= 0, pair.until <= first.until {
            pairs.remove(first.pair)
        }
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
