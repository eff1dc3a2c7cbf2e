// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Glibc

/// A provider token stored in the state directory, readable by the node only. A restart reuses the token, because Apple
/// accepts no second one within 20 minutes. The token expires within an hour.
package struct ProviderTokenFile: ProviderTokenStore {
    let path: String

    private static let maximumLength = 4096

    /// Creates a store at this path; the file need not exist.
    package init(path: String) {
        self.path = path
    }

    /// Where the token of a key is kept.
    /// - Parameter state: the state directory.
    static func path(_ key: AppleKey.Public, in state: String) -> String {
        "\(state)/apns-\(key.teamID)-\(key.keyID).token"
    }

    package func load() -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.maximumLength)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? Array(bytes.prefix(count)) : nil
    }

    /// Write errors are ignored: the token is still valid for this process, so a full disk must not stop the node.
    package func save(_ token: [UInt8]) {
        try? PrivateFile.replace(path, holding: token, isDurable: true)
    }
}
