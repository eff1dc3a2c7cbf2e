// SPDX-License-Identifier: Apache-2.0

import Glibc
import NodeConfiguration
import Settings

/// Checks this machine's clock.
enum ClockCheck {
    /// The earliest plausible time: 2025-01-01, Unix time in seconds.
    static let earliest: Int64 = 1_735_689_600
    /// The latest plausible time: 2100-01-01.
    static let latest: Int64 = 4_102_444_800
    /// A difference of more than this number of seconds is a warning.
    static let noticeable: Int64 = 60
    /// A difference of more than this number of seconds is a failure: Apple and Google may reject the node's
    /// credentials.
    static let refused: Int64 = 300

    private static let cure = "synchronise it with timedatectl set-ntp true"

    /// Checks the clock without comparing it with another one.
    /// - Parameters:
    ///   - now: Unix time in seconds.
    ///   - isSynchronised: whether the kernel reports the clock as synchronised; `nil` if the kernel does not report it.
    static func local(now: Int64, isSynchronised: Bool?) -> Finding {
        func finding(_ grade: Finding.Grade, _ text: String) -> Finding { Finding(.clock, "this machine", grade, text) }
        let date = Format.date(now)
        guard (earliest..<latest).contains(now) else {
            return finding(.failed, "the clock is wrong, it shows \(date): \(cure)")
        }
        return switch isSynchronised {
        case true?: finding(.ok, "\(date), synchronised")
        case false?:
            finding(
                .warning,
                "\(date), but not synchronised: run an NTP service (timedatectl set-ntp true). If the clock is minutes"
                    + " off, push services reject the credentials and tor cannot connect")
        case nil: finding(.ok, "\(date); unknown whether it is synchronised")
        }
    }

    /// Compares the clock with that of a push service.
    /// - Parameters:
    ///   - host: the host of the push service.
    ///   - ahead: seconds by which this machine's clock is ahead; negative if it is behind.
    static func comparison(with host: String, ahead: Int64) -> Finding {
        let words = "\(ahead.magnitude) s \(ahead > 0 ? "ahead of" : "behind") that of \(host)"
        if ahead.magnitude > UInt64(refused) {
            return Finding(
                .clock, host, .failed,
                "this machine's clock is \(words), so push services reject the credentials: \(cure)")
        }
        if ahead.magnitude > UInt64(noticeable) {
            return Finding(.clock, host, .warning, "this machine's clock is \(words): \(cure)")
        }
        return Finding(.clock, host, .ok, "agrees with this machine's clock")
    }
}

/// The kernel's clock state (adjtimex(2)).
enum KernelClock {
    /// TIME_ERROR: the clock is not synchronised.
    private static let unsynchronised: Int32 = 5
    /// An upper bound of the size of `struct timex`, in bytes.
    private static let structureLength = 512

    /// Whether the clock is synchronised; `nil` if the kernel does not report it.
    static var isSynchronised: Bool? {
        // The Glibc module lacks sys/timex.h. A zeroed structure only queries the state; its result is not read.
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
