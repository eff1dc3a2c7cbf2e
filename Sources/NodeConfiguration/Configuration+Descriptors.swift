// SPDX-License-Identifier: Apache-2.0

import Providers
import TNP

extension Configuration {
    /// File descriptors reserved for files, timers and connections that are being rejected.
    package static let descriptorsForFiles = 128

    /// File descriptors not available to senders: ``descriptorsForFiles`` and the connections to push services and
    /// upstream nodes.
    package var reservedDescriptors: Int {
        let perApp = 2 * services.apnsConnections.upperBound + services.fcmConnections.upperBound + 1
        let upstreams = apps.count { $0.upstream != nil } * Magic.allCases.count * Relay.maximumCircuits
        let pushServers = apps.count { $0.web != nil } * WebPushProvider.maximumConnections
        return Self.descriptorsForFiles + apps.count * perApp + upstreams + pushServers
    }
}
