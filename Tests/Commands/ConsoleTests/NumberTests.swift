// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Console

@Suite(.tags(.computing)) struct NumberTests {
    @Test(arguments: [
        (0.0, 0, "0"), (1.5, 1, "1.5"), (1.06, 1, "1.1"), (0.05, 2, "0.05"), (-0.4, 1, "-0.4"), (-12.345, 2, "-12.35"),
        (-0.04, 1, "0.0"), (-7.6, 0, "-8"), (999.96, 1, "1000.0"),
    ])
    func `a number is rounded, also below zero`(_ value: Double, _ digits: Int, _ text: String) {
        #expect(Terminal.number(value, digits: digits) == text)
    }
}
