// SPDX-License-Identifier: Apache-2.0

/// Why a QR code or its image cannot be created. Contains nothing of the text.
package enum QRCodeError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The text is empty.
    case empty
    /// The text is too long, with this number of bytes of UTF-8.
    case tooLong(bytes: Int)
    /// The image would be too large, with this number of pixels per side.
    case tooLarge(pixels: Int)
    /// There is not enough memory.
    case noMemory

    package var description: String {
        switch self {
        case .empty: "the text for the QR code is empty"
        case .tooLong(let bytes): "the text has \(bytes) bytes; a QR code holds at most \(QRCode.maximumTextLength)"
        case .tooLarge(let pixels):
            "the image would be \(pixels) pixels wide; the limit is \(QRCode.maximumImageSide): choose a smaller scale"
        case .noMemory: "not enough memory for the QR code"
        }
    }
}
