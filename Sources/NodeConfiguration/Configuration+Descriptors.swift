// SPDX-License-Identifier: Apache-2.0

extension Configuration {
    /// File descriptors reserved for files, timers and connections that are being rejected.
    package static let descriptorsForFiles = 128

    /// File descriptors not available to senders: ``descriptorsForFiles`` and the connections to push services.
    package var reservedDescriptors: Int {
        let perApp = 2 * services.apnsConnections.upperBound + services.fcmConnections.upperBound + 1
        return Self.descriptorsForFiles + apps.count * perApp
    }
}
