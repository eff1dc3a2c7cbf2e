// SPDX-License-Identifier: Apache-2.0

import HTTP1
import NodeConfiguration
import TNP

/// The configuration of the endpoints for senders.
package struct EndpointRules {
    /// The longest target of an HTTP request, in bytes: it holds the largest notification of `GET /relay` in
    /// hexadecimal, and the other parameters.
    private static let maximumTargetLength = 10_240

    /// The rules of TNP connections.
    package var tnp: IngressSession.Rules
    /// The rules of HTTP connections through tor.
    package let http: HTTPSender.Rules
    /// The rules of HTTP connections without tor.
    package let directHTTP: HTTPSender.Rules
    /// Finds the app of an HTTP request.
    package let resolver: AppResolver
    /// The known sites.
    package let sites: KnownSites

    /// - Parameters:
    ///   - routes: the routes that the node serves, as WELCOME lists them.
    ///   - onion: the onion address and port for TNP of the node's own tor; `nil` until it is known.
    ///   - onions: the node's onions; empty until they are known.
    package init(_ configuration: Configuration, routes: [String], onion: String?, onions: [SignedOnion]) {
        let limits = configuration.limits
        tnp = IngressSession.Rules(
            circuitIDs: configuration.listen.circuitIDs, onion: onion, onions: onions,
            maximumFrame: limits.maximumFrame, maximumInFlight: limits.inFlight,
            handshakeTimeout: .seconds(limits.handshakeTimeout),
            idleTimeout: .seconds(limits.idleTimeout), frameTimeout: .seconds(limits.frameTimeout),
            readTimeout: .seconds(limits.readTimeout), control: limits.control,
            apps: configuration.apps.map { ($0.name, $0.format) }, routes: routes, siteMode: configuration.siteMode,
            keepsHandles: configuration.handles != nil)
        sites = KnownSites(mode: configuration.siteMode, sites: configuration.sites)
        var httpLimits = HTTPLimits.standard
        httpLimits.target = Self.maximumTargetLength
        httpLimits.requestTimeout = .seconds(limits.httpRequestTimeout)
        httpLimits.idleTimeout = .seconds(limits.idleTimeout)
        httpLimits.readTimeout = .seconds(limits.readTimeout)
        httpLimits.firstByteTimeout = .seconds(limits.handshakeTimeout)
        var rules = HTTPSender.Rules(
            circuitIDs: configuration.listen.circuitIDs, http: httpLimits,
            answerTimeout: .seconds(limits.httpAnswerTimeout),
            shutdownAnswerTimeout: .seconds(limits.shutdownTimeout) * 3 / 4,
            keepsHandles: configuration.handles != nil, handleOrigins: configuration.handles?.origins ?? [],
            control: limits.control)
        http = rules
        rules.circuitIDs = false
        directHTTP = rules
        resolver = AppResolver(configuration.apps)
    }

    /// Whether a WELCOME sent under these rules is no longer true under `other`.
    package func announcesOther(than other: EndpointRules) -> Bool {
        !tnp.apps.elementsEqual(other.tnp.apps, by: { $0 == $1 }) || tnp.routes != other.tnp.routes
            || sites != other.sites
    }
}

extension Configuration {
    /// The limits of the connection registry.
    /// - Parameter openFiles: the process's limit of open files: each connection needs one.
    package func connectionLimits(openFiles: UInt64) -> ConnectionRegistry.Limits {
        let available = max(1, Int(clamping: openFiles) - reservedDescriptors)
        return ConnectionRegistry.Limits(
            connections: min(limits.connections, available), halfOpen: limits.halfOpen, servesHTTP: listen.servesHTTP)
    }
}
