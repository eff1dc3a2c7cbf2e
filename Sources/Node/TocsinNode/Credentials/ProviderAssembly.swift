// SPDX-License-Identifier: Apache-2.0

import Delivery
import EventLoop
import NodeConfiguration
import Providers
import Settings

/// The providers of a configuration, and what making them has shown: tokens, files and certificates.
struct ProviderAssembly {
    /// The providers, by the routes that they serve.
    var parts: [Route: ProviderWorkshop.Part] = [:]
    /// Apple's provider tokens in use, and those of an earlier assembly.
    let appleTokens: AppleTokens
    /// The files that were read, each with its version just before it was read.
    let versions: [String: FileVersion?]
    let certificates: [ProviderWorkshop.Certificate]

    /// - Parameters:
    ///   - source: supplies the credentials. Not retained, so that a key holder that is no longer used can end.
    ///   - tokens: the tokens of an earlier assembly, to be reused.
    /// - Throws: `ConfigurationError`.
    init(
        _ configuration: Configuration, from source: any CredentialSource, on loop: EventLoop,
        tokens: AppleTokens? = nil
    ) throws {
        var workshop = ProviderWorkshop(configuration.surroundings, from: source, on: loop, tokens: tokens)
        for app in configuration.apps {
            for (platform, part) in try workshop.providers(for: app.identity, by: app.deliveries) {
                parts[Route(app: app.name, magic: platform)] = part
            }
        }
        appleTokens = workshop.appleTokens
        versions = workshop.versions
        certificates = workshop.certificates
    }
}
