// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Protects the secrets of this process. Call before the first secret is read.
package enum ProcessHardening {
    /// From <sys/prctl.h>, which Swift's Glibc does not import.
    static let getDumpable: Int32 = 3
    static let setDumpable: Int32 = 4

    /// Disables core dumps, as files and through a core handler, and debuggers of the same user. Child processes, such
    /// as tor, write no core file either.
    /// - Returns: whether everything succeeded. The node can run even if not.
    package static func forbidCoreDumps() -> Bool {
        // The limit alone is not enough: a kernel.core_pattern that pipes to a program ignores it.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        let isLimited = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
        return control(setDumpable, 0) == 0 && isLimited
    }

    /// prctl(2) with one argument; -1 if it fails.
    static func control(_ operation: Int32, _ argument: UInt) -> Int32 {
        // C declares it with "...", which Swift does not import. It takes an int and four unsigned longs, and integers
        // are passed to "..." in the same registers as to a declared parameter on x86-64 and arm64.
        typealias Function = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        guard let symbol = dlsym(nil, "prctl") else { return -1 }
        return unsafeBitCast(symbol, to: Function.self)(operation, argument, 0, 0, 0)
    }
}
