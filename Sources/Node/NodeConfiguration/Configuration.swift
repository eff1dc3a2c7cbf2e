// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Delivery
import EventLoop
import Glibc
import Logging
import Providers
import Settings
import TNP
import TOMLKit
import Tor

/// The validated configuration of a node: the contents of `tocsin.toml` with defaults filled in and paths made absolute.
package struct Configuration: Sendable {
    /// The format of log lines.
    package enum LogFormat: String, CaseIterable, Sendable {
        case text, json
    }

    /// How the node's processes treat system calls and files that they do not need.
    package enum Sandbox: String, CaseIterable, Sendable {
        /// They are refused, and an alarm is raised.
        case on
        /// They are allowed.
        case off
        /// A refused system call ends the process; for tests.
        case kill
    }

    /// Maximum number of apps: WELCOME lists at most 255 routes, and an app has up to four.
    static let maximumApps = 63

    /// The file from which the configuration was read.
    package var file: String
    /// The state directory.
    package var state: String
    /// What the operator calls the node, for the dashboard and the status; `nil` if it has no name.
    package var name: String?
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
    /// Whether the file leaves `tor.managed` unset.
    package let isTorUndecided: Bool
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
    /// `[handles]`; `nil` if the node keeps none.
    package var handles: Handles?
    /// `[cluster]`; `nil` if the node shares nothing with others.
    package var cluster: Cluster?
    /// `[canary]`; `nil` if it is not set.
    package var canary: Canary?
    /// The proxy for connections to push services; `nil` if they are direct.
    package var outboundProxy: Proxy?
    /// Copies of the files that the configuration names; `nil` to read the files themselves.
    package var copies: FileCopies?
    /// The environment variables that replace values of the file.
    package let environmentVariables: [String]

    /// Reads and validates a configuration file.
    /// - Parameters:
    ///   - copies: used in place of the file itself, and of the files that it names.
    ///   - state: a state directory in place of that of the file.
    ///   - environment: looks up an environment variable; see `EnvironmentKeys`.
    /// - Throws: ``ConfigurationError``, which names the file, the key and the expected value.
    package init(
        file: String, copies: FileCopies? = nil, state: String? = nil,
        environment: (String) -> String? = { getenv($0).map { String(cString: $0) } }
    ) throws {
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
        try self.init(
            text: text, file: file, catalogue: nil, state: state, environment: EnvironmentKeys(environment))
        self.copies = copies
    }

    /// Validates the text of a configuration; relative paths are relative to the directory of `file`.
    /// - Throws: ``ConfigurationError``.
    package init(text: String, file: String) throws { try self.init(text: text, file: file, catalogue: nil) }

    /// All tables and keys, in the order in which the decoder reads them.
    package static var reference: [ConfigurationTable] {
        let catalogue = KeyCatalogue()
        // The decoder reads the keys of an app only if there is one.
        let deliveries = DeliveryKinds.all.map { "[app.\($0.table)]\n\($0.requiredKeys)" }.joined(separator: "\n")
        let text = """
            [[app]]
            name = "x"
            \(deliveries)
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

    private init(
        text: String, file: String, catalogue: KeyCatalogue?, state override: String? = nil,
        environment: EnvironmentKeys = EnvironmentKeys()
    ) throws {
        // The parser would take the first zero byte for the end of the text.
        guard !text.utf8.contains(0) else { throw ConfigurationError(file: file, problem: "has a byte of value 0") }
        if let line = TableHeaders.firstUnnamed(in: text) {
            throw ConfigurationError(
                file: "\(file):\(line)", problem: "expected a table name of letters, digits, - and _ after [")
        }
        let root: TableReader
        do {
            root = try TableReader(text: text, file: file, catalogue: catalogue, environment: environment)
        } catch let error as TOMLParseError {
            let line =
                text.split(separator: "\n", omittingEmptySubsequences: false)
                .dropFirst(Int(error.source.begin.line) - 1).first ?? ""
            throw ConfigurationError(
                file: "\(file):\(error.source.begin.line):\(error.source.begin.column)",
                problem: SyntaxAdvice.sentence(for: line).map { "\($0) (\(error.oneLine))" } ?? error.oneLine)
        }
        self.file = file
        environmentVariables = environment.variables

        let node = root.table("node", "General settings.")
        let named = root.paths.absolute(
            node.string(
                "state", expected: "a directory", default: "state",
                "Directory for Apple's provider tokens, the standing of device tokens, the spool and tor; created with mode 0700"
            ))
        let state = override ?? named
        self.state = state
        name = node.string(
            "name", expected: "a name", "Name of the node, for the dashboard and `tocsin status`: at most 64 characters"
        )
        if let name, !(1...64).contains(name.count) { node.note("name", "must have 1 to 64 characters") }
        logLevel = node.choice("log", default: Logger.Level.info, "Minimum level of log messages")
        logFormat = node.choice(
            "log_format", default: LogFormat.text, "Format of the log on standard error: for people or for programs")
        hasKeyHolder = node.boolean(
            "key_holder", default: true,
            "Keep the private keys of the apps in a process of their own; see threat-model.md")
        sandbox = node.choice(
            "sandbox", default: Sandbox.on,
            "Confine the node's processes to the files and system calls that they need: `on`; `off`, if that keeps the node from working; `kill`, for tests, ends a process that makes another system call"
        )

        listen = Listen(root)
        tor = Tor(root, http: listen.http)
        isTorUndecided = tor.managed == nil
        let limits = root.table(
            "limits",
            "Limits; see admission.md. A rate has two keys: the burst and the sustained rate per minute.")
        self.limits = Limits(limits)
        admission = AdmissionSettings(limits, of: root, hasHTTP: listen.servesHTTP)
        siteMode = root.table("sites", "Senders that the operator knows, `[[site]]`.").choice(
            "mode", default: SiteMode.off,
            "`off`: site keys are not taken. `open`: sites have rates of their own and owe no proof of work; others are served as usual. `required`: only sites are served"
        )
        sites = Site.sites(root)
        spool = Spool(root, state: state)
        let appsRead = Self.apps(root)
        apps = appsRead.compactMap(\.self)
        outboundProxy = Self.outboundProxy(root)
        handles = Handles(root)
        cluster = root.attempt { try Self.cluster(root) } ?? nil
        canary = Canary(root, apps: appsRead, needsSite: siteMode == .required)

        root.finish()
        if let error = root.error { throw error }
        if siteMode != .off {
            admission.sites = Dictionary(uniqueKeysWithValues: sites.map { ($0.number, $0.rate) })
        }
        tor.hasSOCKSPort = canary != nil || apps.contains { $0.deliveries.contains(where: \.needsTor) }
    }

    /// Decides whether the node runs its own tor, if the file does not set `tor.managed`: it does if tor is installed and
    /// no onion of another tor is configured.
    /// - Parameter path: the environment's `PATH`.
    package mutating func decideTor(path: String?) {
        decideTor(tor.onionDirectory == nil && TorSettings.isInstalled(tor.binary, path: path))
    }

    /// Sets `tor.managed` to this default, if the file does not set it. If the node runs its own tor, also sets the
    /// endpoints of ``listen`` for that tor.
    package mutating func decideTor(_ standard: Bool) {
        let managed = tor.managed ?? standard
        tor.managed = managed
        if managed { listen.serveOwnTor(in: tor.settings(state: state).senderSocketDirectory(state: state)) }
    }
}

extension TOMLParseError {
    /// The parser's error on one line: it quotes the file's text, line ends included.
    fileprivate var oneLine: String {
        description.split(whereSeparator: { $0.isNewline }).joined(separator: " ").replacing(
            "' '", with: "the line's end")
    }
}
