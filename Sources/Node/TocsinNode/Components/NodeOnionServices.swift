// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Cryptography
import EventLoop
import Ingress
import Logging
import NodeConfiguration
import TNP
import Tor

/// Runs the node's own tor, or reads the onion address of the operator's tor, and announces the addresses to senders.
final class NodeOnionServices: NodeComponent {
    private var configuration: Configuration
    private let connections: SenderConnections
    private let metrics: NodeMetrics
    private let log: EventLog
    private let loop: EventLoop
    private let whenReachable: (@Sendable (OnionAddress) -> Void)?
    private var tor: ManagedTor?
    /// The status of the node's own tor; `nil` if the node runs none.
    private(set) var status: TorStatus?

    init(
        _ configuration: Configuration, for connections: SenderConnections, metrics: NodeMetrics, log: EventLog,
        on loop: EventLoop, whenReachable: (@Sendable (OnionAddress) -> Void)?
    ) {
        self.configuration = configuration
        self.connections = connections
        self.metrics = metrics
        self.log = log
        self.loop = loop
        self.whenReachable = whenReachable
    }

    /// Starts tor, if the node runs one.
    /// - Parameters:
    ///   - tnp: the TNP endpoint.
    ///   - http: the HTTP endpoint, if there is one.
    ///   - observer: receives each status of tor on the loop, and must pass it to ``changed(to:isQuiet:)``.
    func start(
        tnp: Endpoint, http: Endpoint?, _ observer: @escaping @Sendable (TorStatus) -> Void,
        isolation: isolated (any Actor)? = #isolation
    ) async {
        let settings = configuration.tor.settings(state: configuration.state)
        guard configuration.tor.managed == true else {
            if let address = try? OnionAddress(hostnameIn: settings.serviceDirectory) { serve([address]) }
            // No warning with managed = false: the operator has decided that the node runs no tor.
            if configuration.tor.onionDirectory == nil, configuration.isTorUndecided {
                log.logger.warning(
                    """
                    the node runs no tor and tor.onion_directory is not set: only this machine can reach the node. \
                    Install tor; or set tor.managed = false, and tor.onion_directory if another tor has the onion
                    """, metadata: AlarmLogHandler.setUp)
            }
            return
        }
        let tor = ManagedTor(settings, services: settings.services(tnp: tnp, http: http), on: loop, observe: observer)
        self.tor = tor
        status = TorStatus()
        await tor.start()
    }

    private func serve(_ onions: [OnionAddress]) {
        connections.rules.tnp.onions = onions.compactMap { SignedOnion(publicKey: $0.publicKey) }
    }

    /// Takes a new status of the node's own tor.
    /// - Parameter isQuiet: whether its problems are of no interest, because the node starts or stops.
    func changed(to now: TorStatus, isQuiet: Bool) {
        let before = status ?? TorStatus()
        status = now
        if !isQuiet, let problem = now.problem, problem != before.problem { log.problem(of: problem) }
        metrics.show(now)
        if now.address != before.address { connections.rules.tnp.onion = tnpAddress }
        serve([now.address].compactMap(\.self) + now.onions.map(\.address))
        if now.isReachable, !before.isReachable, let address = now.address {
            log.logger.notice("the onion can be reached", metadata: ["address": "\(address)"])
            whenReachable?(address)
        }
    }

    /// The onion address and port to which TNP senders connect; `nil` until the address is known, or if the node runs
    /// no tor.
    var tnpAddress: String? {
        let ports = configuration.tor.settings(state: configuration.state).tnpPorts
        return status?.address.flatMap { address in ports.first.map { "\(address):\($0)" } }
    }

    /// The address at which the canary reaches the node: through tor, or directly if tor passes no circuit IDs; `nil`
    /// if there is none at the moment.
    var canaryAddress: Canary.Address? {
        let settings = configuration.tor.settings(state: configuration.state)
        if settings.isManaged {
            guard let status, status.isReachable, let address = status.address, let port = settings.tnpPorts.first
            else { return nil }
            return Canary.Address(node: .tcp(host: "\(address)", port: port), socks: settings.socksSocket)
        }
        // A direct connection would lack the PROXY line with the circuit id.
        guard configuration.listen.circuitIDs else { return Canary.Address(node: configuration.listen.tnp, socks: nil) }
        guard let address = try? OnionAddress(hostnameIn: settings.serviceDirectory),
            let port = settings.tnpPorts.first,
            case .socks5(let socks, _)? = configuration.outboundProxy
        else { return nil }
        return Canary.Address(node: .tcp(host: "\(address)", port: port), socks: socks)
    }

    func configurationChanged(to configuration: Configuration) { self.configuration = configuration }

    func close(isolation: isolated (any Actor)?) async { await tor?.stop() }
}
