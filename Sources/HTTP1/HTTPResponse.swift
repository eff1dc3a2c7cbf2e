// SPDX-License-Identifier: Apache-2.0

import CHTTPParser

/// An answer. `Content-Length` and `Connection` are added where it is encoded.
///
/// Neither `Date` nor `Server` is sent. An onion service should tell no more than is needed: the offset of a clock can
/// name a machine, a product and its version can name a weakness. RFC 9110, 6.6.1 asks for a date of those only whose
/// clock can be relied on.
package struct HTTPResponse: Sendable {
    /// The status, three digits.
    package var status: Int
    /// Further fields, in this order; control bytes in them are sent as spaces.
    package var headers: [(name: String, value: String)]
    /// The body; not sent where the request was HEAD, or the status is 204 or 304.
    package var body: [UInt8]

    /// An answer.
    package init(status: Int, headers: [(String, String)] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers.map { (name: $0.0, value: $0.1) }
        self.body = body
    }

    /// The answer as it is sent, to a request that was not HEAD.
    /// - Parameter keepsAlive: whether the connection stays; else the answer says that it closes.
    package func encoded(keepsAlive: Bool) -> [UInt8] {
        var output: [UInt8] = []
        encode(into: &output, connection: keepsAlive ? nil : "close", isHead: false)
        return output
    }

    /// - Parameter hasLength: false where the body goes on after what is here, until the connection ends.
    func encode(into output: inout [UInt8], connection: StaticString?, isHead: Bool, hasLength: Bool = true) {
        func field(_ name: String, _ value: String) {
            output.appendText(name)
            output += [UInt8(ascii: ":"), UInt8(ascii: " ")]
            output.appendText(value)
            output += Self.lineEnd
        }
        output += "HTTP/1.1 ".utf8
        output += "\(status) \(reason)".utf8
        output += Self.lineEnd
        for (name, value) in headers { field(name, value) }
        // RFC 9110, 8.6 and 15.4.5: none in 204, and in 304 it would speak of another answer.
        let hasBody = status != 204 && status != 304
        if hasBody, hasLength { field("Content-Length", "\(body.count)") }
        if let connection { field("Connection", "\(connection)") }
        output += Self.lineEnd
        if hasBody, !isHead { output += body }
    }

    private static let lineEnd: [UInt8] = [0x0D, 0x0A]

    private var reason: String {
        guard (100..<600).contains(status) else { return "" }
        let text = String(cString: http_status_str(http_status(UInt32(status))))
        return text.hasPrefix("<") ? "" : text
    }
}

extension [UInt8] {
    /// A line break in a value would begin another field: no control byte gets out.
    fileprivate mutating func appendText(_ text: String) {
        for byte in text.utf8 { append(byte < 0x20 || byte == 0x7F ? 0x20 : byte) }
    }
}
