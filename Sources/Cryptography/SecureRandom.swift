// SPDX-License-Identifier: Apache-2.0

import CSodium

/// Random bytes from the operating system, by libsodium.
package enum SecureRandom {
    /// `count` random bytes.
    package static func bytes(_ count: Int) -> [UInt8] {
        Sodium.initialised
        var output = [UInt8](repeating: 0, count: count)
        randombytes_buf(&output, count)
        return output
    }
}
