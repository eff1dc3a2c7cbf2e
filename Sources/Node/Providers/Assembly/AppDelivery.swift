// SPDX-License-Identifier: Apache-2.0

import Settings
import TNP

/// An app of the configuration, as its table `[[app]]` begins.
package struct AppIdentity: Sendable {
    /// The name that senders use for the app.
    package let name: String
    /// The payload format of the app.
    package let format: EnvelopeFormat
    /// The name of the table in error messages: `app[1]`.
    package let path: String

    package init(name: String, format: EnvelopeFormat, path: String) {
        self.name = name
        self.format = format
        self.path = path
    }
}

/// One way to deliver an app's notifications: its settings, and all that the node does with them beside the deliveries
/// themselves. ``DeliveryKinds`` lists the ways.
package protocol AppDelivery: Sendable {
    /// The name of the app's table for it: `apns` for `[app.apns]`.
    static var table: String { get }
    /// The kinds of its credentials.
    static var credentialKinds: [any Credential.Type] { get }
    /// The keys of such a table that must be set: the reference of the configuration is made from them.
    static var requiredKeys: String { get }

    /// Reads what all apps share.
    /// - Parameter root: the whole configuration.
    /// - Returns: reads an app's table; its result is `nil` if the app has none.
    static func reader(_ root: TableReader) -> (_ app: AppIdentity, _ table: TableReader) throws -> Self?

    /// The platforms on which it delivers.
    var platforms: [Magic] { get }
    /// Whether it serves only the platforms for which the app has no other delivery.
    var isFallback: Bool { get }
    /// The largest number of connections.
    var maximumConnections: Int { get }
    /// Whether it needs a tor.
    var needsTor: Bool { get }
    /// The credentials with which it authenticates.
    var credentials: [CredentialUse] { get }
    /// Files of keys that the node makes if they do not exist.
    var ownKeyFiles: [String] { get }
    /// Makes those files, if it can.
    func makeOwnKeyFiles()
    /// The other files that it reads.
    var otherFiles: [String] { get }
    /// The text before the first `|` of the app's notifications, by which the HTTP API recognises them; `nil` if it does
    /// not deliver on the platform.
    func messageMagic(on platform: Magic) -> String?

    /// Makes the providers, one for each of these platforms.
    /// - Throws: `ConfigurationError`.
    func providers(
        for app: AppIdentity, on platforms: [Magic], in workshop: inout ProviderWorkshop
    ) throws -> [(Magic, ProviderWorkshop.Part)]

    /// Checks files and settings.
    /// - Parameter earlier: the ways to deliver of the apps before this one.
    func findings(
        for app: AppIdentity, after earlier: [(app: AppIdentity, delivery: any AppDelivery)], _ machine: CheckedMachine
    ) -> [Finding]
    /// The servers that a check connects to before it sends probes.
    func servers() -> [CheckedServer]
    /// Sends probes, which ring no phone.
    nonisolated(nonsending) func probe(_ app: AppIdentity, _ desk: ProbeDesk) async -> [Finding]
}

extension AppDelivery {
    package static var credentialKinds: [any Credential.Type] { [] }
    package var isFallback: Bool { false }
    package var needsTor: Bool { false }
    package var credentials: [CredentialUse] { [] }
    package var ownKeyFiles: [String] { [] }
    package func makeOwnKeyFiles() {}
    package var otherFiles: [String] { [] }
    package func findings(
        for app: AppIdentity, after earlier: [(app: AppIdentity, delivery: any AppDelivery)], _ machine: CheckedMachine
    ) -> [Finding] { [] }
    package func servers() -> [CheckedServer] { [] }
    package nonisolated(nonsending) func probe(_ app: AppIdentity, _ desk: ProbeDesk) async -> [Finding] { [] }
}
