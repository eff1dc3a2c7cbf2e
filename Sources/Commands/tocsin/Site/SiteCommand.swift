// SPDX-License-Identifier: Apache-2.0

import Admission
import ArgumentParser
import Console
import Cryptography
import Diagnostics
import Glibc
import NodeConfiguration

struct SiteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "site", abstract: "Manage the senders that the node knows.",
        discussion: """
            A site is a sender that the operator knows, e.g. the back end of an exchange: it has a rate of its own and \
            owes no proof of work. It makes its own key; the node has only the public half. Set sites.mode to open or \
            required to switch sites on.

            EXAMPLES
              tocsin site key desk.key                  on the site's machine: create a key, print its public half
              tocsin site add desk PUBLIC-KEY           on the node's machine
              tocsin site add desk --http               for a desktop that reaches the node over HTTP
              tocsin site list
              tocsin site revoke desk
              tocsin send - --site-key desk.key --node ADDRESS.onion:7077 --title Paid < pairing
            """,
        subcommands: [SiteAddCommand.self, SiteListCommand.self, SiteRevokeCommand.self, SiteKeyCommand.self])
}

struct SiteKeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Create a site's private key, and print its public key.",
        discussion: """
            Run this on the site's machine. The file gets mode 600; senders use it with tocsin send --site-key FILE. If \
            the file exists, the command prints its public key again.

            EXAMPLES
              tocsin site key desk.key
            """)

    @Argument(help: "The file of the private key.", completion: .file())
    var file: String

    func run() throws {
        let key = try failing(with: .configuration) { try Ed25519.PrivateKey(KeyFile.readOrCreate(file)) }
        Terminal.print(String(decoding: Base64.encode(key.publicKey), as: UTF8.self))
    }
}

struct SiteAddCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Add a site to the configuration.",
        discussion: """
            EXAMPLES
              tocsin site add desk PUBLIC-KEY
              tocsin site add desk --http
              tocsin site add desk PUBLIC-KEY --right send
            """)

    @Argument(help: "A name for the site: letters, digits, - and _.")
    var name: String

    @Argument(help: "The site's public key, as tocsin site key prints it.")
    var key: String?

    @Flag(help: "Make a secret path for the HTTP endpoint, and print it once.")
    var http = false

    @Option(name: .customLong("right"), help: "What the site may do: send, register. Repeat it. Default: both.")
    var rights: [Site.Right] = []

    @OptionGroup var options: ConfigurationOption

    private static let secretLength = 24

    func validate() throws {
        guard key != nil || http else { throw ValidationError("give the site's public key, --http or both") }
    }

    func run() throws {
        var file = try EditedConfiguration(options)
        let publicKey = key.flatMap { Base64.decode(Array($0.utf8)) }
        guard key == nil || publicKey?.count == Ed25519.publicKeyLength else {
            throw fail("this is not a public key: tocsin site key FILE prints one, 44 characters of Base64", .usage)
        }
        guard !file.configuration.sites.contains(where: { $0.name == name }) else {
            throw fail("there is a site \(name) already: revoke it first", .usage)
        }
        let secret = http ? Base64.encodeURLSafe(SecureRandom.bytes(Self.secretLength)) : nil
        file.tables.add(name, key: publicKey, pathHash: secret.map(Site.pathHash(of:)), rights: rights)
        try file.write { $0.contains { $0.name == name } }
        let ways = [key.map { _ in "TNP" }, secret.map { _ in "HTTP" }].compactMap(\.self).joined(separator: " and ")
        Terminal.error("added: the site \(name), which may use \(ways), to \(file.configuration.file)")
        if let secret {
            Terminal.print("\(Site.pathPrefix)\(name).\(String(decoding: secret, as: UTF8.self))")
            Terminal.error(
                """
                The line above is secret and is not kept. The site appends it to the node's address in its settings: \
                http://ADDRESS.onion/s/…
                """)
        }
        if file.configuration.siteMode == .off {
            Terminal.error(
                "sites.mode is off, so the node treats the site like all other senders: set it to open or required")
        }
        file.adviseReload()
    }
}

struct SiteListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the sites, one per line.",
        discussion: """
            EXAMPLES
              tocsin site list
              tocsin site list --json
            """)

    @OptionGroup var output: JSONOption
    @OptionGroup var options: ConfigurationOption

    private struct Listed: Encodable {
        struct Site: Encodable {
            let name: String
            let tnp: Bool
            let http: Bool
            let rights: [String]
            let perMinute: Int
            let burst: Int
        }

        let mode: String
        let sites: [Site]
    }

    func run() throws {
        let configuration = try options.load()
        guard !output.json else {
            let sites = configuration.sites.map { site in
                Listed.Site(
                    name: site.name, tnp: site.key != nil, http: site.pathHash != nil,
                    rights: site.rights.map(\.rawValue), perMinute: Int(site.rate.perMinute),
                    burst: Int(site.rate.burst))
            }
            return JSONOption.print(Listed(mode: configuration.siteMode.rawValue, sites: sites))
        }
        for site in configuration.sites {
            let ways = [site.key.map { _ in "TNP" }, site.pathHash.map { _ in "HTTP" }].compactMap(\.self)
            Terminal.print(
                """
                \(site.name)  \(ways.joined(separator: ", "))  \(site.rights.map(\.rawValue).joined(separator: ", "))  \
                \(Int(site.rate.perMinute)) per minute
                """)
        }
        if configuration.sites.isEmpty { Terminal.error("there are no sites: tocsin site add NAME KEY adds one") }
        if configuration.siteMode == .off, !configuration.sites.isEmpty {
            Terminal.error("sites.mode is off: the node treats sites like all other senders")
        }
    }
}

struct SiteRevokeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Remove a site from the configuration.",
        discussion: """
            EXAMPLES
              tocsin site revoke desk
            """)

    @Argument(help: "The name of the site.")
    var name: String

    @OptionGroup var options: ConfigurationOption

    func run() throws {
        var file = try EditedConfiguration(options)
        guard file.configuration.sites.contains(where: { $0.name == name }) else {
            throw fail("there is no site \(name): tocsin site list shows all", .usage)
        }
        guard file.tables.remove(name) else {
            throw fail(
                "cannot find the table of \(name) in \(file.configuration.file): remove it with an editor",
                .configuration)
        }
        try file.write { !$0.contains { $0.name == name } }
        Terminal.error("removed: the site \(name), from \(file.configuration.file)")
        file.adviseReload()
    }
}

/// A configuration whose tables `[[site]]` a command changes.
private struct EditedConfiguration {
    let configuration: Configuration
    var tables: SiteTables

    private static let maximumFile = 1 << 20

    /// Reads the configuration and its text.
    /// - Throws: the exit code, after printing the error.
    init(_ options: ConfigurationOption) throws {
        configuration = try options.load()
        let file = configuration.file
        tables = SiteTables(
            try failing(with: .configuration) { () throws(RegularFile.Failure) in
                String(decoding: try RegularFile.read(file, atMost: Self.maximumFile), as: UTF8.self)
            })
    }

    /// Writes the file, with the mode and owner that it had.
    /// - Parameter isChanged: whether the sites in the new text are those that the command intends.
    /// - Throws: the exit code, after printing the error. In this case, the file is unchanged.
    func write(_ isChanged: ([Site]) -> Bool) throws {
        let sites = try failing(with: .configuration) {
            try Configuration(text: tables.text, file: configuration.file).sites
        }
        guard isChanged(sites) else {
            throw fail("cannot change \(configuration.file): change its tables [[site]] with an editor", .configuration)
        }
        // Replaces the file that a link leads to, not the link.
        let path = realpath(configuration.file, nil)
        defer { free(path) }
        var status = stat()
        guard let path, stat(path, &status) == 0 else {
            throw fail("cannot read \(configuration.file): \(String(cString: strerror(errno)))", .configuration)
        }
        let error = DraftFile.write(
            Array(tables.text.utf8).span.bytes, to: String(cString: path), mode: status.st_mode & 0o777,
            owner: (status.st_uid, status.st_gid), replacing: true, isDurable: true)
        guard error == 0 else {
            throw fail("cannot write \(configuration.file): \(String(cString: strerror(error)))", .configuration)
        }
    }

    /// Tells how to apply the change, if a node may be running.
    func adviseReload() {
        switch LockState(ofStateAt: configuration.state) {
        case .held(let pid?):
            Terminal.error("To apply the change, reload the node: kill -HUP \(pid), or systemctl reload tocsin")
        case .held, .unknown: Terminal.error("To apply the change, reload the node: systemctl reload tocsin")
        case .free: break
        }
    }
}

extension Site.Right: ExpressibleByArgument {}
