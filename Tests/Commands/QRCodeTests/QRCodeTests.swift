// SPDX-License-Identifier: Apache-2.0

import Foundation
import QRCode
import StandIns
import TestSupport
import Testing

@testable import Tor

@Suite(.tags(.computing)) struct QRCodeTests {
    /// A text of this length, of characters that occur in pairing tokens.
    private func text(_ length: Int) -> String {
        let letters = Array("android|Google Pixel 8|aB3+/xYz:APA91b_-")
        return String((0..<length).map { letters[($0 * 7 + $0 / letters.count) % letters.count] })
    }

    /// The text that zbarimg decodes from a picture; `nil` if it is not installed.
    private func read(_ png: [UInt8]) async throws -> String? {
        guard try await ChildProcess.output(of: "which", ["zbarimg"]).isSuccess else {
            print("SKIPPED: zbarimg is not installed; no picture was read back")
            return nil
        }
        let file = URL.temporaryDirectory.appending(path: "tocsin-qr-\(UUID().uuidString.prefix(8)).png").path()
        defer { try? FileManager.default.removeItem(atPath: file) }
        try Data(png).write(to: URL(filePath: file))
        // Its warnings about a missing D-Bus go to standard error.
        let command = "exec zbarimg --quiet --raw --oneshot -Sdisable -Sqrcode.enable \"$0\" 2>/dev/null"
        return try await ChildProcess.output(of: "sh", ["-c", command, file]).text
    }

    @Test(arguments: [1, 17, 115, 134, 230, 512, 1000])
    func `an independent reader decodes the PNG`(_ length: Int) async throws {
        let text = text(length)
        guard let read = try await read(try QRCode(text).png(scale: 4)) else { return }
        #expect(read == text)
    }

    @Test func `non-ASCII text decodes at the smallest useful scale`() async throws {
        let text = "android|Žluťoučký kůň 日本|aximqjxdRhe4HSxyh28m/FiIPlv8HEgV|token"
        guard let read = try await read(try QRCode(text).png(scale: 2, border: 4)) else { return }
        #expect(read == text)
    }

    @Test func `the code grows with its text, up to 2953 bytes`() throws {
        #expect(try QRCode("a").size == 21)
        // The capacities of versions 6 and 40 at the lowest error correction, in bytes.
        #expect(try QRCode(text(134)).size == 41)
        #expect(try QRCode(text(135)).size == 45)
        #expect(try QRCode(text(QRCode.maximumTextLength)).size == 177)
        #expect(throws: QRCodeError.tooLong(bytes: 2954)) { try QRCode(text(QRCode.maximumTextLength + 1)) }
        #expect(throws: QRCodeError.tooLong(bytes: 2954)) { try QRCode(String(repeating: "é", count: 1477)) }
        #expect(throws: QRCodeError.empty) { try QRCode("") }
    }

    @Test func `a code has three finder patterns and is light outside its bounds`() throws {
        let code = try QRCode(text(100))
        for (left, top) in [(0, 0), (code.size - 7, 0), (0, code.size - 7)] {
            for y in 0..<7 {
                for x in 0..<7 {
                    let ring = max(abs(x - 3), abs(y - 3))
                    #expect(code[left + x, top + y] == (ring != 2))
                }
            }
        }
        for outside in [-1, code.size, .min, .max] {
            #expect(!code[outside, 0])
            #expect(!code[0, outside])
        }
    }

    /// The modules shown by lines of half blocks, row by row.
    private func modules(_ lines: [String]) -> [[Bool]] {
        lines.flatMap { line in
            [line.map { "█▀".contains($0) }, line.map { "█▄".contains($0) }]
        }
    }

    @Test(arguments: [10, 115, 230]) func `terminal lines show each module once, with a border of two light ones`(
        _ length: Int
    ) throws {
        let code = try QRCode(text(length))
        let lines = code.terminalLines(isColoured: false)
        #expect(lines.allSatisfy { $0.allSatisfy { "█▀▄ ".contains($0) } && $0.count == code.terminalWidth })
        let rows = modules(lines)
        // The side is odd, so the last line shows one extra row.
        #expect(rows.count == code.size + 5)
        for (y, row) in rows.enumerated() {
            for (x, isDark) in row.enumerated() { #expect(isDark == code[x - 2, y - 2]) }
        }
    }

    @Test func `each coloured line sets black on white and resets it`() throws {
        let code = try QRCode("black on white")
        let plain = code.terminalLines(isColoured: false)
        #expect(code.terminalLines(isColoured: true) == plain.map { "\u{1B}[38;5;16;48;5;231m\($0)\u{1B}[0m" })
    }

    @Test func `the code of an iPhone's pairing token fits a terminal of 80 by 24`() throws {
        let code = try QRCode("iOS|iPhone 15 Pro Max|\(text(32))|\(text(64))")
        #expect(code.terminalLines(isColoured: true).count < 24)
        #expect(code.terminalWidth <= 80)
    }

    @Test func `a PNG of excessive size is rejected`() throws {
        let code = try QRCode("a")
        #expect(throws: QRCodeError.tooLarge(pixels: 4118)) { try code.png(scale: 142) }
        #expect(try code.png(scale: 141).starts(with: [0x89, 0x50, 0x4E, 0x47]))
        #expect(throws: QRCodeError.self) { try code.png(scale: .max, border: .max) }
        #expect(throws: QRCodeError.self) { try code.png(scale: 1, border: .max) }
    }
}
