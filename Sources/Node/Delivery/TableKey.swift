// SPDX-License-Identifier: Apache-2.0

import TNP

/// The key of a phone, or of a phone with further bytes, in a table in memory: SipHash under a random key of this
/// process. An attacker cannot construct collisions, and the tables hold no device tokens.
struct TableKey: Hashable {
    let hash: Int

    init(_ phone: DeviceIdentity) {
        var hasher = Hasher()
        hasher.combine(phone.kind.rawValue)
        phone.bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        hash = hasher.finalize()
    }

    /// The key of `other` for the phone with the key `token`.
    init(_ token: TableKey, with other: Bytes) {
        var hasher = Hasher()
        hasher.combine(token.hash)
        other.withUnsafeBytes { hasher.combine(bytes: $0) }
        hash = hasher.finalize()
    }

    /// The hash as the key of a ``FlatTable``.
    var bits: UInt64 { UInt64(bitPattern: Int64(hash)) }

    /// The hash for dictionaries: a keyed hash needs no further mixing.
    func _rawHashValue(seed: Int) -> Int { hash ^ seed }
}
