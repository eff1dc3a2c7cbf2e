// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What a user is called, for messages and the commands in them.
package enum UserName {
    /// The user's name, or `uid 1234` where none is known.
    package static func of(_ user: uid_t) -> String { known(user) ?? "uid \(user)" }

    /// As `chown` and `sudo -u` take it.
    package static func forCommands(_ user: uid_t) -> String { known(user) ?? "\(user)" }

    private static func known(_ user: uid_t) -> String? {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 4096)
        guard getpwuid_r(user, &entry, &buffer, buffer.count, &found) == 0, found != nil, let name = entry.pw_name
        else {
            return nil
        }
        return String(cString: name)
    }
}
