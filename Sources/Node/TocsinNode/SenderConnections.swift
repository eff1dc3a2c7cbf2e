// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import Ingress
import NodeConfiguration
import TNP
import Time

/// The connections of senders at both endpoints.
final class SenderConnections: SenderHost {
    /// The minimum age of a connection that may be closed to make room: a new one may be about to send.
    private static let minimumAge = Duration.seconds(10)
    /// Maximum connections beyond the limit that stay open until their last bytes are sent.
    private static let maximumRejected = Configuration.descriptorsForFiles / 2

    private let intake: Intake
    private let metrics: NodeMetrics
    /// The rules for new connections.
    var rules: EndpointRules
    var registry: ConnectionRegistry
    private var connections: [UInt64: any SenderConnection] = [:]
    private var lastNumber: UInt64 = 0
    let scratch = IngressScratch()
    private var idleWaiters: [CheckedContinuation<Void, Never>] = []

    init(_ rules: EndpointRules, _ limits: ConnectionRegistry.Limits, intake: Intake, metrics: NodeMetrics) {
        self.rules = rules
        self.intake = intake
        self.metrics = metrics
        registry = ConnectionRegistry(limits)
    }

    /// Whether WELCOME announces that the node takes site keys.
    private var takesSiteKeys: Bool { rules.sites.mode != .off }

    /// The connection with this number; `nil` if it has ended.
    func connection(_ number: UInt64) -> (any SenderConnection)? { connections[number] }

    /// The number of connections, including those about to close.
    var count: Int { connections.count }

    /// The number of connections by protocol.
    var countByProtocol: (tnp: Int, http: Int) {
        let http = connections.values.count { $0.senderProtocol == .http }
        return (connections.count - http, http)
    }

    // MARK: New connections

    /// Where a sender connects.
    enum SenderEndpoint {
        case tnp, http, directHTTP

        var senderProtocol: Admission.SenderProtocol { self == .tnp ? .tnp : .http }
    }

    /// Accepts a connection, or rejects it if there is no room.
    func accept(_ stream: ByteStream, at endpoint: SenderEndpoint) {
        lastNumber += 1
        let connection: any SenderConnection =
            switch endpoint {
            case .tnp: IngressConnection(stream, number: lastNumber, rules: rules.tnp, host: self)
            case .http: HTTPSender(stream, number: lastNumber, rules: rules.http, host: self)
            case .directHTTP: HTTPSender(stream, number: lastNumber, rules: rules.directHTTP, host: self)
            }
        connections[lastNumber] = connection
        let senderProtocol = endpoint.senderProtocol
        let namesCircuit = rules.tnp.circuitIDs && endpoint != .directHTTP
        switch registry.place(at: senderProtocol, use: use(of:)) {
        case .accept: opened(connection, namesCircuit: namesCircuit)
        case .acceptEvicting(let oldest):
            connections[oldest]?.evict(Self.busy("too many connections without HELLO or a request"))
            opened(connection, namesCircuit: namesCircuit)
        case .acceptEvictingIdle(let idle):
            let text = "too many connections, and this one was idle"
            if mayLinger {
                connections[idle]?.closeIdle(text)
            } else {
                connections[idle]?.evict(GoAway(code: .idle, text: text))
            }
            opened(connection, namesCircuit: namesCircuit)
        case .reject:
            let goAway = Self.busy("too many connections")
            if mayLinger { connection.reject(goAway) } else { connection.evict(goAway) }
        }
    }

    /// Whether an evicted or rejected connection may stay open until its sender has read the last bytes.
    private var mayLinger: Bool { connections.count <= registry.limits.connections + Self.maximumRejected }

    private static func busy(_ text: String) -> GoAway { GoAway(code: .busy, retryAfter: 10_000, text: text) }

    /// - Parameter namesCircuit: whether tor's PROXY line will name the connection's circuit.
    private func opened(_ connection: any SenderConnection, namesCircuit: Bool) {
        registry.opened(connection.number, at: connection.senderProtocol)
        guard !namesCircuit else { return }
        if let goAway = intake.connected(connection, as: .connection(connection.number)) { connection.reject(goAway) }
    }

    private func use(of number: UInt64) -> ConnectionRegistry.Use {
        guard let connection = connections[number], connection.isIdle(minimumAge: Self.minimumAge) else { return .busy }
        return connection.hasSucceeded ? .idleAfterSuccess : .idle
    }

    // MARK: Host of the connections

    func assign(_ connection: any SenderConnection, toCircuit circuit: UInt32) -> GoAway? {
        intake.connected(connection, as: .tor(circuit))
    }

    func identify(
        _ connection: any SenderConnection, by authentication: SiteAuthentication, seed: [UInt8]
    ) throws(ProtocolError) -> Site? {
        guard let site = rules.sites.site(provedBy: authentication, seed: seed, onions: rules.tnp.signedOnions) else {
            return nil
        }
        guard intake.move(connection, to: .site(site.number)) else {
            throw ProtocolError(code: .busy, text: "no room for another site: try again later")
        }
        return site
    }

    func refusal(of connection: any SenderConnection, site credential: Bytes?, right: Site.Right) -> Outcome? {
        switch rules.sites.request(with: credential, on: connection.circuit, right: right) {
        case .refused: return Rejection(.notASite).outcome
        case .ordinary: return nil
        case .of(let site):
            let circuit = CircuitID.site(site.number)
            guard connection.circuit != circuit, !intake.move(connection, to: circuit) else { return nil }
            return .retry(.nodeBusy, after: 5000)
        }
    }

    func identified(_ connection: any SenderConnection) { registry.identified(connection.number) }

    func ended(_ connection: any SenderConnection) {
        guard connections.removeValue(forKey: connection.number) != nil else { return }
        registry.closed(connection.number)
        if let circuit = connection.circuit { intake.shared.admission.disconnected(circuit, at: .now) }
        if connections.isEmpty { resumeIdleWaiters() }
    }

    func welcome(under rules: IngressSession.Rules) -> Welcome {
        let (features, puzzle) = intake.announcement(takesSiteKeys: takesSiteKeys)
        return Welcome(
            features: features, maximumFrame: UInt32(rules.maximumFrame),
            maximumInFlight: UInt16(rules.maximumInFlight), idleTimeout: UInt32(rules.idleTimeout.components.seconds),
            // Rounded down to the minute: a precise clock would help to link the onions of one machine.
            serverTime: UInt64(max(UnixTime.now, 0)) / 60 * 60_000, puzzle: puzzle, routes: rules.routes)
    }

    func deliver(_ submission: Submission, app: String, format: EnvelopeFormat, for connection: any SenderConnection) {
        intake.admit(submission, app: app, format: format, from: connection)
    }

    func deliver(_ submission: SubmissionByHandle, for connection: any SenderConnection) {
        intake.admit(submission, under: rules.tnp, from: connection)
    }

    func perform(_ request: HandleRequest, for connection: any SenderConnection) {
        intake.perform(request, under: rules.tnp, from: connection)
    }

    func countViolations(_ connection: any SenderConnection, _ faults: Int) {
        intake.charge(connection, violations: faults)
    }

    var appResolver: AppResolver { rules.resolver }

    var signedOnions: [SignedOnion] { rules.tnp.signedOnions }

    var registrationPuzzle: Puzzle { intake.shared.admission.registrationPuzzle(at: .now) }

    func responded(_ status: Int) { metrics.responded(status) }

    // MARK: All connections

    /// Sends a puzzle to all connections, or to those that have one of their own.
    func announce(_ puzzle: Puzzle, toOwnPuzzlesOnly: Bool) {
        for connection in connections.values where !toOwnPuzzlesOnly || connection.hasOwnPuzzle {
            connection.announce(puzzle)
        }
    }

    /// Closes all connections as after the idle timeout, so that senders reconnect.
    func closeIdle(_ text: String) {
        for connection in connections.values { connection.closeIdle(text) }
    }

    /// Closes the connections of these sites, whose entries in the configuration have changed or are gone.
    func revoke(_ sites: [Site]) {
        let revoked = Set(sites.map { CircuitID.site($0.number) })
        guard !revoked.isEmpty else { return }
        for connection in connections.values where connection.circuit.map(revoked.contains) == true {
            connection.evict(GoAway(code: .idle, text: "the site's entry has changed"))
        }
    }

    /// Announces the shutdown: each connection closes once its accepted submissions are answered.
    func shutDown(retryAfter: UInt32) {
        for connection in connections.values { connection.shutDown(retryAfter: retryAfter) }
    }

    /// Waits until no connection is left, or ``resumeIdleWaiters()`` is called.
    func waitUntilEmpty(isolation: isolated (any Actor)? = #isolation) async {
        if !connections.isEmpty { await withCheckedContinuation { idleWaiters.append($0) } }
    }

    func resumeIdleWaiters() {
        let waiting = idleWaiters
        idleWaiters = []
        for continuation in waiting { continuation.resume() }
    }

    /// Closes all connections at once.
    func closeAll() {
        for connection in connections.values { connection.close() }
        connections = [:]
    }
}
