// SPDX-License-Identifier: Apache-2.0

import Cryptography
import FoundationEssentials
import NodeConfiguration
import Providers

/// What a key holder sends once, after it has read the configuration and the keys.
struct HolderReport: Codable, Sendable {
    /// A credential, without its key.
    enum Facts: Codable, Sendable {
        case appleKey(AppleKeyFacts)
        /// The certificates in PEM form.
        case appleCertificate(Base64Bytes)
        case google(ServiceAccount.Public)
        case unusable(Credential.Problem)
    }

    /// What is not secret about one of Apple's keys.
    struct AppleKeyFacts: Codable, Sendable {
        var keyID: String
        var teamID: String
        /// The public key in PEM form.
        var verifyingKey: Base64Bytes
        var identity: Base64Bytes
    }

    struct Entry: Codable, Sendable {
        var reference: Credential.Reference
        var facts: Facts
        var fingerprint: Base64Bytes
    }

    /// The configuration file and the files that it names, except those of credentials.
    var copies: FileCopies
    /// All credentials; a request names one by its index.
    var credentials: [Entry]
}

/// A question to a key holder. It answers with the bytes that are asked for, or with none.
enum HolderRequest: Codable, Equatable {
    /// A provider token for APNs.
    /// - Parameter inPlaceOfUnseen: whether Apple has not seen the latest one, which bears a wrong time.
    case providerToken(credential: Int, inPlaceOfUnseen: Bool)
    /// An assertion for Google's token endpoint.
    case assertion(credential: Int)
    /// A signature for a TLS connection to APNs; see `RemoteKey`.
    case signature(credential: Int, input: [UInt8], padding: Int32)

    /// The largest request in bytes, and the largest answer to one.
    static let largest = 16_384
    /// The largest report in bytes: copies of a few files, of up to `ConfiguredFile.largest` each.
    static let largestReport = 64 << 20
}

extension Encodable {
    /// As JSON; empty if that fails.
    var json: [UInt8] { (try? JSONEncoder().encode(self)).map { [UInt8]($0) } ?? [] }
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
