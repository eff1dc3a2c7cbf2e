// SPDX-License-Identifier: Apache-2.0

import EventLoop

/// Notices that a credential file has been written anew, so that a new certificate or key needs no restart.
struct CredentialWatch {
    /// How often the files are looked at.
    static let interval = Duration.seconds(10)

    private var versions: [String: FileVersion?] = [:]

    /// Watches files since these versions of them.
    init(_ versions: [String: FileVersion?] = [:]) { self.versions = versions }

    /// Whether one of them has changed since this was last asked.
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
