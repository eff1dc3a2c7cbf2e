// SPDX-License-Identifier: Apache-2.0

/// The operator's name for an authorised client or for a further onion. It is part of file names and contains no
/// character that a shell treats specially.
package struct ClientName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// 1 to 64 characters: letters a-z and A-Z, digits, - and _.
    package let description: String

    /// Checks a name.
    /// - Throws: ``OnionFileError/badName``.
    package init(_ text: String) throws(OnionFileError) {
        let isAllowed = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
        guard (1...64).contains(text.utf8.count), isAllowed else { throw .badName }
        description = text
    }

    /// The name of a key that nobody has, which keeps an onion without authorised senders closed.
    package static let nobody: ClientName = {
        guard let name = try? ClientName("nobody") else { preconditionFailure("a valid name") }
        return name
    }()

    package static func < (one: Self, other: Self) -> Bool { one.description < other.description }
}
