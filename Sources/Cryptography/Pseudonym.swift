// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Names for device tokens in logs: equal tokens have equal names for one day, and nobody without the key of that day
/// can tell which token a name stands for (SipHash-2-4 under a key derived by BLAKE2b from a key of the process).
package struct Pseudonyms: Sendable {
    private let master: [UInt8]
    private var day: Int64 = .min
    private var key: [UInt8] = []

    /// Pseudonyms under a key of their own, known to nobody else and kept nowhere.
    package init() { master = SecureRandom.bytes(32) }

    /// The name of `bytes` on the day of `unixSeconds`: 16 hexadecimal characters.
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
