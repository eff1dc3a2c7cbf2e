// SPDX-License-Identifier: Apache-2.0

import Time

/// Notices that a push server which refuses subscriptions refuses the node. RFC 8292 §4.2 and ntfy have one answer, 401 or
/// 403, for a subscription that belongs to another key, for a topic that the node may not write to, and for a key that
/// the server does not take at all. Whoever names a subscription can cause the first two; so it takes several phones that
/// the server has accepted before, and none that it accepts now.
struct RefusedSubscriptions: Equatable {
    /// How many phones the server must refuse in a row, and within which time.
    static let (limit, window) = (3, Duration.seconds(120))

    private var phones: Set<TableKey> = []
    private var since = MonotonicTime(nanoseconds: 0)

    /// Records that the server refuses a phone.
    /// - Parameter isProven: whether it has accepted the phone before.
    /// - Returns: whether the server refuses the node.
    mutating func refused(_ phone: TableKey, isProven: Bool, now: MonotonicTime) -> Bool {
        guard isProven else { return false }
        if phones.isEmpty || now - since > Self.window { (phones, since) = ([], now) }
        phones.insert(phone)
        guard phones.count >= Self.limit else { return false }
        phones.removeAll()
        return true
    }

    /// Records that the server accepts a phone.
    mutating func accepted() { phones.removeAll() }
}
