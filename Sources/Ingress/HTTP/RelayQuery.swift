// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP

/// The query of `GET /relay`, as Bisq 1, Haveno and early Bisq 2 send it.
struct RelayQuery: Redacted {
    private var values: [Name: [UInt8]] = [:]

    private enum Name: String, CaseIterable {
        case isAndroid, isProduction, isContentAvailable, mutableContent, snd, token, msg
    }

    /// Reads the known parameters, in any order, and ignores others.
    /// - Throws: `Rejection` if a parameter cannot be decoded or occurs twice.
    init(_ query: Bytes) throws(Rejection) {
        for pair in query.split(separator: UInt8(ascii: "&")) {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            guard let name = PercentEncoding.decode(pair[..<equals], isForm: true),
                let value = PercentEncoding.decode(pair[equals...].dropFirst(), isForm: true)
            else { throw Rejection(.malformed, "the query has a % that is not followed by two hexadecimal digits") }
            guard let name = Name.allCases.first(where: { $0.rawValue.utf8.elementsEqual(name) }) else { continue }
            guard values.updateValue(value, forKey: name) == nil else {
                throw Rejection(.malformed, "the parameter \(name.rawValue) occurs twice in the query")
            }
        }
    }

    /// The request that the parameters describe.
    func relayRequest() throws(Rejection) -> RelayRequest {
        let isProduction = try flag(.isProduction) ?? true
        let magic: Magic = try flag(.isAndroid) ?? false ? .android : isProduction ? .iOS : .iOSDev
        return RelayRequest(
            magic: magic, deviceToken: try deviceToken(), text: try text(), sound: try flag(.snd) ?? true,
            contentAvailable: try flag(.isContentAvailable), mutableContent: try flag(.mutableContent) ?? false)
    }

    private func needed(_ name: Name) throws(Rejection) -> [UInt8] {
        guard let value = values[name], !value.isEmpty else {
            throw Rejection(.malformed, "the parameter \(name.rawValue) is missing or empty")
        }
        return value
    }

    /// The device token. Bisq 1 sends the text of the token in hexadecimal, Bisq 2 sends the text itself. An Apple token
    /// is decoded by mistake only if its 32 random bytes are all printable, which holds for one in 6 · 10¹³.
    private func deviceToken() throws(Rejection) -> [UInt8] {
        let value = try needed(.token)
        guard let decoded = Hex.decode(value), !decoded.isEmpty, decoded.allSatisfy({ (0x20...0x7E).contains($0) })
        else { return value }
        return decoded
    }

    private func text() throws(Rejection) -> [UInt8] {
        guard let text = Hex.decode(try needed(.msg)), String(validating: text, as: UTF8.self) != nil else {
            throw Rejection(.malformed, "the parameter msg is not UTF-8 text in hexadecimal")
        }
        return text
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
