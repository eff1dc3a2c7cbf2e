// SPDX-License-Identifier: Apache-2.0

/// The host name at which the phone reaches a node.
public struct NodeHost: Hashable, Codable, Sendable {
    /// The name, for instance 56 characters and `.onion`.
    public let name: String
    /// The 32 bytes by which a signature names the node: the public key of an onion service (rend-spec-v3, "Encoding
    /// onion addresses"), or zeros for any other host.
    public let onionKey: [UInt8]

    private static let (keyLength, addressLength, version): (Int, Int, UInt8) = (32, 35, 3)

    /// Creates the host of a name; `nil` if it is empty, is longer than 255 bytes, has a port or a path, or ends in
    /// `.onion` and is no onion address. The checksum of the address is not verified: tor does that.
    public init?(_ name: String) {
        guard !name.isEmpty, name.utf8.count <= 255, !name.contains(where: { "/:@ ".contains($0) || $0.isWhitespace })
        else { return nil }
        let labels = name.lowercased().split(separator: ".")
        if labels.count > 1, labels.last == "onion" {
            guard let bytes = Text.bytes(base32: labels[labels.count - 2]), bytes.count == Self.addressLength,
                bytes.last == Self.version
            else { return nil }
            onionKey = Array(bytes.prefix(Self.keyLength))
        } else {
            onionKey = [UInt8](repeating: 0, count: Self.keyLength)
        }
        self.name = name
    }

    /// Decodes a host name.
    /// - Throws: ``PhoneError/damaged`` if the text is no host name; the decoder's errors.
    public init(from decoder: any Decoder) throws {
        guard let host = NodeHost(try decoder.singleValueContainer().decode(String.self)) else {
            throw PhoneError.damaged
        }
        self = host
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(name)
    }
}
