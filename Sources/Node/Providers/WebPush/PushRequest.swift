// SPDX-License-Identifier: Apache-2.0

import Cryptography
import HTTP1
import HTTP2
import TNP

/// A request to a push server (RFC 8030 §5), for either version of HTTP.
struct PushRequest {
    private let endpoint: PushEndpoint
    private let body: Bytes
    private let fields: [(name: StaticString, value: String, indexing: HeaderBlock.Indexing)]

    /// The number of bytes of the collapse id's hash that make the topic: 32 characters, the most that RFC 8030 §5.4
    /// allows.
    private static let topicBytes = 24

    /// - Parameters:
    ///   - ttl: the seconds for which the server may keep the notification.
    ///   - authorization: from ``VAPIDKey``.
    ///   - notice: what the phone shows for an envelope that is not encrypted for Web Push, instead of its content.
    init(_ envelope: Envelope, to endpoint: PushEndpoint, ttl: Int64, authorization: String, notice: String) {
        self.endpoint = endpoint
        var fields: [(StaticString, String, HeaderBlock.Indexing)] = [
            ("ttl", "\(ttl)", .allowed), ("urgency", envelope.priority == .immediate ? "high" : "normal", .allowed),
            ("authorization", authorization, .allowed),
        ]
        if envelope.magic == .web {
            body = envelope.ciphertext
            fields += [
                ("content-encoding", "aes128gcm", .allowed), ("content-type", "application/octet-stream", .allowed),
            ]
        } else {
            body = Array(notice.utf8)[...]
            fields.append(("content-type", "text/plain; charset=utf-8", .allowed))
        }
        if let collapseID = envelope.collapseID {
            let hash = BLAKE2b.hash256(Array(collapseID)).bytes.prefix(Self.topicBytes)
            fields.append(("topic", String(decoding: Base64.encodeURLSafe(hash), as: UTF8.self), .never))
        }
        if ttl == 0, let rules = PushServerRules.of(endpoint.host) {
            fields += rules.fieldsForNow.map { ($0.name, $0.value, .allowed) }
        }
        self.fields = fields
    }

    /// For HTTP/2.
    var http2: Request {
        var headers = HeaderBlock(postTo: endpoint.authority)
        headers.append(":path", endpoint.path, indexing: .never)
        for field in fields { headers.append(field.name, field.value, indexing: field.indexing) }
        return Request(headers: headers, body: Array(body))
    }

    /// For HTTP/1.1.
    var http1: HTTPClientRequest {
        HTTPClientRequest(
            postTo: endpoint.path, host: endpoint.authority, fields: fields.map { ("\($0.name)", $0.value) }, body: body
        )
    }
}
