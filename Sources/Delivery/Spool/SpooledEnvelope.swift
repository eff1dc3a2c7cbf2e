// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// An envelope as it waits on disk: with all that its delivery needs after a restart. Prints as `<redacted>`.
package struct SpooledEnvelope: Sendable, Redacted {
    /// The name of the app profile that the node found for it; ``Envelope/app`` may be empty.
    package let app: String
    /// That app's format, by which the envelope's fields were checked.
    package let format: EnvelopeFormat
    package let envelope: Envelope
    /// When it is no longer to be delivered, Unix time in seconds; above 0.
    package let expires: Int64

    /// - Parameters: as the properties of the same names.
    package init(app: String, format: EnvelopeFormat, envelope: Envelope, expires: Int64) {
        precondition(expires > 0, "an envelope that never waits is not for the spool")
        self.app = app
        self.format = format
        self.envelope = envelope
        self.expires = expires
    }

    // version u8 ‖ kind u8 ‖ expires i64 ‖ length u16 of app ‖ app ‖ SUBMIT. The envelope has one encoding in this
    // program, the protocol's, and what is read back is held against the protocol's rules again. The kind is the format in
    // its lowest two bits, then two bits for each retryAfter that the protocol has no field for.
    private static let version: UInt8 = 1
    private static let headerLength = 12

    /// The bytes that are sealed.
    var encoded: [UInt8] {
        let name = Array(app.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(256 + name.count + envelope.deviceToken.count + envelope.ciphertext.count)
        output.append(Self.version)
        output.append(
            format.spoolTag | Self.tag(of: envelope.contentAvailable) << 2 | Self.tag(of: envelope.mutableContent) << 4)
        output.append(contentsOf: expires.networkBytes)
        output.append(contentsOf: UInt16(name.count).networkBytes)
        output.append(contentsOf: name)
        output.append(Submission(request: 0, envelope: envelope, acceptQueued: true))
        return output
    }

    /// Reads what ``encoded`` wrote; nil where it is of another version or breaks a rule of PROTOCOL §3.
    init?(decoding bytes: [UInt8]) {
        guard bytes.count >= Self.headerLength, bytes[0] == Self.version,
            let format = EnvelopeFormat.allCases.first(where: { $0.spoolTag == bytes[1] & 3 }),
            let contentAvailable = Self.retryAfter(bytes[1] >> 2), let mutableContent = Self.retryAfter(bytes[1] >> 4),
            bytes[1] < 1 << 6
        else { return nil }
        let expires = Int64(networkBytes: bytes[2..<10])
        let start = Self.headerLength + Int(UInt16(networkBytes: bytes[10..<12]))
        guard expires > 0, bytes.count >= start,
            let app = String(validating: bytes[Self.headerLength..<start], as: UTF8.self),
            case .submit(let fields)? = Message(wholeFrame: bytes[start...]),
            var envelope = try? fields.checked(format: format).envelope
        else { return nil }
        envelope.contentAvailable = contentAvailable
        envelope.mutableContent = mutableContent
        self.init(app: app, format: format, envelope: envelope, expires: expires)
    }

    private static func tag(of retryAfter: Bool?) -> UInt8 {
        switch retryAfter {
        case nil: 0
        case false?: 1
        case true?: 2
        }
    }

    /// The retryAfter of the lowest two bits; nil where it is none.
    private static func retryAfter(_ tag: UInt8) -> Bool?? {
        switch tag & 3 {
        case 0: .some(nil)
        case 1: false
        case 2: true
        default: nil
        }
    }
}

extension EnvelopeFormat {
    /// What stands for it on disk, for ever.
    fileprivate var spoolTag: UInt8 {
        switch self {
        case .pipe: 0
        case .sealed: 1
        }
    }
}
