// SPDX-License-Identifier: Apache-2.0

import Glibc
import Testing

@testable import TocsinNode

@Suite struct ProcessHardeningTests {
    // In a process of its own: it cannot be taken back, and a sanitizer could not look into this one any longer.
    @Test func `a process that holds secrets leaves no core dump`() async {
        await #expect(processExitsWith: .success) {
            #expect(ProcessHardening.control(ProcessHardening.getDumpable, 0) == 1)
            #expect(ProcessHardening.forbidCoreDumps())
            var limit = rlimit(rlim_cur: 1, rlim_max: 1)
            #expect(getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) == 0)
            #expect(limit.rlim_cur == 0 && limit.rlim_max == 0)
            #expect(ProcessHardening.control(ProcessHardening.getDumpable, 0) == 0)
            // Once more does no harm.
            #expect(ProcessHardening.forbidCoreDumps())
            // So that a leak sanitizer can look into it at its end.
            #expect(ProcessHardening.control(ProcessHardening.setDumpable, 1) == 0)
        }
    }
}
