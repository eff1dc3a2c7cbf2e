// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A complete request. It may contain tokens and payloads, so it prints as `<redacted>`.
package struct HTTPRequest: Sendable, Redacted {
    /// The method as received, for instance `GET`.
    package let method: String
    /// The path and query as received, extracted from the absolute form (`http://host/path?query`) if necessary;
    /// `*`; or `host:port` for CONNECT. Visible ASCII only.
    package let target: [UInt8]
    /// 0 for HTTP/1.0, 1 for HTTP/1.1 and later minor versions.
    package let minorVersion: Int
    /// Fields in the order received: names in lower case, values without surrounding spaces and tabs.
    package let headers: [(name: String, value: String)]
    /// The body, without chunked coding.
    package let body: [UInt8]

    /// The value of the first field with this name, which must be in lower case; `nil` if there is none.
    package func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
