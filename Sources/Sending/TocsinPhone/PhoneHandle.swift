// SPDX-License-Identifier: Apache-2.0

/// What stands for the phone at one node, in the place of its device token (PROTOCOL §11). Anyone who has it can ring
/// the phone, unless the handle has sender keys. Prints without its content.
public struct PhoneHandle: Hashable, Codable, Sendable, CustomStringConvertible {
    /// The handle's 32 bytes.
    public let bytes: [UInt8]

    static let (prefix, length) = ("handle:", 32)

    /// Reads a handle: 64 hexadecimal digits, with or without `handle:` before them; `nil` if `text` is none.
    public init?(_ text: String) {
        let digits = text.hasPrefix(Self.prefix) ? text.dropFirst(Self.prefix.count) : text[...]
        guard let bytes = Text.bytes(hex: digits) else { return nil }
        self.init(bytes)
    }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.length else { return nil }
        self.bytes = bytes
    }

    /// Decodes a handle.
    /// - Throws: ``PhoneError/damaged`` if the text is no handle; the decoder's errors.
    public init(from decoder: any Decoder) throws {
        guard let handle = PhoneHandle(try decoder.singleValueContainer().decode(String.self)) else {
            throw PhoneError.damaged
        }
        self = handle
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The handle as in a pairing token.
    public var text: String { Self.prefix + Text.hex(bytes) }

    /// A text with no part of the content.
    public var description: String { "<PhoneHandle redacted>" }
}
