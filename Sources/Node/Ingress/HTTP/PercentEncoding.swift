// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Percent-encoding (RFC 3986 §2.1).
enum PercentEncoding {
    /// Decodes `text`; `nil` if a `%` is not followed by two hexadecimal digits.
    /// - Parameter isForm: whether `+` means a space, as in a query.
    static func decode(_ text: Bytes, isForm: Bool = false) -> Bytes? {
        // Fast path: most input contains no escapes.
        let isPlain = text.index(of: UInt8(ascii: "%"), from: text.startIndex) == nil
        if isPlain, !isForm || text.index(of: UInt8(ascii: "+"), from: text.startIndex) == nil { return text }
        var output: [UInt8] = []
        output.reserveCapacity(text.count)
        var index = text.startIndex
        while index < text.endIndex {
            switch text[index] {
            case UInt8(ascii: "%"):
                guard text.endIndex - index >= 3, let decoded = Hex.decode(text[index + 1..<index + 3]) else {
                    return nil
                }
                output += decoded
                index += 2
            case UInt8(ascii: "+") where isForm: output.append(UInt8(ascii: " "))
            case let byte: output.append(byte)
            }
            index += 1
        }
        return output[...]
    }
}
