// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// Percent-encoding (RFC 3986 §2.1).
enum PercentEncoding {
    /// Decodes `text`; `nil` if a `%` is not followed by two hexadecimal digits.
    /// - Parameter isForm: whether `+` means a space, as in a query.
    static func decode(_ text: Bytes, isForm: Bool = false) -> [UInt8]? {
        // Fast path: most input contains no escapes.
        let isPlain = text.allSatisfy { $0 != UInt8(ascii: "%") && (!isForm || $0 != UInt8(ascii: "+")) }
        if isPlain { return Array(text) }
        var output: [UInt8] = []
        output.reserveCapacity(text.count)
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                guard rest.count >= 2, let decoded = Hex.decode(rest.prefix(2)) else { return nil }
                output += decoded
                rest = rest.dropFirst(2)
            case UInt8(ascii: "+") where isForm: output.append(UInt8(ascii: " "))
            default: output.append(byte)
            }
        }
        return output
    }
}
