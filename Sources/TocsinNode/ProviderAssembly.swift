// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Delivery
import EventLoop
import HTTP2
import NodeConfiguration
import Providers
import Sender
import TNP
import Tor

/// The providers of a configuration. Reads and checks every credential before the node replaces anything.
struct ProviderAssembly {
    /// A provider with a fingerprint of its settings.
    struct Part {
        let provider: any Provider
        /// Equal for providers with the same settings and credentials.
        let fingerprint: Digest256
    }

    /// A client certificate for APNs.
    struct Certificate {
        let app: String
        let file: String
        /// When it expires, Unix time in seconds.
        let notAfter: Int64
    }

    /// Provider tokens by a hash of their key and ids. Apps with the same key share a token, and a reload keeps it.
    typealias Tokens = [Digest256: APNsProviderToken]

    /// The number of concurrent proof-of-work searches per app, so that upstream nodes cannot take all processors or delay
    /// other apps.
    private static let searchesAtATime = 1

    private let configuration: Configuration
    /// Where the credentials are; `nil` after init, so that a key holder which is no longer used ends.
    private var source: (any CredentialSource)?
    let loop: EventLoop
    /// The providers, by the routes that they serve.
    var parts: [Route: Part] = [:]
    /// Apple's provider tokens in use, and those of an earlier assembly.
    private(set) var tokens: Tokens
    private var issuers: [Digest256: any ProviderTokenIssuer] = [:]
    private(set) var tokensByApp: [String: APNsProviderToken] = [:]
    /// The files that were read, each with its version just before it was read.
    private(set) var versions: [String: FileVersion?] = [:]
    private(set) var certificates: [Certificate] = []
    /// - Parameters:
    ///   - source: where the credentials are.
    ///   - tokens: the tokens of an earlier assembly, to be reused.
    /// - Throws: ``ConfigurationError``.
    init(
        _ configuration: Configuration, from source: any CredentialSource, on loop: EventLoop, tokens: Tokens = [:]
    ) throws {
        self.configuration = configuration
        self.source = source
        self.loop = loop
        self.tokens = tokens
        for app in configuration.apps {
            if let (profile, credential) = app.apns {
                let environments = [
                    (Magic.iOS, configuration.services.production), (.iOSDev, configuration.services.development),
                ]
                for (magic, url) in environments {
                    parts[Route(app: app.name, magic: magic)] = try apns(profile, credential, url, of: app)
                }
            }
            if let (profile, file) = app.fcm {
                parts[Route(app: app.name, magic: .android)] = try fcm(profile, file: file, of: app)
            }
            if let web = app.web { parts[Route(app: app.name, magic: .web)] = try webPush(web, of: app) }
            if let upstream = app.upstream { try relay(upstream, of: app) }
        }
        self.source = nil
    }

    /// Uses the issuers of this assembly for tokens of an earlier one: the key's file may have moved.
    func useIssuers() {
        for (identity, issuer) in issuers { tokens[identity]?.issuer = issuer }
    }

    // MARK: Upstream nodes

    /// Adds the upstream of an app, for the platforms for which there is no credential. Each route has a relay of its
    /// own, because a reload may replace one of them.
    private mutating func relay(_ upstream: Configuration.Upstream, of app: Configuration.App) throws {
        let target = Relay.Target(
            nodes: upstream.nodes, socks: upstream.isDirect ? nil : try socksPort(for: "\(app.path).upstream", "node"),
            app: upstream.app,
            format: app.format)
        let secret: SecretBytes
        do {
            secret = try KeyFile.readOrCreate("\(configuration.state)/upstream.key")
        } catch {
            throw problem("node.state", error.description)
        }
        let siteKey: Ed25519.PrivateKey?
        do {
            siteKey = try upstream.siteKeyFile.map { try Ed25519.PrivateKey(keyFile: $0, copies: configuration.copies) }
        } catch {
            throw problem("\(app.path).upstream.site_key", "\(error)")
        }
        var ingredients = Ingredients()
        ingredients.add("\(target)")
        if let siteKey { ingredients.add(Hex.encode(siteKey.publicKey)) }
        let searches = SearchSlots(Self.searchesAtATime)
        for magic in Magic.allCases where parts[Route(app: app.name, magic: magic)] == nil {
            let relay = Relay(target, keys: RelayKeys(secret: secret), siteKey: siteKey, slots: searches, on: loop)
            parts[Route(app: app.name, magic: magic)] = Part(provider: relay, fingerprint: ingredients.fingerprint)
        }
    }

    /// The SOCKS port through which the node reaches onion services.
    /// - Parameters:
    ///   - table: the app's table that needs it.
    ///   - key: the key there.
    private func socksPort(for table: String, _ key: String) throws -> Endpoint {
        if configuration.tor.managed == true {
            guard configuration.tor.hasSOCKSPort else {
                throw problem(table, "needs a restart of the node: its running tor has no SOCKS port")
            }
            return configuration.tor.settings(state: configuration.state).socksSocket
        }
        if case .socks5(let endpoint, _)? = configuration.outboundProxy { return endpoint }
        throw problem(
            "\(table).\(key)",
            "needs tor, and the node has no tor: install tor and set tor.managed = true, or set outbound.proxy = \"socks5://127.0.0.1:9050\" (then connections to Apple and Google use it, too)"
        )
    }

    // MARK: Apple

    private mutating func apns(
        _ profile: APNsProfile, _ credential: Configuration.APNsCredential, _ url: ServiceURL, of app: Configuration.App
    ) throws -> Part {
        let services = configuration.services
        var ingredients = Ingredients()
        ingredients.add(
            "\(profile) \(url) \(services.apnsConnections) \(String(describing: configuration.outboundProxy))")
        let (token, identity) = try apnsCredential(credential, of: app, &ingredients)
        tokensByApp[app.name] = token
        let context = try tls(
            trustFile: services.apnsTrustFile, key: "apns.trust_file", &ingredients, identity: identity,
            identityKey: "\(app.path).apns.certificate_file")
        let provider = APNsProvider(
            APNsRequestBuilder(profile, authority: url.authority), token: token,
            upstream: upstream(url, context, services.apnsConnections, startsWithOneRequest: token != nil))
        return Part(provider: provider, fingerprint: ingredients.fingerprint)
    }

    private mutating func apnsCredential(
        _ credential: Configuration.APNsCredential, of app: Configuration.App, _ ingredients: inout Ingredients
    ) throws -> (APNsProviderToken?, CertifiedKey?) {
        let key =
            switch credential {
            case .token: "key_file"
            case .certificate: "certificate_file"
            }
        let reference = Credential.Reference.apple(credential)
        switch try load(reference, for: "\(app.path).apns.\(key)", &ingredients) {
        case .appleKey(let issuer): return (token(issuer, &ingredients), nil)
        case .appleCertificate(let identity, let facts):
            // An expired certificate only causes a warning, and Apple rejects it: the other apps keep working.
            certificates.append(
                Certificate(app: app.name, file: reference.files[0], notAfter: facts.notAfter))
            return (nil, identity)
        case .google: preconditionFailure("Apple's credentials are keys and certificates")
        }
    }

    /// Records a file's version before it is read, so that any later change is noticed.
    private mutating func note(_ file: String) { versions[file] = FileVersion(of: file) }

    private mutating func load(
        _ reference: Credential.Reference, for key: String, _ ingredients: inout Ingredients
    ) throws -> Credential {
        for file in reference.files { note(file) }
        do {
            guard let source else { preconditionFailure("credentials are loaded in init") }
            let loaded = try source.load(reference)
            ingredients.add(loaded.fingerprint.bytes)
            // The key holder knows a credential by the names of its files.
            ingredients.add("\(reference)")
            return loaded.credential
        } catch {
            throw problem(key, "\(error.file): \(error.text)")
        }
    }

    private mutating func token(
        _ issuer: any ProviderTokenIssuer, _ ingredients: inout Ingredients
    ) -> APNsProviderToken {
        let key = issuer.publicKey
        ingredients.add("\(key.keyID) \(key.teamID)")
        issuers[key.identity] = issuer
        if let token = tokens[key.identity] { return token }
        let keeping = ProviderTokenFile(path: "\(configuration.state)/apns-\(key.teamID)-\(key.keyID).token")
        let token = APNsProviderToken(issuer, keeping: keeping)
        tokens[key.identity] = token
        return token
    }

    // MARK: Google

    private mutating func fcm(_ profile: FCMProfile, file: String, of app: Configuration.App) throws -> Part {
        let key = "\(app.path).fcm.service_account_file"
        let services = configuration.services
        var ingredients = Ingredients()
        ingredients.add(
            "\(profile) \(services.fcm) \(services.fcmConnections) \(String(describing: configuration.outboundProxy))")
        guard case .google(let account, let tokenURL) = try load(.google(file: file), for: key, &ingredients) else {
            preconditionFailure("Google's credential is a service account")
        }
        let context = try tls(trustFile: services.fcmTrustFile, key: "fcm.trust_file", &ingredients)
        let provider = FCMProvider(
            FCMRequestBuilder(profile, authority: services.fcm.authority, projectID: account.publicAccount.projectID),
            token: FCMAccessToken(
                account, authority: tokenURL.authority, path: tokenURL.path,
                upstream: upstream(tokenURL, context, 1...1)),
            upstream: upstream(services.fcm, context, services.fcmConnections))
        return Part(provider: provider, fingerprint: ingredients.fingerprint)
    }

    // MARK: Web Push

    private mutating func webPush(_ web: Configuration.Web, of app: Configuration.App) throws -> Part {
        let path = "\(app.path).web"
        var ingredients = Ingredients()
        // Sets have no order.
        let policy = web.policy
        ingredients.add(
            "\(policy.servers) \(policy.ports.sorted()) \(policy.localServers.sorted()) \(policy.queryServers)")
        ingredients.add(
            "\(web.contact) \(web.notice) \(web.usesTor) \(String(describing: configuration.outboundProxy))")
        let keyFile = web.keyFile(in: configuration.state)
        let key: VAPIDKey
        do {
            // A file that is made only after its version was noted would count as changed.
            if FileVersion(of: keyFile) == nil { _ = try VAPIDKey(readingOrCreating: keyFile, subject: web.contact) }
            note(keyFile)
            key = try VAPIDKey(readingOrCreating: keyFile, subject: web.contact, copies: configuration.copies)
        } catch {
            throw problem("\(path).key_file", "\(error)")
        }
        ingredients.add(key.publicKey)
        var authorities: [UInt8]?
        if let file = web.trustFile {
            note(file)
            authorities = try ConfiguredFile.read(file, for: "\(path).trust_file", of: configuration)
        }
        ingredients.add(authorities ?? [])
        let socks = web.needsTor ? try socksPort(for: path, web.usesTor ? "tor" : "servers") : nil
        ingredients.add("\(String(describing: socks))")
        let tls: WebPushProvider.TLS
        do {
            tls = try WebPushProvider.TLS(authorities: authorities)
        } catch let error as TLSContext.SetupError {
            throw problem("\(path).trust_file", error.description)
        }
        let proxy = web.usesTor ? socks.map { Proxy.socks5($0, nil) } : configuration.outboundProxy
        let provider = WebPushProvider(
            key, policy: web.policy, notice: web.notice, tls: tls,
            paths: WebPushProvider.Paths(proxy: proxy, socks: socks), on: loop)
        return Part(provider: provider, fingerprint: ingredients.fingerprint)
    }

    // MARK: Both

    private mutating func tls(
        trustFile: String?, key: String, _ ingredients: inout Ingredients, identity: CertifiedKey? = nil,
        identityKey: String = ""
    ) throws -> TLSContext {
        var authorities: [UInt8]?
        if let trustFile {
            note(trustFile)
            authorities = try ConfiguredFile.read(trustFile, for: key, of: configuration)
        }
        ingredients.add(authorities ?? [])
        do {
            return try TLSContext.client(extraAuthorities: authorities, identity: identity, applicationProtocol: "h2")
        } catch let error as TLSContext.SetupError {
            throw problem(identity == nil ? key : identityKey, error.description)
        }
    }

    private func upstream(
        _ url: ServiceURL, _ context: TLSContext, _ connections: ClosedRange<Int>, startsWithOneRequest: Bool = false
    ) -> Upstream {
        Upstream(
            Upstream.Target(
                endpoint: url.endpoint, tls: context, proxy: configuration.outboundProxy,
                // A proxy such as tor has circuits to build first.
                dialTimeout: configuration.outboundProxy == nil ? .seconds(10) : .seconds(30), connections: connections,
                startsWithOneRequest: startsWithOneRequest), on: loop)
    }

    private func problem(_ key: String, _ text: String) -> ConfigurationError {
        ConfigurationError(file: configuration.file, key: key, problem: text)
    }
}

/// A hash of the settings and credentials of a provider.
private struct Ingredients {
    private var bytes: [UInt8] = []

    mutating func add(_ part: [UInt8]) { bytes += BLAKE2b.hash256(part).bytes }
    mutating func add(_ part: String) { add(Array(part.utf8)) }

    var fingerprint: Digest256 { BLAKE2b.hash256(bytes) }
}
