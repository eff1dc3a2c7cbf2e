// SPDX-License-Identifier: Apache-2.0

/// Notices that a push server which refuses subscriptions refuses the node. RFC 8292 §4.2 and ntfy have one answer, 401 or
/// 403, for a subscription that belongs to another key, for a topic that the node may not write to, and for a key that
/// the server does not take at all. Whoever names a subscription can cause the first two; so it takes several phones that
/// the server has accepted before, and none that it accepts now.
struct RefusedSubscriptions: Equatable {
    /// How many phones the server must refuse in a row.
    static let limit = 3

    private var phones: Set<TableKey> = []

    /// Records that the server refuses a phone.
    /// - Parameter isProven: whether it has accepted the phone before.
    /// - Returns: whether the server refuses the node.
    mutating func refused(_ phone: TableKey, isProven: Bool) -> Bool {
        guard isProven else { return false }
        if phones.count < Self.limit { phones.insert(phone) }
        return phones.count >= Self.limit
    }

    /// Records that the server accepts a phone.
    mutating func accepted() { phones.removeAll() }
}
