// SPDX-License-Identifier: Apache-2.0

/// A version of tor, for instance 0.4.9.11.
package struct TorVersion: Comparable, Hashable, Sendable, CustomStringConvertible {
    /// Four numbers; a suffix (`-alpha`, `-rc`) is ignored.
    package let numbers: [Int]

    /// The oldest supported version: the first whose onion services require proof of work while they are flooded, which
    /// the node's torrc relies on. Older versions are no longer maintained.
    package static let oldest = TorVersion(numbers: [0, 4, 8, 0])
}

extension TorVersion {
    /// Parses the output of `tor --version`; `nil` if it contains no version.
    package init?(output: String) {
        let prefix = "Tor version "
        guard let line = output.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(prefix) }) else {
            return nil
        }
        let word = line.dropFirst(prefix.count).prefix { $0.isNumber || $0 == "." }
        numbers = word.split(separator: ".").compactMap { Int($0) }
        guard numbers.count == 4 else { return nil }
    }

    package var description: String { numbers.map(String.init).joined(separator: ".") }

    package static func < (one: Self, other: Self) -> Bool { one.numbers.lexicographicallyPrecedes(other.numbers) }
}
