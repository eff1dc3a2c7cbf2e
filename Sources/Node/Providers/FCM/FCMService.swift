// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings

/// `[fcm]`: the connections to FCM, for all apps.
package struct FCMService: Sendable {
    /// The endpoint of FCM.
    package let url: ServiceURL
    /// Additional certificate authorities for FCM and Google's token endpoint.
    package let trustFile: String?
    /// Minimum and maximum number of connections per app.
    package let connections: ClosedRange<Int>

    /// - Parameter root: the whole configuration.
    package init(_ root: TableReader) {
        let table = root.table("fcm", "Connections to FCM (Google), for all apps.")
        url = table.serviceURL(
            "endpoint", default: "fcm.googleapis.com", "FCM for pairing tokens with the magic `android`")
        trustFile = table.file("trust_file", TableReader.trustFileHelp)
        connections = table.connections()
    }
}

extension PushService {
    static let fcm = PushService(
        "fcm", probeToken: { Array("tocsin-check-\(Hex.encode(SecureRandom.bytes(16)))".utf8) })
}
