// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Settings
import TNP

/// `[app.apns]`: the app on iPhones.
package struct APNsDelivery: AppDelivery {
    package let profile: APNsProfile
    /// A key or a certificate.
    private let credential: CredentialUse
    package let service: APNsService

    package static let table = "apns"
    package static let credentialKinds: [any Credential.Type] = [
        AppleKeyCredential.self, AppleCertificateCredential.self,
    ]
    package static let requiredKeys = "topic = \"x\"\ncertificate_file = \"x\""

    package static func reader(
        _ root: TableReader
    ) -> (_ app: AppIdentity, _ table: TableReader) throws -> APNsDelivery? {
        let service = APNsService(root)
        return { app, parent in
            let table = parent.table(
                Self.table,
                "The app on iPhones. The node authenticates to APNs with a key (`.p8`) or a certificate (`.p12`).")
            return table.exists ? try APNsDelivery(table, of: app, service) : nil
        }
    }

    private init(_ table: TableReader, of app: AppIdentity, _ service: APNsService) throws {
        profile = APNsProfile(
            topic: try Self.topic(table), format: app.format,
            messageMagic: table.messageMagic(default: "BisqMessageiOS"),
            alert: try Self.alert(table), sound: table.sound(),
            contentAvailable: table.choice(
                "content_available", default: .request,
                "Whether the app is woken (`content-available`); `request`: as the sender asks, by default yes"),
            mutableContent: table.choice(
                "mutable_content", default: .request,
                "Whether the app's extension decrypts the notification before it is shown (`mutable-content`); `request`: as the sender asks, by default yes"
            ))
        credential = try Self.credential(table)
        self.service = service
    }

    package var platforms: [Magic] { [.iOS, .iOSDev] }
    package var maximumConnections: Int { 2 * service.connections.upperBound }
    package var credentials: [CredentialUse] { [credential] }
    package var otherFiles: [String] { [service.trustFile].compactMap(\.self) }

    package func messageMagic(on platform: Magic) -> String? { platform.isApple ? profile.messageMagic : nil }

    // MARK: Reading

    private static func topic(_ table: TableReader) throws -> String {
        let topic = try table.requiredString(
            "topic", expected: "the app's bundle id", "Bundle id of the app: letters, digits, dots and hyphens")
        guard topic.allSatisfy({ $0.isASCIILetterOrDigit || $0 == "." || $0 == "-" }) else {
            throw table.problem("topic", "must be the app's bundle id: letters, digits, dots and hyphens")
        }
        let first = topic.prefix { $0 != "." }
        if first.count == 10, first.contains(where: \.isNumber), first.allSatisfy({ $0.isNumber || $0.isUppercase }) {
            throw table.problem("topic", "begins with a team id: the bundle id alone is \(topic.dropFirst(11))")
        }
        return topic
    }

    private static func alert(_ table: TableReader) throws -> APNsProfile.Alert {
        let standard = "New notification"
        let text = table.string(
            "alert", "Text that the iPhone shows until the app has decrypted the envelope. If not set: \(standard)")
        let key = table.string("alert_loc_key", "Instead of `alert`: a key of the app's localised strings")
        guard let key else { return .text(text ?? standard) }
        guard text == nil else { throw table.problem("alert_loc_key", "set alert or alert_loc_key, not both") }
        return .localized(key: key)
    }

    private static func credential(_ table: TableReader) throws -> CredentialUse {
        let keyFile = table.file("key_file", "Key from Apple (`.p8`); requires `key_id` and `team_id`. Mode 600")
        let keyID = table.string("key_id", "Id of the key: 10 letters and digits")
        let teamID = table.string("team_id", "Id of the team: 10 letters and digits")
        let certificate = table.file(
            "certificate_file",
            "Certificate with its private key (`.p12`), instead of `key_file`, `key_id` and `team_id`. Mode 600")
        let password = table.file(
            "certificate_password_file", "Password of the certificate, if it has one. Mode 600")
        switch (keyFile, certificate) {
        case (let keyFile?, nil):
            guard password == nil else {
                throw table.problem(
                    "certificate_password_file", "is for certificate_file only; a key_file has no password")
            }
            func identifier(_ value: String?, _ key: String) throws -> String {
                guard let value else {
                    throw table.missing(
                        key, "is missing: key_file requires key_id and team_id, 10 letters and digits each")
                }
                guard AppleKeyName.isIdentifier(value) else {
                    throw table.problem(key, "must be Apple's identifier of 10 letters and digits")
                }
                guard value == value.uppercased() else {
                    throw table.problem(key, "has upper-case letters at Apple: \(value.uppercased())")
                }
                return value
            }
            let (key, team) = (try identifier(keyID, "key_id"), try identifier(teamID, "team_id"))
            guard key != team else {
                throw table.problem(
                    "team_id", "is the same as key_id: the team's id is under Membership at developer.apple.com")
            }
            return CredentialUse(
                reference: AppleKeyCredential.reference(file: keyFile, keyID: key, teamID: team), key: "apns.key_file",
                title: "APNs key")
        case (nil, let certificate?):
            guard keyID == nil, teamID == nil else {
                throw table.problem(
                    "key_id", "is for key_file only; a certificate_file needs neither key_id nor team_id")
            }
            return CredentialUse(
                reference: AppleCertificateCredential.reference(file: certificate, passwordFile: password),
                key: "apns.certificate_file", title: "APNs certificate")
        case (_?, _?): throw table.problem("key_file", "set key_file or certificate_file, not both")
        case (nil, nil):
            throw table.missing(
                "key_file", "is missing: set key_file (.p8) with key_id and team_id, or certificate_file (.p12)")
        }
    }

    // MARK: Assembly

    package func providers(
        for app: AppIdentity, on platforms: [Magic], in workshop: inout ProviderWorkshop
    ) throws -> [(Magic, ProviderWorkshop.Part)] {
        try platforms.map { ($0, try provider(for: app, at: url(of: $0), in: &workshop)) }
    }

    func url(of platform: Magic) -> ServiceURL {
        platform.service.environment == .development ? service.development : service.production
    }

    private func provider(
        for app: AppIdentity, at url: ServiceURL, in workshop: inout ProviderWorkshop
    ) throws -> ProviderWorkshop.Part {
        var ingredients = Ingredients()
        ingredients.add(
            "\(profile) \(url) \(service.connections) \(String(describing: workshop.surroundings.outboundProxy))")
        let (token, identity) = try authentication(of: app, &ingredients, &workshop)
        let context = try workshop.tls(
            trustFile: service.trustFile, key: "apns.trust_file", &ingredients, identity: identity,
            identityKey: "\(app.path).apns.certificate_file")
        let provider = APNsProvider(
            APNsRequestBuilder(profile, authority: url.authority), token: token,
            pool: workshop.pool(url, context, service.connections, startsWithOneRequest: token != nil))
        return ProviderWorkshop.Part(provider: provider, fingerprint: ingredients.fingerprint)
    }

    private func authentication(
        of app: AppIdentity, _ ingredients: inout Ingredients, _ workshop: inout ProviderWorkshop
    ) throws -> (APNsProviderToken?, CertifiedKey?) {
        let loaded = try workshop.load(credentials[0], of: app, &ingredients)
        if let key = loaded as? AppleKeyCredential {
            ingredients.add("\(key.issuer.publicKey.keyID) \(key.issuer.publicKey.teamID)")
            let token = workshop.appleTokens.token(key.issuer, state: workshop.surroundings.state)
            workshop.appleTokens.byApp[app.name] = token
            return (token, nil)
        }
        guard let loaded = loaded as? AppleCertificateCredential else {
            preconditionFailure("Apple's credentials are keys and certificates")
        }
        // An expired certificate only causes a warning, and Apple rejects it: the other apps keep working.
        workshop.certificates.append(
            ProviderWorkshop.Certificate(
                app: app.name, file: credentials[0].reference.files[0], notAfter: loaded.certificate.notAfter))
        return (nil, loaded.identity)
    }
}
