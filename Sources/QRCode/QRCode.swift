// SPDX-License-Identifier: Apache-2.0

import CQREncode

/// A QR code (ISO/IEC 18004): a square of dark and light modules that says a text.
package struct QRCode: Sendable, Equatable {
    /// Modules of one side: 21 to 177.
    package let size: Int
    /// Row by row.
    private let isDark: [Bool]

    /// The most bytes of UTF-8 that a code holds.
    package static let longestText = 2953

    /// The smallest code for a text, with the lowest error correction: it is shown on clean screens, where a smaller
    /// code is read more easily than one that makes up for stains.
    /// - Parameter text: 1 to ``longestText`` bytes of UTF-8.
    /// - Throws: ``QRCodeError``.
    package init(_ text: String) throws(QRCodeError) {
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty else { throw .empty }
        guard bytes.count <= Self.longestText else { throw .tooLong(bytes: bytes.count) }
        guard let code = QRcode_encodeData(Int32(bytes.count), bytes, 0, QR_ECLEVEL_L) else { throw .noMemory }
        defer { QRcode_free(code) }
        size = Int(code.pointee.width)
        // The lowest bit says the colour; the others tell what the module is for.
        isDark = UnsafeBufferPointer(start: code.pointee.data, count: size * size).map { $0 & 1 == 1 }
    }

    /// Whether the module in this column and row is dark; all around the code are light ones.
    package subscript(x: Int, y: Int) -> Bool {
        (0..<size).contains(x) && (0..<size).contains(y) && isDark[y * size + x]
    }
}
