// SPDX-License-Identifier: Apache-2.0

import Glibc
import Providers
import Settings
import TNP

extension Configuration {
    /// `[[app]]`
    package struct App: Sendable {
        package let identity: AppIdentity
        /// The ways to deliver the app's notifications, at least one.
        package let deliveries: [any AppDelivery]

        /// The name that senders use for the app.
        package var name: String { identity.name }
        /// The payload format of the app.
        package var format: EnvelopeFormat { identity.format }

        /// The app's delivery of this kind; `nil` if the app has none.
        package func delivery<Delivery: AppDelivery>(_ kind: Delivery.Type = Delivery.self) -> Delivery? {
            deliveries.lazy.compactMap { $0 as? Delivery }.first
        }

        /// Whether only an upstream node can deliver for this platform.
        package func isDeliveredUpstream(_ platform: Magic) -> Bool {
            let able = deliveries.filter { $0.platforms.contains(platform) }
            return !able.isEmpty && able.allSatisfy(\.isFallback)
        }
    }

    /// Reads the apps, and what all of them share.
    /// - Returns: `nil` for each app that cannot be read.
    static func apps(_ root: TableReader) -> [App?] {
        let read = DeliveryKinds.reader(root)
        var apps: [App?] = []
        let tables = root.tables(
            "app",
            "An app. There are 1 to \(maximumApps); the first is the default. Each has at least one of \(DeliveryKinds.tables("and", mark: "`"))."
        )
        for table in tables {
            let app = table.attempt { try Self.app(table, read) }
            if let app, apps.contains(where: { $0?.name == app.name }) {
                table.note("name", "another app is named \(app.name)")
            }
            apps.append(app)
        }
        if apps.isEmpty {
            root.note(
                nil, "no app is configured: a node needs at least one [[app]] with \(DeliveryKinds.tables("or"))")
        }
        if apps.count > maximumApps { root.note("app", "there are more than \(maximumApps) apps") }
        return apps
    }

    private static func app(
        _ table: TableReader, _ read: (AppIdentity, TableReader) -> [any AppDelivery]
    ) throws -> App {
        let name = try table.requiredString(
            "name", expected: "the app's name, e.g. \"bisq\"",
            "Name that senders use for the app: at most 64 ASCII characters without spaces and slashes")
        _ = try table.appName(name, "name")
        let format = table.choice(
            "format", default: EnvelopeFormat.pipe,
            "Payload format of the app: `pipe` is `magic|iv|Base64` (AES-CBC), `sealed` is Base64 of iv and ciphertext (AES-GCM)"
        )
        let identity = AppIdentity(name: name, format: format, path: table.path)
        let app = App(identity: identity, deliveries: read(identity, table))
        table.finish()
        guard !app.deliveries.isEmpty || table.isIncomplete else {
            throw table.problem("name", "the app \(name) has neither \(DeliveryKinds.tables("nor"))")
        }
        return app
    }

    /// The credentials of all apps, grouped by app.
    package var credentials: [CredentialReference] {
        apps.flatMap(\.deliveries).flatMap(\.credentials).map(\.reference)
    }
}
