// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The record of a device token, which survives restarts. It has 32 bytes, so that two records share a cache line and
/// no record spans two lines. Prints as `<redacted>`: hashes under the node's key never change, so they would link log
/// lines about the same token.
package struct TokenRecord: Equatable, Sendable, Redacted {
    /// What the push services have reported about the token.
    enum Standing: UInt8 {
        /// As far as the node knows, no push service has accepted the token.
        case unproven = 0
        /// A push service has accepted the token.
        case proven = 1
        /// The app is gone from the phone.
        case dead = 2
    }

    /// The keyed hash of the token; 0 marks an empty slot.
    var token: UInt64 = 0
    /// The binding. If bit 63 is set, this is ``sender``, the keyed hash of the key that the token is bound to;
    /// otherwise it is ``unsignedDay``; 0 if there is neither.
    private(set) var binding: UInt64 = 0
    /// The token bucket for submissions to this device token.
    var allowance = Allowance()
    /// From the most significant bit: 48 bits of `since`, 13 of `day`, 2 of `standing`, 1 of `isUnsaved`.
    private var packed: UInt64 = 0

    // Separate constants: those of a tuple would be initialised at run time, and looked up at each use.
    private static let sinceShift: UInt64 = 16
    private static let sinceMask: UInt64 = 0xFFFF_FFFF_FFFF
    private static let dayShift: UInt64 = 3
    private static let dayMask: UInt64 = 0x1FFF
    private static let standingShift: UInt64 = 1
    private static let standingMask: UInt64 = 0x3
    /// The record counts days from 2020-01-01, for 22 years. Later days count as the last one.
    private static let firstDay: UInt16 = 18_262
    private static let lastDay: UInt16 = 18_262 + 0x1FFF

    init() {}

    init(token: UInt64) { self.token = token }

    /// Restores a stored record.
    init(token: UInt64, standing: UInt8, since: UInt64, day: UInt16, binding: UInt64) {
        self.token = token
        self.standing = Standing(rawValue: standing) ?? .unproven
        self.since = since
        self.day = day
        // A stored day has at most 16 bits; anything larger is the hash of a key.
        self.binding = binding <= UInt64(UInt16.max) ? binding : Self.sender(binding)
    }

    private func field(_ shift: UInt64, _ mask: UInt64) -> UInt64 { packed >> shift & mask }
    private mutating func setField(_ value: UInt64, _ shift: UInt64, _ mask: UInt64) {
        packed = packed & ~(mask << shift) | min(value, mask) << shift
    }

    /// When the standing began or was last confirmed, Unix time in milliseconds.
    var since: UInt64 {
        get { field(Self.sinceShift, Self.sinceMask) }
        set { setField(newValue, Self.sinceShift, Self.sinceMask) }
    }

    /// The day of the token's last use, counted from 1970-01-01.
    package var day: UInt16 {
        get { UInt16(field(Self.dayShift, Self.dayMask)) + Self.firstDay }
        set { setField(newValue > Self.firstDay ? UInt64(newValue - Self.firstDay) : 0, Self.dayShift, Self.dayMask) }
    }

    private static let isSender: UInt64 = 1 << 63

    /// A keyed hash of a sender key in the form of ``sender``.
    static func sender(_ hash: UInt64) -> UInt64 { hash | isSender }

    /// The keyed hash of the sender key that the token is bound to; 0 if none.
    var sender: UInt64 {
        get { binding & Self.isSender == 0 ? 0 : binding }
        set { binding = newValue == 0 ? 0 : Self.sender(newValue) }
    }

    /// The last day on which an unsigned submission was delivered, counted from 1970-01-01; `nil` if there was no such
    /// day or the token is bound.
    var unsignedDay: UInt16? {
        get { binding != 0 && binding & Self.isSender == 0 ? UInt16(truncatingIfNeeded: binding) : nil }
        set { binding = UInt64(newValue ?? 0) }
    }

    /// Removes the binding, so that any sender key may bind the token.
    mutating func unbind() { binding = 0 }

    /// Sets days and times that are in the future to the current day and time.
    mutating func clamp(to today: UInt16, _ milliseconds: UInt64) {
        day = min(day, max(today, Self.firstDay))
        since = min(since, milliseconds)
        if let unsignedDay, unsignedDay > today { self.unsignedDay = today }
    }

    /// The standing, as the push services last reported it.
    var standing: Standing {
        get { Standing(rawValue: UInt8(field(Self.standingShift, Self.standingMask))) ?? .unproven }
        set { setField(UInt64(newValue.rawValue), Self.standingShift, Self.standingMask) }
    }

    /// Whether the record differs from the stored one.
    var isUnsaved: Bool {
        get { packed & 1 == 1 }
        set { packed = packed & ~1 | (newValue ? 1 : 0) }
    }

    /// Whether the record must survive a restart.
    var isPersistent: Bool { standing != .unproven || binding != 0 }

    /// The cost of forgetting the record: records with the lowest rank are evicted first.
    var evictionRank: UInt32 {
        switch (sender != 0, standing) {
        // Without the record, any sender could bind the token.
        case (true, _): 3
        case (_, .proven): 2
        case (_, .dead): 1
        case (_, .unproven): 0
        }
    }

    /// The order of eviction, lowest first: by ``evictionRank``, then the least recently used.
    var evictionOrder: UInt32 { evictionRank << 16 | UInt32(day) }

    /// Records a use on this day. If the clock was set back, the day of the last use does not change.
    mutating func use(on today: UInt16) { day = max(day, today) }

    /// Days since the last use; 0 if the clock was set back. From 2042 on, records no longer age.
    func age(on today: UInt16) -> Int { max(0, Int(min(today, Self.lastDay)) - Int(day)) }
}
