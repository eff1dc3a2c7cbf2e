// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads the lines of a file that grows.
struct LinesOfFile {
    private let path: String
    private var offset: off_t = 0
    private var rest: [UInt8] = []

    init(_ path: String) { self.path = path }

    /// The complete lines that have been added since the last call.
    mutating func next() -> [Substring] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return [] }
        defer { close(file) }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = pread(file, &buffer, buffer.count, offset)
            guard count > 0 else { break }
            rest += buffer.prefix(count)
            offset += off_t(count)
        }
        guard let end = rest.lastIndex(of: UInt8(ascii: "\n")) else { return [] }
        defer { rest.removeFirst(end + 1) }
        return String(decoding: rest[...end], as: UTF8.self).split(separator: "\n")
    }
}
