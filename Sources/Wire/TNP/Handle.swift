// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// What stands for a phone at one node, in the place of its device token (PROTOCOL §11). Everyone who has it can ring
/// the phone, unless it has sender keys. Prints as `<redacted>`.
public struct Handle: Hashable, Sendable, Redacted {
    private let digest: Digest256

    /// The length of a handle, in bytes.
    public static let length = 32
    /// The text before a handle in a pairing token, in the place of the device token.
    public static let prefix = "handle:"

    /// Creates a handle of these bytes; `nil` unless there are ``length`` of them.
    public init?(_ bytes: some Collection<UInt8>) {
        guard let digest = Digest256(bytes) else { return nil }
        self.digest = digest
    }

    /// Reads a handle from a pairing token or a command line: ``prefix``, which may be missing, and 64 hexadecimal digits.
    public init?(text: String) {
        let digits = text.hasPrefix(Self.prefix) ? text.dropFirst(Self.prefix.count) : text[...]
        guard let bytes = Hex.decode(Array(digits.utf8)) else { return nil }
        self.init(bytes)
    }

    /// The handle's 32 bytes.
    public var bytes: [UInt8] { digest.bytes }
    /// The handle as in a pairing token: ``prefix`` and 64 hexadecimal digits.
    public var text: String { Self.prefix + Hex.encode(bytes) }
}
