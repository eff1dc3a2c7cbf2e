// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A sender's private key to a closed onion (rend-spec-v3, "Client authorization"), with the onion's address.
package struct OnionKey: Sendable, Redacted {
    /// The onion that the key opens.
    package let address: OnionAddress
    /// 32 bytes.
    let privateKey: SecretBytes

    private static let scheme = "descriptor:x25519:"
    /// Maximum file size: one line with its line end.
    private static let longest = OnionAddress.labelLength + 1 + scheme.utf8.count + 52 + 2

    /// - Parameter privateKey: 32 bytes.
    init(address: OnionAddress, privateKey: SecretBytes) {
        self.address = address
        self.privateKey = privateKey
    }

    /// Parses a line of tor's `ClientOnionAuthDir`, `ADDRESS:descriptor:x25519:KEY`; `nil` if it is malformed.
    package init?(line: some Collection<UInt8>) {
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].count == OnionAddress.labelLength,
            let address = OnionAddress(String(decoding: parts[0], as: UTF8.self)),
            parts[1].starts(with: Self.scheme.utf8),
            var key = Base32.decode(parts[1].dropFirst(Self.scheme.utf8.count)), key.count == X25519.keyLength
        else { return nil }
        self.init(address: address, privateKey: SecretBytes(moving: &key))
    }

    /// Reads the key from a file with one line of `ClientOnionAuthDir`.
    /// - Throws: ``OnionFileError``, also if users other than the owner can access the file.
    package init(file: String) throws(OnionFileError) {
        var text = try OnionFile.read(file, atMost: Self.longest, mustBePrivate: true)
        while let last = text.last, last == UInt8(ascii: "\n") || last == UInt8(ascii: "\r") { text.removeLast() }
        guard let key = OnionKey(line: text) else {
            throw .malformed(
                file: file,
                problem: "it does not contain a line ADDRESS:descriptor:x25519:KEY as tocsin onion authorize writes it")
        }
        self = key
    }

    /// The line, without the line end. Secret.
    package var line: [UInt8] { Array("\(address.label):\(Self.scheme)".utf8) + privateKey.encoded(Base32.encode) }

    /// Writes the line into a new file with mode 0600.
    /// - Throws: ``OnionFileError``.
    package func write(to file: String) throws(OnionFileError) {
        try OnionFile.create(file, holding: (line + [UInt8(ascii: "\n")]).span.bytes)
    }
}

extension SecretBytes {
    /// The bytes as text encoded by `encode`.
    func encoded(_ encode: (UnsafeRawBufferPointer) -> [UInt8]) -> [UInt8] {
        withBytes { $0.withUnsafeBytes(encode) }
    }
}
