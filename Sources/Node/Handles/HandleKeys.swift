// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The keys derived from the key file of the handle store: they make handles, name the rows, and seal them. The store
/// and these keys together reveal no device token without the handle. Prints as `<redacted>`.
struct HandleKeys: Sendable, Redacted {
    /// Length of a row's name in bytes.
    static let nameLength = 16

    private let handles: SecretBytes
    private let names: SecretBytes
    private let rows: SecretBytes
    /// Identifies the key file without revealing it.
    let check: [UInt8]

    init(_ secret: SecretBytes) {
        handles = secret.derivedKey(for: "tocsin-handle")
        names = secret.derivedKey(for: "tocsin-handle-name")
        rows = secret.derivedKey(for: "tocsin-handle-row")
        check = secret.derivedKey(for: "tocsin-handle-check").keyedHash(of: BLAKE2b.hash256([]), count: 16)
    }

    /// The handle that a request is about.
    /// - Parameter app: the name of the app that a REGISTER names.
    func handle(of request: HandleRequest, app: String) -> Handle {
        switch request.action {
        case .register(_, let owner, let registration): handle(app: app, registration, owner: owner)
        case .rotate(let handle, _), .forget(let handle): handle
        }
    }

    /// The handle of a registration: the same one for the same registration (PROTOCOL §11).
    func handle(app: String, _ registration: HandleRequest.Registration, owner: [UInt8]) -> Handle {
        let parts = [Array(app.utf8), Array(registration.magic.rawValue.utf8), Array(registration.phone.bytes), owner]
        let message = Array("tnp1-handle".utf8) + Parts.encode(parts)
        guard let handle = Handle(handles.keyedHash(of: message, count: Handle.length)) else {
            preconditionFailure("a hash of \(Handle.length) bytes")
        }
        return handle
    }

    /// The keyed hash that names a handle's row.
    func name(of handle: Handle) -> [UInt8] { names.keyedHash(of: handle.bytes, count: Self.nameLength) }

    /// Seals what stands behind a handle, under a key made of the handle.
    func seal(_ record: HandleEntry.Record, of handle: Handle) -> [UInt8] {
        SealedBox.seal(
            record.encoded, authenticating: name(of: handle),
            underOneTimeKey: rows.keyedHash(of: handle.bytes, count: SealedBox.keyLength))
    }

    /// Opens what ``seal(_:of:)`` sealed; `nil` if it was altered or sealed by another version.
    func open(_ sealed: [UInt8], of handle: Handle) -> HandleEntry.Record? {
        SealedBox.open(
            sealed, authenticating: name(of: handle),
            underOneTimeKey: rows.keyedHash(of: handle.bytes, count: SealedBox.keyLength)
        ).flatMap(HandleEntry.Record.init(decoding:))
    }
}

/// Byte strings, each after its length as a u16.
private enum Parts {
    static func encode(_ parts: [[UInt8]]) -> [UInt8] {
        parts.reduce(into: []) { output, part in
            output.append(bigEndian: UInt16(part.count))
            output += part
        }
    }

    static func decode(_ bytes: [UInt8]) -> [Bytes]? {
        var (rest, parts) = (bytes[...], [Bytes]())
        while !rest.isEmpty {
            guard let length: UInt16 = rest.prefix(2).number(), rest.count >= 2 + Int(length) else { return nil }
            parts.append(rest.dropFirst(2).prefix(Int(length)))
            rest = rest.dropFirst(2 + Int(length))
        }
        return parts
    }
}

extension HandleEntry.Record {
    /// version ‖ sequence ‖ last request ‖ owner ‖ magic ‖ device token ‖ app ‖ sender keys
    var encoded: [UInt8] {
        var sequence: [UInt8] = []
        sequence.append(bigEndian: self.sequence)
        return Parts.encode(
            [
                Self.version, sequence, lastRequest.bytes, owner, Array(registration.magic.rawValue.utf8),
                registration.deviceToken, Array(app.utf8),
            ] + registration.senderKeys)
    }

    init?(decoding bytes: [UInt8]) {
        guard let parts = Parts.decode(bytes), parts.count >= 7, parts[0].elementsEqual(Self.version),
            let sequence: UInt64 = parts[1].number(), let lastRequest = Digest256(parts[2]),
            let magic = Magic(rawValue: String(decoding: parts[4], as: UTF8.self)),
            let app = String(validating: parts[6], as: UTF8.self)
        else { return nil }
        self.init(
            app: app,
            registration: HandleRequest.Registration(
                magic: magic, deviceToken: Array(parts[5]), senderKeys: parts[7...].map { Array($0) }),
            owner: Array(parts[3]), sequence: sequence, lastRequest: lastRequest)
    }

    private static var version: [UInt8] { [1] }
}
