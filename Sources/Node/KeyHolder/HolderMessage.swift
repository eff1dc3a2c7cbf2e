// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import NodeConfiguration
import Providers
import Settings

/// What a key holder sends once, after it has read the configuration and the keys.
package struct HolderReport: Codable, Sendable {
    /// What the node learns about a credential.
    enum Result: Codable, Sendable {
        /// `Credential.facts`
        case facts(Base64Bytes)
        case unusable(CredentialProblem)
    }

    struct Entry: Codable, Sendable {
        var reference: CredentialReference
        var result: Result
        var fingerprint: Base64Bytes
    }

    /// The configuration file and the files that it names, except those of credentials.
    var copies: FileCopies
    /// All credentials; a request names one by its index.
    var credentials: [Entry]

    /// The number of a credential in requests; `nil` if it is not among them.
    func index(of reference: CredentialReference) -> Int? { credentials.firstIndex { $0.reference == reference } }
}

/// A question to a key holder, which answers with bytes; with none if it refuses.
package struct HolderRequest: Codable, Sendable {
    /// The number of the credential in the report.
    var credential: Int
    /// In the encoding of the credential's kind.
    var question: Base64Bytes

    /// The largest request in bytes, and the largest answer to one.
    static let maximumBytes = 16_384
    /// The largest report in bytes: copies of a few files, of up to `ConfiguredFile.maximumBytes` each.
    static let maximumReport = 64 << 20
}

extension Decodable {
    /// - Throws: ``LocalSocket/Failure/malformed``.
    init(json: [UInt8]) throws(LocalSocket.Failure) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(json))
        } catch {
            throw .malformed
        }
    }
}
