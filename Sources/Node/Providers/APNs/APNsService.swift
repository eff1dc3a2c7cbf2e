// SPDX-License-Identifier: Apache-2.0

import Settings
import TNP

/// `[apns]`: the connections to APNs, for all apps.
package struct APNsService: Sendable {
    /// The production environment of APNs.
    package let production: ServiceURL
    /// The development environment of APNs.
    package let development: ServiceURL
    /// Additional certificate authorities.
    package let trustFile: String?
    /// Minimum and maximum number of connections per app and environment.
    package let connections: ClosedRange<Int>

    /// - Parameter root: the whole configuration.
    package init(_ root: TableReader) {
        let table = root.table("apns", "Connections to APNs (Apple), for all apps.")
        production = table.serviceURL(
            "production", default: "api.push.apple.com", "APNs for pairing tokens with the magic `iOS`")
        development = table.serviceURL(
            "development", default: "api.development.push.apple.com",
            "APNs for pairing tokens with the magic `iOSDev`")
        trustFile = table.file("trust_file", TableReader.trustFileHelp)
        connections = table.connections()
    }
}

extension TableReader {
    static let trustFileHelp =
        "Certificate authorities, in PEM format, trusted in addition to the system's; for tests with a simulated service"
}

extension PushService {
    static let apnsProduction = PushService(
        "apns", otherEnvironment: .iOSDev, mayUseCertificate: true, probeToken: impossibleToken)
    static let apnsDevelopment = PushService(
        "apns", .development, otherEnvironment: .iOS, mayUseCertificate: true, probeToken: impossibleToken)

    @Sendable private static func impossibleToken() -> [UInt8] {
        Array(String(repeating: "0", count: PairingToken.appleTokenLength).utf8)
    }
}
