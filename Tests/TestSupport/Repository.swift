// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The folder with Package.swift.
package enum Repository {
    package static let root = URL(filePath: #filePath).appending(path: "../../..").standardizedFileURL

    /// A file or folder.
    /// - Parameter path: from the root, for instance "Docs/examples".
    package static func file(_ path: String) -> URL { root.appending(path: path) }
}
