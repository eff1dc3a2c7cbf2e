// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The file from which `tocsin onion show`, a separate process, reads the states of the onions' descriptors. Its first
/// line holds tor's pid and the state of the first onion; the pid shows whether the file is from an earlier tor. Each
/// further line holds the name and the state of a further onion.
struct TorStatusFile {
    private static let longest = 10_000

    private let path: String

    /// - Parameter directory: tor's data directory.
    init(directory: String) { path = "\(directory)/status" }

    /// Writes the file, or deletes it if tor does not run. Failures are ignored: the onion works without the file.
    func write(_ status: TorStatus) {
        guard let pid = status.pid else {
            unlink(path)
            return
        }
        let lines =
            "\(pid) \(status.descriptor.rawValue)\n"
            + status.onions.map { "\($0.name) \($0.descriptor.rawValue)\n" }.joined()
        try? OnionFile.replace(path, with: Array(lines.utf8).span.bytes)
    }

    /// The state of an onion's descriptor at the tor with this pid; `nil` if it is unknown.
    /// - Parameter onion: the name of a further onion; `nil` for the first one.
    func descriptor(of onion: ClientName?, at pid: Int32) -> OnionDescriptor? {
        guard let bytes = try? OnionFile.read(path, atMost: Self.longest) else { return nil }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
        guard lines.allSatisfy({ $0.count == 2 }), let first = lines.first, Int32(first[0]) == pid else { return nil }
        let line = onion.map { onion in lines.dropFirst().first { $0[0] == onion.description } } ?? first
        return line.flatMap { OnionDescriptor(rawValue: String($0[1])) }
    }
}
