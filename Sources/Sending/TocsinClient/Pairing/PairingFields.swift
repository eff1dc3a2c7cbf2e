// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The parts of a text between its bars.
struct PairingFields {
    /// All parts, at least one.
    let all: [String]
    /// The parts as Java's `split` returns them: without empty ones at the end.
    let java: [String]

    init(_ text: String) {
        // Splits by code points, as Java does: a bar with a combining mark after it is still a bar.
        all = text.unicodeScalars.split(separator: "|", omittingEmptySubsequences: false).map { String($0) }
        let kept = (all.lastIndex { !$0.isEmpty } ?? -1) + 1
        java = all.count == 1 ? all : Array(all.prefix(kept))
    }
}

extension String {
    /// The length as Java counts it, in UTF-16 code units. The rules of the other apps use it.
    var javaLength: Int { utf16.count }

    /// The length in words, which reveals nothing of the content.
    var lengthDescription: String {
        let characters = javaLength == 1 ? "1 character" : "\(javaLength) characters"
        return utf8.count == javaLength ? characters : "\(characters), \(utf8.count) bytes"
    }

    var isHexadecimal: Bool { utf8.allSatisfy(Hex.isDigit) }

    /// Whether all characters belong to the Base64 alphabet, the only ones that keys contain.
    var hasOnlyBase64Characters: Bool {
        allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=".contains($0)) }
    }

    var containsWhitespace: Bool { contains(where: \.isWhitespace) }
}
