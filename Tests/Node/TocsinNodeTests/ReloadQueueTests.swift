// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.computing)) struct ReloadQueueTests {
    @Test func `one key holder reads at a time, and what becomes due meanwhile is read once afterwards`() {
        var queue = ReloadQueue()
        #expect(queue.request(.credentials) == .credentials)
        #expect(queue.request(.credentials) == nil)
        #expect(queue.request(.credentials) == nil)
        #expect(queue.ended() == .credentials)
        #expect(queue.request(.credentials) == .credentials)
        #expect(queue.ended() == nil)
    }

    @Test func `a configuration is read in place of its credentials, in whichever order they become due`() {
        var queue = ReloadQueue()
        _ = queue.request(.credentials)
        _ = queue.request(.credentials)
        _ = queue.request(.configuration)
        _ = queue.request(.credentials)
        #expect(queue.ended() == .configuration)
    }
}
