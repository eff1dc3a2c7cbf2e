// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Delivery
import EventLoop
import NodeConfiguration
import Providers
import Settings
import Time

/// The providers in service, with their credentials.
final class ProviderSet {
    private var current: ProviderAssembly
    private var watch: CredentialWatch
    private var expiryWarnings = ExpiryWarnings()
    private let loop: EventLoop
    private var lastCheck = MonotonicTime.now

    /// Loads the credentials of a configuration.
    /// - Parameter source: where the credentials are.
    /// - Throws: `ConfigurationError`.
    init(_ configuration: Configuration, from source: any CredentialSource, on loop: EventLoop) throws {
        self.loop = loop
        current = try ProviderAssembly(configuration, from: source, on: loop)
        watch = CredentialWatch(current.versions)
    }

    /// Apple's provider tokens by app.
    var tokensByApp: [String: APNsProviderToken] { current.appleTokens.byApp }
    /// Apple's provider tokens by a hash of their key and ids.
    var tokens: [Digest256: APNsProviderToken] { current.appleTokens.byKey }
    var certificates: [ProviderWorkshop.Certificate] { current.certificates }

    /// The providers in the form that the dispatch takes.
    var providers: [Route: any Provider] { current.parts.mapValues(\.provider) }

    /// The routes that upstream nodes serve.
    var upstreamRoutes: Set<Route> { Set(current.parts.filter { $0.value.provider.upstreamKeys != nil }.keys) }

    /// The upstream nodes, sorted by app, those of an app in the order of its configuration.
    var upstreams: [(app: String, node: UpstreamStatus)] {
        var all: [String: [UpstreamStatus]] = [:]
        for (route, part) in current.parts {
            guard let upstream = part.provider as? UpstreamProvider else { continue }
            guard var nodes = all[route.app] else {
                all[route.app] = upstream.status
                continue
            }
            for (index, status) in upstream.status.enumerated() { nodes[index].merge(status) }
            all[route.app] = nodes
        }
        return all.sorted { $0.key < $1.key }.flatMap { app, nodes in nodes.map { (app, $0) } }
    }

    /// The routes in service, sorted.
    var routes: [String] { current.parts.keys.map(\.description).sorted() }

    /// Loads the credentials of a configuration and replaces the providers that change. Changes nothing if it throws.
    /// - Parameter source: where the credentials are.
    /// - Returns: how many routes have a new provider or were removed, and the removed routes.
    /// - Throws: `ConfigurationError`.
    func load(
        _ configuration: Configuration, from source: any CredentialSource
    ) throws -> (changed: Int, removed: [Route]) {
        var new = try ProviderAssembly(
            configuration, from: source, on: loop, tokens: current.appleTokens)
        let removed = current.parts.keys.filter { new.parts[$0] == nil }
        var changed = removed.count
        for (route, part) in new.parts {
            if let old = current.parts[route], old.fingerprint == part.fingerprint {
                new.parts[route] = old
            } else {
                changed += 1
            }
        }
        current = new
        current.appleTokens.useIssuers()
        watch = CredentialWatch(new.versions)
        return (changed, removed)
    }

    /// Whether a credential file has changed; examines the files every ``CredentialWatch/interval``.
    func filesHaveChanged(at now: MonotonicTime) -> Bool {
        guard now - lastCheck >= CredentialWatch.interval else { return false }
        lastCheck = now
        return watch.hasChanged()
    }

    /// Makes ``filesHaveChanged(at:)`` report the change that it has last found again, because the changed files could
    /// not be read.
    func reportChangeAgain() { watch.reportAgain() }

    /// The expiry warnings that are due now.
    func expiryWarnings(at now: Int64) -> [(ProviderWorkshop.Certificate, ExpiryWarnings.Nearness)] {
        certificates.compactMap { certificate in
            expiryWarnings.due(for: certificate.file, end: certificate.notAfter, now: now).map { (certificate, $0) }
        }
    }
}
