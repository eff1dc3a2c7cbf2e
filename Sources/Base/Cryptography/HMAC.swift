// SPDX-License-Identifier: Apache-2.0

import CSodium

/// HMAC message authentication codes (RFC 2104), by libsodium.
package enum HMAC {
    /// The HMAC-SHA-256 (32 bytes) of `message` under a key of any length.
    package static func sha256(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        Sodium.initialised
        var state = crypto_auth_hmacsha256_state()
        var code = [UInt8](repeating: 0, count: Int(crypto_auth_hmacsha256_BYTES))
        crypto_auth_hmacsha256_init(&state, key, key.count)
        crypto_auth_hmacsha256_update(&state, message, UInt64(message.count))
        crypto_auth_hmacsha256_final(&state, &code)
        return code
    }

    /// Whether two codes are equal, compared in constant time.
    package static func constantTimeEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && sodium_memcmp(one, other, one.count) == 0
    }
}
