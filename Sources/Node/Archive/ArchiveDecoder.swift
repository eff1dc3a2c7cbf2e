// SPDX-License-Identifier: Apache-2.0

/// Reads the plain text of a state archive (``StateArchive``). Keeps no more of it than a chunk and the head of a file.
struct ArchiveDecoder {
    /// The next part of the archive.
    enum Event: Equatable {
        /// A file begins; its content follows.
        case file(path: String, size: UInt64)
        /// The next bytes of the file, at least one.
        case content(ArraySlice<UInt8>)
        /// No file follows.
        case end
    }

    /// The archive names a file that a node's state does not have.
    struct UnexpectedFile: Error {}

    private static let maximumPathLength = 255
    private static let (lengthSize, numberSize) = (MemoryLayout<UInt16>.size, MemoryLayout<UInt64>.size)

    private var buffer: ArraySlice<UInt8> = []
    /// The number of bytes of the file that have not been read yet.
    private var left: UInt64 = 0

    /// Whether everything that was appended has been read.
    var isEmpty: Bool { buffer.isEmpty }

    mutating func append(_ chunk: [UInt8]) { buffer = buffer.isEmpty ? chunk[...] : (buffer + chunk) }

    /// - Returns: `nil` if it needs another chunk.
    mutating func next() throws(UnexpectedFile) -> Event? {
        if left > 0 {
            guard !buffer.isEmpty else { return nil }
            let bytes = buffer.prefix(Int(clamping: left))
            buffer = buffer.dropFirst(bytes.count)
            left -= UInt64(bytes.count)
            return .content(bytes)
        }
        guard let length = number(at: 0, UInt16.self) else { return nil }
        guard length > 0 else {
            buffer = buffer.dropFirst(Self.lengthSize)
            return .end
        }
        guard length <= Self.maximumPathLength else { throw UnexpectedFile() }
        guard let size = number(at: Self.lengthSize + Int(length), UInt64.self) else { return nil }
        let path = String(decoding: buffer.dropFirst(Self.lengthSize).prefix(Int(length)), as: UTF8.self)
        guard StateArchive.isAllowed(path) else { throw UnexpectedFile() }
        buffer = buffer.dropFirst(Self.lengthSize + Int(length) + Self.numberSize)
        left = size
        return .file(path: path, size: size)
    }

    /// - Returns: `nil` if the buffer does not hold it yet.
    private func number<Number: FixedWidthInteger>(at offset: Int, _: Number.Type) -> Number? {
        let size = MemoryLayout<Number>.size
        guard buffer.count >= offset + size else { return nil }
        return buffer.dropFirst(offset).prefix(size).reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }
}
