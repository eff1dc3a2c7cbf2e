// SPDX-License-Identifier: Apache-2.0

extension QRCode {
    /// Light modules around the code on a terminal. The standard asks for 4; readers do with 2, and 24 lines then hold
    /// the code of an iPhone's pairing token.
    package static let terminalBorder = 2

    /// Columns that ``terminalLines(isColoured:)`` fill.
    package var terminalWidth: Int { size + 2 * Self.terminalBorder }

    /// The code in half blocks, two rows of modules a line.
    /// - Parameter isColoured: black on white by ANSI escapes, whatever the terminal's own colours are. Without them
    ///   the ink is dark, as on paper.
    package func terminalLines(isColoured: Bool) -> [String] {
        // Black and white of the 256 colours: the first 16 are whatever a terminal's theme makes of them.
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
