// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What the node knows of its tor, for `tocsin onion show`, which is another process: whose descriptor state it is, by
/// tor's pid, and the state. What an earlier tor left is told apart by its pid.
struct TorStatusFile {
    private static let longest = 100

    private let path: String

    /// - Parameter directory: tor's.
    init(directory: String) { path = "\(directory)/status" }

    /// Writes it down. Failing to takes nothing from the onion.
    func write(_ status: TorStatus) {
        guard let pid = status.pid else {
            unlink(path)
            return
        }
        try? OwnedFile.replace(path, with: Array("\(pid) \(status.descriptor.rawValue)\n".utf8).span.bytes)
    }

    /// The state of the descriptor that the tor of this pid hands out; nil where nothing is known.
    func descriptor(of pid: Int32) -> OnionDescriptor? {
        guard let bytes = try? OwnedFile.read(path, atMost: Self.longest) else { return nil }
        let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard words.count == 2, Int32(words[0]) == pid else { return nil }
        return OnionDescriptor(rawValue: String(words[1]))
    }
}
