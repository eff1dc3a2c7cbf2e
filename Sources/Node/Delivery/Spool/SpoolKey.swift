// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The keys derived from the spool's key file: they seal rows, and turn digests into keyed hashes for the disk. Prints
/// as `<redacted>`.
struct SpoolKey: Sendable, Redacted {
    /// Length of a digest's keyed hash in bytes.
    static let nameLength = 16

    private let box: SealedBox
    private let names: SecretBytes
    /// Derives the key of a row from the row's secret.
    private let rows: SecretBytes

    /// The kind of a sealed text; authenticated, so that a text moved to another column does not open.
    private enum Place: UInt8 {
        case check = 0
        case envelope = 1
        case outcome = 2
    }

    /// Derives the keys from the bytes of the key file.
    init(_ secret: SecretBytes) {
        guard let box = SealedBox(key: secret.derivedKey(for: "tocsin-spool-seal")) else {
            preconditionFailure("a derived key has the length of a box's key")
        }
        self.box = box
        names = secret.derivedKey(for: "tocsin-spool-name")
        rows = secret.derivedKey(for: "tocsin-spool-row")
    }

    /// The keyed hash that represents a digest on disk.
    func name(of digest: Digest256) -> [UInt8] { names.keyedHash(of: digest, count: Self.nameLength) }

    /// Seals an envelope under the key of its row.
    /// - Parameter secret: the row's secret, from ``RowKeys``.
    func seal(_ envelope: SpooledEnvelope, name: [UInt8], secret: [UInt8]) -> [UInt8] {
        SealedBox.seal(
            envelope.encoded, authenticating: Self.label(.envelope, name, envelope.expires),
            underOneTimeKey: rows.keyedHash(of: secret, count: SealedBox.keyLength))
    }

    /// Opens the envelope of a row; `nil` if the row was forged or altered, or if another version sealed it in
    /// another way.
    /// - Parameter secret: the row's secret.
    func openEnvelope(_ sealed: [UInt8], name: [UInt8], expires: Int64, secret: [UInt8]) -> SpooledEnvelope? {
        SealedBox.open(
            sealed, authenticating: Self.label(.envelope, name, expires),
            underOneTimeKey: rows.keyedHash(of: secret, count: SealedBox.keyLength)
        ).flatMap(SpooledEnvelope.init(decoding:))
    }

    /// Seals an outcome.
    func seal(_ outcome: Outcome, name: [UInt8], until: Int64) -> [UInt8] {
        box.seal(outcome.spooled, authenticating: Self.label(.outcome, name, until))
    }

    /// Opens the outcome of a row; `nil` in the same cases as ``openEnvelope(_:name:expires:secret:)``.
    func openOutcome(_ sealed: [UInt8], name: [UInt8], until: Int64) -> Outcome? {
        box.open(sealed, authenticating: Self.label(.outcome, name, until)).flatMap(Outcome.init(spooled:))
    }

    /// Makes a sealed text with which the spool later recognizes its key.
    func makeCheck() -> [UInt8] { box.seal([], authenticating: Self.label(.check, [], 0)) }

    /// Whether this key sealed the check.
    func matches(_ check: [UInt8]) -> Bool { box.open(check, authenticating: Self.label(.check, [], 0)) != nil }

    private static func label(_ place: Place, _ name: [UInt8], _ time: Int64) -> [UInt8] {
        var label = [place.rawValue] + name
        label.append(bigEndian: time)
        return label
    }
}
