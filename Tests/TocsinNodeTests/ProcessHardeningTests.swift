// SPDX-License-Identifier: Apache-2.0

import Glibc
import Testing

@testable import TocsinNode

@Suite struct ProcessHardeningTests {
    // Runs in a child process: the setting is permanent, and a sanitizer could no longer inspect this process.
    @Test func `a process that forbids core dumps writes none`() async {
        await #expect(processExitsWith: .success) {
            #expect(ProcessHardening.control(ProcessHardening.getDumpable, 0) == 1)
            #expect(ProcessHardening.forbidCoreDumps())
            var limit = rlimit(rlim_cur: 1, rlim_max: 1)
            #expect(getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) == 0)
            #expect(limit.rlim_cur == 0 && limit.rlim_max == 0)
            #expect(ProcessHardening.control(ProcessHardening.getDumpable, 0) == 0)
            // A second call has no effect.
            #expect(ProcessHardening.forbidCoreDumps())
            // Lets a leak sanitizer inspect the process when it exits.
            #expect(ProcessHardening.control(ProcessHardening.setDumpable, 1) == 0)
        }
    }
}
