// SPDX-License-Identifier: Apache-2.0

/// The host name at which the phone reaches a node.
public struct NodeHost: Hashable, Codable, Sendable {
    /// The name, for instance 56 characters and `.onion`.
    public let name: String

    private static let (keyLength, addressLength) = (32, 35)

    /// Takes a host name without a port.
    public init(_ name: String) { self.name = name }

    /// What a signature names: the public key of an onion service (rend-spec-v3, "Encoding onion addresses"), zeros for a
    /// host that is none.
    public var onionKey: [UInt8] {
        let labels = name.lowercased().split(separator: ".")
        guard labels.count > 1, labels.last == "onion", let bytes = Text.bytes(base32: labels[labels.count - 2]),
            bytes.count == Self.addressLength
        else { return [UInt8](repeating: 0, count: Self.keyLength) }
        return Array(bytes.prefix(Self.keyLength))
    }
}
