// SPDX-License-Identifier: Apache-2.0

/// What is known of a device token: 32 bytes, so that two of them share a line of the processor's cache and none lies
/// across two.
struct TokenRecord: Equatable {
    /// What the push services have said.
    enum Standing: UInt8 {
        /// Nothing.
        case unknown = 0
        /// It is good.
        case proven = 1
        /// The app is gone from the phone.
        case dead = 2
    }

    /// The keyed hash of the token; 0: an empty place.
    var token: UInt64 = 0
    /// Bit 63 set: ``sender``, the keyed hash of the key that it is bound to. Else the day of ``unsignedDay``; 0: neither.
    private(set) var binding: UInt64 = 0
    var allowance = Allowance()
    /// 48 bits of `since`, 13 of `day`, 2 of `standing`, 1 of `isUnsaved`, from the top.
    private var packed: UInt64 = 0

    private static let (sinceShift, dayShift, standingShift): (UInt64, UInt64, UInt64) = (16, 3, 1)
    private static let (sinceMask, dayMask, standingMask): (UInt64, UInt64, UInt64) = (0xFFFF_FFFF_FFFF, 0x1FFF, 0x3)
    /// Days are counted from 2020 on, for 22 years; a later one counts as the last of them.
    private static let (firstDay, lastDay): (UInt16, UInt16) = (18_262, 18_262 + 0x1FFF)

    init() {}

    init(token: UInt64) { self.token = token }

    private func field(_ shift: UInt64, _ mask: UInt64) -> UInt64 { packed >> shift & mask }
    private mutating func setField(_ value: UInt64, _ shift: UInt64, _ mask: UInt64) {
        packed = packed & ~(mask << shift) | min(value, mask) << shift
    }

    /// Since when it has its standing, Unix time in milliseconds.
    var since: UInt64 {
        get { field(Self.sinceShift, Self.sinceMask) }
        set { setField(newValue, Self.sinceShift, Self.sinceMask) }
    }

    /// The day of its last use, counted from 1970-01-01.
    var day: UInt16 {
        get { UInt16(field(Self.dayShift, Self.dayMask)) + Self.firstDay }
        set { setField(newValue > Self.firstDay ? UInt64(newValue - Self.firstDay) : 0, Self.dayShift, Self.dayMask) }
    }

    private static let isSender: UInt64 = 1 << 63

    /// The keyed hash of a sender key as ``sender`` holds it.
    static func sender(_ hash: UInt64) -> UInt64 { hash | isSender }

    /// The keyed hash of the sender key that is bound to it; 0: none.
    var sender: UInt64 {
        get { binding & Self.isSender == 0 ? 0 : binding }
        set { binding = newValue == 0 ? 0 : Self.sender(newValue) }
    }

    /// The last day on which an unsigned submission was delivered, counted from 1970-01-01; nil: none since it was bound.
    var unsignedDay: UInt16? {
        get { binding != 0 && binding & Self.isSender == 0 ? UInt16(truncatingIfNeeded: binding) : nil }
        set { binding = UInt64(newValue ?? 0) }
    }

    /// It is bound to no sender key, and any may bind it.
    mutating func unbind() { binding = 0 }

    /// Reads what ``binding`` was in the store: a day there is at most 16 bits long.
    mutating func restore(binding stored: UInt64) {
        binding = stored <= UInt64(UInt16.max) ? stored : Self.sender(stored)
    }

    /// Brings a day and a moment that lie in the future down to the present ones.
    mutating func clamp(to today: UInt16, _ milliseconds: UInt64) {
        day = min(day, max(today, Self.firstDay))
        since = min(since, milliseconds)
        if let unsignedDay, unsignedDay > today { self.unsignedDay = today }
    }

    var standing: Standing {
        get { Standing(rawValue: UInt8(field(Self.standingShift, Self.standingMask))) ?? .unknown }
        set { setField(UInt64(newValue.rawValue), Self.standingShift, Self.standingMask) }
    }

    /// Whether the store does not have it as it is.
    var isUnsaved: Bool {
        get { packed & 1 == 1 }
        set { packed = packed & ~1 | (newValue ? 1 : 0) }
    }

    /// Whether there is something in it that a restart should not lose.
    var isWorthKeeping: Bool { standing != .unknown || binding != 0 }

    /// What it costs when it is forgotten.
    var rank: UInt32 {
        switch (sender != 0, standing) {
        // Forgetting it would let anybody bind the token.
        case (true, _): 3
        case (_, .proven): 2
        case (_, .dead): 1
        case (_, .unknown): 0
        }
    }

    /// Who has to go for another goes from the lowest: what costs least when it is forgotten, and of that what was not
    /// used for longest.
    var worth: UInt32 { rank << 16 | UInt32(day) }

    /// It is used today. A clock that was set back makes it no older.
    mutating func use(on today: UInt16) { day = max(day, today) }

    /// Days since its last use; 0 where the clock was set back. After 2042 no time passes any more.
    func age(on today: UInt16) -> Int { max(0, Int(min(today, Self.lastDay)) - Int(day)) }
}
