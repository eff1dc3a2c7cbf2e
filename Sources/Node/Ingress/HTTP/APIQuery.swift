// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The query of `GET /relay`, as Bisq 1, Haveno and early Bisq 2 send it.
struct APIQuery: Redacted {
    /// The decoded values of the known parameters.
    private var values: [Name: Bytes] = [:]

    private enum Name: String {
        case isAndroid, isProduction, isContentAvailable, mutableContent, snd, token, msg
    }

    /// Reads the known parameters, in any order, and ignores others.
    /// - Throws: `Rejection` if a parameter cannot be decoded or occurs twice.
    init(_ query: Bytes) throws(Rejection) {
        var start = query.startIndex
        while start < query.endIndex {
            let end = query.index(of: UInt8(ascii: "&"), from: start) ?? query.endIndex
            let pair = query[start..<end]
            let equals = pair.index(of: UInt8(ascii: "="), from: start) ?? pair.endIndex
            guard let name = PercentEncoding.decode(pair[..<equals], isForm: true),
                let value = PercentEncoding.decode(pair[equals...].dropFirst(), isForm: true)
            else { throw Rejection(.malformed, "the query has a % that is not followed by two hexadecimal digits") }
            if let name = Name(rawValue: String(decoding: name, as: UTF8.self)) {
                guard values[name] == nil else {
                    throw Rejection(.malformed, "the parameter \(name.rawValue) occurs twice in the query")
                }
                values[name] = value
            }
            start = min(end + 1, query.endIndex)
        }
    }

    /// The request that the parameters describe.
    func apiRequest() throws(Rejection) -> APIRequest {
        let isProduction = try flag(.isProduction) ?? true
        let magic: Magic = try flag(.isAndroid) ?? false ? .android : isProduction ? .iOS : .iOSDev
        return APIRequest(
            phone: try APIRequest.Phone(magic, token: try deviceToken()), text: try text(),
            sound: try flag(.snd) ?? true,
            contentAvailable: try flag(.isContentAvailable), mutableContent: try flag(.mutableContent) ?? false)
    }

    private func needed(_ name: Name) throws(Rejection) -> Bytes {
        guard let value = values[name], !value.isEmpty else {
            throw Rejection(.malformed, "the parameter \(name.rawValue) is missing or empty")
        }
        return value
    }

    /// The device token. Bisq 1 sends the text of the token in hexadecimal, Bisq 2 sends the text itself. An Apple token
    /// is decoded by mistake only if its 32 random bytes are all printable, which holds for one in 6 · 10¹³.
    private func deviceToken() throws(Rejection) -> Bytes {
        let value = try needed(.token)
        guard let decoded = Hex.decode(value), !decoded.isEmpty, decoded.allSatisfy({ (0x20...0x7E).contains($0) })
        else { return value }
        return decoded[...]
    }

    /// The encrypted text. Bisq 2 up to 2.1.10 sends the bytes of iv and ciphertext themselves; the phone gets them in Base64.
    private func text() throws(Rejection) -> [UInt8] {
        guard let bytes = Hex.decode(try needed(.msg)) else {
            throw Rejection(.malformed, "the parameter msg is not hexadecimal")
        }
        let isText = bytes.reduce(0, |) < 0x80 || String(validating: bytes, as: UTF8.self) != nil
        return isText ? bytes : Base64.encode(bytes)
    }

    private func flag(_ name: Name) throws(Rejection) -> Bool? {
        guard let value = values[name] else { return nil }
        // The spellings that existing relays accept.
        switch String(decoding: value, as: UTF8.self).lowercased() {
        case "true", "on", "yes", "1": return true
        case "false", "off", "no", "0": return false
        default: throw Rejection(.malformed, "the parameter \(name.rawValue) is neither true nor false")
        }
    }
}
