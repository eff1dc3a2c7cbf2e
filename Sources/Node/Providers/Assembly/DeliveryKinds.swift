// SPDX-License-Identifier: Apache-2.0

import Settings
import TNP

/// The ways to deliver.
package enum DeliveryKinds {
    /// All ways to deliver. If an app has several with a message magic for a platform, the first counts.
    package static let all: [any AppDelivery.Type] = [
        APNsDelivery.self, FCMDelivery.self, UpstreamDelivery.self, WebPushDelivery.self,
    ]

    /// The kind of a credential.
    package static func credential(_ reference: CredentialReference) -> any Credential.Type {
        for delivery in all {
            for kind in delivery.credentialKinds where kind.kind == reference.kind { return kind }
        }
        preconditionFailure("references name kinds that are listed")
    }

    /// The names of their tables, for texts: `[app.apns], [app.fcm] and [app.web]`.
    /// - Parameters:
    ///   - conjunction: the word before the last one, or before each one with `nor`.
    ///   - mark: stands around each name.
    package static func tables(_ conjunction: String, mark: String = "") -> String {
        let names = all.map { "\(mark)[app.\($0.table)]\(mark)" }
        guard conjunction != "nor" else { return names.joined(separator: " nor ") }
        return names.dropLast().joined(separator: ", ") + " \(conjunction) \(names.last ?? "")"
    }

    /// Reads the settings that all apps share.
    /// - Returns: a function that reads an app's ways to deliver.
    package static func reader(
        _ root: TableReader
    ) -> (_ app: AppIdentity, _ table: TableReader) -> [any AppDelivery] {
        let readers = all.map { erased($0, root) }
        return { app, table in readers.compactMap { read in table.attempt { try read(app, table) } ?? nil } }
    }

    private static func erased<Delivery: AppDelivery>(
        _ kind: Delivery.Type, _ root: TableReader
    ) -> (AppIdentity, TableReader) throws -> (any AppDelivery)? {
        let read = kind.reader(root)
        return { app, table in try read(app, table) }
    }
}

extension Magic {
    /// The push service of the platform.
    package var service: PushService {
        switch self {
        case .iOS: .apnsProduction
        case .iOSDev: .apnsDevelopment
        case .android: .fcm
        case .web: .webPush
        }
    }
}
