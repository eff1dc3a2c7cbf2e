// SPDX-License-Identifier: Apache-2.0

import Glibc
import Providers

extension Configuration {
    /// The key files that the node makes itself if they do not exist.
    package var ownKeyFiles: [String] {
        [spool?.keyFile].compactMap(\.self) + apps.flatMap(\.deliveries).flatMap(\.ownKeyFiles)
    }

    /// Whether a file is in the state directory, in which the node itself can read and write, or its path leads through
    /// that directory: a compromised node could replace a part of such a path by a link to any file.
    package func isInState(_ file: String) -> Bool {
        let state = canonicalState
        // The file itself may be a link, so the directories of its target count too.
        return (Self.directories(of: file) + Self.directories(of: Self.canonical(file))).contains { directory in
            let path = Self.canonical(directory)
            return path == state || path.hasPrefix("\(state)/")
        }
    }

    /// The state directory without links, `..` and slashes at its end.
    package var canonicalState: String { Self.canonical(state) }

    /// The directories above a file, as its path names them, the nearest one first.
    private static func directories(of file: String) -> [String] {
        var parts = file.split(separator: "/", omittingEmptySubsequences: true)
        var found: [String] = []
        while !parts.isEmpty {
            parts.removeLast()
            found.append((file.hasPrefix("/") ? "/" : "") + parts.joined(separator: "/"))
        }
        return found
    }

    /// A path without links, `..` and slashes at its end; if nothing exists there, only without needless slashes.
    private static func canonical(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else {
            return path.split(separator: "/").reduce("") { $0 + "/" + $1 }
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// The other files that the configuration names and the node reads: shared keys, passwords, tokens and certificate
    /// authorities. Those in the state directory are left out: an attacker in the node could replace each by a link to
    /// a file of keys.
    package var otherFiles: [String] {
        let shared = [
            cluster?.keyFile, cluster?.passwordFile, cluster?.trustFile, canary?.phoneFile, canary?.siteKeyFile,
            listen.adminTokenFile,
        ].compactMap(\.self)
        return (shared + apps.flatMap(\.deliveries).flatMap(\.otherFiles)).filter { !isInState($0) }
    }
}
