// SPDX-License-Identifier: Apache-2.0

/// Checks the framing around chunk data: the size lines and the trailers.
struct ChunkCheck {
    /// Maximum length of a chunk's size line with its extensions, including the line end of the preceding chunk data.
    static let maximumSizeLineLength = 256

    private enum Part { case endOfData, sizeLine, trailers }
    private var part = Part.sizeLine
    private var lines = LineCheck()
    /// Length of the size line so far, including its line end and the line end of the data before it.
    private var sizeLineLength = 0
    private var trailersLeft: Int

    /// - Parameter trailers: maximum bytes of the trailers, including the final empty line.
    init(trailers: Int) { trailersLeft = trailers }

    /// Records that chunk data was consumed: the next byte is more data, or starts the line end after the data.
    mutating func dataConsumed() {
        part = .endOfData
        sizeLineLength = 0
        lines.expectLineEnd()
    }

    /// Takes the next byte that is not chunk data.
    mutating func check(_ byte: UInt8) throws(HTTPRequestError) {
        let step = lines.check(byte)
        if step == .broken { throw .malformed }
        guard part != .trailers else {
            trailersLeft -= 1
            if trailersLeft < 0 { throw .headTooLarge }
            return
        }
        sizeLineLength += 1
        if sizeLineLength > Self.maximumSizeLineLength { throw .malformed }
        switch (part, step) {
        case (_, .continues): break
        case (.endOfData, _): part = .sizeLine
        case (.sizeLine, _), (.trailers, _): part = .trailers
        }
    }
}
