// SPDX-License-Identifier: Apache-2.0

import TNP

/// What the providers have answered about device tokens: for each token the environment that knows it, its last
/// acceptance, and whether it was refused. Bounded; keyed by hash, so that the tokens themselves are not kept.
struct TokenHistory {
    /// What is known of one token.
    struct Record: Equatable {
        // One number: bits 16 to 63 hold `accepted`, bits 8 to 15 the environment, bit 0 `isRefused`.
        private static let (acceptedShift, environmentShift): (UInt64, UInt64) = (16, 8)
        private static let environments: [Magic?] = [nil] + Magic.allCases

        /// The Apple environment that knows the token; `nil` if it is that of the sender's magic or is not known.
        var environment: Magic?
        /// Unix time in milliseconds of the last acceptance; 0 if there was none.
        var accepted: UInt64 = 0
        var isRefused = false

        init(environment: Magic? = nil, accepted: UInt64 = 0, isRefused: Bool = false) {
            (self.environment, self.accepted, self.isRefused) = (environment, accepted, isRefused)
        }

        init(packed: UInt64) {
            accepted = packed >> Self.acceptedShift
            environment = Self.environments[Int(packed >> Self.environmentShift & 0xFF)]
            isRefused = packed & 1 == 1
        }

        var packed: UInt64 {
            min(accepted, UInt64.max >> Self.acceptedShift) << Self.acceptedShift
                | UInt64(Self.environments.firstIndex(of: environment) ?? 0) << Self.environmentShift
                | (isRefused ? 1 : 0)
        }
    }

    private var records: RecentTable

    /// - Parameter capacity: the maximum number of tokens remembered at a time.
    init(capacity: Int) { records = RecentTable(capacity: capacity) }

    /// Changes the maximum number of tokens remembered at a time.
    mutating func resize(to capacity: Int) { records.resize(to: capacity) }

    /// The number of entries; see ``RecentTable/count``.
    var count: Int { records.count }

    subscript(token: TableKey) -> Record { records[token].map(Record.init(packed:)) ?? Record() }

    /// Records that a provider accepted a notification for the token.
    mutating func accepted(_ token: TableKey, by home: Magic?, at milliseconds: UInt64) {
        records.set(token, to: Record(environment: home, accepted: milliseconds).packed)
    }

    /// Records that the provider refused the token.
    /// - Returns: whether this is the first refusal since the token was last accepted.
    mutating func refused(_ token: TableKey) -> Bool {
        var record = self[token]
        guard !record.isRefused else { return false }
        record.isRefused = true
        record.environment = nil
        records.set(token, to: record.packed)
        return true
    }

    /// Whether a provider accepted the token after `since`, the reported time at which the token was gone (Unix time in
    /// milliseconds). Discards that acceptance, so that a second report is trusted.
    mutating func contradicts(_ token: TableKey, goneSince since: UInt64) -> Bool {
        var record = self[token]
        guard record.accepted > since else { return false }
        record.accepted = 0
        records.set(token, to: record.packed)
        return true
    }
}
