// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Detects changed credential files, so that a new certificate or key needs no restart.
struct CredentialWatch {
    /// How often the files are examined.
    static let interval = Duration.seconds(10)

    private var versions: [String: FileVersion?] = [:]

    /// Watches files for changes from the given versions.
    init(_ versions: [String: FileVersion?] = [:]) { self.versions = versions }

    private var reportsAgain = false

    /// Makes the next call of ``hasChanged()`` return `true`: what has changed could not be used.
    mutating func reportAgain() { reportsAgain = true }

    /// Whether a file has changed since the last call.
    mutating func hasChanged() -> Bool {
        let before = versions
        for file in before.keys { versions[file] = FileVersion(of: file) }
        defer { reportsAgain = false }
        return reportsAgain || versions != before
    }
}
