// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A file with the private key of a site, as `tocsin site key` makes it, or of the owner of a handle.
enum PrivateKeyFile {
    /// The key in an existing file.
    static func read(_ path: String) throws(PrivateFileError) -> Ed25519.PrivateKey {
        privateKey(try KeyFile.read(path))
    }

    /// The key that is made of the content of a file.
    static func privateKey(_ content: SecretBytes) -> Ed25519.PrivateKey {
        let key = content.withBytes { $0.withUnsafeBytes { Ed25519.PrivateKey(seed: Array($0)) } }
        guard let key else { preconditionFailure("a key file has \(KeyFile.length) bytes") }
        return key
    }
}
