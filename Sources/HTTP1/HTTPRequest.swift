// SPDX-License-Identifier: Apache-2.0

import Cryptography

/// A whole request. May hold tokens and payloads: prints as `<redacted>`.
package struct HTTPRequest: Sendable, Redacted {
    /// The method as it came, for instance `GET`.
    package let method: String
    /// Path and query as they came, also where the absolute form was sent (`http://host/path?query`); `*`; for CONNECT
    /// `host:port`. Visible ASCII only.
    package let target: [UInt8]
    /// 0 for HTTP/1.0, 1 for HTTP/1.1 and what comes after it.
    package let minorVersion: Int
    /// Names in lower case, values without the spaces and tabs around them; in the order they came.
    package let headers: [(name: String, value: String)]
    /// The body, decoded where it came in chunks.
    package let body: [UInt8]

    /// A request made by hand; `headers` have names in lower case.
    package init(
        method: String, target: [UInt8], minorVersion: Int = 1, headers: [(name: String, value: String)] = [],
        body: [UInt8] = []
    ) {
        self.method = method
        self.target = target
        self.minorVersion = minorVersion
        self.headers = headers
        self.body = body
    }

    /// The value of the first field of this name, which is to be in lower case.
    package func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
