// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Settings
import TNP

extension Configuration {
    /// `[canary]`
    package struct Canary: Sendable, Equatable {
        /// The file with the pairing token of the operator's phone.
        package var phoneFile: String
        /// The app of the phone; `nil` for the first one.
        package var app: String?
        /// Average seconds between two notifications.
        package var interval: Int
        /// The file with the key of the site as which the node rings; `nil` if it rings as any sender does.
        package var siteKeyFile: String?

        /// Reads the pairing token.
        /// - Throws: ``ConfigurationError``, which names the file and contains nothing of it.
        package func pairing(in configuration: Configuration) throws(ConfigurationError) -> PairingToken {
            func problem(_ text: String) -> ConfigurationError {
                ConfigurationError(
                    file: configuration.file, key: "canary.phone_file", problem: "\(phoneFile): \(text)")
            }
            let bytes: [UInt8]
            do {
                bytes = try ConfiguredFile.read(phoneFile, mustBePrivate: true, copies: configuration.copies)
            } catch {
                throw problem(error.text)
            }
            let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            do {
                return try PairingToken(String(decoding: line, as: UTF8.self))
            } catch {
                throw problem(error.description)
            }
        }

        /// Reads the site's key.
        /// - Throws: ``ConfigurationError``, which names the file and contains nothing of it.
        package func siteKey(in configuration: Configuration) throws(ConfigurationError) -> Ed25519.PrivateKey? {
            guard let siteKeyFile else { return nil }
            func problem(_ text: String) -> ConfigurationError {
                ConfigurationError(file: configuration.file, key: "canary.site_key", problem: text)
            }
            let key: Ed25519.PrivateKey
            do {
                key = try Ed25519.PrivateKey(keyFile: siteKeyFile, copies: configuration.copies)
            } catch {
                throw problem(error.description)
            }
            guard configuration.sites.contains(where: { $0.key == key.publicKey }) else {
                throw problem("\(siteKeyFile): no [[site]] has this key")
            }
            return key
        }
    }
}

extension Configuration.Canary {
    /// Reads `[canary]`; `nil` if the node rings no phone.
    /// - Parameters:
    ///   - apps: all apps; `nil` stands for one that cannot be read.
    ///   - needsSite: whether the node serves sites only.
    init?(_ root: TableReader, apps: [Configuration.App?], needsSite: Bool) {
        let table = root.table(
            "canary",
            "A phone of the operator, which the node rings from time to time as a sender would; see operations.md.")
        let phoneFile = table.string(
            "phone_file", expected: "a file",
            "File with the phone's pairing token. Mode 600. If not set, no phone is rung")
        app = table.string(
            "app", expected: "an app's name", "Name of the phone's app. If not set: the first app")
        interval = table.integer(
            "every", in: 10...86_400, default: 3600,
            "Average seconds between two notifications; each pause varies by up to 10 %")
        if let app, apps.allSatisfy({ $0.map { $0.name != app } ?? false }) {
            table.note("app", "there is no app named \(app)")
        }
        siteKeyFile = table.file(
            "site_key",
            "File with the key of a `[[site]]`, as which the node rings the phone; see `tocsin site key`. Mode 600")
        guard let phoneFile else { return nil }
        if needsSite, siteKeyFile == nil {
            table.note(
                "phone_file",
                "the node refuses its own notifications, because sites.mode is \"required\": set site_key")
        }
        self.phoneFile = table.paths.absolute(phoneFile)
    }
}
