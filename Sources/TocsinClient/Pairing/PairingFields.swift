// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A text cut at its bars.
struct PairingFields {
    /// At least one.
    let all: [String]
    /// As Java's `split` gives them: without the empty ones at the end.
    let java: [String]

    init(_ text: String) {
        // By code points, as Java does: a bar stays one where a combining mark follows it.
        all = text.unicodeScalars.split(separator: "|", omittingEmptySubsequences: false).map { String($0) }
        let kept = (all.lastIndex { !$0.isEmpty } ?? -1) + 1
        java = all.count == 1 ? all : Array(all.prefix(kept))
    }
}

extension String {
    /// As Java counts it, which is what the other apps' rules speak of.
    var javaLength: Int { utf16.count }

    /// Its length, without a word of what it says.
    var lengthInWords: String {
        let characters = javaLength == 1 ? "1 character" : "\(javaLength) characters"
        return utf8.count == javaLength ? characters : "\(characters), \(utf8.count) bytes"
    }

    var isHexadecimal: Bool { utf8.allSatisfy(Hex.isDigit) }

    /// Only characters that keys are made of: those of Base64.
    var isOfBase64: Bool {
        utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
                true
            default: false
            }
        }
    }

    var holdsWhiteSpace: Bool { contains(where: \.isWhitespace) }
}
