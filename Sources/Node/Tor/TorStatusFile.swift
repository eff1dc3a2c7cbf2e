// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The file in which the node records the states of the onions' descriptors, for `tocsin onion show` and for a later
/// node. Its first line holds tor's pid and the state of the first onion; the pid shows whether the file is from an
/// earlier tor. Each further line holds the name and the state of a further onion.
struct TorStatusFile {
    private static let maximumLength = 10_000

    private let path: String

    init(_ settings: TorSettings) { path = settings.statusFile }

    /// Writes the file, or deletes it if tor does not run. Failures are ignored: the onion works without the file.
    func write(_ status: TorStatus) {
        guard let pid = status.pid else {
            unlink(path)
            return
        }
        let lines =
            "\(pid) \(status.descriptor.rawValue)\n"
            + status.onions.map { "\($0.name) \($0.descriptor.rawValue)\n" }.joined()
        try? OnionFile.makeDirectory(OnionFile.parent(of: path))
        try? OnionFile.replace(path, with: Array(lines.utf8).span.bytes)
    }

    /// The recorded states of the descriptors of the tor with this pid, by the names of the onions; `nil` stands for
    /// the first one. Empty if the file is not about this tor or cannot be read.
    func descriptors(at pid: Int32) -> [ClientName?: OnionDescriptor] {
        guard let bytes = try? OnionFile.read(path, atMost: Self.maximumLength) else { return [:] }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
        guard lines.allSatisfy({ $0.count == 2 }), let first = lines.first, Int32(first[0]) == pid else { return [:] }
        var descriptors: [ClientName?: OnionDescriptor] = [:]
        descriptors[nil as ClientName?] = OnionDescriptor(rawValue: String(first[1]))
        for line in lines.dropFirst() {
            guard let name = try? ClientName(String(line[0])) else { continue }
            descriptors[name] = OnionDescriptor(rawValue: String(line[1]))
        }
        return descriptors
    }
}
