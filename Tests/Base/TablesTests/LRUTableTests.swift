// SPDX-License-Identifier: Apache-2.0

import Tables
import TestSupport
import Testing

@Suite(.tags(.computing)) struct LRUTableTests {
    /// Uses a key, whose value is its own name.
    /// - Returns: what the table did, in words.
    private func use(_ key: String, of table: inout LRUTable<String, String>, idle: Set<String> = []) -> String {
        switch table.slot(for: key, isIdle: idle.contains) {
        case .known(let value): return "known \(value)"
        case .full: return "full"
        case .new(let evicted):
            table.insert(key, for: key)
            return evicted.map { "new, without \($0)" } ?? "new"
        }
    }

    @Test func `the idle entry that was used longest ago is evicted`() {
        var table = LRUTable<String, String>(maximum: 2)
        let all: Set = ["a", "b", "c"]
        let steps = ["a", "b", "a", "c"].map { use($0, of: &table, idle: all) }
        #expect(steps == ["new", "new", "known a", "new, without b"])
        #expect(use("b", of: &table, idle: ["c"]) == "new, without c")
        #expect(Set(table.values) == ["a", "b"])
    }

    @Test func `a full table takes no key while no entry is idle`() {
        var table = LRUTable<String, String>(maximum: 1)
        let steps = ["a", "b", "a"].map { use($0, of: &table) }
        #expect(steps == ["new", "full", "known a"])
        table.remove("a")
        #expect(use("b", of: &table) == "new")
    }
}
