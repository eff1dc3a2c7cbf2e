// SPDX-License-Identifier: Apache-2.0

/// The address of a version 3 onion service: its public key, a checksum and the version in Base32, followed by `.onion`
/// (rend-spec-v3, "Encoding onion addresses").
package struct OnionAddress: Hashable, Sendable, CustomStringConvertible {
    /// The service's Ed25519 key, 32 bytes.
    package let publicKey: [UInt8]

    private static let version: UInt8 = 3
    private static let checksumLength = 2
    private static let suffix = ".onion"
    /// Number of characters before `.onion`.
    package static let labelLength = 56

    /// Creates the address of a public key; `nil` unless the key has 32 bytes.
    package init?(publicKey: [UInt8]) {
        guard publicKey.count == Ed25519.publicKeyLength else { return nil }
        self.publicKey = publicKey
    }

    /// Parses an address in either case, with or without `.onion`; `nil` if length, Base32, version or checksum is
    /// wrong.
    package init?(_ text: String) {
        var label = Array(text.utf8)
        if label.suffix(Self.suffix.utf8.count).elementsEqual(Self.suffix.utf8, by: { $0 | 0x20 == $1 | 0x20 }) {
            label.removeLast(Self.suffix.utf8.count)
        }
        guard label.count == Self.labelLength, let bytes = Base32.decode(label), bytes.last == Self.version else {
            return nil
        }
        publicKey = Array(bytes.prefix(Ed25519.publicKeyLength))
        guard bytes.dropFirst(publicKey.count).dropLast().elementsEqual(checksum) else { return nil }
    }

    /// Parses a host name: an onion address or a subdomain of one (`www.ADDRESS.onion`); `nil` for other names.
    package init?(host: some StringProtocol) {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count > 1, "." + labels[labels.count - 1].lowercased() == Self.suffix else { return nil }
        self.init(String(labels[labels.count - 2]))
    }

    private var checksum: ArraySlice<UInt8> {
        SHA3.hash256(Array(".onion checksum".utf8) + publicKey + [Self.version]).prefix(Self.checksumLength)
    }

    /// The address without `.onion`.
    package var label: String {
        String(decoding: Base32.encode(publicKey + checksum + [Self.version]), as: UTF8.self).lowercased()
    }

    package var description: String { label + Self.suffix }
}
