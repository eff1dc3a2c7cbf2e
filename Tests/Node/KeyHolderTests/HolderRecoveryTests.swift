// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Time

@testable import KeyHolder

@Suite(.tags(.sockets)) struct HolderRecoveryTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)

    @Test func `another key holder starts after a second, and after pauses that double up to a minute`() {
        var recovery = HolderRecovery()
        #expect(!recovery.isDue(at: start))
        var now = start
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            #expect(recovery.failed(at: now) == .seconds(seconds))
            #expect(!recovery.isDue(at: now + .milliseconds(seconds * 1000 - 1)))
            now = now + .seconds(seconds)
            #expect(recovery.isDue(at: now))
        }
        recovery.started(at: now)
        #expect(!recovery.isDue(at: now + .seconds(3600)))
    }

    @Test func `a key holder that has run for a minute was not at fault`() {
        var recovery = HolderRecovery()
        _ = recovery.failed(at: start)
        recovery.started(at: start)
        #expect(recovery.failed(at: start + .seconds(59)) == .seconds(2))
        recovery.started(at: start)
        #expect(recovery.failed(at: start + .seconds(60)) == .seconds(1))
    }
}
