// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A sender's private key to a closed onion (rend-spec-v3, "Client authorization"), with the onion's address.
package struct OnionKey: Sendable, Redacted {
    /// The onion that the key opens.
    package let address: OnionAddress
    /// The X25519 private key, 32 bytes.
    let privateKey: SecretBytes

    /// Maximum file size: one line with its line end.
    private static let maximumLength = OnionAddress.labelLength + 1 + ClientAuthorization.scheme.utf8.count + 52 + 2
}

extension OnionKey {
    /// Parses a line of tor's `ClientOnionAuthDir`, `ADDRESS:descriptor:x25519:KEY`; `nil` if it is malformed.
    package init?(line: some Collection<UInt8>) {
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].count == OnionAddress.labelLength,
            let address = OnionAddress(String(decoding: parts[0], as: UTF8.self)),
            var key = ClientAuthorization.key(inLine: parts[1])
        else { return nil }
        self.init(address: address, privateKey: SecretBytes(moving: &key))
    }

    /// Reads the key from a file with one line of `ClientOnionAuthDir`.
    /// - Throws: ``OnionFileError``, also if users other than the owner can access the file.
    package init(file: String) throws(OnionFileError) {
        guard let key = OnionKey(line: try OnionFile.readLine(file, atMost: Self.maximumLength, mustBePrivate: true))
        else {
            throw .malformed(
                file: file,
                problem: "it does not contain a line ADDRESS:descriptor:x25519:KEY as tocsin onion authorize writes it")
        }
        self = key
    }

    /// The line, without the line end. Secret.
    package var line: [UInt8] {
        let encoded = privateKey.withBytes { $0.withUnsafeBytes { Base32.encode($0) } }
        return Array("\(address.label):\(ClientAuthorization.scheme)".utf8) + encoded
    }

    /// Writes the line into a new file with mode 0600.
    /// - Throws: ``OnionFileError``.
    package func write(to file: String) throws(OnionFileError) {
        try OnionFile.create(file, holding: (line + [UInt8(ascii: "\n")]).span.bytes)
    }
}
