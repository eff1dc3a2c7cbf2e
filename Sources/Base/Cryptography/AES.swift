// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// AES-256 in CBC mode without padding (NIST SP 800-38A), which Bisq 1's phones decrypt.
package enum AES256CBC {
    /// Encrypts whole blocks; `nil` unless `key` has 32 bytes, `iv` 16 and `message` a multiple of 16.
    package static func encrypt(_ message: [UInt8], key: [UInt8], iv: [UInt8]) -> [UInt8]? {
        guard key.count == 32, iv.count == 16, message.count.isMultiple(of: 16) else { return nil }
        return Cipher(EVP_aes_256_cbc(), encrypt: true, key: key, iv: iv)?.run(message)
    }

    /// Decrypts whole blocks; `nil` if a length is wrong (see ``encrypt(_:key:iv:)``).
    package static func decrypt(_ message: [UInt8], key: [UInt8], iv: [UInt8]) -> [UInt8]? {
        guard key.count == 32, iv.count == 16, message.count.isMultiple(of: 16) else { return nil }
        return Cipher(EVP_aes_256_cbc(), encrypt: false, key: key, iv: iv)?.run(message)
    }
}

/// AES in GCM mode (NIST SP 800-38D) with a 12-byte nonce and a 16-byte tag after the ciphertext. The length of the key
/// chooses AES-256, which Bisq Connect opens, or AES-128, which Web Push uses.
package enum AESGCM {
    /// Length of the tag in bytes.
    package static let tagLength = 16

    private static func cipher(of key: [UInt8]) -> OpaquePointer? {
        switch key.count {
        case 16: EVP_aes_128_gcm()
        case 32: EVP_aes_256_gcm()
        default: nil
        }
    }

    /// The ciphertext of `message` followed by its tag; `nil` unless `key` has 16 or 32 bytes and `nonce` 12.
    package static func seal(_ message: [UInt8], key: [UInt8], nonce: [UInt8]) -> [UInt8]? {
        guard nonce.count == 12, let kind = cipher(of: key),
            let cipher = Cipher(kind, encrypt: true, key: key, iv: nonce),
            let ciphertext = cipher.run(message)
        else { return nil }
        var tag = [UInt8](repeating: 0, count: tagLength)
        guard cssl_gcm_get_tag(cipher.context, Int32(tagLength), &tag) == 1 else { return nil }
        return ciphertext + tag
    }

    /// The decrypted message; `nil` if a length is wrong or the tag is invalid, because the message was encrypted with
    /// another key or altered.
    package static func open(_ sealed: [UInt8], key: [UInt8], nonce: [UInt8]) -> [UInt8]? {
        guard nonce.count == 12, sealed.count >= tagLength, let kind = cipher(of: key),
            let cipher = Cipher(kind, encrypt: false, key: key, iv: nonce)
        else { return nil }
        var tag = Array(sealed.suffix(tagLength))
        guard cssl_gcm_set_tag(cipher.context, Int32(tagLength), &tag) == 1 else { return nil }
        return cipher.run(Array(sealed.dropLast(tagLength)))
    }
}

/// One run of an OpenSSL cipher.
private final class Cipher {
    let context: OpaquePointer

    init?(_ kind: OpaquePointer, encrypt: Bool, key: [UInt8], iv: [UInt8]) {
        guard let context = EVP_CIPHER_CTX_new() else { return nil }
        self.context = context
        guard EVP_CipherInit_ex(context, kind, nil, key, iv, encrypt ? 1 : 0) == 1 else { return nil }
        EVP_CIPHER_CTX_set_padding(context, 0)
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    func run(_ message: [UInt8]) -> [UInt8]? {
        var output = [UInt8](repeating: 0, count: message.count + 32)
        var length: Int32 = 0
        var rest: Int32 = 0
        guard EVP_CipherUpdate(context, &output, &length, message, Int32(message.count)) == 1 else { return nil }
        let finished = output.withUnsafeMutableBufferPointer {
            EVP_CipherFinal_ex(context, $0.baseAddress! + Int(length), &rest)
        }
        guard finished == 1 else { return nil }
        output.removeLast(output.count - Int(length + rest))
        return output
    }
}
