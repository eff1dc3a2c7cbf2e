// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What a process that holds secrets does to itself before it reads the first.
package enum ProcessHardening {
    /// From <sys/prctl.h>, which Swift's Glibc leaves out.
    static let getDumpable: Int32 = 3
    static let setDumpable: Int32 = 4

    /// No core dump from now on, neither as a file nor through a program of the system's, and no debugger of the same user.
    /// A program that is started from here, tor for one, writes no core file either.
    /// - Returns: whether all of it could be done. A node can serve where it could not.
    package static func forbidCoreDumps() -> Bool {
        // The limit alone is not enough: a kernel.core_pattern that names a program does not look at it.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        let isLimited = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
        return control(setDumpable, 0) == 0 && isLimited
    }

    /// prctl(2) with one argument; -1 where it fails.
    static func control(_ operation: Int32, _ argument: UInt) -> Int32 {
        // C declares it with "...", which Swift does not import. It takes an int and four unsigned longs, and integers are
        // passed to "..." in the same registers as to a declared parameter on x86-64 and arm64.
        typealias Function = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        guard let symbol = dlsym(nil, "prctl") else { return -1 }
        return unsafeBitCast(symbol, to: Function.self)(operation, argument, 0, 0, 0)
    }
}
