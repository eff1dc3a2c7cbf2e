// SPDX-License-Identifier: Apache-2.0

import Glibc
import HTTP1
import Ingress
import NodeConfiguration
import Tor

/// The configuration of the endpoints for senders.
struct EndpointRules {
    /// The longest target of a request to the HTTP endpoint in bytes: the largest notification in hexadecimal, and its
    /// parameters.
    private static let longestTarget = 10_240

    var tnp: IngressSession.Rules
    let http: HTTPSender.Rules
    let readTimeout: Duration
    /// Whether tor names the circuit of each connection; otherwise each connection counts as a circuit.
    let usesCircuitIDs: Bool
    let resolver: AppResolver

    /// - Parameters:
    ///   - routes: the routes that the node serves, as WELCOME lists them.
    ///   - onion: the node's onion address and port for TNP; `nil` if it is not known.
    init(_ configuration: Configuration, routes: [String], onion: String?) {
        let limits = configuration.limits
        tnp = IngressSession.Rules(
            circuitIDs: configuration.listen.circuitIDs, onion: onion, maximumFrame: limits.maximumFrame,
            maximumInFlight: limits.inFlight, handshakeTimeout: .seconds(limits.handshakeTimeout),
            idleTimeout: .seconds(limits.idleTimeout), frameTimeout: .seconds(limits.frameTimeout),
            control: limits.control, apps: configuration.apps.map { ($0.name, $0.format) }, routes: routes)
        http = HTTPSender.Rules(
            circuitIDs: configuration.listen.circuitIDs,
            http: HTTPLimits(
                target: Self.longestTarget, requestTimeout: .seconds(limits.httpRequestTimeout),
                idleTimeout: .seconds(limits.idleTimeout), readTimeout: .seconds(limits.readTimeout),
                firstTimeout: .seconds(limits.handshakeTimeout)),
            answerTimeout: .seconds(limits.httpAnswerTimeout),
            lastAnswerTimeout: .seconds(limits.shutdownTimeout) * 3 / 4)
        usesCircuitIDs = configuration.listen.circuitIDs
        readTimeout = .seconds(limits.readTimeout)
        resolver = AppResolver(configuration.apps)
    }

    /// Whether a WELCOME sent under these rules is no longer true under `other`.
    func announcesOther(than other: EndpointRules) -> Bool {
        tnp.apps.map(\.name) != other.tnp.apps.map(\.name) || tnp.apps.map(\.format) != other.tnp.apps.map(\.format)
            || tnp.routes != other.tnp.routes
    }
}

extension Configuration {
    /// The onion address and port to which TNP senders connect; `nil` until the address is known.
    func tnpEndpoint(of status: TorStatus) -> String? {
        let ports = tor.settings(state: state).tnpPorts
        return status.address.flatMap { address in ports.first.map { "\(address):\($0)" } }
    }

    /// The limits of the connection registry. Raises the process's limit of open files to its maximum first, because
    /// each connection needs a descriptor.
    func connectionLimits() -> ConnectionRegistry.Limits {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let available = max(1, Int(clamping: limit.rlim_max) - reservedDescriptors)
        return ConnectionRegistry.Limits(
            connections: min(limits.connections, available), halfOpen: limits.halfOpen,
            servesHTTP: listen.http != nil)
    }
}
