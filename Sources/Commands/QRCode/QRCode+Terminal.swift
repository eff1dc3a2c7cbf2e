// SPDX-License-Identifier: Apache-2.0

extension QRCode {
    /// The width of the light border on a terminal, in modules. The standard requires 4, but readers accept 2, with which
    /// the code of an iPhone's pairing token fits into 24 lines.
    package static let terminalBorder = 2

    /// The number of columns that the lines of ``terminalLines(isColoured:)`` fill.
    package var terminalWidth: Int { size + 2 * Self.terminalBorder }

    /// Returns the code as lines of half blocks, with two rows of modules per line.
    /// - Parameter isColoured: whether to set black on white with ANSI escapes, independently of the terminal's colours.
    ///   Without them, dark modules have the terminal's text colour.
    package func terminalLines(isColoured: Bool) -> [String] {
        // Black and white from the upper 240 of the 256 colours, because the terminal's theme defines the first 16.
        let (start, end) = isColoured ? ("\u{1B}[38;5;16;48;5;231m", "\u{1B}[0m") : ("", "")
        let range = -Self.terminalBorder..<size + Self.terminalBorder
        return stride(from: range.lowerBound, to: range.upperBound, by: 2).map { y in
            let blocks = range.map { x in
                switch (self[x, y], self[x, y + 1]) {
                case (true, true): "█"
                case (true, false): "▀"
                case (false, true): "▄"
                case (false, false): " "
                }
            }
            return start + blocks.joined() + end
        }
    }
}
