// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// An envelope as stored on disk and in the engine of a cluster, with everything that is required to deliver it after a
/// restart. Prints as `<redacted>`.
package struct SpooledEnvelope: Sendable, Redacted {
    /// The app that the node determined; ``Envelope/app`` may be empty.
    package let app: String
    /// The app's envelope format; the node checked the envelope's fields against it.
    package let format: EnvelopeFormat
    /// The envelope.
    package let envelope: Envelope
    /// When the envelope expires, Unix time in seconds; more than 0.
    package let expires: Int64

    package init(app: String, format: EnvelopeFormat, envelope: Envelope, expires: Int64) {
        precondition(expires > 0, "an envelope with ttl 0 cannot be stored")
        self.app = app
        self.format = format
        self.envelope = envelope
        self.expires = expires
    }

    // version u8 ‖ kind u8 ‖ expires i64 ‖ length u16 of app ‖ app ‖ handle ‖ SUBMIT. The envelope is encoded as in the
    // protocol, by device token, and decoding applies the protocol's checks again. The kind holds the format in its
    // lowest two bits, then two bits for each flag that the protocol has no field for, then a bit for the handle, which
    // is present only if the sender has used it.
    private static let version: UInt8 = 1
    private static let handleBit: UInt8 = 1 << 6
    private static let headerLength = 12

    /// The bytes that are sealed.
    package var encoded: [UInt8] {
        let name = Array(app.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(256 + name.count + envelope.deviceToken.count + envelope.ciphertext.count)
        output.append(Self.version)
        output.append(
            format.spoolTag | Self.tag(of: envelope.contentAvailable) << 2 | Self.tag(of: envelope.mutableContent) << 4
                | (envelope.handle == nil ? 0 : Self.handleBit))
        output.append(bigEndian: expires)
        output.append(bigEndian: UInt16(name.count))
        output.append(contentsOf: name)
        if let handle = envelope.handle { output += handle.bytes }
        output.append(Submission(request: 0, envelope: envelope, acceptQueued: true))
        return output
    }

    /// Decodes ``encoded``; `nil` if the bytes have another version or break a rule of PROTOCOL §3.
    package init?(decoding bytes: [UInt8]) {
        guard bytes.count >= Self.headerLength, bytes[0] == Self.version,
            let format = EnvelopeFormat.allCases.first(where: { $0.spoolTag == bytes[1] & 3 }),
            let contentAvailable = Self.flag(bytes[1] >> 2), let mutableContent = Self.flag(bytes[1] >> 4),
            bytes[1] < Self.handleBit << 1, let expires: Int64 = bytes[2..<10].number(), expires > 0,
            let length: UInt16 = bytes[10..<12].number()
        else { return nil }
        let appEnd = Self.headerLength + Int(length)
        let start = appEnd + (bytes[1] & Self.handleBit == 0 ? 0 : Handle.length)
        guard bytes.count >= start,
            let app = String(validating: bytes[Self.headerLength..<appEnd], as: UTF8.self),
            case .submit(let fields)? = Message(wholeFrame: bytes[start...]),
            var envelope = try? fields.checked(format: format).envelope
        else { return nil }
        if let handle = Handle(bytes[appEnd..<start]) { envelope = envelope.addressed(by: handle) }
        envelope.contentAvailable = contentAvailable
        envelope.mutableContent = mutableContent
        self.init(app: app, format: format, envelope: envelope, expires: expires)
    }

    private static func tag(of flag: Bool?) -> UInt8 { flag.map { $0 ? 2 : 1 } ?? 0 }

    /// Decodes the flag in the lowest two bits; `nil` if they are invalid.
    private static func flag(_ tag: UInt8) -> Bool?? {
        let flags: [Bool?] = [nil, false, true]
        return flags.dropFirst(Int(tag & 3)).first
    }
}

extension EnvelopeFormat {
    /// The tag on disk; must never change.
    fileprivate var spoolTag: UInt8 {
        switch self {
        case .pipe: 0
        case .sealed: 1
        }
    }
}
