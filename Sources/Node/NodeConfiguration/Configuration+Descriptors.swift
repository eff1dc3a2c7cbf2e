// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

extension Configuration {
    /// File descriptors reserved for files, timers and connections that are being rejected.
    package static let descriptorsForFiles = 128

    /// File descriptors not available to senders: ``descriptorsForFiles`` and the connections to push services and
    /// upstream nodes.
    package var reservedDescriptors: Int {
        Self.descriptorsForFiles + apps.flatMap(\.deliveries).reduce(0) { $0 + $1.maximumConnections }
    }
}
