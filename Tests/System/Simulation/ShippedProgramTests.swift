// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@Suite(.tags(.computing)) struct ShippedProgramTests {
    /// Whether the names of a program's functions contain this text.
    private func names(of program: String, contain text: String) throws -> Bool {
        let file = try Data(contentsOf: Repository.file(".build/debug/\(program)"), options: .mappedIfSafe)
        return file.range(of: Data(text.utf8)) != nil
    }

    @Test(arguments: ["cworld_set_clocks", "SimulatedSocket", "SimulatedDisk"])
    func `the program that people install has nothing of the simulated world`(_ name: String) throws {
        #expect(try names(of: "tocsin-bench", contain: name))
        #expect(try !names(of: "tocsin", contain: name))
    }
}
