// SPDX-License-Identifier: Apache-2.0

/// The operator's name for an authorised client. It is used as a file name and contains no character that a shell
/// treats specially.
package struct ClientName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// 1 to 64 characters: letters a-z and A-Z, digits, - and _.
    package let description: String

    /// Checks a name.
    /// - Throws: ``OnionFileError/badName``.
    package init(_ text: String) throws(OnionFileError) {
        guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(Self.isAllowed) else { throw .badName }
        description = text
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    package static func < (one: Self, other: Self) -> Bool { one.description < other.description }
}
