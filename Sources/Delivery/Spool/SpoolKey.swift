// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// What the spool's key does: it seals rows, and names digests so that the disk does not show them. Prints as
/// `<redacted>`.
struct SpoolKey: Sendable, Redacted {
    /// Length of a digest's name in bytes.
    static let nameLength = 16

    private let box: SealedBox
    private let names: SecretBytes
    /// Makes a row's key of the row's own secret.
    private let rows: SecretBytes

    /// Where a sealed text stands: one that was moved to another place does not open there.
    private enum Place: UInt8 {
        case check = 0
        case envelope = 1
        case outcome = 2
    }

    /// The key of these bytes, or nil where there are more or fewer than `KeyFile.length`.
    init?(_ secret: SecretBytes) {
        guard secret.count == KeyFile.length,
            let box = SealedBox(key: secret.derivedKey(for: "tocsin-spool-seal"))
        else { return nil }
        self.box = box
        names = secret.derivedKey(for: "tocsin-spool-name")
        rows = secret.derivedKey(for: "tocsin-spool-row")
    }

    /// What stands for a digest on disk.
    func name(of digest: Digest256) -> [UInt8] { names.keyedHash(of: digest, count: Self.nameLength) }

    /// - Parameter secret: the row's own, of ``RowKeys``.
    func seal(_ envelope: SpooledEnvelope, name: [UInt8], secret: [UInt8]) -> [UInt8] {
        SealedBox.seal(
            envelope.encoded, authenticating: Self.label(.envelope, name, envelope.expires),
            underOneTimeKey: rows.keyedHash(of: secret, count: SealedBox.keyLength))
    }

    /// The envelope of a row; nil where the row was forged, altered or written by a version that sealed otherwise.
    /// - Parameter secret: the row's own; nil for a row of a version that had none.
    func openEnvelope(_ sealed: [UInt8], name: [UInt8], expires: Int64, secret: [UInt8]?) -> SpooledEnvelope? {
        let label = Self.label(.envelope, name, expires)
        let encoded =
            secret.map {
                SealedBox.open(
                    sealed, authenticating: label,
                    underOneTimeKey: rows.keyedHash(of: $0, count: SealedBox.keyLength))
            } ?? box.open(sealed, authenticating: label)
        return encoded.flatMap(SpooledEnvelope.init(decoding:))
    }

    func seal(_ outcome: Outcome, name: [UInt8], until: Int64) -> [UInt8] {
        box.seal(outcome.spooled, authenticating: Self.label(.outcome, name, until))
    }

    /// The outcome of a row; nil as for ``openEnvelope(_:name:expires:)``.
    func openOutcome(_ sealed: [UInt8], name: [UInt8], until: Int64) -> Outcome? {
        box.open(sealed, authenticating: Self.label(.outcome, name, until)).flatMap(Outcome.init(spooled:))
    }

    /// A text by which a spool knows its key again.
    func makeCheck() -> [UInt8] { box.seal([], authenticating: Self.label(.check, [], 0)) }

    /// Whether this key made the check.
    func made(_ check: [UInt8]) -> Bool { box.open(check, authenticating: Self.label(.check, [], 0)) != nil }

    private static func label(_ place: Place, _ name: [UInt8], _ time: Int64) -> [UInt8] {
        [place.rawValue] + name + time.networkBytes
    }
}
