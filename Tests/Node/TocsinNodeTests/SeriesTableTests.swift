// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import TocsinNode

@Suite(.tags(.sockets)) struct SeriesTableTests {
    @Test func `a value is made once, and again after its removal`() {
        var table = SeriesTable<String, Int>()
        var made = 0
        func make() -> Int {
            made += 1
            return made
        }
        for key in ["a", "a", "b", "a", "b", "b"] {
            #expect(table.value(key) { _ in make() } == (key == "a" ? 1 : 2))
        }
        #expect(table.all == ["a": 1, "b": 2])
        #expect(table.remove { $0 == "b" } == [2])
        #expect(table.remove { $0 == "b" } == [])
        // Not the value of the last look-up.
        #expect(table.value("b") { _ in make() } == 3)
        #expect(table.all == ["a": 1, "b": 3])
    }
}
