// SPDX-License-Identifier: Apache-2.0

import Cryptography

extension Envelope {
    /// Appends the text that the phone receives under the key `encrypted` (PROTOCOL §3), escaped for use inside a JSON
    /// string: an iv may contain `"` and `\`.
    /// - Parameters:
    ///   - format: the format that the app's phones open.
    ///   - messageMagic: the first part of a `pipe` text; unused for `sealed`.
    ///   - output: the buffer to append to.
    public func appendDeliveredJSON(format: EnvelopeFormat, messageMagic: [UInt8], to output: inout [UInt8]) {
        switch format {
        case .pipe:
            output.append(copying: messageMagic)
            output.append(UInt8(ascii: "|"))
            if escapesInIV == 0 {
                output.append(copying: iv)
            } else {
                for byte in iv {
                    if Self.isEscaped(byte) { output.append(UInt8(ascii: "\\")) }
                    output.append(byte)
                }
            }
            output.append(UInt8(ascii: "|"))
            ciphertext.withUnsafeBufferPointer { Base64.encode(buffer: $0, into: &output) }
        case .sealed:
            Base64.encode(iv + ciphertext, into: &output)
        }
    }

    /// The number of bytes that ``appendDeliveredJSON(format:messageMagic:to:)`` appends.
    public func deliveredJSONLength(format: EnvelopeFormat, messageMagicLength: Int) -> Int {
        switch format {
        case .pipe:
            return messageMagicLength + 2 + iv.count + escapesInIV + Base64.encodedCount(ciphertext.count)
        case .sealed: return Base64.encodedCount(iv.count + ciphertext.count)
        }
    }

    private static func isEscaped(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") }

    /// The number of bytes of the iv that need a backslash before them.
    private var escapesInIV: Int {
        iv.withUnsafeBytes { iv in
            var count = 0
            for index in iv.indices where Self.isEscaped(iv[index]) { count &+= 1 }
            return count
        }
    }

    /// The `apns-id` of the envelope: a UUID (version 8, variant 10) of the digest's first 16 bytes, as lower-case text
    /// (36 bytes).
    public var apnsID: [UInt8] {
        var text: [UInt8] = []
        appendAPNsID(to: &text)
        return text
    }

    /// Appends ``apnsID``.
    package func appendAPNsID(to output: inout [UInt8]) {
        let (high, low) = digest.leadingWords
        withUnsafeTemporaryAllocation(byteCount: MessageID.uuidLength, alignment: 1) {
            UUIDText.write(
                high & 0xFFFF_FFFF_FFFF_0FFF | 0x8000, low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000, to: $0)
            output.append(copying: UnsafeRawBufferPointer($0))
        }
    }

    /// The collapse id under which a later copy replaces this envelope: the sender's collapse id, or otherwise the
    /// unpadded Base64url of the digest's first 24 bytes.
    public var effectiveCollapseID: [UInt8] {
        var text: [UInt8] = []
        appendCollapseID(to: &text)
        return text
    }

    /// Appends ``effectiveCollapseID``.
    package func appendCollapseID(to output: inout [UInt8]) {
        if let collapseID {
            output.append(copying: collapseID)
        } else {
            digest.withPrefix(24) { Base64.encodeURLSafe(buffer: $0, into: &output) }
        }
    }
}
