// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP

/// An app's upstream nodes, and how this node uses them.
package struct UpstreamTarget: Sendable, Hashable {
    /// The addresses; the preferred one first.
    package var nodes: [Endpoint]
    /// The SOCKS port of a tor; `nil` to connect directly.
    package var socks: Endpoint?
    /// The app's name at the upstream nodes; `nil` if envelopes keep the name that their senders use. With another
    /// name an envelope has another digest, so this node replaces the sender's signature by its own.
    package var app: String?
    /// The app's envelope format.
    package var format: EnvelopeFormat

    package init(nodes: [Endpoint], socks: Endpoint?, app: String?, format: EnvelopeFormat) {
        self.nodes = nodes
        self.socks = socks
        self.app = app
        self.format = format
    }
}
