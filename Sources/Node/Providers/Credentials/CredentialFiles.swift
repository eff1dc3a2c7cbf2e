// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import Settings

/// Loads credentials from their files. Their keys are then in this process.
package struct CredentialFiles: CredentialSource {
    package init() {}

    package func load(_ reference: CredentialReference) throws(CredentialProblem) -> LoadedCredential {
        var contents: [[UInt8]] = []
        for file in reference.files { contents.append(try ConfiguredFile.read(file, mustBePrivate: true)) }
        let fingerprint = BLAKE2b.hash256(contents.flatMap { BLAKE2b.hash256($0).bytes })
        let credential = try DeliveryKinds.credential(reference).init(reference, contents.map(Self.unmarked))
        return LoadedCredential(credential, fingerprint: fingerprint)
    }

    /// A file without the byte order mark that editors of Windows put before it.
    private static func unmarked(_ bytes: [UInt8]) -> [UInt8] {
        bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
    }
}

extension Encodable {
    /// As JSON; empty if that fails.
    package var json: [UInt8] { (try? JSONEncoder().encode(self)).map { [UInt8]($0) } ?? [] }
}

extension Decodable {
    /// From JSON; `nil` if the bytes do not encode this type.
    package init?(ifJSON bytes: [UInt8]) {
        guard let value = try? JSONDecoder().decode(Self.self, from: Data(bytes)) else { return nil }
        self = value
    }
}
