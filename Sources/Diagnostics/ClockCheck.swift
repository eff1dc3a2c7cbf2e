// SPDX-License-Identifier: Apache-2.0

import Glibc
import NodeConfiguration

/// What is to be said of this machine's clock.
enum ClockCheck {
    /// No clock of a machine that runs this can be before: 2025-01-01, Unix time in seconds.
    static let earliest: Int64 = 1_735_689_600
    /// Nor after: 2100-01-01.
    static let latest: Int64 = 4_102_444_800
    /// Seconds from which the clock is worth a word, and from which Apple and Google refuse tokens.
    static let noticeable: Int64 = 60
    static let refused: Int64 = 300

    private static let cure = "set it right: timedatectl set-ntp true"

    /// By itself.
    /// - Parameters:
    ///   - now: Unix time in seconds.
    ///   - isSynchronised: what the kernel says; nil where it does not.
    static func alone(now: Int64, isSynchronised: Bool?) -> Finding {
        let date = Format.date(now)
        guard (earliest..<latest).contains(now) else {
            return Finding(.clock, "this machine", .failed, "says that it is \(date): \(cure)")
        }
        switch isSynchronised {
        case true?: return Finding(.clock, "this machine", .ok, "\(date), synchronised")
        case false?:
            return Finding(
                .clock, "this machine", .warning,
                "\(date), but nothing keeps it right: run an NTP service (timedatectl set-ntp true). A clock that is"
                    + " minutes off has tokens refused, and tor stopped")
        case nil:
            return Finding(.clock, "this machine", .ok, "\(date); whether it is synchronised cannot be seen from here")
        }
    }

    /// Beside a push service's.
    /// - Parameters:
    ///   - ahead: seconds that this machine's is ahead; negative where it is behind.
    ///   - host: whose clock it is compared with.
    static func beside(_ host: String, ahead: Int64) -> Finding {
        let words = "\(ahead.magnitude) s \(ahead > 0 ? "ahead of" : "behind") that of \(host)"
        if ahead.magnitude > UInt64(refused) {
            return Finding(.clock, host, .failed, "this machine's is \(words), and tokens are refused: \(cure)")
        }
        if ahead.magnitude > UInt64(noticeable) {
            return Finding(.clock, host, .warning, "this machine's is \(words): \(cure)")
        }
        return Finding(.clock, host, .ok, "agrees with this machine's")
    }
}

/// The kernel's word on whether the clock is kept right (adjtimex(2)).
enum KernelClock {
    /// TIME_ERROR: among others, nothing has set the clock for long.
    private static let unsynchronised: Int32 = 5
    /// More than the kernel's structure has.
    private static let structureLength = 512

    /// Nil where the kernel does not say.
    static var isSynchronised: Bool? {
        // Swift's module of glibc has no sys/timex.h. Of the structure nothing is read; all zeros ask and change nothing.
        typealias Call = @convention(c) (UnsafeMutableRawPointer) -> Int32
        guard let symbol = dlsym(nil, "adjtimex") else { return nil }
        let adjtimex = unsafeBitCast(symbol, to: Call.self)
        let structure = UnsafeMutableRawBufferPointer.allocate(byteCount: structureLength, alignment: 16)
        defer { structure.deallocate() }
        structure.initializeMemory(as: UInt8.self, repeating: 0)
        guard let base = structure.baseAddress else { return nil }
        let state = adjtimex(base)
        return state < 0 ? nil : state != unsynchronised
    }
}
