// SPDX-License-Identifier: Apache-2.0

import CBuild

/// The version of Tocsin.
package enum Version {
    /// A semantic version. `Packaging/version` reads it here, and copies it to packages and documents.
    package static let current = "1.1.0"

    /// The version with what it was built from, for reports of faults: `1.1.0 (commit 5621073a1b2c, release build)`.
    package static var described: String {
        let commit = String(cString: tocsin_build_commit())
        return "\(current) (\(commit.isEmpty ? "" : "commit \(commit), ")\(isDebugBuild ? "debug" : "release") build)"
    }

    private static var isDebugBuild: Bool {
        #if DEBUG
            true
        #else
            false
        #endif
    }
}
