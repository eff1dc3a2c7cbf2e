// SPDX-License-Identifier: Apache-2.0

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
    package init(_ root: TableReader) throws {
        let table = try root.table("fcm", "Connections to FCM (Google), for all apps.")
        url = try table.serviceURL(
            "endpoint", default: "https://fcm.googleapis.com", "FCM for pairing tokens with the magic `android`")
        trustFile = try table.file("trust_file", TableReader.trustFileHelp)
        connections = try table.connections()
    }
}

extension PushService {
    static let fcm = PushService("fcm")
}
