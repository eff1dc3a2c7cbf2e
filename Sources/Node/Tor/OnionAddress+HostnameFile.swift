// SPDX-License-Identifier: Apache-2.0

import Cryptography

extension OnionAddress {
    private static let maximumHostnameLength = 128

    /// Reads the file `hostname` of a `HiddenServiceDir`, which tor writes when it starts; `nil` if there is none yet. The
    /// file holds no secret.
    /// - Throws: ``OnionFileError``.
    package init?(hostnameIn directory: String) throws(OnionFileError) {
        let file = "\(directory)/hostname"
        let line: ArraySlice<UInt8>
        do {
            line = try OnionFile.readLine(file, atMost: Self.maximumHostnameLength)
        } catch .missing {
            return nil
        }
        guard let address = OnionAddress(String(decoding: line, as: UTF8.self)) else {
            throw .malformed(file: file, problem: "it does not hold an onion address")
        }
        self = address
    }
}
