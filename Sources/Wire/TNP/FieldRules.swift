// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// The value rules of PROTOCOL §3 for the fields of an envelope.
enum FieldRules {
    /// The valid lengths of an Apple device token, in hexadecimal digits. Apple documents its tokens as variable in
    /// length, at most 100 bytes.
    static let appleTokenLengths = 2...200

    /// How a notification is encrypted: in the app's format, or for Web Push always in `aes128gcm` (PROTOCOL §15).
    enum Content {
        case pipe, sealed, webPush

        init(_ magic: Magic, _ format: EnvelopeFormat) {
            self =
                switch (magic, format) {
                case (.web, _): .webPush
                case (_, .pipe): .pipe
                case (_, .sealed): .sealed
                }
        }
    }

    static func check(iv: Bytes, of content: Content) throws(Rejection) {
        switch content {
        case .pipe:
            if iv.count == sealedIVLength { throw Rejection(.iv, otherFormat("sealed", "pipe")) }
            guard iv.count == pipeIVLength, iv.withUnsafeBytes({ $0.allSatisfy(isPrintable) }) else {
                throw Rejection(.iv, "this app requires an iv of 16 printable ASCII characters except |")
            }
        case .sealed:
            if iv.count == pipeIVLength { throw Rejection(.iv, otherFormat("pipe", "sealed")) }
            guard iv.count == sealedIVLength else { throw Rejection(.iv, "this app requires an iv of 12 bytes") }
        case .webPush: guard iv.isEmpty else { throw Rejection(.iv, "Web Push has no iv") }
        }
    }

    private static let (pipeIVLength, sealedIVLength) = (16, 12)

    /// The error text for an iv that has the length of the other format's.
    private static func otherFormat(_ sent: StaticString, _ taken: StaticString) -> String {
        "the notification has the format \(sent), but the app takes \(taken): is it a pairing of another app?"
    }

    private static func isPrintable(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte <= 0x7E && byte != UInt8(ascii: "|")
    }

    static func check(ciphertext: Bytes, of content: Content) throws(Rejection) {
        switch content {
        case .pipe:
            guard (16...Envelope.maximumCiphertext).contains(ciphertext.count), ciphertext.count.isMultiple(of: 16)
            else {
                throw Rejection(
                    .ciphertextLength, "this app requires a ciphertext of 16 to 3072 bytes, a multiple of 16")
            }
        case .sealed:
            guard (17...Envelope.maximumCiphertext).contains(ciphertext.count) else {
                throw Rejection(.ciphertextLength, "this app requires a ciphertext of 17 to 3072 bytes")
            }
        case .webPush:
            guard (1...Envelope.maximumWebPush).contains(ciphertext.count) else {
                throw Rejection(.ciphertextLength, "Web Push requires a ciphertext of 1 to 4096 bytes")
            }
        }
    }

    static func check(collapseID: Bytes) throws(Rejection) {
        // The collapse id becomes the value of an HTTP header field, which must contain no control characters (RFC 9110
        // §5.5) and neither begin nor end with a space (RFC 9113 §8.2.1).
        guard (1...64).contains(collapseID.count), String(validating: collapseID, as: UTF8.self) != nil,
            collapseID.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }), collapseID.first != 0x20, collapseID.last != 0x20
        else {
            throw Rejection(
                .optionOutOfRange,
                "the collapse id must be 1 to 64 bytes of UTF-8 without control characters or spaces at its ends")
        }
    }
}
