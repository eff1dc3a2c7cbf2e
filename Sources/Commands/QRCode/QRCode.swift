// SPDX-License-Identifier: Apache-2.0

import CQREncode

/// A QR code (ISO/IEC 18004): a square of dark and light modules that encodes a text.
package struct QRCode: Sendable, Equatable {
    /// The width and height in modules: 21 to 177.
    package let size: Int
    /// Whether each module is dark, row by row.
    private let isDark: [Bool]

    /// The largest text that a code holds, in bytes of UTF-8.
    package static let maximumTextLength = 2953

    /// Creates the smallest code for a text. It has the lowest level of error correction, because readers scan a small code
    /// on a clean screen more easily than a larger one that tolerates damage.
    /// - Parameter text: 1 to ``maximumTextLength`` bytes of UTF-8.
    /// - Throws: ``QRCodeError``.
    package init(_ text: String) throws(QRCodeError) {
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Self.maximumTextLength else { throw .tooLong(bytes: bytes.count) }
        guard let code = QRcode_encodeData(Int32(bytes.count), bytes, 0, QR_ECLEVEL_L) else { throw .noMemory }
        defer { QRcode_free(code) }
        size = Int(code.pointee.width)
        // The lowest bit is the colour; the other bits are the module's function.
        isDark = UnsafeBufferPointer(start: code.pointee.data, count: size * size).map { $0 & 1 == 1 }
    }

    /// Whether the module in this column and row is dark. Modules outside the code are light.
    package subscript(x: Int, y: Int) -> Bool {
        (0..<size).contains(x) && (0..<size).contains(y) && isDark[y * size + x]
    }
}
