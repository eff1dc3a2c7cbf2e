// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// An answer of an HTTP server, parsed without the node's code.
struct HTTPAnswer: Sendable {
    let status: Int
    /// The header fields by lower-case name.
    let headers: [String: String]
    let body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }

    /// The fields of a JSON body; `nil` if it is not a JSON object.
    var json: [String: Any]? { try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any] }

    /// Parses all answers in the bytes that a server sent.
    /// - Parameter toHEAD: whether the requests were HEAD: the answers have a length, but no body.
    static func all(in bytes: [UInt8], toHEAD: Bool = false) throws -> [HTTPAnswer] {
        var answers: [HTTPAnswer] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let end = try #require(rest.firstRange(of: Array("\r\n\r\n".utf8)), "the head of an answer is incomplete")
            let head = String(decoding: rest[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
            let words = head[0].split(separator: " ", maxSplits: 2)
            try #require(words.count >= 2 && words[0] == "HTTP/1.1", "not an answer in HTTP/1.1")
            let status = try #require(Int(words[1]))
            var headers: [String: String] = [:]
            for line in head.dropFirst() {
                let colon = try #require(line.firstIndex(of: ":"))
                let value = line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces)
                try #require(
                    headers.updateValue(value, forKey: line[..<colon].lowercased()) == nil, "a duplicate field")
            }
            rest = rest[end.upperBound...]
            var length = 0
            if status >= 200, status != 204 {
                length = try #require(Int(headers["content-length"] ?? ""), "an answer without a length")
                if toHEAD { length = 0 }
            }
            try #require(rest.count >= length, "the body of an answer is incomplete")
            answers.append(HTTPAnswer(status: status, headers: headers, body: Array(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
        return answers
    }
}

/// Requests as today's desktops write them.
enum RequestBytes {
    static func get(_ target: String, fields: [String] = [], closes: Bool = true, version: String = "1.1") -> [UInt8] {
        request("GET", target, fields: fields, closes: closes, version: version)
    }

    static func post(
        _ target: String, _ body: String, fields: [String] = ["Content-Type: application/json"], closes: Bool = true
    ) -> [UInt8] {
        request("POST", target, fields: fields + ["Content-Length: \(body.utf8.count)"], closes: closes) + body.utf8
    }

    static func request(
        _ method: String, _ target: String, fields: [String] = [], closes: Bool = true, version: String = "1.1"
    ) -> [UInt8] {
        let lines =
            ["\(method) \(target) HTTP/\(version)", "Host: example.onion"] + fields
            + (closes ? ["Connection: close"] : [])
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }

    /// The request target of Bisq 1, with the parameters in its order.
    static func relay(
        _ magic: String, token: String, text: String, sound: Bool = true, contentAvailable: Bool = true
    ) -> String {
        "/relay?isAndroid=\(magic == "android")&isProduction=\(magic == "iOS")"
            + "&isContentAvailable=\(contentAvailable)&snd=\(sound)&token=\(hex(token))&msg=\(hex(text))"
    }

    /// The body of Bisq 2.
    static func push(_ encrypted: String, isUrgent: Bool = true, isMutableContent: Bool = true) -> String {
        "{\"encrypted\":\"\(encrypted)\",\"isUrgent\":\(isUrgent),\"isMutableContent\":\(isMutableContent)}"
    }

    static func hex(_ text: String) -> String { text.utf8.map { String(format: "%02x", $0) }.joined() }

    /// A valid envelope for a `pipe` app, which no phone can open.
    static func pipe(_ magic: String, ciphertext length: Int = 48) -> String {
        let iv = UUID().uuidString.replacing("-", with: "").lowercased().prefix(16)
        return "\(magic)|\(iv)|\(random(length).base64EncodedString())"
    }

    /// A valid envelope for a `sealed` app, which no phone can open.
    static func sealed(ciphertext length: Int = 48) -> String { random(12 + length).base64EncodedString() }

    private static func random(_ count: Int) -> Data { Data((0..<count).map { _ in UInt8.random(in: 0...255) }) }
}
