// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Providers
import TNP
import Tor

extension Configuration {
    /// The credential with which the node authenticates to APNs.
    package enum APNsCredential: Hashable, Codable, Sendable {
        case token(keyFile: String, keyID: String, teamID: String)
        case certificate(file: String, passwordFile: String?)
    }

    /// `[app.upstream]`
    package struct Upstream: Sendable, Equatable {
        /// The addresses of the upstream nodes; the preferred one first.
        package var nodes: [Endpoint]
        /// The app's name there; `nil` for the name that the senders use.
        package var app: String?
        /// Whether the nodes are reached without tor.
        package var isDirect: Bool
        /// The file with the private key by which this node is a site of the upstream nodes; `nil` if it is none.
        package var siteKeyFile: String?
        /// The message magics of the app, by which the HTTP endpoint recognises its notifications.
        package var appleMagic, googleMagic: String
    }

    /// `[[app]]`
    package struct App: Sendable {
        /// The name that senders use for the app.
        package var name: String
        /// The payload format of the app.
        package var format: EnvelopeFormat
        /// The app on iPhones; `nil` without `[app.apns]`.
        package var apns: (profile: APNsProfile, credential: APNsCredential)?
        /// The app on Android phones; `nil` without `[app.fcm]`.
        package var fcm: (profile: FCMProfile, serviceAccountFile: String)?
        /// The app on phones and browsers with Web Push; `nil` without `[app.web]`.
        package var web: Web?
        /// The nodes that deliver on the platforms for which this node has no credential; `nil` without `[app.upstream]`.
        package var upstream: Upstream?
        /// The name of the table in error messages: `app[1]`.
        package var path: String

        /// Whether the upstream node delivers for this platform, because this node cannot.
        package func isRelayed(_ magic: Magic) -> Bool {
            guard upstream != nil else { return false }
            return switch magic {
            case .iOS, .iOSDev: apns == nil
            case .android: fcm == nil
            case .web: web == nil
            }
        }
    }

    /// Reads an app, with the platforms that deliver its notifications.
    static func app(_ table: TableReader, paths: PathResolver) throws -> App {
        let name = try table.requiredString(
            "name", expected: "the app's name, e.g. \"bisq\"",
            "Name that senders use for the app: at most 64 ASCII characters without spaces and slashes")
        _ = try appName(name, table, "name")
        let format = try table.choice(
            "format", default: EnvelopeFormat.pipe,
            "Payload format of the app: `pipe` is `magic|iv|Base64` (AES-CBC), `sealed` is Base64 of iv and ciphertext (AES-GCM)"
        )
        var app = App(name: name, format: format, path: table.path)
        let apns = try table.table(
            "apns", "The app on iPhones. The node authenticates to APNs with a key (`.p8`) or a certificate (`.p12`).")
        if apns.exists {
            app.apns = (
                APNsProfile(
                    topic: try topic(apns), format: format,
                    messageMagic: try messageMagic(apns, default: "BisqMessageiOS"),
                    alert: try alert(apns), sound: try sound(apns),
                    contentAvailable: try apns.choice(
                        "content_available", default: .request,
                        "Whether the app is woken (`content-available`); `request`: as the sender asks, by default yes"),
                    mutableContent: try apns.choice(
                        "mutable_content", default: .request,
                        "Whether the app's extension decrypts the notification before it is shown (`mutable-content`); `request`: as the sender asks, by default yes"
                    )),
                try credential(apns, paths: paths)
            )
        }
        let fcm = try table.table("fcm", "The app on Android phones.")
        if fcm.exists {
            let file = try fcm.requiredString(
                "service_account_file", expected: "the JSON file from Firebase",
                "Service account with which the node authenticates to FCM. Mode 600")
            let magic = try messageMagic(fcm, default: "BisqMessageAndroid")
            let isDataOnly = try fcm.boolean(
                "data_only", default: false, "Send no notification block: the app shows its own notification")
            let title = try fcm.string(
                "title", default: "Notification", "Title that Android shows until the app has decrypted the envelope")
            let body = try fcm.string(
                "body", default: "New notification", "Text that Android shows until the app has decrypted the envelope")
            app.fcm = (
                FCMProfile(
                    format: format, messageMagic: magic,
                    notification: isDataOnly ? nil : (title: title, body: body),
                    sound: try sound(fcm)),
                paths.absolute(file)
            )
        }
        app.web = try web(table, paths: paths)
        app.upstream = try upstream(table, paths: paths)
        try table.finish()
        guard app.apns != nil || app.fcm != nil || app.web != nil || app.upstream != nil else {
            throw table.problem(
                "name", "the app \(name) has neither [app.apns] nor [app.fcm] nor [app.web] nor [app.upstream]")
        }
        return app
    }

    /// Each device token has a link to each upstream node.
    private static let maximumUpstreamNodes = 8

    private static func upstream(_ app: TableReader, paths: PathResolver) throws -> Upstream? {
        let table = try app.table(
            "upstream",
            "The node that delivers on the platforms for which this node has no credential; see self-hosting-an-app.md."
        )
        guard table.exists else { return nil }
        let expected = "an address like \"ADDRESS.onion:7077\""
        let texts = try table.strings(
            "node", expected: expected, isRequired: true,
            "Onion address and port of the upstream node; of a list (at most \(maximumUpstreamNodes)), the node uses one it is connected to, else the first it can reach"
        )
        guard let texts else { throw table.missing("node", "is missing: it must be \(expected)") }
        guard texts.count <= maximumUpstreamNodes else {
            throw table.problem("node", "lists more than \(maximumUpstreamNodes) nodes")
        }
        let isDirect = try table.boolean(
            "direct", default: false, "Connect without tor: for a node on this machine or on a private link")
        return Upstream(
            nodes: try texts.map { try upstreamNode($0, isDirect: isDirect, table, paths) },
            app: try table.string(
                "app", expected: "the app's name there",
                "Name of the app at the upstream node. If not set: the name that a TNP sender gives, or this `[[app]]`'s `name` for HTTP senders. If the name differs, this node replaces the sender's signature by its own"
            ).map { try appName($0, table, "app") },
            isDirect: isDirect,
            siteKeyFile: try table.string(
                "site_key", expected: "a file",
                "File with a key by which the upstream nodes know this node as a site; see `tocsin site key`. Mode 600"
            ).map(paths.absolute),
            appleMagic: try messageMagic(table, "message_magic_ios", default: "BisqMessageiOS"),
            googleMagic: try messageMagic(table, "message_magic_android", default: "BisqMessageAndroid"))
    }

    private static func upstreamNode(
        _ text: String, isDirect: Bool, _ table: TableReader, _ paths: PathResolver
    ) throws -> Endpoint {
        if isDirect, case .unix(let path)? = Endpoint(text) { return .unix(path: paths.absolute(path)) }
        guard case .tcp(let host, let port)? = Endpoint(text), port > 0 else {
            throw table.problem("node", "must be an address like \"ADDRESS.onion:7077\", not \(text.debugDescription)")
        }
        guard host.lowercased().hasSuffix(".onion") else {
            guard isDirect else {
                throw table.problem(
                    "node",
                    "\(host) is no onion address. If it is this machine or on a private link, set direct = true")
            }
            return .tcp(host: host, port: port)
        }
        guard !isDirect else {
            throw table.problem("direct", "an onion address is reached through tor only: remove direct")
        }
        guard OnionAddress(host) != nil else {
            throw table.problem("node", "\(host) is not a valid onion address: check it for typing errors")
        }
        return .tcp(host: host.lowercased(), port: port)
    }

    private static func appName(_ name: String, _ table: TableReader, _ key: String) throws -> String {
        guard (1...64).contains(name.utf8.count),
            name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else { throw table.problem(key, "must be at most 64 ASCII characters without spaces and slashes") }
        return name
    }

    private static func alert(_ table: TableReader) throws -> APNsProfile.Alert {
        let standard = "New notification"
        let text = try table.string(
            "alert", "Text that the iPhone shows until the app has decrypted the envelope. If not set: \(standard)")
        let key = try table.string("alert_loc_key", "Instead of `alert`: a key of the app's localised strings")
        guard let key else { return .text(text ?? standard) }
        guard text == nil else { throw table.problem("alert_loc_key", "set alert or alert_loc_key, not both") }
        return .localized(key: key)
    }

    private static func sound(_ table: TableReader) throws -> String {
        try table.string(
            "sound", default: "default", "Sound of a notification that is not silent: `default`, or a sound of the app")
    }

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

    /// Reads the text before the first `|` of an app's notifications.
    static func messageMagic(
        _ table: TableReader, _ key: String = "message_magic", default standard: String,
        _ help: String = "Text before the first `|` of the payload of a `pipe` app; letters and digits"
    ) throws -> String {
        let magic = try table.string(key, default: standard, help)
        guard magic.utf8.count <= 64, magic.allSatisfy(\.isASCIILetterOrDigit) else {
            throw table.problem(key, "must be at most 64 ASCII letters and digits")
        }
        return magic
    }

    private static func credential(_ table: TableReader, paths: PathResolver) throws -> APNsCredential {
        let keyFile = try table.string(
            "key_file", expected: "a file", "Key from Apple (`.p8`); requires `key_id` and `team_id`. Mode 600")
        let keyID = try table.string("key_id", "Id of the key: 10 letters and digits")
        let teamID = try table.string("team_id", "Id of the team: 10 letters and digits")
        let certificate = try table.string(
            "certificate_file", expected: "a file",
            "Certificate with its private key (`.p12`), instead of `key_file`, `key_id` and `team_id`. Mode 600")
        let password = try table.string(
            "certificate_password_file", expected: "a file", "Password of the certificate, if it has one. Mode 600")
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
            return .token(keyFile: paths.absolute(keyFile), keyID: key, teamID: team)
        case (nil, let certificate?):
            guard keyID == nil, teamID == nil else {
                throw table.problem(
                    "key_id", "is for key_file only; a certificate_file needs neither key_id nor team_id")
            }
            return .certificate(file: paths.absolute(certificate), passwordFile: password.map(paths.absolute))
        case (_?, _?): throw table.problem("key_file", "set key_file or certificate_file, not both")
        case (nil, nil):
            throw table.missing(
                "key_file", "is missing: set key_file (.p8) with key_id and team_id, or certificate_file (.p12)")
        }
    }
}
