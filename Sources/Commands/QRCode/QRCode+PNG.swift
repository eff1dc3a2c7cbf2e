// SPDX-License-Identifier: Apache-2.0

import CPNG

extension QRCode {
    /// The largest width and height of an image, in pixels. An image of this size takes 16 MiB of memory.
    package static let maximumImageSide = 4096

    /// Returns the code as a PNG image with 8 bits of grey.
    /// - Parameters:
    ///   - scale: the width and height of a module in pixels, at least 1.
    ///   - border: the width of the light border in modules, at least 0; the standard requires 4.
    /// - Throws: ``QRCodeError/tooLarge(pixels:)``, ``QRCodeError/noMemory``.
    package func png(scale: Int = 8, border: Int = 4) throws(QRCodeError) -> [UInt8] {
        precondition(scale > 0 && border >= 0, "the scale must be at least 1 and the border at least 0")
        let side = (size + 2 * min(border, Self.maximumImageSide)) * min(scale, Self.maximumImageSide)
        guard side <= Self.maximumImageSide else { throw .tooLarge(pixels: side) }
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
        // The first call, without a buffer, only computes the length.
        var length: png_alloc_size_t = 0
        guard png_image_write_to_memory(&image, nil, &length, 0, pixels, 0, nil) != 0 else { throw .noMemory }
        var bytes = [UInt8](repeating: 0, count: Int(length))
        guard png_image_write_to_memory(&image, &bytes, &length, 0, pixels, 0, nil) != 0 else { throw .noMemory }
        return bytes
    }
}
