// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings

extension Configuration {
    /// Reads `[outbound]`: the proxy to push services; `nil` if there is none.
    static func outboundProxy(_ root: TableReader) -> Proxy? {
        let outbound = root.table("outbound", "Outgoing connections to Apple, Google and push servers.")
        let proxy = outbound.string(
            "proxy", expected: "a URL",
            "`socks5://127.0.0.1:9050` (tor) or `http://127.0.0.1:3128` (HTTP CONNECT); the proxy resolves names. If not set, connections are direct"
        )
        return proxy.flatMap { text in
            // tor isolates streams with these credentials on separate circuits (IsolateSOCKSAuth). Other proxies may
            // refuse credentials, so they are optional.
            let label = SOCKS5.Credentials(user: "tocsin", password: "outbound", isRequired: false)
            let proxy = Proxy(url: text, credentials: label)
            if proxy == nil {
                outbound.note(
                    "proxy", "must be like socks5://127.0.0.1:9050 or http://127.0.0.1:3128, without a login")
            }
            return proxy
        }
    }
}
