// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Detects changed credential files, so that a new certificate or key needs no restart.
struct CredentialWatch {
    /// How often the files are examined.
    static let interval = Duration.seconds(10)

    private var versions: [String: FileVersion?] = [:]

    /// Watches files for changes from the given versions.
    init(_ versions: [String: FileVersion?] = [:]) { self.versions = versions }

    /// Whether a file has changed since the last call.
    mutating func hasChanged() -> Bool {
        var isChanged = false
        for (file, version) in versions {
            let present = FileVersion(of: file)
            if present != version {
                versions[file] = present
                isChanged = true
            }
        }
        return isChanged
    }
}
