// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Delivery
import EventLoop
import Logging
import TNP
import TOMLKit
import Tor

/// The validated configuration of a node: the contents of `tocsin.toml` with defaults filled in and paths made absolute.
package struct Configuration: Sendable {
    /// The format of log lines.
    package enum LogFormat: String, CaseIterable, Sendable {
        case text, json
    }

    /// What the node does about system calls and files that it does not need.
    package enum Sandbox: String, CaseIterable, Sendable {
        /// They are refused, and an alarm is raised.
        case on
        /// They are allowed.
        case off
        /// A refused system call ends the process; for tests.
        case kill
    }

    /// `[listen]`
    package struct Listen: Sendable, Equatable {
        /// The endpoint for TNP senders, to which tor forwards streams of the onion service.
        package var tnp: Endpoint
        /// The endpoint of the HTTP API for today's desktops; `nil` if it is disabled.
        package var http: Endpoint?
        /// Whether tor writes a PROXY line with the circuit id before each stream.
        package var circuitIDs: Bool
        /// The endpoint of health checks, metrics and the dashboard, on a local address only; `nil` if it is disabled.
        package var admin: Endpoint?
    }

    /// `[tor]`
    package struct Tor: Sendable, Equatable {
        /// Whether the node has its own tor; `nil` if the file does not set it, see ``Configuration/decideTor(path:)``.
        package var managed: Bool?
        /// Who starts the node's own tor.
        package var runner: TorSettings.Runner
        /// The data directory of the node's own tor; `nil` for the default.
        package var directory: String?
        /// The tor program: a path, or a name to look up in `PATH`.
        package var binary: String
        /// The `HiddenServiceDir` of an external tor.
        package var onionDirectory: String?
        /// Whether tor requires proof of work under a flood of introductions.
        package var proofOfWork: Bool
        /// Maximum concurrent streams of one circuit.
        package var maxStreams: Int
        /// The address of an OnionBalance that also leads to the onion.
        package var onionBalance: OnionAddress?
        /// The further onions of the node's own tor.
        package var onions: [TorSettings.Onion] = []
        /// Whether the node's own tor has a SOCKS port, for upstream nodes and the canary.
        package var hasSOCKSPort = false

        fileprivate static let program = "tor"

        /// The settings of tor that this table describes.
        /// - Parameter state: the node's state directory.
        package func settings(state: String) -> TorSettings {
            let child = TorSettings.childDirectory(in: state)
            let directory = self.directory ?? (runner == .service ? TorSettings.systemDirectory : child)
            var settings = TorSettings(isManaged: managed ?? false, directory: directory)
            settings.runner = runner
            settings.statusFile = "\(child)/status"
            settings.binary = binary
            settings.externalServiceDirectory = onionDirectory
            settings.enablesProofOfWork = proofOfWork
            settings.maxStreams = UInt16(maxStreams)
            settings.onionBalance = onionBalance
            settings.onions = onions
            settings.hasSOCKSPort = hasSOCKSPort
            return settings
        }
    }

    /// `[limits]`
    package struct Limits: Sendable {
        /// Maximum concurrent connections of senders.
        package var connections: Int
        /// Maximum submissions without a result on one connection.
        package var inFlight: Int
        /// Maximum envelopes without an outcome in the node's memory.
        package var totalInFlight: Int
        /// Maximum `length` of a frame, in bytes.
        package var maximumFrame: Int
        /// Seconds until HELLO must have arrived.
        package var handshakeTimeout: Int
        /// Seconds without a frame and with nothing in flight until a connection is closed.
        package var idleTimeout: Int
        /// Seconds to answer accepted submissions during a graceful shutdown.
        package var shutdownTimeout: Int
        /// Maximum delivery attempts for an envelope that is not in the spool.
        package var attempts: Int
        /// Seconds to try an envelope that is not in the spool before its sender gets RETRY.
        package var patience: Int
        /// Seconds during which a resend gets the final outcome of the first submission.
        package var replayWindow: Int
        /// Maximum outcomes in the replay window.
        package var replayEntries: Int
        /// Maximum connections that have not sent HELLO.
        package var halfOpen: Int
        /// Seconds to receive a frame, from its first byte.
        package var frameTimeout: Int
        /// Seconds a sender may leave its results unread.
        package var readTimeout: Int
        /// Rate limit of frames that carry no submission (PING, PONG and unknown ones) on one connection.
        package var control: Rate
        /// Maximum attempts in flight at one push service.
        package var concurrency: Int
        /// Seconds to receive an HTTP request, from its first byte.
        package var httpRequestTimeout: Int
        /// Seconds to wait for an outcome before the node answers an HTTP request with 503.
        package var httpAnswerTimeout: Int
    }

    /// The limits of delivery.
    package var dispatchLimits: DispatchLimits {
        var dispatch = DispatchLimits()
        dispatch.totalInFlight = limits.totalInFlight
        dispatch.retry = RetryPolicy(attempts: limits.attempts, patience: .seconds(limits.patience))
        dispatch.replaySeconds = limits.replayWindow
        dispatch.replayEntries = limits.replayEntries
        dispatch.maxStored = spool?.maximumEnvelopes ?? 0
        dispatch.concurrency = limits.concurrency
        return dispatch
    }

    /// `[spool]`
    package struct Spool: Sendable, Equatable {
        /// The database file.
        package var file: String
        /// The file of the key that encrypts the database.
        package var keyFile: String
        /// Maximum size of all stored envelopes, in bytes.
        package var maximumBytes: Int
        /// Maximum number of stored envelopes.
        package var maximumEnvelopes: Int
    }

    /// `[handles]`
    package struct Handles: Sendable, Equatable {
        /// Maximum number of handles.
        package var maximum: Int
        /// Days without a delivered notification after which a handle is forgotten.
        package var forgetDays: Int
    }

    /// `[cluster]`
    package struct Cluster: Sendable, Equatable {
        /// The name of the cluster.
        package var name: String
        /// The name of this node; `nil` for the name of the machine.
        package var node: String?
        /// The number of nodes.
        package var nodes: Int
        /// The engine's primary; `nil` if Sentinels know it.
        package var redis: Endpoint?
        /// The Sentinels that know the engine's primary.
        package var sentinels: [Endpoint]
        /// The file of the key that all nodes share.
        package var keyFile: String
        /// The engine's ACL user; `nil` for the default user.
        package var user: String?
        /// The file of the user's password.
        package var passwordFile: String?
        /// Whether connections to the engine use TLS.
        package var usesTLS: Bool
        /// Additional certificate authorities for the engine.
        package var trustFile: String?
    }

    /// `[canary]`
    package struct Canary: Sendable, Equatable {
        /// The file with the pairing token of the operator's phone.
        package var phoneFile: String
        /// The app of the phone; `nil` for the first one.
        package var app: String?
        /// Seconds between two attempts.
        package var interval: Int

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
    }

    /// `[apns]` and `[fcm]`
    package struct PushServices: Sendable {
        /// The production environment of APNs.
        package var production: ServiceURL
        /// The development environment of APNs.
        package var development: ServiceURL
        /// Additional certificate authorities for APNs.
        package var apnsTrustFile: String?
        /// Minimum and maximum number of connections per app and environment.
        package var apnsConnections: ClosedRange<Int>
        /// The endpoint of FCM.
        package var fcm: ServiceURL
        /// Additional certificate authorities for FCM and Google's token endpoint.
        package var fcmTrustFile: String?
        /// Minimum and maximum number of connections per app.
        package var fcmConnections: ClosedRange<Int>
    }

    /// WELCOME lists at most 255 routes, and an app has up to four.
    private static let maximumApps = 63
    /// tor keeps circuits for each onion.
    private static let maximumOnions = 16

    /// The file from which the configuration was read.
    package var file: String
    /// The state directory.
    package var state: String
    /// The minimum level of log messages.
    package var logLevel: Logger.Level
    /// The format of log lines.
    package var logFormat: LogFormat
    /// Whether the keys of Apple and Google are in a process of their own.
    package var hasKeyHolder: Bool
    /// How the node's processes confine themselves.
    package var sandbox: Sandbox
    /// `[listen]`
    package var listen: Listen
    /// `[tor]`
    package var tor: Tor
    /// `[limits]`, except the settings of admission.
    package var limits: Limits
    /// The admission settings of `[limits]`, `[puzzle]` and `[senders]`.
    package var admission: AdmissionSettings
    /// `[spool]`; `nil` if the spool is disabled.
    package var spool: Spool?
    /// Whether known sites have rates of their own, or are the only senders.
    package var siteMode: SiteMode
    /// All `[[site]]` tables, in order.
    package var sites: [Site]
    /// All `[[app]]` tables, in order.
    package var apps: [App]
    /// `[apns]` and `[fcm]`
    package var services: PushServices
    /// `[handles]`; `nil` if the node keeps none.
    package var handles: Handles?
    /// `[cluster]`; `nil` if the node shares nothing with others.
    package var cluster: Cluster?
    /// `[canary]`; `nil` if it is not set.
    package var canary: Canary?
    /// The proxy for connections to Apple and Google; `nil` if they are direct.
    package var outboundProxy: Proxy?
    /// Copies of the files that the configuration names; `nil` to read the files themselves.
    package var copies: FileCopies?

    /// Reads and validates a configuration file.
    /// - Parameters:
    ///   - copies: used in place of the file itself, and of the files that it names.
    ///   - state: a state directory in place of that of the file.
    /// - Throws: ``ConfigurationError``, which names the file, the key and the expected value.
    package init(file: String, copies: FileCopies? = nil, state: String? = nil) throws {
        let bytes: [UInt8]
        do {
            bytes = try ConfiguredFile.read(file, mustBePrivate: false, copies: copies)
        } catch {
            // Without a key, because the command line names this file.
            throw ConfigurationError(file: file, problem: error.text)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            let isUTF16 = bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF])
            throw ConfigurationError(
                file: file,
                problem: isUTF16 ? "is UTF-16 text: save it as UTF-8" : "is not UTF-8 text: save it as UTF-8")
        }
        try self.init(text: text, file: file, catalogue: nil, state: state)
        self.copies = copies
    }

    /// Validates the text of a configuration; relative paths are relative to the directory of `file`.
    /// - Throws: ``ConfigurationError``.
    package init(text: String, file: String) throws { try self.init(text: text, file: file, catalogue: nil) }

    /// All tables and keys, in the order in which the decoder reads them.
    package static var reference: [ConfigurationTable] {
        let catalogue = KeyCatalogue()
        // The decoder reads the keys of an app only if there is one.
        let text = """
            [[app]]
            name = "x"
            [app.apns]
            topic = "x"
            certificate_file = "x"
            [app.fcm]
            service_account_file = "x"
            [app.web]
            contact = "mailto:x@example.org"
            [app.upstream]
            node = "127.0.0.1:7077"
            direct = true
            [[tor.onion]]
            name = "x"
            [[site]]
            name = "x"
            key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
            """
        do {
            _ = try Configuration(text: text, file: "tocsin.toml", catalogue: catalogue)
        } catch {
            preconditionFailure("the configuration for the key reference is invalid: \(error)")
        }
        return catalogue.tables
    }

    private init(text: String, file: String, catalogue: KeyCatalogue?, state override: String? = nil) throws {
        // The parser would take the first one for the end.
        guard !text.utf8.contains(0) else { throw ConfigurationError(file: file, problem: "has a byte of value 0") }
        if let line = TableHeaders.firstUnnamed(in: text) {
            throw ConfigurationError(
                file: "\(file):\(line)", problem: "expected a table name of letters, digits, - and _ after [")
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
                problem: SyntaxAdvice.sentence(for: line).map { "\($0) (\(error.oneLine))" } ?? error.oneLine)
        }
        self.file = file
        let paths = PathResolver(file: file)

        let node = try root.table("node", "General settings.")
        let named = paths.absolute(
            try node.string(
                "state", expected: "a directory", default: "state",
                "Directory for Apple's provider tokens, the standing of device tokens, the spool and tor; created with mode 0700"
            ))
        let state = override ?? named
        self.state = state
        logLevel = try node.choice("log", default: Logger.Level.info, "Minimum level of log messages")
        logFormat = try node.choice(
            "log_format", default: LogFormat.text, "Format of the log on standard error: for people or for programs")
        hasKeyHolder = try node.boolean(
            "key_holder", default: true,
            "Keep the private keys of `[app.apns]` and `[app.fcm]` in a process of their own; see threat-model.md")
        sandbox = try node.choice(
            "sandbox", default: Sandbox.on,
            "Confine the node's processes to the files and system calls that they need: `on`; `off`, if that keeps the node from working; `kill`, for tests, ends a process that makes another system call"
        )

        let listen = try root.table(
            "listen", "Addresses on which the node listens: `HOST:PORT`, or `unix:` and the path of a socket.")
        let isPublicAllowed = try listen.boolean(
            "allow_public", default: false, "Allow `tnp` and `http` on addresses that other machines can reach")
        self.listen = Listen(
            tnp: try Self.endpoint(
                listen, "tnp", isPublicAllowed: isPublicAllowed, paths: paths, default: "127.0.0.1:7077",
                "Endpoint for TNP, to which tor connects")
                ?? .tcp(host: "127.0.0.1", port: 7077),
            http: try Self.endpoint(
                listen, "http", isPublicAllowed: isPublicAllowed, paths: paths,
                "HTTP API for today's desktops, usually `127.0.0.1:7080`; see bisq.md. Disabled if not set"),
            circuitIDs: try listen.boolean(
                "circuit_ids", default: false,
                "Apply limits per circuit; set this if and only if the external tor has `HiddenServiceExportCircuitID haproxy`. Ignored with the node's own tor, which always identifies circuits"
            ),
            admin: try Self.endpoint(
                listen, "admin", isPublicAllowed: nil, paths: paths,
                "Dashboard, metrics and health checks, on a local address only, usually `127.0.0.1:7079`. Disabled if not set"
            ))
        guard self.listen.http != self.listen.tnp || self.listen.tnp.isAnyPort else {
            throw listen.problem("http", "is the same address as listen.tnp; each endpoint needs its own")
        }

        let tor = try root.table("tor", "The onion service; see quickstart.md.")
        self.tor = Tor(
            managed: try tor.flag(
                "managed",
                "Use a tor that serves this node alone. If not set: true if `binary` is installed and `onion_directory` is not set"
            ),
            runner: try tor.choice(
                "run_by", default: TorSettings.Runner.node,
                "Who starts the node's own tor. `service`: systemd, as a user whose keys the node cannot read; for the Debian package, see operations.md"
            ),
            directory: try tor.string(
                "directory", expected: "a directory",
                "Data directory of the node's own tor, with the onions' keys. If not set: `tor` in `node.state`; with `run_by = \"service\"`: `/var/lib/tocsin-tor`"
            ).map(paths.absolute),
            binary: try tor.string(
                "binary", expected: "a program", default: Tor.program,
                "The tor program: a path, or a name to look up in `PATH`"),
            onionDirectory: try tor.string(
                "onion_directory", expected: "a directory",
                "HiddenServiceDir of an external tor (see the example `torrc`), for `tocsin onion` and `tocsin check`"
            ).map(paths.absolute),
            proofOfWork: try tor.boolean(
                "proof_of_work", default: true,
                "Enable tor's defence: it requires proof of work while more clients connect than it can serve"),
            maxStreams: try tor.integer(
                "max_streams", in: 1...65_535, default: 64,
                "Maximum streams per circuit; tor closes a circuit that opens more"))
        guard self.tor.runner == .node || self.tor.binary == Tor.program else {
            throw tor.problem(
                "binary", "has no effect with run_by = \"service\": change it in the unit, systemctl edit tocsin-tor")
        }
        if let text = try tor.string(
            "onionbalance", expected: "an onion address",
            "Address of an OnionBalance that also leads to this node; see cluster.md. With an external tor, set it up there"
        ) {
            guard let address = OnionAddress(text) else {
                throw tor.problem("onionbalance", "must be an onion address of version 3, like \"ADDRESS.onion\"")
            }
            self.tor.onionBalance = address
        }
        self.tor.onions = try Self.onions(tor, http: self.listen.http)

        let limits = try root.table(
            "limits",
            "Limits; see admission.md. A rate has two keys: the burst and the sustained rate per minute.")
        self.limits = Limits(
            connections: try limits.integer(
                "connections", in: 1...100_000, default: 10_000,
                "Maximum connections of senders; with both `listen.tnp` and `listen.http`, a quarter is reserved for each"
            ),
            inFlight: try limits.integer(
                "in_flight", in: 1...10_000, default: 64, "Maximum submissions without a result on one connection"),
            totalInFlight: try limits.integer(
                "total_in_flight", in: 1...1_000_000, default: 10_000,
                "Maximum envelopes in memory without an outcome; a single app on a single platform gets at most half"),
            maximumFrame: try limits.integer(
                "max_frame", in: 4096...65_536, default: Frame.defaultMaximumLength,
                "Maximum length of a TNP frame, in bytes"),
            handshakeTimeout: try limits.integer(
                "handshake_timeout", in: 1...600, default: 30, "Seconds until HELLO must have arrived"),
            idleTimeout: try limits.integer(
                "idle_timeout", in: 1...86_400, default: 600,
                "Seconds until a connection that sends nothing and has nothing in flight is closed"),
            shutdownTimeout: try limits.integer(
                "shutdown_timeout", in: 1...600, default: 30,
                "Seconds to answer accepted submissions during a graceful shutdown"),
            attempts: try limits.integer(
                "attempts", in: 1...100, default: 5,
                "Maximum delivery attempts for an envelope that is not in the spool"),
            patience: try limits.integer(
                "patience", in: 0...600, default: 20,
                "Seconds to try an envelope that is not in the spool before its sender gets RETRY"),
            replayWindow: try limits.integer(
                "replay_window", in: 1...86_400, default: 600,
                "Seconds during which a resent envelope gets its first outcome again and is not delivered again"),
            replayEntries: try limits.integer(
                "replay_entries", in: 1000...10_000_000, default: 200_000,
                "Maximum outcomes in the replay window; while it is full, new envelopes get RETRY"),
            halfOpen: try limits.integer(
                "half_open", in: 1...100_000, default: 1000,
                "Maximum connections that have not sent HELLO; never more than half of all connections"),
            frameTimeout: try limits.integer(
                "frame_timeout", in: 1...600, default: 30, "Seconds to receive a frame, from its first byte"),
            readTimeout: try limits.integer(
                "read_timeout", in: 1...600, default: 60, "Seconds a sender may leave its results unread"),
            control: try limits.rate(
                "control", default: Rate(burst: 60, perMinute: 60),
                "PINGs and other frames without a submission, per connection"),
            concurrency: try limits.integer(
                "concurrency", in: 1...100_000, default: 2000, "Maximum attempts in flight at one push service"),
            httpRequestTimeout: try limits.integer(
                "http_request_timeout", in: 1...24, default: 20,
                "Seconds to receive an HTTP request, from its first byte"),
            httpAnswerTimeout: try limits.integer(
                "http_answer_timeout", in: 1...24, default: 20,
                "Seconds to wait for an outcome before the node answers an HTTP request with 503"))
        admission = try Self.admission(limits, of: root)

        siteMode = try root.table("sites", "Senders that the operator knows, `[[site]]`.").choice(
            "mode", default: SiteMode.off,
            "`off`: site keys are not taken. `open`: sites have rates of their own and owe no proof of work; others are served as usual. `required`: only sites are served"
        )
        sites = try Site.sites(root)
        if siteMode != .off {
            admission.sites = Dictionary(uniqueKeysWithValues: sites.map { ($0.number, $0.rate) })
        }

        let spool = try root.table(
            "spool", "Encrypted storage on disk for envelopes that senders allow to be stored; see delivery.md.")
        let isSpooling = try spool.boolean("enabled", default: false, "Store envelopes on disk")
        let keyFile =
            try spool.string(
                "key_file", expected: "a file",
                "Key that encrypts the spool, created together with it. If not set: `spool.key` in `node.state`. May be on other storage"
            ).map(paths.absolute) ?? "\(state)/spool.key"
        let maximumBytes = try spool.integer(
            "max_bytes", in: 65_536...(1 << 40), default: 256 << 20, "Maximum size of stored envelopes, in bytes")
        let maximumEnvelopes = try spool.integer(
            "max_envelopes", in: 1...10_000_000, default: 200_000,
            "Maximum stored envelopes; each also takes a few hundred bytes of memory")
        if isSpooling {
            self.spool = Spool(
                file: "\(state)/spool.sqlite", keyFile: keyFile, maximumBytes: maximumBytes,
                maximumEnvelopes: maximumEnvelopes)
        }

        apps = []
        let appTables = try root.tables(
            "app",
            "An app. There are 1 to \(Self.maximumApps); the first is the default. Each has at least one of `[app.apns]`, `[app.fcm]`, `[app.web]` and `[app.upstream]`."
        )
        for table in appTables {
            let app = try Self.app(table, paths: paths)
            guard !apps.contains(where: { $0.name == app.name }) else {
                throw table.problem("name", "another app is named \(app.name)")
            }
            apps.append(app)
        }

        let apns = try root.table("apns", "Connections to APNs (Apple), for all apps.")
        let fcm = try root.table("fcm", "Connections to FCM (Google), for all apps.")
        let trust =
            "Certificate authorities, in PEM format, trusted in addition to the system's; for tests with a simulated service"
        services = PushServices(
            production: try Self.url(
                apns, "production", default: "https://api.push.apple.com",
                "APNs for pairing tokens with the magic `iOS`"),
            development: try Self.url(
                apns, "development", default: "https://api.development.push.apple.com",
                "APNs for pairing tokens with the magic `iOSDev`"),
            apnsTrustFile: try apns.string("trust_file", expected: "a file", trust).map(paths.absolute),
            apnsConnections: try Self.connections(apns),
            fcm: try Self.url(
                fcm, "endpoint", default: "https://fcm.googleapis.com",
                "FCM for pairing tokens with the magic `android`"),
            fcmTrustFile: try fcm.string("trust_file", expected: "a file", trust).map(paths.absolute),
            fcmConnections: try Self.connections(fcm))

        let outbound = try root.table("outbound", "Outgoing connections to Apple and Google.")
        let proxy = try outbound.string(
            "proxy", expected: "a URL",
            "`socks5://127.0.0.1:9050` (tor) or `http://127.0.0.1:3128` (HTTP CONNECT); the proxy resolves names. If not set, connections are direct"
        )
        outboundProxy = try proxy.map { text in
            // tor isolates streams with these credentials on separate circuits (IsolateSOCKSAuth). Other proxies may
            // refuse credentials, so they are optional.
            let label = SOCKS5.Credentials(user: "tocsin", password: "outbound", isRequired: false)
            guard let proxy = Proxy(url: text, credentials: label) else {
                throw outbound.problem(
                    "proxy", "must be like socks5://127.0.0.1:9050 or http://127.0.0.1:3128, without a login")
            }
            return proxy
        }

        let handles = try root.table(
            "handles",
            "Handles, which phones register at the node and give to senders in the place of the device token.")
        let keepsHandles = try handles.boolean("enabled", default: false, "Whether phones may register handles")
        let maximumHandles = try handles.integer(
            "max", in: 100...10_000_000, default: 100_000,
            "Maximum number of handles, each with less than 2 KB on disk")
        let handleForgetDays = try handles.integer(
            "forget_days", in: 7...3650, default: 180,
            "Days without a delivered notification after which a handle is forgotten")
        self.handles = keepsHandles ? Handles(maximum: maximumHandles, forgetDays: handleForgetDays) : nil

        cluster = try Self.cluster(root, paths)

        let canary = try root.table(
            "canary",
            "A phone of the operator, which the node rings from time to time as a sender would; see operations.md.")
        let phoneFile = try canary.string(
            "phone_file", expected: "a file",
            "File with the phone's pairing token. Mode 600. If not set, no phone is rung")
        let canaryApp = try canary.string(
            "app", expected: "an app's name", "Name of the phone's app. If not set: the first app")
        let interval = try canary.integer(
            "every", in: 10...86_400, default: 3600,
            "Average seconds between two notifications; each pause varies by up to 10 %")
        if let canaryApp, !apps.contains(where: { $0.name == canaryApp }) {
            throw canary.problem("app", "there is no app named \(canaryApp)")
        }
        self.canary = phoneFile.map { Canary(phoneFile: paths.absolute($0), app: canaryApp, interval: interval) }
        self.tor.hasSOCKSPort =
            self.canary != nil || apps.contains { $0.upstream?.isDirect == false || $0.web?.needsTor == true }

        try root.finish()
        guard apps.count <= Self.maximumApps else {
            throw ConfigurationError(file: file, key: "app", problem: "there are more than \(Self.maximumApps) apps")
        }
        guard !apps.isEmpty else {
            throw ConfigurationError(
                file: file,
                problem:
                    "no app is configured: a node needs at least one [[app]] with [app.apns], [app.fcm], [app.web] or [app.upstream]"
            )
        }
    }

    /// Decides whether the node runs its own tor, if the file does not set `tor.managed`: it does if tor is installed and
    /// no onion of another tor is configured.
    /// - Parameter path: the environment's `PATH`.
    package mutating func decideTor(path: String?) {
        decideTor(tor.onionDirectory == nil && TorSettings.isInstalled(tor.binary, path: path))
    }

    /// Sets `tor.managed` to this default, if the file does not set it.
    package mutating func decideTor(_ standard: Bool) {
        let managed = tor.managed ?? standard
        tor.managed = managed
        // The node's own tor always sends circuit ids.
        if managed { listen.circuitIDs = true }
    }

    private static func cluster(_ root: TableReader, _ paths: PathResolver) throws -> Cluster? {
        let table = try root.table(
            "cluster",
            "Several nodes of one operator that share their state in a Redis or Valkey server; see cluster.md.")
        let redis = try table.string(
            "redis", expected: "an address",
            "Address of the server's primary: `HOST:PORT`, or `unix:` and the path of a socket. If neither this nor `sentinels` is set, the node shares nothing"
        )
        let sentinels = try table.strings(
            "sentinels", expected: "an address", isRequired: false,
            "Addresses of Redis Sentinels, which know the primary by the name of the cluster")
        let name = try table.string(
            "name", expected: "a name", default: "tocsin", "Name of the cluster, the same for all its nodes")
        let node = try table.string(
            "node", expected: "a name",
            "Name of this node, different from those of the others. If not set: the name of the machine")
        let nodes = try table.integer(
            "nodes", in: 2...64, default: 2,
            "Number of nodes. While a node cannot reach the server, it applies this share of the rates that the nodes have together"
        )
        let keyFile = try table.string(
            "key_file", expected: "a file",
            "File with the cluster's key, 32 random bytes, the same for all its nodes. Mode 600")
        let user = try table.string(
            "user", expected: "a name", "User of the server's ACL. If not set: the default user")
        let passwordFile = try table.string(
            "password_file", expected: "a file", "File with the user's password. Mode 600. If not set, none is sent")
        let usesTLS = try table.boolean("tls", default: false, "Whether the server and the Sentinels use TLS")
        let trustFile = try table.string(
            "trust_file", expected: "a file", "File of additional certificate authorities for the server, in PEM form")
        guard redis != nil || sentinels != nil else { return nil }
        guard redis == nil || sentinels == nil else {
            throw table.problem(
                "sentinels", "cannot be set together with cluster.redis: the Sentinels know the primary")
        }
        guard let keyFile else {
            throw table.missing(
                "key_file", "is missing: make one with `head -c 32 /dev/urandom`, mode 600, and copy it to all nodes")
        }
        for (key, value) in [("name", name), ("node", node ?? "x")] where !isClusterName(value) {
            throw table.problem(key, "must be 1 to 64 of the characters a-z, A-Z, 0-9, \".\", \"-\" and \"_\"")
        }
        func endpoint(_ text: String, _ key: String) throws -> Endpoint {
            guard let endpoint = Endpoint(text) else {
                throw table.problem(key, "must be HOST:PORT, [IPV6]:PORT or unix:PATH")
            }
            return endpoint
        }
        return Cluster(
            name: name, node: node, nodes: nodes, redis: try redis.map { try endpoint($0, "redis") },
            sentinels: try (sentinels ?? []).map { try endpoint($0, "sentinels") }, keyFile: paths.absolute(keyFile),
            user: user, passwordFile: passwordFile.map(paths.absolute), usesTLS: usesTLS,
            trustFile: trustFile.map(paths.absolute))
    }

    /// Whether a text can be the name of a cluster, or of a node in one.
    static func isClusterName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                $0 < 0x80
                    && (Character(UnicodeScalar($0)).isLetter || Character(UnicodeScalar($0)).isNumber
                        || "._-".utf8.contains($0))
            }
    }

    private static func admission(_ limits: TableReader, of root: TableReader) throws -> AdmissionSettings {
        var settings = AdmissionSettings()
        settings.device = try limits.rate("device", default: settings.device, "Submissions to one device token")
        settings.circuit = try limits.rate(
            "circuit", default: settings.circuit,
            "Submissions of one circuit, or of one connection if there are no circuit ids")
        settings.app = try limits.rate("app", default: settings.app, "Submissions for one app")
        settings.node = try limits.rate("node", default: settings.node, "All submissions")
        settings.unproven = try limits.rate(
            "unproven", default: settings.unproven,
            "All TNP submissions to device tokens that no push service has accepted yet")
        settings.http = try limits.rate("http", default: settings.http, "All submissions through the HTTP API")
        settings.httpUnproven = try limits.rate(
            "http_unproven", default: settings.httpUnproven,
            "All submissions through the HTTP API to device tokens that no push service has accepted yet")
        settings.abuse = try limits.rate("abuse", default: settings.abuse, "Errors charged to one circuit")
        settings.abuseBlock = try limits.integer(
            "abuse_block", in: 1...86_400, default: settings.abuseBlock,
            "Seconds for which a circuit that exceeds the rate `abuse` is blocked")
        settings.circuits = try limits.integer(
            "circuits", in: 1000...10_000_000, default: settings.circuits, "Maximum known circuits")
        settings.connectionsPerCircuit = try limits.integer(
            "connections_per_circuit", in: 1...10_000, default: settings.connectionsPerCircuit,
            "Maximum connections of one circuit")
        settings.deviceTokens = try limits.integer(
            "device_tokens", in: 1000...100_000_000, default: settings.deviceTokens, "Maximum known device tokens")
        settings.provenDays = try limits.integer(
            "proven_days", in: 1...3650, default: settings.provenDays,
            "Days without use after which an accepted device token counts as not accepted yet")
        settings.deadDays = try limits.integer(
            "dead_days", in: 1...3650, default: settings.deadDays,
            "Days after which the node asks the push service about a dead device token again")

        let puzzle = try root.table("puzzle", "Proof of work required from TNP senders.")
        let efforts = 1...Int(UInt32.max)
        let mode = try puzzle.choice(
            "mode", default: settings.puzzle.mode, "`adaptive`: proof of work is required only under load")
        let least = try puzzle.integer(
            "effort", in: efforts, default: Int(settings.puzzle.minimum),
            "Minimum effort, in hashes; a smaller proof is ignored. The default takes a desktop about 7 ms")
        let most = try puzzle.integer(
            "max_effort", in: efforts, default: max(least, Int(settings.puzzle.maximum)),
            "Maximum effort, in hashes; at least `effort`. The default takes a desktop about 7 s")
        guard least <= most else { throw puzzle.problem("max_effort", "must not be less than puzzle.effort") }
        settings.puzzle = EffortControl.Settings(mode: mode, least: UInt32(least), most: UInt32(most))

        let senders = try root.table("senders", "Sender keys, which sign submissions and bind device tokens.")
        settings.senders = try senders.choice(
            "mode", default: settings.senders,
            "`off`: signatures are ignored. `optional`: trust on first use, the first key that reaches a phone is bound to it. `required`: the same, and unsigned submissions are rejected"
        )
        settings.senderForgetDays = try senders.integer(
            "forget_days", in: 1...3650, default: settings.senderForgetDays,
            "Days without use after which a binding expires")
        settings.senderQuietDays = try senders.integer(
            "quiet_days", in: 0...3650, default: settings.senderQuietDays,
            "A device token that unsigned submissions reached within this number of days is not bound")
        return settings
    }

    private static func onions(_ tor: TableReader, http: Endpoint?) throws -> [TorSettings.Onion] {
        let tables = try tor.tables(
            "onion",
            "A further onion of the node's own tor, e.g. for another kind of desktop, or to keep an old address; at most \(maximumOnions)."
        )
        var onions: [TorSettings.Onion] = []
        for table in tables {
            let text = try table.requiredString(
                "name", expected: "a name", "Name of the onion, for `tocsin onion --name`: letters, digits, - and _")
            guard let name = try? ClientName(text) else {
                throw table.problem("name", "must be 1 to 64 letters, digits, - and _")
            }
            guard !onions.contains(where: { $0.name == name }) else {
                throw table.problem("name", "another onion is named \(name)")
            }
            let ports = try table.ports(
                "ports", default: http == nil ? [7077] : [7077, 80, 8021],
                "Ports of the onion: 7077 leads to `listen.tnp`, any other to `listen.http`. Without `listen.http`: `[7077]` only"
            )
            if http == nil, ports.contains(where: { $0 != 7077 }) {
                throw table.problem("ports", "a port other than 7077 leads to listen.http, which is not set")
            }
            let access = try table.choice(
                "clients", default: OnionAccess.everyone,
                "`everyone`: open until a sender is authorised with `tocsin onion authorize --name`. `authorized`: tor closes the onion at its start if no sender is authorised"
            )
            onions.append(TorSettings.Onion(name: name, ports: ports, isClosed: access == .authorized))
            try table.finish()
        }
        guard onions.count <= maximumOnions else { throw tor.problem("onion", "there are more than \(maximumOnions)") }
        return onions
    }

    /// The values of `tor.onion.clients`.
    private enum OnionAccess: String, CaseIterable {
        case everyone, authorized
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
            guard paths.absolute(path).utf8.count <= Endpoint.maxUnixPathLength else {
                throw table.problem(
                    key, "the path of a unix socket has at most \(Endpoint.maxUnixPathLength) bytes; this one is longer"
                )
            }
        }
        guard endpoint.isLocal || isPublicAllowed == true else {
            let advice =
                isPublicAllowed == nil
                ? "this port has no password. To connect from elsewhere, open a tunnel: ssh -L 7079:127.0.0.1:7079 SERVER"
                : "only tor should connect to the node. To allow it anyway, set allow_public = true"
            throw table.problem(key, "other machines can reach \(endpoint); \(advice)")
        }
        return endpoint
    }

    private static func connections(_ table: TableReader) throws -> ClosedRange<Int> {
        let minimum = try table.integer(
            "connections", in: 1...100, default: 1,
            "Connections per app (for APNs, also per environment), opened when there is work")
        let maximum = try table.integer(
            "max_connections", in: minimum...100, default: max(minimum, 8),
            "Maximum number of these connections: the node opens more when all streams are in use")
        return minimum...maximum
    }

    private static func url(_ table: TableReader, _ key: String, default standard: String, _ help: String) throws
        -> ServiceURL
    {
        guard let url = ServiceURL(try table.string(key, expected: "a URL", default: standard, help)) else {
            throw table.problem(key, "must be an https URL like \"\(standard)\"")
        }
        return url
    }
}

extension Endpoint {
    /// Whether the system chooses the port.
    fileprivate var isAnyPort: Bool { if case .tcp(_, 0) = self { true } else { false } }
}

extension TOMLParseError {
    /// The parser's error; it quotes the text, line ends included.
    fileprivate var oneLine: String {
        description.split(whereSeparator: { $0.isNewline }).joined(separator: " ").replacing(
            "' '", with: "the line's end")
    }
}
