// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Redis

/// The names of the engine's keys, and the encryption of their values. The engine's memory and files show no device
/// token and no provider token: names contain keyed hashes, and outcomes, stored envelopes and provider tokens are
/// sealed, both under the cluster's key.
package struct KeyNames: Sendable {
    /// The kind of a key, which is a readable part of its name.
    package enum Kind: String, CaseIterable, Sendable {
        /// The version of the layout of the keys.
        case schema
        /// A hash of the cluster's key, by which a node notices that it has another one.
        case check
        /// A random number that is new after the engine has lost its state.
        case epoch
        /// All nodes of the last day.
        case nodes
        /// The session of a node: present while the node lives.
        case session = "n"
        /// An envelope: the claim of a session, or its sealed outcome.
        case envelope = "d"
        /// For a device token and an iv: a hash of the ciphertext that was sent with them.
        case pair = "i"
        /// The record of a device token.
        case deviceToken = "t"
        /// A hash of the key under which the nodes seal handles.
        case handleCheck = "check:handles"
        /// What stands behind a handle, sealed.
        case handle = "h"
        /// An envelope that a node has stored, sealed.
        case storedEnvelope = "r"
        /// The stored envelopes of each session: the session follows the name.
        case sessionEnvelopes = "q"
        /// The sessions that have stored envelopes.
        case storingSessions = "qs"
        /// A provider token of Apple's.
        case providerToken = "k"
        /// Present while a node makes a provider token.
        case providerTokenLock = "kl"
    }

    private static let hashLength = 16

    private let prefix: String
    private let beginnings: [Kind: [UInt8]]
    private let names: SecretBytes
    private let box: SealedBox

    /// - Parameters:
    ///   - cluster: the name of the cluster.
    ///   - secret: the cluster's key, 32 bytes.
    package init(cluster: String, secret: SecretBytes) {
        let prefix = "tocsin:{\(cluster)}:"
        self.prefix = prefix
        beginnings = Dictionary(
            uniqueKeysWithValues: Kind.allCases.map { ($0, Array("\(prefix)\($0.rawValue):".utf8)) })
        names = secret.derivedKey(for: "cluster names")
        guard let box = SealedBox(key: secret.derivedKey(for: "cluster values")) else {
            preconditionFailure("a derived key has the length of a key")
        }
        self.box = box
    }

    /// The pattern of all keys, for the engine's ACL.
    package static func pattern(cluster: String) -> String { "tocsin:{\(cluster)}:*" }

    /// The name of the only key of a kind.
    package func name(_ kind: Kind) -> [UInt8] { Array("\(prefix)\(kind.rawValue)".utf8) }

    /// The beginning of the names of all keys of a kind.
    func beginning(_ kind: Kind) -> [UInt8] { beginnings[kind]! }

    /// The name of the key of a budget.
    /// - Parameter app: the name of the app.
    package func name(
        of budget: SharedBudget, app: String, through senderProtocol: Admission.SenderProtocol
    ) -> [UInt8] {
        let name = budget.name(through: senderProtocol)
        guard budget.isPerApp else { return Array("\(prefix)\(name)".utf8) }
        return Array("\(prefix)\(name):".utf8) + hash(of: Array(app.utf8), under: name)
    }

    /// The names of the keys of all budgets from which a submission takes.
    /// - Parameter app: the name of the app.
    package func budgets(of app: String, through senderProtocol: Admission.SenderProtocol) -> RedisCommand {
        RedisCommand(SharedBudget.allCases.map { name(of: $0, app: app, through: senderProtocol) })
    }

    /// The name of the key of a session, whose id is public.
    func name(ofSession session: String) -> [UInt8] { beginning(.session) + Array(session.utf8) }

    /// The name of a key that belongs to these bytes.
    package func name(_ kind: Kind, of bytes: [UInt8]) -> [UInt8] {
        var name = beginning(kind)
        name.append(copying: hash(of: bytes, as: kind))
        return name
    }

    /// The names of the keys of an envelope: of its claim or outcome, and of itself if it is stored.
    func names(of digest: Digest256) -> (claim: [UInt8], stored: [UInt8]) {
        let hash = hash(of: digest.bytes, under: Kind.envelope.rawValue, count: 2 * Self.hashLength)
        var (claim, stored) = (beginning(.envelope), beginning(.storedEnvelope))
        claim.append(copying: hash.prefix(Self.hashLength))
        stored.append(copying: hash.suffix(Self.hashLength))
        return (claim, stored)
    }

    /// The keyed hash of bytes. Equal bytes have different hashes in keys of different kinds.
    package func hash(of bytes: [UInt8], as kind: Kind) -> [UInt8] { hash(of: bytes, under: kind.rawValue) }

    private func hash(of bytes: [UInt8], under label: String, count: Int = hashLength) -> [UInt8] {
        var message: [UInt8] = []
        message.reserveCapacity(label.utf8.count + 1 + bytes.count)
        message += label.utf8
        message.append(0)
        message.append(copying: bytes)
        return names.keyedHash(of: message, count: count)
    }

    /// Seals the value of the key with this name.
    package func seal(_ value: [UInt8], of name: [UInt8]) -> [UInt8] { box.seal(value, authenticating: name) }

    /// Opens what ``seal(_:of:)`` sealed; `nil` if it was altered or belongs to another key.
    package func open(_ sealed: [UInt8], of name: [UInt8]) -> [UInt8]? { box.open(sealed, authenticating: name) }
}
