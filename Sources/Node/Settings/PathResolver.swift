// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Makes the paths of a configuration absolute; they are relative to the directory of the file.
package struct PathResolver: Sendable {
    private let directory: String

    package init(file: String) {
        let directory = file.lastIndex(of: "/").map { String(file[..<$0]) } ?? "."
        guard !file.hasPrefix("/") else {
            self.directory = directory
            return
        }
        // Child processes may have another working directory.
        let working = getcwd(nil, 0)
        defer { free(working) }
        let start = working.map { String(cString: $0) } ?? "."
        self.directory = directory == "." ? start : "\(start)/\(directory)"
    }

    package func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : "\(directory)/\(path)" }
}
