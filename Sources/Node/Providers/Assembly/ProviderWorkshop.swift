// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import HTTP2
import Settings
import TNP

/// Makes providers from settings and credentials. Every credential is read and checked before the node replaces
/// anything.
package struct ProviderWorkshop {
    /// A provider with a fingerprint of its settings and credentials.
    package struct Part {
        package let provider: any Provider
        /// Equal for providers with the same settings and credentials.
        package let fingerprint: Digest256
    }

    /// A client certificate.
    package struct Certificate {
        package let app: String
        package let file: String
        /// When it expires, Unix time in seconds.
        package let notAfter: Int64
    }

    /// What a configuration says about all providers.
    package struct Surroundings {
        /// The name of the configuration file.
        package let file: String
        /// The state directory.
        package let state: String
        /// The proxy to push services; `nil` if the connections are direct.
        package let outboundProxy: Proxy?
        /// Used in place of the files that the configuration names; `nil` to read the files themselves.
        package let copies: FileCopies?
        /// The SOCKS port of a tor, or why there is none.
        package let socksPort: Result<Endpoint, SOCKSProblem>

        package init(
            file: String, state: String, outboundProxy: Proxy?, copies: FileCopies?,
            socksPort: Result<Endpoint, SOCKSProblem>
        ) {
            self.file = file
            self.state = state
            self.outboundProxy = outboundProxy
            self.copies = copies
            self.socksPort = socksPort
        }

        /// The timeout for a connection, including name lookup and TLS; longer through a proxy, because tor builds
        /// circuits first.
        var dialTimeout: Duration { outboundProxy == nil ? .seconds(10) : .seconds(30) }

        /// A server, and how the node connects to it.
        package func destination(_ url: ServiceURL, _ tls: TLSContext) -> Destination {
            Destination(url.endpoint, tls: tls, through: outboundProxy, timeout: dialTimeout)
        }
    }

    /// Why a node has no SOCKS port.
    package enum SOCKSProblem: Error {
        case noTor, runningTorHasNone
    }

    package let surroundings: Surroundings
    package let loop: EventLoop
    private let source: any CredentialSource
    /// Apple's provider tokens.
    package internal(set) var appleTokens: AppleTokens
    /// The files that were read, each with its version just before it was read.
    package private(set) var versions: [String: FileVersion?] = [:]
    package internal(set) var certificates: [Certificate] = []
    /// The authorities, by the PEM certificates that are trusted beside the system's.
    private var authorities: [[UInt8]?: TrustedAuthorities] = [:]

    /// - Parameters:
    ///   - source: where the credentials are.
    ///   - tokens: the tokens of an earlier assembly, to be reused.
    package init(
        _ surroundings: Surroundings, from source: any CredentialSource, on loop: EventLoop, tokens: AppleTokens? = nil
    ) {
        self.surroundings = surroundings
        self.source = source
        self.loop = loop
        appleTokens = AppleTokens(earlier: tokens)
    }

    /// Makes the providers of an app.
    /// - Throws: `ConfigurationError`.
    package mutating func providers(for app: AppIdentity, by deliveries: [any AppDelivery]) throws -> [Magic: Part] {
        var parts: [Magic: Part] = [:]
        for delivery in deliveries.filter({ !$0.isFallback }) + deliveries.filter(\.isFallback) {
            let open = delivery.platforms.filter { parts[$0] == nil }
            for (platform, part) in try delivery.providers(for: app, on: open, in: &self) { parts[platform] = part }
        }
        return parts
    }

    /// Records a file's version before it is read, so that any later change is noticed.
    mutating func note(_ file: String) { versions[file] = FileVersion(of: file) }

    /// The credential, ready for use.
    mutating func load(
        _ use: CredentialUse, of app: AppIdentity, _ ingredients: inout Ingredients
    ) throws -> any Credential {
        for file in use.reference.files { note(file) }
        do {
            let loaded = try source.load(use.reference)
            ingredients.add(loaded.fingerprint.bytes)
            // A provider asks the key holder by this reference: another reference needs another provider.
            ingredients.add(use.reference.canonicalText)
            return loaded.credential
        } catch {
            throw problem("\(app.path).\(use.key)", "\(error.file): \(error.text)")
        }
    }

    /// The system's certificate authorities and those of a file in PEM form, read once for all providers that name it.
    /// - Parameter key: the key of the configuration that names the file.
    mutating func authorities(
        in file: String?, key: String, _ ingredients: inout Ingredients
    ) throws -> TrustedAuthorities {
        var pem: [UInt8]?
        if let file {
            note(file)
            pem = try ConfiguredFile.read(file, for: key, in: surroundings.file, copies: surroundings.copies)
        }
        ingredients.add(pem ?? [])
        if let known = authorities[pem] { return known }
        do {
            let read = try TrustedAuthorities(and: pem)
            authorities[pem] = read
            return read
        } catch {
            throw problem(key, error.description)
        }
    }

    /// The TLS settings for a push service over HTTP/2.
    mutating func tls(
        trustFile: String?, key: String, _ ingredients: inout Ingredients, identity: CertifiedKey? = nil,
        identityKey: String = ""
    ) throws -> TLSContext {
        let authorities = try authorities(in: trustFile, key: key, &ingredients)
        do {
            return try TLSContext.client(authorities: authorities, identity: identity, applicationProtocol: "h2")
        } catch let error as TLSContext.SetupError {
            throw problem(identity == nil ? key : identityKey, error.description)
        }
    }

    func pool(
        _ url: ServiceURL, _ context: TLSContext, _ connections: ClosedRange<Int>, startsWithOneRequest: Bool = false
    ) -> ConnectionPool {
        ConnectionPool(
            surroundings.destination(url, context), connections: connections,
            startsWithOneRequest: startsWithOneRequest, on: loop)
    }

    /// The SOCKS port through which the node reaches onion services.
    /// - Parameters:
    ///   - table: the app's table that needs it.
    ///   - key: the key there.
    func socksPort(for table: String, _ key: String) throws -> Endpoint {
        switch surroundings.socksPort {
        case .success(let endpoint): return endpoint
        case .failure(.runningTorHasNone):
            throw problem(table, "needs a restart of the node: its running tor has no SOCKS port")
        case .failure(.noTor):
            throw problem(
                "\(table).\(key)",
                "needs tor, and the node has no tor: install tor and set tor.managed = true, or set outbound.proxy = \"socks5://127.0.0.1:9050\" (then connections to Apple and Google use it, too)"
            )
        }
    }

    func problem(_ key: String, _ text: String) -> ConfigurationError {
        ConfigurationError(file: surroundings.file, key: key, problem: text)
    }
}

/// A hash of the settings and credentials of a provider.
struct Ingredients {
    private var bytes: [UInt8] = []

    mutating func add(_ part: [UInt8]) { bytes += BLAKE2b.hash256(part).bytes }
    mutating func add(_ part: String) { add(Array(part.utf8)) }

    var fingerprint: Digest256 { BLAKE2b.hash256(bytes) }
}
