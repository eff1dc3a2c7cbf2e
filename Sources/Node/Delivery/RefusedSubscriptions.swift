// SPDX-License-Identifier: Apache-2.0

import Time

/// Detects that a push server refuses the node itself and not single subscriptions. RFC 8292 §4.2 and ntfy have one
/// answer, 401 or 403, for a subscription that belongs to another key, for a topic that the node may not write to, and
/// for a key that the server does not take at all. Senders can cause the first two with subscriptions of their choice,
/// so only phones that a push service has accepted before count, and each phone that the server accepts resets the
/// count.
struct RefusedSubscriptions: Equatable {
    /// How many phones the server must refuse in a row, and within which time.
    static let (limit, window) = (3, Duration.seconds(120))

    private var phones: Set<TableKey> = []
    private var since = MonotonicTime(nanoseconds: 0)

    /// Records that the server refuses a phone.
    /// - Parameter isProven: whether a push service has accepted the phone's device token before.
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
