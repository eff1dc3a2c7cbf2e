// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Keeps a provider token in the state directory, readable by the node only: a restart goes on with the same one, as
/// Apple wants no second one within 20 minutes. It is worth nothing an hour later.
package struct ProviderTokenFile: ProviderTokenKeeping {
    let path: String

    /// - Parameters: as the properties of the same names.
    package init(path: String) {
        self.path = path
    }
    private static let largest = 4096

    package func load() -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.largest)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? Array(bytes.prefix(count)) : nil
    }

    /// A token that cannot be kept is still good for this process, so that a full disk is no reason to stop.
    package func save(_ token: [UInt8]) {
        let temporary = path + ".new"
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return }
        let isWritten = write(descriptor, token, token.count) == token.count && fsync(descriptor) == 0
        close(descriptor)
        if isWritten { rename(temporary, path) } else { unlink(temporary) }
    }
}
