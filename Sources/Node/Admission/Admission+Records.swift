// SPDX-License-Identifier: Apache-2.0

import TNP
import Time

/// What the node remembers of device tokens.
extension Admission {
    /// Records an admitted submission to a device token.
    mutating func use(_ record: TokenRecord, _ moment: ClockReading) {
        let (rate, now, day) = (settings.device, moment.monotonic, moment.day)
        if record.day >= day, tokens.update(record.token, { $0.allowance.take(rate, now: now) }) { return }
        var used = record
        used.allowance.take(rate, now: now)
        // Using a token must not revive its expired standing or binding.
        used.standing = settings.standing(of: record, on: day)
        settings.forgetOldBinding(of: &used, on: day)
        used.use(on: day)
        store(used)
    }

    mutating func change(_ token: UInt64, _ change: (inout TokenRecord) -> Void) {
        var record = tokens[token] ?? TokenRecord(token: token)
        change(&record)
        store(record)
    }

    mutating func store(_ record: TokenRecord) {
        var record = record
        if !record.isUnsaved, record.isPersistent || tokens[record.token]?.isPersistent == true {
            record.isUnsaved = true
            list(record.token)
        }
        if let gone = tokens.insert(record) { forget(gone) }
    }

    /// Lists a token whose record is unsaved.
    mutating func list(_ token: UInt64) {
        if unsaved.count < maximumListed { unsaved.append(token) } else { hasUnlisted = true }
    }

    mutating func forget(_ record: TokenRecord) {
        // Bounds the list even while the store fails. The store then keeps some rows too long, and ``restore(_:on:)``
        // drops those that have expired.
        if record.isPersistent || record.isUnsaved, forgotten.count < min(maximumListed, settings.deviceTokens) {
            forgotten.append(record.token)
        }
    }
}

extension AdmissionSettings {
    /// The standing of a record on a day. An acceptance or death that is too old no longer counts.
    func standing(of record: TokenRecord, on day: UInt16) -> TokenRecord.Standing {
        switch record.standing {
        case .proven where record.age(on: day) >= provenDays: .unproven
        case .dead where record.age(on: day) >= deadDays: .unproven
        case let standing: standing
        }
    }

    /// The sender key that a device token is bound to; 0 if there is none or the binding has expired.
    func sender(of record: TokenRecord, on day: UInt16) -> UInt64 {
        record.age(on: day) >= senderForgetDays ? 0 : record.sender
    }

    /// Whether an unsigned submission has reached the phone within `senderQuietDays`. If so, a signed one does not bind
    /// the device token (PROTOCOL §3, Binding).
    func hasRecentUnsigned(of record: TokenRecord, on day: UInt16) -> Bool {
        record.unsignedDay.map { Int(day) - Int($0) < senderQuietDays } ?? false
    }

    /// Removes an expired binding, or an expired day of the last unsigned submission.
    func forgetOldBinding(of record: inout TokenRecord, on day: UInt16) {
        if record.sender != 0, sender(of: record, on: day) == 0 { record.unbind() }
        if record.unsignedDay != nil, !hasRecentUnsigned(of: record, on: day) { record.unbind() }
    }
}
