// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Pseudonyms for device tokens in logs. A token keeps its pseudonym for one day. Without that day's key, a pseudonym
/// does not reveal the token (SipHash-2-4 under a key that BLAKE2b derives from a key of the process).
package struct Pseudonyms: Sendable {
    private let master: [UInt8]
    private var day: Int64 = .min
    private var key: [UInt8] = []

    /// Makes pseudonyms under a new random key, which is never stored.
    package init() { master = SecureRandom.bytes(32) }

    /// The pseudonym of `bytes` on the day of `unixSeconds`: 16 hexadecimal characters.
    package mutating func name(of bytes: some Collection<UInt8>, at unixSeconds: Int64) -> String {
        let today = unixSeconds / 86_400
        if today != day {
            day = today
            let label = Array("tocsin-pseudonym-day-\(today)".utf8)
            key = BLAKE2b.hash256(label, key: master).prefix(Int(crypto_shorthash_KEYBYTES))
        }
        var output = [UInt8](repeating: 0, count: Int(crypto_shorthash_BYTES))
        let message = Array(bytes)
        crypto_shorthash(&output, message, UInt64(message.count), key)
        return Hex.encode(output)
    }
}
