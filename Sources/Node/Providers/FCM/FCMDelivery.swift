// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Settings
import TNP

/// `[app.fcm]`: the app on Android phones.
package struct FCMDelivery: AppDelivery {
    package let profile: FCMProfile
    package let serviceAccountFile: String
    package let service: FCMService

    package static let table = "fcm"
    package static let credentialKinds: [any Credential.Type] = [GoogleCredential.self]
    package static let requiredKeys = "service_account_file = \"x\""

    package static func reader(
        _ root: TableReader
    ) -> (_ app: AppIdentity, _ table: TableReader) throws -> FCMDelivery? {
        let service = FCMService(root)
        return { app, parent in
            let table = parent.table(Self.table, "The app on Android phones.")
            return table.exists ? try FCMDelivery(table, of: app, service) : nil
        }
    }

    private init(_ table: TableReader, of app: AppIdentity, _ service: FCMService) throws {
        let file = try table.requiredString(
            "service_account_file", expected: "the JSON file from Firebase",
            "Service account with which the node authenticates to FCM. Mode 600")
        let magic = table.messageMagic(default: "BisqMessageAndroid")
        let isDataOnly = table.boolean(
            "data_only", default: false, "Send no notification block: the app shows its own notification")
        let title = table.string(
            "title", default: "Notification", "Title that Android shows until the app has decrypted the envelope")
        let body = table.string(
            "body", default: "New notification", "Text that Android shows until the app has decrypted the envelope")
        profile = FCMProfile(
            format: app.format, messageMagic: magic, notification: isDataOnly ? nil : (title: title, body: body),
            sound: table.sound())
        serviceAccountFile = table.paths.absolute(file)
        self.service = service
    }

    package var platforms: [Magic] { [.android] }
    /// Those to FCM, and one to the server that issues access tokens.
    package var maximumConnections: Int { service.connections.upperBound + 1 }
    package var credentials: [CredentialUse] {
        [
            CredentialUse(
                reference: GoogleCredential.reference(file: serviceAccountFile), key: "fcm.service_account_file",
                title: "FCM service account")
        ]
    }
    package var otherFiles: [String] { [service.trustFile].compactMap(\.self) }

    package func messageMagic(on platform: Magic) -> String? { platform == .android ? profile.messageMagic : nil }

    package func providers(
        for app: AppIdentity, on platforms: [Magic], in workshop: inout ProviderWorkshop
    ) throws -> [(Magic, ProviderWorkshop.Part)] {
        guard platforms.contains(.android) else { return [] }
        var ingredients = Ingredients()
        ingredients.add(
            "\(profile) \(service.url) \(service.connections) "
                + String(describing: workshop.surroundings.outboundProxy))
        guard let credential = try workshop.load(credentials[0], of: app, &ingredients) as? GoogleCredential else {
            preconditionFailure("Google's credential is a service account")
        }
        let (account, tokenURL) = (credential.account, credential.tokenURL)
        let context = try workshop.tls(trustFile: service.trustFile, key: "fcm.trust_file", &ingredients)
        let provider = FCMProvider(
            FCMRequestBuilder(
                profile, authority: service.url.authority, projectID: account.publicAccount.projectID),
            token: FCMAccessToken(
                account, authority: tokenURL.authority, path: tokenURL.path,
                pool: workshop.pool(tokenURL, context, 1...1)),
            pool: workshop.pool(service.url, context, service.connections))
        return [(.android, ProviderWorkshop.Part(provider: provider, fingerprint: ingredients.fingerprint))]
    }
}
