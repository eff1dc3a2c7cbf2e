// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Authenticated encryption of stored data: XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), by libsodium. A sealed
/// text is `nonce (24) ‖ ciphertext ‖ tag (16)`. The nonce is random; it is so long that random nonces do not repeat,
/// however many texts are sealed. Prints as `<redacted>`.
package struct SealedBox: Sendable, Redacted {
    /// Length of a key in bytes.
    package static let keyLength = 32
    /// The number of bytes by which a sealed text is longer than the plain text.
    package static let overhead = nonceLength + tagLength

    static let nonceLength = 24
    static let tagLength = 16

    private let key: SecretBytes

    /// Creates a box with this key; `nil` if the key is not 32 bytes long.
    package init?(key: SecretBytes) {
        Sodium.initialised
        guard key.count == Self.keyLength else { return nil }
        self.key = key
    }

    /// Seals `plain`. `data` is authenticated but not part of the sealed text; opening requires the same `data`.
    package func seal(_ plain: [UInt8], authenticating data: [UInt8]) -> [UInt8] {
        seal(plain, authenticating: data, nonce: SecureRandom.bytes(Self.nonceLength))
    }

    /// Seals with a given nonce, for test vectors. Never use a nonce twice with the same key.
    func seal(_ plain: [UInt8], authenticating data: [UInt8], nonce: [UInt8]) -> [UInt8] {
        key.withUnsafeBytes { Self.seal(plain, authenticating: data, nonce: nonce, key: $0) }
    }

    /// Seals with a one-time key of 32 bytes, which is not copied to locked memory as a box's key is.
    package static func seal(_ plain: [UInt8], authenticating data: [UInt8], underOneTimeKey key: [UInt8]) -> [UInt8] {
        precondition(key.count == keyLength)
        return key.withUnsafeBytes {
            seal(plain, authenticating: data, nonce: SecureRandom.bytes(nonceLength), key: $0)
        }
    }

    private static func seal(
        _ plain: [UInt8], authenticating data: [UInt8], nonce: [UInt8], key: UnsafeRawBufferPointer
    ) -> [UInt8] {
        Sodium.initialised
        precondition(nonce.count == nonceLength)
        var output = nonce
        output.append(contentsOf: repeatElement(0, count: plain.count + tagLength))
        output.withUnsafeMutableBufferPointer { output in
            _ = crypto_aead_xchacha20poly1305_ietf_encrypt(
                output.baseAddress! + nonceLength, nil, plain, UInt64(plain.count), data, UInt64(data.count), nil,
                nonce, key.assumingMemoryBound(to: UInt8.self).baseAddress!)
        }
        return output
    }

    /// The plain text; `nil` if `sealed` was sealed with another key or other data, was altered, or is truncated.
    package func open(_ sealed: [UInt8], authenticating data: [UInt8]) -> [UInt8]? {
        key.withUnsafeBytes { Self.open(sealed, authenticating: data, key: $0) }
    }

    /// Opens what ``seal(_:authenticating:underOneTimeKey:)`` sealed.
    package static func open(_ sealed: [UInt8], authenticating data: [UInt8], underOneTimeKey key: [UInt8]) -> [UInt8]?
    {
        precondition(key.count == keyLength)
        return key.withUnsafeBytes { open(sealed, authenticating: data, key: $0) }
    }

    private static func open(
        _ sealed: [UInt8], authenticating data: [UInt8], key: UnsafeRawBufferPointer
    ) -> [UInt8]? {
        Sodium.initialised
        guard sealed.count >= overhead else { return nil }
        var plain = [UInt8](repeating: 0, count: sealed.count - overhead)
        let result = sealed.withUnsafeBufferPointer { input in
            crypto_aead_xchacha20poly1305_ietf_decrypt(
                &plain, nil, nil, input.baseAddress! + nonceLength, UInt64(input.count - nonceLength), data,
                UInt64(data.count), input.baseAddress!, key.assumingMemoryBound(to: UInt8.self).baseAddress!)
        }
        return result == 0 ? plain : nil
    }
}

extension SecretBytes {
    /// Derives a key of 32 bytes for one purpose: the keyed BLAKE2b of `label` under this key of 16 to 64 bytes.
    package func derivedKey(for label: StaticString) -> SecretBytes {
        let message = UnsafeRawBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount)
        var key = keyedHash(of: message, count: SealedBox.keyLength)
        return SecretBytes(moving: &key)
    }

    /// The keyed BLAKE2b of a digest, `count` (16 to 64) bytes, under this key of 16 to 64 bytes. Without the key, the
    /// hash does not reveal the digest.
    package func keyedHash(of digest: Digest256, count: Int) -> [UInt8] {
        Swift.withUnsafeBytes(of: digest.words) { keyedHash(of: $0, count: count) }
    }

    /// The keyed BLAKE2b of any bytes, `count` (16 to 64) bytes, under this key of 16 to 64 bytes.
    package func keyedHash(of bytes: [UInt8], count: Int) -> [UInt8] {
        bytes.withUnsafeBytes { keyedHash(of: $0, count: count) }
    }

    private func keyedHash(of message: UnsafeRawBufferPointer, count: Int) -> [UInt8] {
        Sodium.initialised
        var output = [UInt8](repeating: 0, count: count)
        let result = withUnsafeBytes { key in
            crypto_generichash(
                &output, count, message.assumingMemoryBound(to: UInt8.self).baseAddress, UInt64(message.count),
                key.assumingMemoryBound(to: UInt8.self).baseAddress, key.count)
        }
        precondition(result == 0, "BLAKE2b does not support this length of key or hash")
        return output
    }
}
