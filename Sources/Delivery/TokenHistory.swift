// SPDX-License-Identifier: Apache-2.0

import TNP

/// What the providers have said of device tokens: where each is at home, when it was last good, whether it was refused.
/// Bounded, and under keyed hashes: the tokens themselves are not kept.
struct TokenHistory {
    /// What is known of one.
    struct Record: Equatable {
        /// Apple's environment that knows it, where it is not that of the sender's magic.
        var home: Magic?
        /// Unix time in milliseconds of the last acceptance; 0: never.
        var accepted: UInt64 = 0
        var isRefused = false
    }

    /// When the younger half is full it becomes the older one, and the older one goes: what was used lately stays.
    private let half: Int
    private var young: [Int: Record] = [:]
    private var old: [Int: Record] = [:]

    /// - Parameter capacity: the most that are known at a time.
    init(capacity: Int) { half = max(1, capacity / 2) }

    subscript(token: Bytes) -> Record { young[token.tableKey] ?? old[token.tableKey] ?? Record() }

    /// The provider has accepted something for it.
    mutating func accepted(_ token: Bytes, by home: Magic?, at milliseconds: UInt64) {
        set(Record(home: home, accepted: milliseconds, isRefused: false), token)
    }

    /// The provider does not take it.
    /// - Returns: whether that is news.
    mutating func refused(_ token: Bytes) -> Bool {
        var record = self[token]
        guard !record.isRefused else { return false }
        record.isRefused = true
        record.home = nil
        set(record, token)
        return true
    }

    /// Whether a provider has accepted something for it after the time since when it is said to be gone, in milliseconds.
    /// That is forgotten with the question: the same word a second time is believed.
    mutating func contradicts(_ token: Bytes, goneSince since: UInt64) -> Bool {
        var record = self[token]
        guard record.accepted > since else { return false }
        record.accepted = 0
        set(record, token)
        return true
    }

    private mutating func set(_ record: Record, _ token: Bytes) {
        if young.count >= half, young[token.tableKey] == nil {
            old = young
            young = [:]
        }
        young[token.tableKey] = record
    }
}
