// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings
import Time

/// What an app authenticates with to a push service. Its key is in this process, or in another one, which this process
/// asks for what the key signs. Each kind is one type in the folder of its provider.
package protocol Credential: Sendable {
    /// The name of the kind in references.
    static var kind: String { get }

    /// Makes a credential from the contents of its files, in their order.
    init(_ reference: CredentialReference, _ contents: [[UInt8]]) throws(CredentialProblem)
    /// Makes a credential whose key is in another process.
    /// - Parameter facts: what that process says about it: ``facts``.
    init(_ reference: CredentialReference, facts: [UInt8], key: any RemoteKeyAccess) throws(CredentialProblem)

    /// What is not secret about it, in the encoding of its kind.
    var facts: [UInt8] { get }
    /// The key with the rules of its use, for the process that has it.
    var key: any HeldKey { get }
}

/// The reason why a credential cannot be used. Contains no part of the credential.
package typealias CredentialProblem = ConfiguredFile.Problem

/// A credential as the configuration names it.
package struct CredentialReference: Hashable, Codable, Sendable {
    /// ``Credential/kind``
    package let kind: String
    /// The names of its files.
    package let files: [String]
    /// The credential's other settings, by configuration key.
    package let fields: [String: String]

    /// The reference as text, the same for equal references: sorted, because the order of a dictionary varies.
    var canonicalText: String {
        "\(kind) \(files) \(fields.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })"
    }

    package init(_ kind: (some Credential).Type, files: [String], fields: [String: String] = [:]) {
        self.kind = kind.kind
        self.files = files
        self.fields = fields
    }
}

/// A credential of an app, and where the configuration names it.
package struct CredentialUse: Sendable {
    package let reference: CredentialReference
    /// The key that names its file, without the app's table: `apns.key_file`.
    package let key: String
    /// What it is, for the dashboard.
    package let title: String
}

/// A credential with a hash of its files.
package struct LoadedCredential {
    package let credential: any Credential
    /// Differs if the contents of a file differ.
    package let fingerprint: Digest256

    package init(_ credential: any Credential, fingerprint: Digest256) {
        self.credential = credential
        self.fingerprint = fingerprint
    }
}

/// Where a node gets its credentials from: their files, or the process that holds the keys.
package protocol CredentialSource: Sendable {
    /// A credential, ready for use.
    func load(_ reference: CredentialReference) throws(CredentialProblem) -> LoadedCredential
}

/// A key in the process that holds it, with the rules of its use. A value: questions and the time go in, answers come
/// out. The process that asks is not trusted: it gets no more signatures than a node needs, so that it cannot make
/// Apple or Google act against the key's owner.
package protocol HeldKey: Sendable {
    /// Answers a question.
    /// - Parameters:
    ///   - file: the credential's first file.
    ///   - issued: the provider tokens that were issued, also by earlier processes.
    mutating func answer(
        _ question: [UInt8], about file: String, at time: ClockReading, _ issued: inout IssuedTokens
    ) -> KeyAnswer
}

/// The answer to a question about a key.
package struct KeyAnswer: Equatable {
    /// What a key was used for.
    package struct Use: Equatable {
        package let what: String
        /// The key's file.
        package let file: String
    }

    /// `nil` if there is no answer.
    package let bytes: [UInt8]?
    /// `nil` if the key was not used.
    package let use: Use?

    package init(_ bytes: [UInt8]?, use: Use? = nil) {
        self.bytes = bytes
        self.use = use
    }

    /// No answer.
    package static let refused = KeyAnswer(nil)
}

/// Sends questions to the process that holds a credential's key.
package protocol RemoteKeyAccess: AnyObject, Sendable {
    /// - Parameter result: receives the answer on the loop, at once or later; `nil` if there is none.
    func ask(_ question: [UInt8], _ result: @escaping ([UInt8]?) -> Void)
    /// Waits for the answer, on a thread that is not the loop's.
    func askBlocking(_ question: [UInt8]) -> [UInt8]?
}
