// SPDX-License-Identifier: Apache-2.0

import HTTP2

extension HeaderBlock {
    /// The first fields of a POST request, to which the caller adds `:path` before any other.
    /// - Parameter authority: host of the endpoint, with its port if that is not 443.
    init(postTo authority: String) {
        self.init()
        append(":method", "POST")
        append(":scheme", "https")
        append(":authority", authority)
    }
}
