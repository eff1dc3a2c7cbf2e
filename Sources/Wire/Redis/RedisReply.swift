// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A reply of a Redis server (Redis, "Redis serialization protocol specification", version 2). Prints as `<redacted>`.
package enum RedisReply: Equatable, Sendable, Redacted {
    /// A short text such as `OK`.
    case status(String)
    /// The server refused the command; the text begins with a code such as `NOPERM`.
    case error(String)
    /// A number.
    case integer(Int64)
    /// A string of bytes.
    case bytes([UInt8])
    /// Nothing: a missing value.
    case null
    /// Several replies.
    case array([RedisReply])

    /// The elements of an array; `nil` for other replies.
    package var elements: [RedisReply]? { if case .array(let elements) = self { elements } else { nil } }

    /// The number; `nil` for other replies.
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }

    /// The bytes of a string; `nil` for other replies.
    package var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }

    /// The text of a string or status; `nil` for other replies, and for a string that is not UTF-8.
    package var text: String? {
        switch self {
        case .status(let text): text
        case .bytes(let bytes): String(validating: bytes, as: UTF8.self)
        default: nil
        }
    }
}
