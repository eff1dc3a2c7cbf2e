// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// SHA3-256 (FIPS 202), by OpenSSL, for the checksum of onion addresses.
package enum SHA3 {
    /// The 32-byte hash of `bytes`.
    package static func hash256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        let result = EVP_Digest(bytes, bytes.count, &digest, &length, EVP_sha3_256(), nil)
        precondition(result == 1 && length == 32, "OpenSSL has no SHA3-256")
        return digest
    }
}
