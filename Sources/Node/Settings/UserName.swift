// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Names of users for messages and commands.
package enum UserName {
    /// The user's name, or `uid 1234` if the user has no name.
    package static func of(_ user: uid_t) -> String { known(user) ?? "uid \(user)" }

    /// The user's name or number, as `chown` and `sudo -u` accept it.
    package static func forCommands(_ user: uid_t) -> String { known(user) ?? "\(user)" }

    private static func known(_ user: uid_t) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 4096)
        guard getpwuid_r(user, &entry, &buffer, buffer.count, &found) == 0, found != nil, let name = entry.pw_name
        else { return nil }
        return String(cString: name)
    }
}
