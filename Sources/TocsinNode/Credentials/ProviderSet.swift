// SPDX-License-Identifier: Apache-2.0

import Delivery
import EventLoop
import NodeConfiguration
import Providers
import Time

/// The providers in service, with their credentials.
final class ProviderSet {
    private let loop: EventLoop
    private var parts: [Route: ProviderAssembly.Part] = [:]
    private var tokens: ProviderAssembly.Tokens = [:]
    /// Apple's provider tokens by app.
    private(set) var tokensByApp: [String: APNsProviderToken] = [:]
    private(set) var certificates: [ProviderAssembly.Certificate] = []
    private var watch = CredentialWatch()
    private var expiryWarnings = ExpiryWarnings()
    private var lastCheck = MonotonicTime.now

    init(on loop: EventLoop) { self.loop = loop }

    /// The providers in the form that the dispatch takes.
    var providers: Dispatch.Providers { Dispatch.Providers(parts.mapValues(\.provider)) }

    /// The routes in service, sorted.
    var routes: [String] { parts.keys.map(\.description).sorted() }

    /// Reads the credentials of a configuration and replaces the providers that change. Changes nothing if it throws.
    /// - Returns: how many routes have a new provider or were removed, and the removed routes.
    /// - Throws: `ConfigurationError`.
    func load(_ configuration: Configuration) throws -> (changed: Int, removed: [Route]) {
        var assembly = ProviderAssembly(configuration, on: loop, tokens: tokens)
        var new = try assembly.parts()
        let removed = parts.keys.filter { new[$0] == nil }
        var changed = removed.count
        for (route, part) in new {
            if let old = parts[route], old.fingerprint == part.fingerprint {
                new[route] = old
            } else {
                changed += 1
            }
        }
        parts = new
        tokens = assembly.tokens
        tokensByApp = assembly.tokensByApp
        certificates = assembly.certificates
        watch = CredentialWatch(assembly.versions)
        return (changed, removed)
    }

    /// Whether a credential file has changed; examines the files every ``CredentialWatch/interval``.
    func filesHaveChanged(at now: MonotonicTime) -> Bool {
        guard now - lastCheck >= CredentialWatch.interval else { return false }
        lastCheck = now
        return watch.hasChanged()
    }

    /// The expiry warnings that are due now.
    func expiryWarnings(at now: Int64) -> [(ProviderAssembly.Certificate, ExpiryWarnings.Nearness)] {
        certificates.compactMap { certificate in
            expiryWarnings.due(for: certificate.file, end: certificate.notAfter, now: now).map { (certificate, $0) }
        }
    }
}
