// SPDX-License-Identifier: Apache-2.0

/// Why there is no QR code or picture of one. Holds nothing of the text.
package enum QRCodeError: Error, Equatable, Sendable, CustomStringConvertible {
    /// There is nothing to say.
    case empty
    /// The text has so many bytes of UTF-8.
    case tooLong(bytes: Int)
    /// The picture would have so many pixels a side.
    case tooLarge(pixels: Int)
    /// There is no memory left for it.
    case noMemory

    package var description: String {
        switch self {
        case .empty: "there is no text for the QR code"
        case .tooLong(let bytes): "the text has \(bytes) bytes, and a QR code holds \(QRCode.longestText)"
        case .tooLarge(let pixels):
            "the picture would be \(pixels) pixels wide, and may be \(QRCode.widestImage): choose a smaller scale"
        case .noMemory: "there is no memory left for the QR code"
        }
    }
}
