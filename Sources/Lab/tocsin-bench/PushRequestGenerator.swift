// SPDX-License-Identifier: Apache-2.0

import HTTP2

/// Generates requests with the headers and the size of the node's requests to Apple. Device token, `apns-id` and
/// `apns-collapse-id` are new in each.
struct PushRequestGenerator {
    /// The length in bytes of the payload that the node makes of an envelope with ``ciphertextLength``.
    static let bodyLength = 536
    /// The ciphertext of a short notification, in bytes.
    static let ciphertextLength = 288

    /// Header fields with the same value in all requests, those of h2load included.
    static let fixedHeaders: [(name: StaticString, value: String)] = [
        ("apns-topic", "org.example.app"), ("apns-push-type", "alert"),
    ]
    /// A value for `authorization`, as long as one with a provider token.
    static let authorization = "bearer " + String(repeating: "x", count: 200)
    /// When the notification expires, Unix time in seconds.
    static let expiration = "1900000000"

    /// The fields that all requests share, and `:path` without a value.
    private let sharedHeaders: HeaderBlock
    private let pathField: Int
    private let authorization = Array(PushRequestGenerator.authorization.utf8)
    private let body = [UInt8](repeating: UInt8(ascii: "x"), count: PushRequestGenerator.bodyLength)
    private var counter = HexCounter()

    /// - Parameter authority: the server's host and port.
    init(authority: String) {
        var headers = HeaderBlock()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        headers.append(":authority", authority)
        pathField = headers.reserve(":path", indexing: .never)
        for (name, value) in Self.fixedHeaders { headers.append(name, value) }
        sharedHeaders = headers
    }

    /// The next request.
    mutating func next() -> Request {
        counter.advance()
        var headers = HeaderBlock(bytes: 768, fields: 12)
        headers.start(with: sharedHeaders)
        headers.setValue(ofField: pathField) { output in
            output += Array("/3/device/".utf8)
            counter.append(to: &output, times: 4)
        }
        headers.append("authorization", authorization, indexing: .never)
        headers.append("apns-id", indexing: .firstOnly) { output in
            // A UUID's first three groups are the same in all requests.
            output += Array("00000000-0000-8000-".utf8)
            let start = output.count
            counter.append(to: &output)
            output.insert(UInt8(ascii: "-"), at: start + 4)
        }
        headers.append("apns-collapse-id", indexing: .firstOnly) { counter.append(to: &$0, times: 2) }
        headers.append("apns-expiration", Self.expiration, indexing: .firstOnly)
        headers.append("apns-priority", "10")
        return Request(headers: headers, body: body)
    }
}
