// SPDX-License-Identifier: Apache-2.0

import Glibc
import Providers

extension Configuration {
    /// Keys of the node's own, which it makes if they do not exist.
    package var ownKeyFiles: [String] {
        [spool?.keyFile].compactMap(\.self) + apps.flatMap(\.deliveries).flatMap(\.ownKeyFiles)
    }

    /// Whether a file is beneath the state directory, where the node can write, and read for itself.
    /// Also where the path only leads through it: the node could make what it writes there a link to any file.
    package func isInState(_ file: String) -> Bool {
        let state = canonicalState
        // The file itself may be a link.
        return (Self.directories(of: file) + Self.directories(of: Self.canonical(file))).contains { directory in
            let path = Self.canonical(directory)
            return path == state || path.hasPrefix("\(state)/")
        }
    }

    /// The state directory without links, `..` and slashes at its end.
    package var canonicalState: String { Self.canonical(state) }

    /// A directory and those above it, as the path names them.
    private static func directories(of file: String) -> [String] {
        var parts = file.split(separator: "/", omittingEmptySubsequences: true)
        var found: [String] = []
        while !parts.isEmpty {
            parts.removeLast()
            found.append((file.hasPrefix("/") ? "/" : "") + parts.joined(separator: "/"))
        }
        return found
    }

    /// A path without links, `..` and slashes at its end; as it is where nothing exists.
    private static func canonical(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else {
            return path.split(separator: "/").reduce("") { $0 + "/" + $1 }
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// The other files that the configuration names and the node reads: keys shared with others, and authorities. Those in
    /// the state directory are not among them: an attacker in the node could make each a link to a file of keys.
    package var otherFiles: [String] {
        let shared = [
            cluster?.keyFile, cluster?.passwordFile, cluster?.trustFile, canary?.phoneFile, listen.adminTokenFile,
        ].compactMap(\.self)
        return (shared + apps.flatMap(\.deliveries).flatMap(\.otherFiles)).filter { !isInState($0) }
    }
}
