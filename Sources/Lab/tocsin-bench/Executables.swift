// SPDX-License-Identifier: Apache-2.0

import FoundationEssentials

/// The paths of the programs that the benchmarks start.
enum Executables {
    /// The node's program was not found.
    struct Missing: Error, CustomStringConvertible {
        let path: String
        var description: String { "\(path) does not exist: run swift build --product tocsin first" }
    }

    /// The path of this program.
    static func bench() throws -> String {
        try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    }

    /// The path of the node's program, in the same directory.
    /// - Throws: ``Missing``.
    static func tocsin() throws -> String {
        let path = try bench().split(separator: "/").dropLast().reduce("") { "\($0)/\($1)" } + "/tocsin"
        guard FileManager.default.isExecutableFile(atPath: path) else { throw Missing(path: path) }
        return path
    }
}
