// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Console
@testable import tocsin

@Suite(.tags(.computing)) struct TerminalTextTests {
    @Test(arguments: [
        ("good\u{1B}[2Kbad\r\u{9B}1mé ✓", "good[2Kbad1mé ✓"), ("a\u{202E}b\u{2066}c\u{200B}d", "abcd"),
        ("a\u{2028}b\u{2029}c", "abc"), ("a\tb\u{7F}c\u{0}d", "abcd"), ("a\nb", "a\nb"),
        ("\u{1B}[1mbold\u{1B}[0m", "\u{1B}[1mbold\u{1B}[0m"), ("\u{1B}[8mhidden\u{1B}[0;1m", "[8mhidden[0;1m"),
        ("\u{1B}]0;title\u{7}", "]0;title"), ("Zpráva „č“ 日本語 👩‍🚀", "Zpráva „č“ 日本語 👩🚀"),
    ])
    func `external text cannot move the cursor, hide or reorder output`(_ text: String, _ safe: String) {
        #expect(TerminalText.safe(text) == safe)
    }

    @Test func `a long line is cut, and the others stay`() {
        let long = String(repeating: "x", count: 5000)
        let lines = TerminalText.safeLines("a\n\(long)\nb").split(separator: "\n")
        #expect(lines.map(\.count) == [1, TerminalText.maximumLineLength + 1, 1])
    }
}
