// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Detects changed credential files, so that a new certificate or key needs no restart.
struct CredentialWatch {
    /// How often the files are examined.
    static let interval = Duration.seconds(10)

    private var versions: [String: FileVersion?] = [:]

    /// Watches files for changes from the given versions.
    init(_ versions: [String: FileVersion?] = [:]) { self.versions = versions }

    /// The versions before the last call of ``hasChanged()``.
    private var before: [String: FileVersion?] = [:]

    /// Makes the next call of ``hasChanged()`` report once more what the last call found.
    mutating func reportAgain() { versions = before }

    /// Whether a file has changed since the last call.
    mutating func hasChanged() -> Bool {
        before = versions
        for file in before.keys { versions[file] = FileVersion(of: file) }
        return versions != before
    }
}
