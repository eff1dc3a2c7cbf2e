// SPDX-License-Identifier: Apache-2.0

import CLinux
import Confinement
import Glibc
import TestSupport
import Testing

@Suite(.tags(.sockets)) struct ProcessHardeningTests {
    // Runs in a child process: the setting is permanent, and a sanitizer could no longer inspect this process.
    @Test func `a process that forbids core dumps writes none`() async {
        await #expect(processExitsWith: .success) {
            #expect(clinux_prctl(PR_GET_DUMPABLE, 0) == 1)
            #expect(ProcessHardening.forbidCoreDumps())
            var limit = rlimit(rlim_cur: 1, rlim_max: 1)
            #expect(getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) == 0)
            #expect(limit.rlim_cur == 0 && limit.rlim_max == 0)
            #expect(clinux_prctl(PR_GET_DUMPABLE, 0) == 0)
            // A second call has no effect.
            #expect(ProcessHardening.forbidCoreDumps())
            // Lets a leak sanitizer inspect the process when it exits.
            #expect(clinux_prctl(PR_SET_DUMPABLE, 1) == 0)
        }
    }
}
