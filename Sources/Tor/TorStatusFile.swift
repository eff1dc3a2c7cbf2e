// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The file from which `tocsin onion show`, a separate process, reads the state of the onion's descriptor. It holds
/// tor's pid and the state; the pid shows whether the file is from an earlier tor.
struct TorStatusFile {
    private static let longest = 100

    private let path: String

    /// - Parameter directory: tor's data directory.
    init(directory: String) { path = "\(directory)/status" }

    /// Writes the file, or deletes it if tor does not run. Failures are ignored: the onion works without the file.
    func write(_ status: TorStatus) {
        guard let pid = status.pid else {
            unlink(path)
            return
        }
        try? OnionFile.replace(path, with: Array("\(pid) \(status.descriptor.rawValue)\n".utf8).span.bytes)
    }

    /// The state of the descriptor of the tor with this pid; `nil` if it is unknown.
    func descriptor(of pid: Int32) -> OnionDescriptor? {
        guard let bytes = try? OnionFile.read(path, atMost: Self.longest) else { return nil }
        let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard words.count == 2, Int32(words[0]) == pid else { return nil }
        return OnionDescriptor(rawValue: String(words[1]))
    }
}
