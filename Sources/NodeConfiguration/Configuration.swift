// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import EventLoop
import Glibc
import Logging
import Providers
import TNP
import TOMLKit
import Tor

/// The node's configuration, checked: what `tocsin.toml` says, with every default filled in and every path absolute.
package struct Configuration: Sendable {
    /// How log lines look.
    package enum LogFormat: String, CaseIterable, Sendable {
        case text, json
    }

    /// `[listen]`
    package struct Listen: Sendable, Equatable {
        /// Where senders connect; tor's side of the onion service.
        package var tnp: Endpoint
        /// Where the desktops of today connect, who speak HTTP; nil: nowhere.
        package var http: Endpoint?
        /// Whether tor writes a PROXY line with the circuit's id before each stream.
        package var circuitIDs: Bool
        /// Health, metrics and the dashboard, for this machine alone; nil: nowhere.
        package var admin: Endpoint?
    }

    /// `[tor]`
    package struct Tor: Sendable, Equatable {
        /// Whether the node runs a tor of its own; nil: the file does not say, see ``Configuration/decideTor(path:)``.
        package var managed: Bool?
        /// The program.
        package var binary: String
        /// The `HiddenServiceDir` of a tor that is not the node's own.
        package var onionDirectory: String?
        /// Whether tor asks for work under a flood of introductions.
        package var proofOfWork: Bool
        /// Streams of one circuit.
        package var maxStreams: Int

        /// As the node's tor takes them.
        /// - Parameter state: the node's state directory.
        package func settings(state: String) -> TorSettings {
            var settings = TorSettings(isManaged: managed ?? false, directory: "\(state)/tor")
            settings.binary = binary
            settings.foreignServiceDirectory = onionDirectory
            settings.asksForWork = proofOfWork
            settings.maxStreams = UInt16(maxStreams)
            return settings
        }
    }

    /// `[limits]`
    package struct Limits: Sendable {
        /// Connections of senders at a time.
        package var connections: Int
        /// Submissions without a result on one connection.
        package var inFlight: Int
        /// Envelopes without an outcome in the whole node.
        package var totalInFlight: Int
        /// The largest `length` of a frame in bytes.
        package var maximumFrame: Int
        /// Seconds for HELLO.
        package var handshakeTimeout: Int
        /// Seconds without a frame and with nothing in flight.
        package var idleTimeout: Int
        /// Seconds to answer what was taken when the node is told to stop.
        package var shutdownTimeout: Int
        /// AttemptHistory for an envelope that is not in the spool.
        package var attempts: Int
        /// Seconds that such an envelope is tried before its sender is told RETRY.
        package var patience: Int
        /// Seconds for which a final outcome is repeated to a resend.
        package var replayWindow: Int
        /// Outcomes that are remembered for that.
        package var replayEntries: Int
        /// Connections that have not said HELLO yet.
        package var halfOpen: Int
        /// Seconds in which a frame that has begun must be whole.
        package var frameTimeout: Int
        /// Seconds for which a sender may leave its results unread.
        package var readTimeout: Int
        /// Frames that ask for nothing: PING, PONG and unknown ones, of one connection.
        package var control: Rate
        /// The most attempts that are under way at one push service at a time.
        package var concurrency: Int
        /// Seconds in which an HTTP request that has begun must be whole.
        package var httpRequestTimeout: Int
        /// Seconds in which it is answered.
        package var httpAnswerTimeout: Int
    }

    /// The bounds of delivery.
    package var dispatchLimits: DispatchLimits {
        DispatchLimits(
            totalInFlight: limits.totalInFlight,
            retry: RetryPolicy(attempts: limits.attempts, patience: .seconds(limits.patience)),
            replaySeconds: limits.replayWindow, replayEntries: limits.replayEntries,
            stored: spool?.maximumEnvelopes ?? 0, concurrency: limits.concurrency)
    }

    /// `[spool]`
    package struct Spool: Sendable, Equatable {
        /// The database.
        package var file: String
        package var keyFile: String
        /// The most that all envelopes in it may take, in bytes.
        package var maximumBytes: Int
        /// The most envelopes in it.
        package var maximumEnvelopes: Int
    }

    /// How the node shows Apple who it is.
    package enum APNsCredential: Sendable {
        case token(keyFile: String, keyID: String, teamID: String)
        case certificate(file: String, passwordFile: String?)
    }

    /// `[[app]]`
    package struct App: Sendable {
        package var name: String
        package var format: EnvelopeFormat
        package var apns: (profile: APNsProfile, credential: APNsCredential)?
        package var fcm: (profile: FCMProfile, serviceAccountFile: String)?
        /// The table's name in the file, for errors: `app[1]`.
        package var path: String
    }

    /// `[apns]` and `[fcm]`
    package struct PushServices: Sendable {
        package var production: ServiceURL
        package var development: ServiceURL
        package var apnsTrustFile: String?
        /// Connections for an app and environment, and to how many they may grow.
        package var apnsConnections: ClosedRange<Int>
        package var fcm: ServiceURL
        package var fcmTrustFile: String?
        /// Connections for an app, and to how many they may grow.
        package var fcmConnections: ClosedRange<Int>
    }

    /// WELCOME names at most 255 routes, and an app has up to three.
    private static let maximumApps = 85

    /// The file that it was read from.
    package var file: String
    /// Directory for what the node keeps.
    package var state: String
    package var logLevel: Logger.Level
    package var logFormat: LogFormat
    package var listen: Listen
    package var tor: Tor
    package var limits: Limits
    /// `[limits]`, `[puzzle]` and `[senders]`, as far as they say who is let in.
    package var admission: AdmissionSettings
    /// Nil: nothing is stored.
    package var spool: Spool?
    package var apps: [App]
    package var services: PushServices
    /// Through which Apple and Google are reached, where not directly.
    package var outboundProxy: Proxy?

    /// Reads and checks a configuration file.
    /// - Throws: ``ConfigurationError``, naming file, key and what was expected.
    package init(file: String) throws {
        let bytes = try ConfiguredFile.readConfiguration(file)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ConfigurationError(file: file, problem: "is not UTF-8 text")
        }
        try self.init(text: text, file: file)
    }

    /// Checks the text of a configuration; relative paths are relative to the directory of `file`.
    /// - Throws: ``ConfigurationError``.
    package init(text: String, file: String) throws { try self.init(text: text, file: file, catalogue: nil) }

    /// Every table and key that there is, in the order in which they are read.
    package static var reference: [ConfigurationTable] {
        let catalogue = KeyCatalogue()
        // One app, as only that has the decoder ask for an app's keys.
        let text = """
            [[app]]
            name = "x"
            [app.apns]
            topic = "x"
            certificate_file = "x"
            [app.fcm]
            service_account_file = "x"
            """
        do {
            _ = try Configuration(text: text, file: "tocsin.toml", catalogue: catalogue)
        } catch {
            preconditionFailure("the configuration that describes all keys is wrong: \(error)")
        }
        return catalogue.tables
    }

    private init(text: String, file: String, catalogue: KeyCatalogue?) throws {
        if let line = TableHeaders.nameless(in: text) {
            throw ConfigurationError(
                file: "\(file):\(line)", problem: "a table's name must follow [, in letters, digits, - and _")
        }
        let root: TableReader
        do {
            root = TableReader(try TOMLTable(string: text), file: file, path: "", catalogue: catalogue)
        } catch let error as TOMLParseError {
            let line =
                text.split(separator: "\n", omittingEmptySubsequences: false)
                .dropFirst(Int(error.source.begin.line) - 1).first ?? ""
            throw ConfigurationError(
                file: "\(file):\(error.source.begin.line):\(error.source.begin.column)",
                problem: UnquotedString.hint(on: line).map { "\($0) (\(error.description))" } ?? error.description)
        }
        self.file = file
        let paths = PathResolver(file: file)

        let node = try root.table("node", "The node itself.")
        state = paths.absolute(
            try node.string(
                "state", expected: "a directory", default: "state",
                "Made with mode 0700: Apple's provider tokens, the standing of device tokens, the spool"))
        logLevel = try node.choice("log", default: Logger.Level.info, "How much is logged")
        logFormat = try node.choice(
            "log_format", default: LogFormat.text, "For people or for machines; to standard error")
        try node.finish()

        let listen = try root.table("listen", "Where tor connects.")
        let isPublicAllowed = try listen.boolean(
            "allow_public", default: false, "Addresses that others than this machine reach are not refused")
        self.listen = Listen(
            tnp: try Self.endpoint(
                listen, "tnp", isPublicAllowed: isPublicAllowed, paths: paths, default: "127.0.0.1:7077",
                "For senders that speak TNP; or `unix:/run/tocsin/tnp.sock`")
                ?? .tcp(host: "127.0.0.1", port: 7077),
            http: try Self.endpoint(
                listen, "http", isPublicAllowed: isPublicAllowed, paths: paths,
                "For the desktops of today, usually `127.0.0.1:7080`: see bisq.md. Absent: no such door"),
            circuitIDs: try listen.boolean(
                "circuit_ids", default: false,
                "True with tor's `HiddenServiceExportCircuitID haproxy`, and only then: limits by circuit. The node's own "
                    + "tor does that, and this is not looked at then"),
            admin: try Self.endpoint(
                listen, "admin", isPublicAllowed: nil, paths: paths,
                "Dashboard, metrics, health, for this machine alone: usually `127.0.0.1:7079`. Absent: none"))
        guard self.listen.http != self.listen.tnp || self.listen.tnp.isAnyPort else {
            throw listen.problem("http", "is the address of listen.tnp; each needs its own")
        }
        try listen.finish()

        let tor = try root.table("tor", "The onion service: see quickstart.md.")
        self.tor = Tor(
            managed: try tor.flag(
                "managed",
                "Whether the node runs a tor of its own. Absent: it does where there is one, and no `onion_directory` is named"
            ),
            binary: try tor.string(
                "binary", expected: "a program", default: "tor", "A path, or a name to be found in PATH"),
            onionDirectory: try tor.string(
                "onion_directory", expected: "a directory",
                "The HiddenServiceDir of another tor, e.g. of the `torrc` beside README.md: for `tocsin onion`"
            ).map(paths.absolute),
            proofOfWork: try tor.boolean(
                "proof_of_work", default: true, "tor asks its clients for work while more come than it can serve"),
            maxStreams: try tor.integer(
                "max_streams", in: 1...65_535, default: 64, "Streams of one circuit; one that opens more is closed"))
        try tor.finish()

        let limits = try root.table(
            "limits",
            "What is bounded, and what happens there: see admission.md. A rate is a burst, then so many a minute.")
        self.limits = Limits(
            connections: try limits.integer(
                "connections", in: 1...100_000, default: 10_000,
                "Senders at a time; where both `listen.tnp` and `listen.http` serve, a quarter is kept for each"),
            inFlight: try limits.integer(
                "in_flight", in: 1...10_000, default: 64, "Submissions without a result on one connection"),
            totalInFlight: try limits.integer(
                "total_in_flight", in: 1...1_000_000, default: 10_000,
                "Envelopes without an outcome in the node's memory; of one app and platform alone, half"),
            maximumFrame: try limits.integer(
                "max_frame", in: 4096...65_536, default: Frame.defaultMaximumLength, "Bytes of a frame of TNP"),
            handshakeTimeout: try limits.integer("handshake_timeout", in: 1...600, default: 30, "Seconds for HELLO"),
            idleTimeout: try limits.integer(
                "idle_timeout", in: 1...86_400, default: 600, "Seconds with nothing sent and nothing in flight"),
            shutdownTimeout: try limits.integer(
                "shutdown_timeout", in: 1...600, default: 30, "Seconds to answer what was taken, at the end"),
            attempts: try limits.integer(
                "attempts", in: 1...100, default: 5, "For an envelope that is not in the spool"),
            patience: try limits.integer(
                "patience", in: 0...600, default: 20,
                "Seconds that such an envelope is tried before its sender is told RETRY"),
            replayWindow: try limits.integer(
                "replay_window", in: 1...86_400, default: 600,
                "Seconds in which an envelope sent again gets its outcome again, and rings nobody"),
            replayEntries: try limits.integer(
                "replay_entries", in: 1000...10_000_000, default: 200_000,
                "Outcomes remembered for that; when they are too many, new envelopes wait"),
            halfOpen: try limits.integer(
                "half_open", in: 1...100_000, default: 1000,
                "Connections that have not said HELLO; never more than half of all"),
            frameTimeout: try limits.integer(
                "frame_timeout", in: 1...600, default: 30, "Seconds for a frame that has begun"),
            readTimeout: try limits.integer(
                "read_timeout", in: 1...600, default: 60, "Seconds that a sender may leave its results unread"),
            control: try limits.rate(
                "control", default: Rate(burst: 60, perMinute: 60),
                "PINGs and other frames that bring nothing, of one connection"),
            concurrency: try limits.integer(
                "concurrency", in: 1...100_000, default: 2000, "AttemptHistory under way at one push service, at most"),
            httpRequestTimeout: try limits.integer(
                "http_request_timeout", in: 1...24, default: 20, "Seconds for an HTTP request that has begun"),
            httpAnswerTimeout: try limits.integer(
                "http_answer_timeout", in: 1...24, default: 20, "Seconds in which it is answered"))
        admission = try Self.admission(limits, of: root)
        try limits.finish()

        let spool = try root.table(
            "spool", "What senders allow to be stored waits on disk, sealed: see delivery.md.")
        let isSpooling = try spool.boolean("enabled", default: false, "Whether anything is stored")
        let keyFile =
            try spool.string(
                "key_file", expected: "a file",
                "The key that seals it, made with the spool; default: `spool.key` in `node.state`. May lie on other storage"
            ).map(paths.absolute) ?? "\(state)/spool.key"
        let maximumBytes = try spool.integer("max_bytes", in: 65_536...(1 << 40), default: 256 << 20, "Bytes on disk")
        let maximumEnvelopes = try spool.integer(
            "max_envelopes", in: 1...10_000_000, default: 200_000,
            "Envelopes on disk; each takes some hundred bytes of memory as well")
        if isSpooling {
            self.spool = Spool(
                file: "\(state)/spool.sqlite", keyFile: keyFile, maximumBytes: maximumBytes,
                maximumEnvelopes: maximumEnvelopes)
        }
        try spool.finish()

        apps = []
        let appTables = try root.tables(
            "app",
            "An app: 1 to \(Self.maximumApps) of them, of which the first is the default; each has `[app.apns]`, `[app.fcm]` or both."
        )
        for table in appTables {
            let app = try Self.app(table, paths: paths)
            guard !apps.contains(where: { $0.name == app.name }) else {
                throw table.problem("name", "there is another app of the name \(app.name)")
            }
            apps.append(app)
        }

        let apns = try root.table("apns", "Apple, for all apps.")
        let fcm = try root.table("fcm", "Google, for all apps.")
        let trust = "Authorities trusted beside the system's, in PEM form; for a stand-in"
        services = PushServices(
            production: try Self.url(
                apns, "production", default: "https://api.push.apple.com", "For phones of the magic `iOS`"),
            development: try Self.url(
                apns, "development", default: "https://api.development.push.apple.com", "For phones of `iOSDev`"),
            apnsTrustFile: try apns.string("trust_file", expected: "a file", trust).map(paths.absolute),
            apnsConnections: try Self.connections(apns),
            fcm: try Self.url(fcm, "endpoint", default: "https://fcm.googleapis.com", "For phones of `android`"),
            fcmTrustFile: try fcm.string("trust_file", expected: "a file", trust).map(paths.absolute),
            fcmConnections: try Self.connections(fcm))
        try apns.finish()
        try fcm.finish()

        let outbound = try root.table("outbound", "The way to Apple and Google.")
        let proxy = try outbound.string(
            "proxy", expected: "an address",
            "`socks5://127.0.0.1:9050` (tor), or `http://127.0.0.1:3128` (HTTP CONNECT); names are resolved there. Absent: they are reached directly"
        )
        outboundProxy = try proxy.map { text in
            // tor gives these credentials circuits of their own (IsolateSOCKSAuth); other proxies may not want any.
            let label = SOCKS5.Credentials(user: "tocsin", password: "outbound", isRequired: false)
            guard let proxy = Proxy(url: text, credentials: label) else {
                throw outbound.problem(
                    "proxy", "must be like socks5://127.0.0.1:9050 or http://127.0.0.1:3128, without a login")
            }
            return proxy
        }
        try outbound.finish()

        try root.finish()
        guard apps.count <= Self.maximumApps else {
            throw ConfigurationError(file: file, key: "app", problem: "there are more than \(Self.maximumApps) apps")
        }
        guard !apps.isEmpty else {
            throw ConfigurationError(
                file: file, problem: "there is no app: a node needs at least one [[app]] with [app.apns] or [app.fcm]")
        }
    }

    /// Decides whether the node runs a tor of its own, where the file does not say.
    /// - Parameter path: the environment's `PATH`.
    package mutating func decideTor(path: String?) {
        decideTor(
            TorSettings.isManagedByDefault(
                binary: tor.binary, foreignServiceDirectory: tor.onionDirectory, path: path))
    }

    /// The same, with this decision.
    package mutating func decideTor(_ standard: Bool) {
        let managed = tor.managed ?? standard
        tor.managed = managed
        // It passes on which circuit a stream belongs to.
        if managed { listen.circuitIDs = true }
    }

    private static func admission(_ limits: TableReader, of root: TableReader) throws -> AdmissionSettings {
        var settings = AdmissionSettings()
        settings.device = try limits.rate("device", default: settings.device, "Submissions to one device token")
        settings.circuit = try limits.rate(
            "circuit", default: settings.circuit, "Submissions of one circuit, or connection")
        settings.app = try limits.rate("app", default: settings.app, "Submissions for one app")
        settings.node = try limits.rate("node", default: settings.node, "Submissions in all")
        settings.unproven = try limits.rate(
            "unproven", default: settings.unproven,
            "Submissions to device tokens that no push service has accepted yet, in all")
        settings.http = try limits.rate("http", default: settings.http, "Submissions through the HTTP endpoint")
        settings.httpUnproven = try limits.rate(
            "http_unproven", default: settings.httpUnproven, "Those of them to device tokens not accepted yet")
        settings.abuse = try limits.rate("abuse", default: settings.abuse, "What one circuit may do wrong")
        settings.abuseBlock = try limits.integer(
            "abuse_block", in: 1...86_400, default: settings.abuseBlock,
            "Seconds for which it is then not listened to")
        settings.circuits = try limits.integer(
            "circuits", in: 1000...10_000_000, default: settings.circuits, "Circuits known at a time")
        settings.connectionsPerCircuit = try limits.integer(
            "connections_per_circuit", in: 1...10_000, default: settings.connectionsPerCircuit,
            "Connections of one circuit")
        settings.deviceTokens = try limits.integer(
            "device_tokens", in: 1000...100_000_000, default: settings.deviceTokens, "Device tokens known at a time")
        settings.provenDays = try limits.integer(
            "proven_days", in: 1...3650, default: settings.provenDays,
            "Days without use, then a device token has to be accepted anew")
        settings.deadDays = try limits.integer(
            "dead_days", in: 1...3650, default: settings.deadDays, "Days, then a dead device token is asked about again"
        )

        let puzzle = try root.table("puzzle", "Proof of work, which senders of TNP are asked for.")
        let efforts = 1...Int(UInt32.max)
        let mode = try puzzle.choice("mode", default: settings.puzzle.mode, "`adaptive`: when the node is crowded")
        let least = try puzzle.integer(
            "effort", in: efforts, default: Int(settings.puzzle.least),
            "Hashes: the least that is asked, and that counts; the default is about 7 ms of a desktop")
        let most = try puzzle.integer(
            "max_effort", in: efforts, default: max(least, Int(settings.puzzle.most)),
            "Hashes: the most; about 7 s. Not less than `effort`")
        guard least <= most else { throw puzzle.problem("max_effort", "must not be less than puzzle.effort") }
        settings.puzzle = EffortControl.Settings(mode: mode, least: UInt32(least), most: UInt32(most))
        try puzzle.finish()

        let senders = try root.table("senders", "Keys by which senders sign.")
        settings.senders = try senders.choice(
            "mode", default: settings.senders, "`optional`: the first that rings a phone is the only one that does")
        settings.senderForgetDays = try senders.integer(
            "forget_days", in: 1...3650, default: settings.senderForgetDays,
            "Days without use, then a device token is no longer bound")
        settings.senderQuietDays = try senders.integer(
            "quiet_days", in: 0...3650, default: settings.senderQuietDays,
            "A device token that unsigned submissions have rung within so many days is not bound")
        try senders.finish()
        return settings
    }

    private static func app(_ table: TableReader, paths: PathResolver) throws -> App {
        let name = try table.needed(
            "name", expected: "the app's name, e.g. \"bisq\"", "At most 64 ASCII characters without spaces and slashes")
        guard name.utf8.count <= 64, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }) else {
            throw table.problem("name", "must be at most 64 ASCII characters without spaces and slashes")
        }
        let format = try table.choice(
            "format", default: EnvelopeFormat.pipe,
            "What its phones open: `magic|iv|Base64` (AES-CBC), or Base64 of iv and ciphertext (AES-GCM)")
        var app = App(name: name, format: format, path: "")
        app.path = String(table.name(of: "").dropLast())
        let apns = try table.table(
            "apns", "The app's iPhones. A key (`.p8`) or a certificate (`.p12`) shows Apple who the node is.")
        if apns.exists {
            app.apns = (
                APNsProfile(
                    topic: try topic(apns), format: format,
                    messageMagic: try messageMagic(apns, default: "BisqMessageiOS"),
                    alert: try alert(apns), sound: try sound(apns),
                    contentAvailable: try apns.choice(
                        "content_available", default: .request,
                        "Whether the app is woken; `request`: as the sender wants, and yes where it does not say"),
                    mutableContent: try apns.choice(
                        "mutable_content", default: .request,
                        "Whether the app's extension opens it before it is shown; `request` as above")),
                try credential(apns, paths: paths)
            )
            try apns.finish()
        }
        let fcm = try table.table("fcm", "The app's Android phones.")
        if fcm.exists {
            let file = try fcm.needed(
                "service_account_file", expected: "the JSON file that Firebase gives", "Mode 600")
            let magic = try messageMagic(fcm, default: "BisqMessageAndroid")
            let isDataOnly = try fcm.boolean(
                "data_only", default: false, "No notification block: the app shows its own")
            let title = try fcm.string(
                "title", default: "Notification", "What Android shows before the app has opened the envelope")
            let body = try fcm.string("body", default: "New notification", "The same, below the title")
            app.fcm = (
                FCMProfile(
                    format: format, messageMagic: magic,
                    notification: isDataOnly ? nil : FCMProfile.Notification(title: title, body: body),
                    sound: try sound(fcm)),
                paths.absolute(file)
            )
            try fcm.finish()
        }
        try table.finish()
        guard app.apns != nil || app.fcm != nil else {
            throw table.problem("name", "the app \(name) has neither [app.apns] nor [app.fcm]")
        }
        return app
    }

    private static func alert(_ table: TableReader) throws -> APNsProfile.Alert {
        let standard = "New notification"
        let text = try table.string(
            "alert", "What the phone shows before the app has opened the envelope; default: \(standard)")
        let key = try table.string("alert_loc_key", "Instead of `alert`: a key of the app's own table of strings")
        guard let key else { return .text(text ?? standard) }
        guard text == nil else { throw table.problem("alert_loc_key", "give alert or alert_loc_key, not both") }
        return .localized(key: key)
    }

    private static func sound(_ table: TableReader) throws -> String {
        try table.string("sound", default: "default", "Of those in the app, where a notification is not silent")
    }

    private static func topic(_ table: TableReader) throws -> String {
        let topic = try table.needed("topic", expected: "the app's bundle id", "Letters, digits, dots, hyphens")
        guard topic.utf8.allSatisfy({ isLetterOrDigit($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") })
        else {
            throw table.problem("topic", "must be the app's bundle id: letters, digits, dots and hyphens")
        }
        return topic
    }

    private static func messageMagic(_ table: TableReader, default standard: String) throws -> String {
        let magic = try table.string(
            "message_magic", default: standard, "What the phones of a `pipe` app read before the first `|`")
        guard magic.utf8.count <= 64, magic.utf8.allSatisfy({ isLetterOrDigit($0) }) else {
            throw table.problem("message_magic", "must be at most 64 ASCII letters and digits")
        }
        return magic
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: false
        }
    }

    private static func credential(_ table: TableReader, paths: PathResolver) throws -> APNsCredential {
        let keyFile = try table.string(
            "key_file", expected: "a file", "The key from Apple, `.p8`; with `key_id` and `team_id`. Mode 600")
        let keyID = try table.string("key_id", "Its 10 letters and digits")
        let teamID = try table.string("team_id", "The team's 10 letters and digits")
        let certificate = try table.string(
            "certificate_file", expected: "a file",
            "Instead of the three: the certificate with its key, `.p12`. Mode 600")
        let password = try table.string(
            "certificate_password_file", expected: "a file", "Where it has a password. Mode 600")
        switch (keyFile, certificate) {
        case (let keyFile?, nil):
            guard password == nil else {
                throw table.problem("certificate_password_file", "belongs to certificate_file; a key_file needs none")
            }
            func identifier(_ value: String?, _ key: String) throws -> String {
                guard let value else {
                    throw table.missing(
                        key, "is missing: a key_file needs key_id and team_id, 10 letters and digits each")
                }
                guard value.utf8.count == 10, value.utf8.allSatisfy({ isLetterOrDigit($0) }) else {
                    throw table.problem(key, "must be Apple's identifier of 10 letters and digits")
                }
                return value
            }
            return .token(
                keyFile: paths.absolute(keyFile), keyID: try identifier(keyID, "key_id"),
                teamID: try identifier(teamID, "team_id"))
        case (nil, let certificate?):
            guard keyID == nil, teamID == nil else {
                throw table.problem(
                    "key_id", "belongs to key_file; a certificate_file needs neither key_id nor team_id")
            }
            return .certificate(file: paths.absolute(certificate), passwordFile: password.map(paths.absolute))
        case (_?, _?): throw table.problem("key_file", "give key_file or certificate_file, not both")
        case (nil, nil):
            throw table.missing(
                "key_file", "is missing: give key_file (.p8) with key_id and team_id, or certificate_file (.p12)")
        }
    }

    private static func endpoint(
        _ table: TableReader, _ key: String, isPublicAllowed: Bool?, paths: PathResolver,
        default standard: String? = nil, _ help: String
    ) throws -> Endpoint? {
        let expected = "an address like \"127.0.0.1:7077\""
        let text =
            if let standard { try table.string(key, expected: expected, default: standard, help) as String? } else {
                try table.string(key, expected: expected, help)
            }
        guard let text else { return nil }
        guard var endpoint = Endpoint(text) else {
            throw table.problem(key, "must be an address like \"127.0.0.1:7077\" or \"unix:/run/tocsin/tnp.sock\"")
        }
        if case .unix(let path) = endpoint {
            endpoint = .unix(path: paths.absolute(path))
            guard paths.absolute(path).utf8.count <= Endpoint.longestUnixPath else {
                throw table.problem(key, "is longer than the \(Endpoint.longestUnixPath) bytes of a unix socket's path")
            }
        }
        guard endpoint.isLocal || isPublicAllowed == true else {
            let advice =
                isPublicAllowed == nil
                ? "it has no password. From elsewhere, open a tunnel: ssh -L 7079:127.0.0.1:7079 SERVER"
                : "only tor should reach the node. If you mean it: allow_public = true"
            throw table.problem(key, "\(endpoint) can be reached from outside; \(advice)")
        }
        return endpoint
    }

    private static func connections(_ table: TableReader) throws -> ClosedRange<Int> {
        let minimum = try table.integer(
            "connections", in: 1...100, default: 1, "For each app and environment, opened as soon as there is work")
        let maximum = try table.integer(
            "max_connections", in: minimum...100, default: max(minimum, 8), "Grown to when streams run out")
        return minimum...maximum
    }

    private static func url(_ table: TableReader, _ key: String, default standard: String, _ help: String) throws
        -> ServiceURL
    {
        guard let url = ServiceURL(try table.string(key, expected: "an address", default: standard, help)) else {
            throw table.problem(key, "must be like \"\(standard)\"")
        }
        return url
    }
}

extension Endpoint {
    /// Whether the system is to choose the port.
    fileprivate var isAnyPort: Bool { if case .tcp(_, 0) = self { true } else { false } }
}

/// `https://host[:port][/path]`
package struct ServiceURL: Hashable, Sendable {
    package let host: String
    package let port: UInt16
    /// Empty, or with its leading slash.
    package let path: String

    /// Reads a URL; nil where it is not of the form above.
    package init?(_ text: String) {
        guard text.hasPrefix("https://") else { return nil }
        let rest = text.dropFirst("https://".count)
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = String(rest[..<slash])
        path = String(rest[slash...])
        if case .tcp(let host, let port)? = Endpoint(authority) {
            self.host = host
            self.port = port
        } else if case .tcp(let host, _)? = Endpoint(authority + ":443") {
            self.host = host
            port = 443
        } else {
            return nil
        }
    }

    /// Where to connect.
    package var endpoint: Endpoint { .tcp(host: host, port: port) }
    /// `:authority` of requests.
    package var authority: String { port == 443 ? host : endpoint.description }
}

extension ConfiguredFile {
    /// The configuration itself: named by the person at the command line, so that its absence is explained.
    static func readConfiguration(_ file: String) throws -> [UInt8] {
        do {
            return try read(file, mustBePrivate: false)
        } catch {
            throw ConfigurationError(file: file, problem: error.text)
        }
    }
}

/// Makes the paths of a configuration absolute: they are relative to its own directory.
struct PathResolver {
    private let directory: String

    init(file: String) {
        let directory = file.lastIndex(of: "/").map { String(file[..<$0]) } ?? "."
        guard !file.hasPrefix("/") else {
            self.directory = directory
            return
        }
        // What is started from here may have another working directory.
        let working = getcwd(nil, 0)
        defer { free(working) }
        let start = working.map { String(cString: $0) } ?? "."
        self.directory = directory == "." ? start : "\(start)/\(directory)"
    }

    func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : "\(directory)/\(path)" }
}
