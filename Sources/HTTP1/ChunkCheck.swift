// SPDX-License-Identifier: Apache-2.0

/// What surrounds the data of chunks: the lines with their sizes, and the trailers.
struct ChunkCheck {
    /// The longest line with a chunk's size and its extensions, the end of the chunk before included.
    static let longestSizeLine = 256

    private enum Part { case endOfData, sizeLine, trailers }
    private var part = Part.sizeLine
    private var lines = LineCheck()
    /// Bytes of the line with a size, its end and that of the data before it included.
    private var sizeLineLength = 0
    private var sizeLine = ChunkSizeLine()
    private var trailersLeft: Int

    /// - Parameter trailers: how many bytes the trailers may have, with the empty line at their end.
    init(trailers: Int) { trailersLeft = trailers }

    /// Data of a chunk went by: what comes next is more of it, or the end of its line.
    mutating func dataPassed() {
        part = .endOfData
        sizeLineLength = 0
        lines.mustEnd()
    }

    /// Takes the next byte that is no data.
    mutating func take(_ byte: UInt8) throws(HTTPRequestError) {
        let step = lines.take(byte)
        if step == .broken { throw .malformed }
        guard part != .trailers else {
            trailersLeft -= 1
            if trailersLeft < 0 { throw .headTooLarge }
            return
        }
        sizeLineLength += 1
        if sizeLineLength > Self.longestSizeLine { throw .malformed }
        switch (part, step) {
        case (.sizeLine, .goesOn) where lines.isEnding: if !sizeLine.mayEnd { throw .malformed }
        case (.sizeLine, .goesOn): if !sizeLine.take(byte) { throw .malformed }
        case (.endOfData, .goesOn): break
        case (.endOfData, _):
            part = .sizeLine
            sizeLine = ChunkSizeLine()
        case (.sizeLine, _), (.trailers, _): part = .trailers
        }
    }
}
