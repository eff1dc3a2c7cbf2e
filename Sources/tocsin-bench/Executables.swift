// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials

/// Paths of the programs that the benchmarks start.
enum Executables {
    /// Errors of ``tocsin``.
    struct Missing: Error, CustomStringConvertible {
        let path: String
        var description: String { "there is no node at \(path): build it first, swift build --product tocsin" }
    }

    /// This program.
    static func bench() throws -> String {
        try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    }

    /// The node's program, which is expected in the same directory.
    /// - Throws: ``Missing``.
    static func tocsin() throws -> String {
        let path = try bench().split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" } + "/tocsin"
        guard FileManager.default.isExecutableFile(atPath: path) else { throw Missing(path: path) }
        return path
    }
}
