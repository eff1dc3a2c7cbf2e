// SPDX-License-Identifier: Apache-2.0

import CLLHTTP
import Cryptography

/// A response. Encoding it adds `Content-Length` and `Connection`.
///
/// It has neither `Date` nor `Server`. An onion service should reveal no more than is needed: a clock offset can
/// identify a machine, and a product version can reveal a vulnerability. RFC 9110 §6.6.1 requires a date only from
/// servers whose clock is reliable.
package struct HTTPResponse: Sendable {
    /// The three-digit status code.
    package var status: Int
    /// Additional fields, in this order; control bytes in them are sent as spaces.
    package var headers: [(name: String, value: String)]
    /// The body; not sent in response to HEAD, or with status 204 or 304.
    package var body: [UInt8]

    package init(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers.map { (name: $0.0, value: $0.1) }
        self.body = body
    }

    /// The encoded response to a request other than HEAD.
    /// - Parameter keepsAlive: whether the connection stays open; otherwise the response contains `Connection: close`.
    package func encoded(keepsAlive: Bool) -> [UInt8] {
        var output: [UInt8] = []
        encode(into: &output, connection: keepsAlive ? nil : "close", isHead: false)
        return output
    }

    /// - Parameter hasLength: `false` if the body continues after `body`, until the connection ends.
    func encode(into output: inout [UInt8], connection: StaticString?, isHead: Bool, hasLength: Bool = true) {
        output.append(copying: "HTTP/1.1 ")
        output.append(decimal: UInt64(clamping: status))
        output.append(UInt8(ascii: " "))
        if let reason = Self.reasons[status] { output.append(copying: reason) }
        for (name, value) in headers {
            output.append(copying: "\r\n")
            output.appendText(name)
            output.append(copying: ": ")
            output.appendText(value)
        }
        // RFC 9110 §8.6, §15.4.5: 204 has no Content-Length, and in 304 it would describe another response.
        let hasBody = status != 204 && status != 304
        if hasBody, hasLength {
            output.append(copying: "\r\nContent-Length: ")
            output.append(decimal: UInt64(clamping: body.count))
        }
        if let connection {
            output.append(copying: "\r\nConnection: ")
            output.append(copying: connection)
        }
        output.append(copying: "\r\n\r\n")
        if hasBody, !isHead { output.append(copying: body) }
    }

    /// The reason phrase of each status that llhttp knows, such as `Not Found`; made once.
    private static let reasons: [Int: [UInt8]] = {
        var reasons: [Int: [UInt8]] = [:]
        for status in 100..<600 {
            let words = String(cString: cllhttp_status_name(Int32(clamping: status))).split(separator: "_")
            guard !words.isEmpty else { continue }
            let text = words.map { word in
                abbreviations.contains(word) ? String(word) : word.prefix(1) + word.dropFirst().lowercased()
            }
            reasons[status] = Array(text.joined(separator: " ").utf8)
        }
        return reasons
    }()

    private static let abbreviations: Set<Substring> = ["OK", "HTTP", "URI"]
}

extension [UInt8] {
    /// Appends text with control bytes replaced: a line break in a value would start another field.
    fileprivate mutating func appendText(_ text: String) {
        var text = text
        let start = count
        text.withUTF8 { append(copying: UnsafeRawBufferPointer($0)) }
        for index in start..<count where self[index] < 0x20 || self[index] == 0x7F { self[index] = 0x20 }
    }
}
