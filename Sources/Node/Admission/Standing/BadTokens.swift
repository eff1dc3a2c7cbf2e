// SPDX-License-Identifier: Apache-2.0

import DequeModule
import TNP
import Time

/// The device tokens that a push service has refused as bad. For an hour the node answers submissions to them itself,
/// so that a desktop that never forgets a phone causes no further requests to the push service. Only the first
/// remembered refusal of a token is charged. Bounded: the oldest refusal is forgotten first.
struct BadTokens {
    /// How long a refusal answers for the push service. A wrong app or environment may be mended meanwhile.
    static let answerTime = Duration.seconds(3600)
    /// How long a refusal is remembered.
    static let memory = Duration.seconds(86_400)

    /// How many refusals are remembered.
    static let capacity = 16_384

    private let capacity: Int
    private var refused: [UInt64: (at: MonotonicTime, outcome: Outcome)] = [:]
    /// The refusals in the order of their times, including those that ``refused`` no longer holds.
    private var order: Deque<(token: UInt64, at: MonotonicTime)> = []

    init(capacity: Int = BadTokens.capacity) { self.capacity = capacity }

    /// The number of refusals remembered.
    var count: Int { order.count }

    /// The outcome of a submission to a token that was refused lately; `nil` for any other token.
    func outcome(for token: UInt64, at now: MonotonicTime) -> Outcome? {
        guard !refused.isEmpty, let refusal = refused[token], now - refusal.at < Self.answerTime else { return nil }
        return refusal.outcome
    }

    /// Records that a push service refuses the token with this outcome.
    /// - Returns: whether this is the first refusal that is remembered.
    mutating func refused(_ token: UInt64, with outcome: Outcome, at now: MonotonicTime) -> Bool {
        while let oldest = order.first, order.count >= capacity || now - oldest.at >= Self.memory {
            order.removeFirst()
            if refused[oldest.token]?.at == oldest.at { refused[oldest.token] = nil }
        }
        order.append((token, now))
        return refused.updateValue((now, outcome), forKey: token) == nil
    }

    /// Records that a push service accepts the token.
    mutating func accepted(_ token: UInt64) {
        if !refused.isEmpty { refused[token] = nil }
    }
}
