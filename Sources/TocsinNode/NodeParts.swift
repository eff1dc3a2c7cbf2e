// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Cluster
import Confinement
import Cryptography
import Delivery
import Diagnostics
import EventLoop
import Handles
import Ingress
import KeyHolder
import Logging
import NodeConfiguration
import Providers
import TNP
import Time
import Tor

/// The components of a running node. Everything runs on the node's loop.
final class NodeParts: DispatchObserver {
    /// Retry-after in the GOAWAY of a shutdown, in milliseconds.
    private static let shutdownRetryAfter: UInt32 = 5000

    private(set) var configuration: Configuration
    let isolation: ProcessIsolation?
    /// Looks names up for this process; `nil` if it does so itself.
    private let resolver: NodeResolver?
    private let directory: StateDirectory
    private let loop: EventLoop
    private let whenReachable: (@Sendable (OnionAddress) -> Void)?
    let started = MonotonicTime.now
    let alarms: AlarmLog
    let log: EventLog
    let metrics: NodeMetrics
    let providers: ProviderSet
    let dispatch: Dispatch
    let standing: StandingKeeper
    let intake: Intake
    let connections: SenderConnections
    private let spool: Spool?
    private var listeners: [Listener] = []
    /// The address of the HTTP endpoint, if there is one.
    private(set) var httpEndpoint: Endpoint?
    private(set) var admin: AdminServer?
    /// Rings the operator's phone; `nil` if none is configured.
    private(set) var canary: Canary?
    /// What the node shares with others; `nil` if it shares nothing.
    let cluster: SharedState?
    private var tor: ManagedTor?
    /// The status of the node's own tor; `nil` if the node runs none.
    private(set) var torStatus: TorStatus?
    /// Whether the endpoints accept connections.
    private(set) var isServing = false
    /// Whether a key holder is reading for a reload.
    private var isReloading = false
    /// What to reload afterwards.
    private var nextReload: Reload?
    /// Whether the node has begun to stop.
    private(set) var isStopping = false

    /// Reads the credentials and opens the stores.
    /// - Throws: `ConfigurationError` or `StoreError`.
    init(
        _ configuration: Configuration, isolation: ProcessIsolation?, in directory: StateDirectory, logger: Logger,
        on loop: EventLoop, whenReachable: (@Sendable (OnionAddress) -> Void)?
    ) throws {
        self.configuration = configuration
        self.isolation = isolation
        resolver = isolation.map { NodeResolver($0.supervisor, on: loop) }
        if let resolver { loop.nameService = resolver }
        isolation?.holder?.loop = loop
        self.directory = directory
        self.loop = loop
        self.whenReachable = whenReachable
        alarms = AlarmLog()
        var logger = logger
        logger.handler = AlarmLogHandler(logger.handler, recordingTo: alarms)
        log = EventLog(logger)
        metrics = NodeMetrics()
        providers = try ProviderSet(configuration, from: isolation?.holder?.credentials ?? CredentialFiles(), on: loop)
        dispatch = Dispatch(limits: configuration.dispatchLimits, on: loop)
        var engine = try configuration.cluster.map { try $0.engineSettings(in: configuration) }
        standing = try StandingKeeper(configuration, sharing: engine?.secret, log: log)
        var clock = GuardedClock(wall: UnixTime.now, at: .now)
        var admission = Admission(
            configuration.admission, hash: standing.hash, seed: SecureRandom.bytes(Puzzle.seedLength), now: .now)
        try standing.restore(into: &admission, &clock)
        let handles = try configuration.handles.map { [log] settings in
            try HandleKeeper(settings, state: configuration.state, isShared: engine != nil, log: log, on: loop)
        }
        engine?.handleCheck = handles?.check
        cluster = engine.map { [log, providers, dispatch] engine in
            SharedState(
                engine, configuration, nodes: configuration.cluster?.nodes ?? 1, for: dispatch, on: loop, log: log
            ) { providers.tokens }
        }
        intake = Intake(
            admission, clock, handles: handles, into: dispatch, sharing: cluster?.ledger, metrics: metrics, log: log)
        cluster?.ledger.intake = intake
        handles?.sharing = cluster?.handles
        dispatch.claims = cluster?.ledger
        connections = SenderConnections(
            EndpointRules(configuration, routes: providers.routes, onion: nil, onions: []),
            configuration.connectionLimits(openFiles: ProcessHardening.raiseOpenFiles()),
            intake: intake, metrics: metrics)
        spool = try configuration.spool.map { [dispatch] settings in
            try Spool(
                at: settings.file, keyFile: settings.keyFile, maxBytes: settings.maximumBytes,
                onExpired: { rows in Task(executorPreference: loop) { dispatch.expired(rows) } })
        }
    }

    // MARK: Start

    /// Starts delivery, the endpoints and tor.
    /// - Parameter torObserver: receives each status of tor on the loop, and passes it to ``torChanged(to:)``.
    /// - Returns: the address of the TNP endpoint.
    /// - Throws: ``PortError`` or `StoreError`; ``close()`` undoes what was done.
    func start(
        torObserver: @escaping @Sendable (TorStatus) -> Void, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Endpoint {
        await cluster?.start()
        (metrics.relayed, log.relayed) = (providers.relayedRoutes, providers.relayedRoutes)
        dispatch.start(providers.providers, reportingTo: intake, observedBy: self)
        providersChanged(removed: [])
        warnOfSettings()
        let tnp = try listenEverywhere()
        if let spool { try await dispatch.use(spool) }
        for listener in listeners { listener.resume() }
        isServing = true
        if let processes = self.isolation, configuration.sandbox != .off, !processes.reportsRefusedCalls {
            log.logger.warning(
                "refused system calls raise no alarm: the kernel, or the container, does not allow to report them")
        }
        if let processes = self.isolation, configuration.sandbox != .off, processes.landlock == 0 {
            log.logger.warning(
                "the kernel has no Landlock (Linux 5.13): the node can read the files that its user can read")
        }
        log.listening(
            tnp: "\(tnp.endpoint)", http: httpEndpoint.map { "\($0)" }, admin: admin.map { "\($0.endpoint)" },
            routes: providers.routes, spooled: spool?.count)
        await startTor(for: tnp.endpoint, torObserver)
        use(try makeCanary(configuration))
        return tnp.endpoint
    }

    /// The canary of a configuration: the present one, if its settings and its phone stay the same.
    private func makeCanary(_ new: Configuration) throws -> Canary? {
        if new.canary != nil, new.tor.managed == true, !configuration.tor.hasSOCKSPort {
            throw ConfigurationError(
                file: new.file, key: "canary",
                problem: "needs a restart of the node: its running tor has no SOCKS port")
        }
        let made = try new.canary.map { settings in
            try Canary(settings, new, on: loop) { [unowned self] in
                senderAddress
            } report: { [unowned self] in
                log.canary($0)
                metrics.show(canary: $0, lastSuccess: canary?.lastSuccess ?? 0)
            }
        }
        return made?.settings == canary?.settings && made?.identity == canary?.identity ? canary : made
    }

    /// Starts a canary in place of the present one.
    private func use(_ new: Canary?) {
        guard new !== canary else { return }
        canary?.stop()
        canary = new
        metrics.show(canary: new?.settings, since: new?.lastSuccess)
        new?.start()
    }

    /// Where a sender on this machine reaches the node, by the way of all senders where possible.
    private var senderAddress: Canary.Address? {
        let settings = configuration.tor.settings(state: configuration.state)
        if settings.isManaged {
            guard let status = torStatus, status.isReachable, let address = status.address,
                let port = settings.tnpPorts.first
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

    /// Binds an endpoint and pauses it. An address in use must stop the start before anything is delivered, and
    /// connections wait until the spool of an earlier process has been read.
    /// Takes all addresses, and what the start reads after them.
    func rehearse() throws {
        _ = try listenEverywhere()
        _ = try makeCanary(configuration)
    }

    /// - Returns: the listener of TNP.
    private func listenEverywhere() throws(PortError) -> Listener {
        let tnp = try listen(at: configuration.listen.tnp, .tnp)
        let http = try configuration.listen.http.map { (endpoint) throws(PortError) in try listen(at: endpoint, .http) }
        listeners = [tnp] + [http].compactMap(\.self)
        httpEndpoint = http?.endpoint
        if let endpoint = configuration.listen.admin {
            admin = try PortError.naming("listen.admin") { () throws(ListenError) in
                try AdminServer(at: endpoint, on: loop, source: self)
            }
        }
        return tnp
    }

    private func listen(at endpoint: Endpoint, _ senderProtocol: Admission.SenderProtocol) throws(PortError) -> Listener
    {
        let listener = try PortError.naming("listen.\(senderProtocol.rawValue)") { () throws(ListenError) in
            try Listener(endpoint, on: loop) { [unowned connections] stream in
                connections.accept(stream, at: senderProtocol)
            }
        }
        listener.pause()
        return listener
    }

    private func startTor(
        for tnp: Endpoint, _ observer: @escaping @Sendable (TorStatus) -> Void,
        isolation: isolated (any Actor)? = #isolation
    ) async {
        guard configuration.tor.managed == true else {
            let directory = configuration.tor.settings(state: configuration.state).serviceDirectory
            if let address = try? OnionAddress(hostnameIn: directory) { takeOnions([address]) }
            if configuration.tor.onionDirectory == nil {
                log.logger.warning(
                    """
                    the node runs no tor and tor.onion_directory is not set: only this machine can reach the node. \
                    Install tor, or set tor.managed = false and tor.onion_directory
                    """)
            }
            return
        }
        let settings = configuration.tor.settings(state: configuration.state)
        let tor = ManagedTor(
            settings, services: settings.services(tnp: tnp, http: httpEndpoint), on: loop, observe: observer)
        self.tor = tor
        torStatus = TorStatus()
        await tor.start()
    }

    private func takeOnions(_ onions: [OnionAddress]) {
        connections.rules.tnp.onions = onions.compactMap { SignedOnion(publicKey: $0.publicKey) }
    }

    /// Takes a new status of the node's own tor.
    func torChanged(to now: TorStatus) {
        let before = torStatus ?? TorStatus()
        torStatus = now
        if isServing, !isStopping, let problem = now.problem, problem != before.problem { log.problem(of: problem) }
        metrics.show(now)
        if now.address != before.address { connections.rules.tnp.onion = configuration.tnpEndpoint(of: now) }
        takeOnions([now.address].compactMap(\.self) + now.onions.map(\.address))
        if now.isReachable, !before.isReachable, let address = now.address {
            log.logger.notice("the onion can be reached", metadata: ["address": "\(address)"])
            whenReachable?(address)
        }
    }

    // MARK: Reload

    /// What is read again.
    private enum Reload { case credentials, configuration }

    /// Reads the configuration and the credentials again.
    func reload() { reload(.configuration) }

    /// Reloads now; or later, if a key holder is still reading for an earlier reload.
    private func reload(_ what: Reload) {
        guard let holder = isolation?.holder else { return finishReload(of: what, nil) }
        guard !isReloading else {
            if nextReload != .configuration { nextReload = what }
            return
        }
        isReloading = true
        log.logger.info("a new key holder reads the configuration and the credentials")
        holder.start { [self] held in
            isReloading = false
            guard !isStopping else { return }
            finishReload(of: what, held)
            if let next = nextReload {
                nextReload = nil
                reload(next)
            }
        }
    }

    /// - Parameter held: the credentials of a new key holder; `nil` if the node reads them itself.
    private func finishReload(of what: Reload, _ held: Result<HeldCredentials, KeyHolder.Failure>?) {
        switch what {
        case .configuration: reloadConfiguration(held)
        case .credentials: reloadCredentials(held)
        }
    }

    private func reloadConfiguration(_ held: Result<HeldCredentials, KeyHolder.Failure>?) {
        do {
            let held = try held?.get()
            var new = try Configuration(file: configuration.file, copies: held?.copies)
            if let managed = configuration.tor.managed { new.decideTor(managed) }
            for key in new.keysRequiringRestart(comparedTo: configuration) {
                log.logger.warning("takes effect after a restart", metadata: ["key": "\(key)"])
            }
            let (rules, senders) = (connections.rules, intake.settings.senders)
            let replaced = try apply(configuration.reloaded(from: new), held)
            if connections.rules.announcesOther(than: rules) || intake.settings.senders != senders {
                // WELCOME is no longer true.
                connections.closeIdle("the node's configuration has changed")
                connections.revoke(rules.sites.changed(in: connections.rules.sites))
            }
            log.logger.notice("configuration reloaded", metadata: ["routes_replaced": "\(replaced)"])
        } catch {
            log.logger.error("the new configuration is invalid; the node keeps the old one: \(error)")
        }
    }

    private func reloadCredentials(_ held: Result<HeldCredentials, KeyHolder.Failure>?) {
        do {
            let held = try held?.get()
            var new = configuration
            new.copies = held?.copies
            let replaced = try apply(new, held)
            log.logger.notice("credentials reloaded", metadata: ["routes_replaced": "\(replaced)"])
        } catch let error as KeyHolder.Failure {
            providers.filesWillBeReadAgain()
            log.logger.error(
                "changed credential files cannot be read now; the node keeps the old credentials: \(error)")
        } catch {
            log.logger.error("a changed credential file is invalid; the node keeps the old credential: \(error)")
        }
    }

    /// Replaces what a configuration changes. Changes nothing if it throws.
    /// - Parameter held: the credentials of a new key holder; `nil` to read them here.
    /// - Returns: how many routes have a new provider, or are new or gone.
    private func apply(_ new: Configuration, _ held: HeldCredentials?) throws -> Int {
        let canary = try makeCanary(new)
        let (changed, removed) = try providers.load(new, from: held ?? CredentialFiles())
        if let held { isolation?.holder?.use(held) }
        configuration = new
        log.logger.logLevel = new.logLevel
        (metrics.relayed, log.relayed) = (providers.relayedRoutes, providers.relayedRoutes)
        dispatch.replace(providers.providers, limits: new.dispatchLimits)
        intake.settings = new.admission
        if let settings = new.handles { intake.handles?.limits = HandleStore.Limits(settings) }
        intake.announcePuzzle(connections.announce)
        providersChanged(removed: removed)
        connections.registry.limits = new.connectionLimits(openFiles: ProcessHardening.raiseOpenFiles())
        connections.rules = EndpointRules(
            new, routes: providers.routes, onion: torStatus.flatMap { new.tnpEndpoint(of: $0) },
            onions: connections.rules.tnp.onions)
        warnOfSettings()
        use(canary)
        return changed
    }

    private func providersChanged(removed: [Route]) {
        for route in removed { metrics.forget(route) }
        log.certificates = providers.certificates
        metrics.keep(tokensOf: Set(providers.tokensByApp.keys), certificatesOf: Set(providers.certificates.map(\.app)))
        warnOfExpiry()
    }

    private func warnOfSettings() {
        if connections.registry.limits.connections < configuration.limits.connections {
            log.logger.warning(
                "fewer connections than limits.connections: raise the limit of open files (ulimit -n, LimitNOFILE)",
                metadata: ["connections": "\(connections.registry.limits.connections)"])
        }
        for advice in HTTPEndpointAdvice.texts(for: configuration) {
            log.logger.warning("\(advice.key) \(advice.text)")
        }
        guard configuration.listen.http != nil else { return }
        for problem in connections.rules.resolver.unreachable { log.logger.warning("\(problem)") }
    }

    private func warnOfExpiry() {
        for certificate in providers.certificates {
            metrics.show(expiry: certificate.notAfter, of: certificate.app, kind: "APNs certificate")
        }
        for (certificate, nearness) in providers.expiryWarnings(at: UnixTime.now) {
            log.expiry(of: certificate, nearness)
        }
    }

    // MARK: While running

    func observe(_ event: DispatchEvent) {
        metrics.count(event)
        intake.observe(event)
        log.record(event)
    }

    func observe(_ attempt: EndedAttempt, _ result: AttemptResult) {
        metrics.count(attempt, result)
        log.record(attempt, result)
    }

    /// Does the work of each second, except saving what is known about device tokens.
    func secondPassed() {
        dispatch.expireWaiting()
        intake.tick(announce: connections.announce)
        if let names = UnbindRequest.take(state: configuration.state) {
            let phones = intake.admission.unbind(names)
            cluster?.ledger.unbind(names)
            log.logger.notice("sender keys removed at the operator's request", metadata: ["phones": "\(phones)"])
        }
        metrics.show(
            dispatch.statistics, connections: connections.countByProtocol,
            tokenAges: providers.tokensByApp.compactMapValues { $0.age(at: .now) })
        metrics.show(providers.upstreams)
        if let cluster {
            cluster.secondPassed()
            metrics.show(cluster.engine.status)
        }
        if let isolation { isolationChanged(isolation) }
        resolver?.secondPassed(at: .now)
        if providers.filesHaveChanged(at: .now) { reload(.credentials) }
        warnOfExpiry()
    }

    private func isolationChanged(_ isolation: ProcessIsolation) {
        for report in isolation.supervisor.takeReports() {
            switch report {
            case .refused(let call):
                metrics.countRefusedCall()
                alarms.record(
                    "error", "the sandbox refused a system call",
                    details: [("call", call.name), ("thread", "\(call.thread)")])
            case .holderEnded(let how):
                log.logger.info("a key holder has ended", metadata: ["how": "\(how)"])
            case .resolverEnded(let how):
                log.logger.warning(
                    "the node's resolver has ended; another one starts with the next name", metadata: ["how": "\(how)"])
            }
        }
        if isolation.supervisor.hasEnded, log.supervisorEnded() { metrics.countLostKeyHolder() }
        for event in isolation.holder?.secondPassed(at: .now) ?? [] {
            if case .ended = event { metrics.countLostKeyHolder() }
            log.record(event)
        }
    }

    // MARK: Stop

    /// Answers everything that was accepted, for at most `limits.shutdown_timeout`, and closes.
    /// - Returns: whether everything was answered.
    func stop(isolation: isolated (any Actor)? = #isolation) async -> Bool {
        isStopping = true
        canary?.stop()
        let inFlight = dispatch.inFlight
        log.logger.notice("stopping", metadata: ["in_flight": "\(inFlight)"])
        listeners = []
        let timeout = Timer(on: loop, after: .seconds(configuration.limits.shutdownTimeout)) { [unowned connections] in
            connections.resumeIdleWaiters()
        }
        connections.shutDown(retryAfter: Self.shutdownRetryAfter)
        dispatch.drain()
        await connections.waitUntilEmpty()
        timeout.stop()
        let isComplete = connections.count == 0
        await close()
        log.logger.notice("stopped", metadata: ["all_answered": "\(isComplete)"])
        return isComplete
    }

    /// Closes everything at once.
    func close(isolation: isolated (any Actor)? = #isolation) async {
        canary?.stop()
        listeners = []
        httpEndpoint = nil
        connections.closeAll()
        await dispatch.close()
        await spool?.close()
        await intake.handles?.close(at: intake.reading.unix)
        await standing.close(savingChangesOf: intake)
        await cluster?.stop()
        await tor?.stop()
        resolver?.end()
        admin?.close()
        admin = nil
    }
}

extension Configuration {
    /// The onion address and port to which TNP senders connect; `nil` until the address is known.
    fileprivate func tnpEndpoint(of status: TorStatus) -> String? {
        let ports = tor.settings(state: state).tnpPorts
        return status.address.flatMap { address in ports.first.map { "\(address):\($0)" } }
    }
}
