// SPDX-License-Identifier: Apache-2.0

import Settings

/// Apple's conventions for names of keys and key files.
package enum AppleKeyName {
    /// The key id in a file name like `AuthKey_ABCDE12345.p8`; `nil` if there is none.
    package static func keyID(in file: String) -> String? {
        let name = file.split(separator: "/").last ?? ""
        guard name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else { return nil }
        let id = name.dropFirst("AuthKey_".count).dropLast(".p8".count)
        return isIdentifier(id) ? String(id) : nil
    }

    /// The length of a key id and of a team id, in characters.
    static let length = 10

    /// Whether a text has the form of a key id or team id: 10 letters and digits.
    package static func isIdentifier(_ text: some StringProtocol) -> Bool {
        text.count == length && text.allSatisfy(\.isASCIILetterOrDigit)
    }
}
