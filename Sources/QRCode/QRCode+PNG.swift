// SPDX-License-Identifier: Apache-2.0

import CPNG

extension QRCode {
    /// The most pixels of a picture's side, which is 16 MiB of memory.
    package static let widestImage = 4096

    /// A picture of the code: PNG, 8 bits of grey.
    /// - Parameters:
    ///   - scale: pixels of a module's side, at least 1.
    ///   - border: light modules around it, at least 0; the standard asks for 4.
    /// - Throws: ``QRCodeError/tooLarge(pixels:)``, ``QRCodeError/noMemory``.
    package func png(scale: Int = 8, border: Int = 4) throws(QRCodeError) -> [UInt8] {
        precondition(scale > 0 && border >= 0, "a picture has a scale of at least 1 and a border of at least 0")
        let side = (size + 2 * min(border, Self.widestImage)) * min(scale, Self.widestImage)
        guard side <= Self.widestImage else { throw .tooLarge(pixels: side) }
        var pixels: [UInt8] = []
        pixels.reserveCapacity(side * side)
        for y in -border..<size + border {
            let row = (-border..<size + border).flatMap { x in
                repeatElement(self[x, y] ? UInt8.min : UInt8.max, count: scale)
            }
            for _ in 0..<scale { pixels += row }
        }
        var image = png_image()
        image.version = png_uint_32(PNG_IMAGE_VERSION)
        image.width = png_uint_32(side)
        image.height = png_uint_32(side)
        image.format = png_uint_32(PNG_FORMAT_GRAY)
        // A dry run says how long it becomes.
        var length: png_alloc_size_t = 0
        guard png_image_write_to_memory(&image, nil, &length, 0, pixels, 0, nil) != 0 else { throw .noMemory }
        var bytes = [UInt8](repeating: 0, count: Int(length))
        guard png_image_write_to_memory(&image, &bytes, &length, 0, pixels, 0, nil) != 0 else { throw .noMemory }
        return bytes
    }
}
