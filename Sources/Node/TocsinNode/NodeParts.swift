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
import Settings
import Store
import TNP
import Time
import Tor

/// The components of a running node. Everything runs on the node's loop.
final class NodeParts: DispatchObserver {
    /// Retry-after in the GOAWAY of a shutdown, in milliseconds.
    private static let shutdownRetryAfter: UInt32 = 5000

    private(set) var configuration: Configuration
    /// Has the keys; `nil` if the node reads them itself.
    let keyHolder: KeyHolder?
    private let directory: StateDirectory
    private let loop: EventLoop
    let started = MonotonicTime.now
    let alarms: AlarmLog
    let log: EventLog
    let metrics: NodeMetrics
    let providers: ProviderSet
    let dispatch: Dispatch
    let standing: StandingKeeper
    let intakeState: IntakeState
    /// The node's handles; `nil` if it keeps none.
    let handles: HandleKeeper?
    let intake: Intake
    private let outcomes: OutcomeReporter
    let connections: SenderConnections
    private let spool: Spool?
    /// What the node shares with others; `nil` if it shares nothing.
    let cluster: SharedState?
    let endpoints: NodeEndpoints
    let onions: NodeOnionServices
    let canary: CanaryKeeper
    let history: HistoryKeeper
    private let isolationWatch: IsolationWatch?
    private let expiry: ExpiryWatch
    /// The components that work each second, in this order.
    private let components: [any NodeComponent]
    private var reloads = ReloadQueue()
    /// Which files on disk the last reloads could not use, and which changes wait for a restart.
    private(set) var reloadState = ReloadState() {
        didSet { metrics.show(reloadState) }
    }
    private var healthNotices = HealthNotices()
    var machine = MachineGauges()
    /// Whether the endpoints accept connections.
    private(set) var isServing = false
    /// Whether the node has begun to stop.
    private(set) var isStopping = false

    /// Reads the credentials and opens the stores.
    /// - Throws: `ConfigurationError`, `StoreError` or `PrivateFileError`.
    init(
        _ configuration: Configuration, isolation: ProcessIsolation?, keyHolder: KeyHolder?,
        in directory: StateDirectory, disk: any Disk,
        logger: Logger, on loop: EventLoop, whenReachable: (@Sendable (OnionAddress) -> Void)?
    ) throws {
        self.configuration = configuration
        self.keyHolder = keyHolder
        self.directory = directory
        self.loop = loop
        alarms = AlarmLog()
        var logger = logger
        logger.handler = AlarmLogHandler(logger.handler, recordingTo: alarms)
        log = EventLog(logger)
        metrics = NodeMetrics()
        metrics.show(reloadState)
        isolationWatch = isolation.map { [alarms, metrics, log] in
            IsolationWatch($0, alarms: alarms, metrics: metrics, log: log, on: loop)
        }
        let keyHolderWatch = keyHolder.map { [metrics, log] in
            KeyHolderWatch($0, metrics: metrics, log: log, on: loop)
        }
        providers = try ProviderSet(configuration, from: keyHolder?.credentials ?? CredentialFiles(), on: loop)
        dispatch = Dispatch(limits: configuration.dispatchLimits, on: loop)
        var engine = try configuration.cluster.map { try $0.engineSettings(in: configuration) }
        standing = try StandingKeeper(configuration, sharing: engine?.secret, on: disk, log: log)
        var clock = GuardedClock(wall: UnixTime.now, at: .now)
        var admission = Admission(
            configuration.admission, hash: standing.hash, seed: SecureRandom.bytes(Puzzle.seedLength), now: .now)
        try standing.restore(into: &admission, &clock)
        let handleStore = try configuration.handles.map { _ in
            try HandleKeeper.store(in: configuration.state, isShared: engine != nil, on: disk)
        }
        engine?.handleCheck = handleStore?.check
        let intakeState = IntakeState(admission, clock, nodes: configuration.cluster?.nodes ?? 1, on: loop)
        cluster = engine.map { [log, metrics, providers, dispatch] engine in
            SharedState(
                engine, configuration, intakeState, for: dispatch, on: loop, metrics: metrics, log: log
            ) { providers.tokens }
        }
        handles = configuration.handles.flatMap { [log, cluster] settings in
            handleStore.map {
                HandleKeeper(settings, in: $0, sharing: cluster?.handles, log: log, on: loop)
            }
        }
        let refusals = RefusalReporter(metrics: metrics, log: log)
        intake = Intake(
            intakeState, handles: handles, into: dispatch, sharing: cluster?.outcomes, refusals, metrics: metrics,
            log: log)
        connections = SenderConnections(
            EndpointRules(configuration, routes: providers.routes, onion: nil, onions: []),
            configuration.connectionLimits(openFiles: ProcessHardening.raiseOpenFiles()),
            intake: intake, metrics: metrics)
        outcomes = OutcomeReporter(
            intakeState, to: connections, handles: handles, sharing: cluster?.outcomes, refusals, metrics: metrics)
        self.intakeState = intakeState
        spool = try configuration.spool.map { [dispatch] settings in
            try Spool(
                at: settings.file, keyFile: settings.keyFile, maximumBytes: settings.maximumBytes, on: disk,
                onExpired: { rows in Task(executorPreference: loop) { dispatch.expired(rows) } })
        }
        endpoints = NodeEndpoints(configuration, for: connections, on: loop)
        onions = NodeOnionServices(
            configuration, for: connections, metrics: metrics, log: log, on: loop, whenReachable: whenReachable)
        history = HistoryKeeper(in: configuration.state, metrics, on: disk)
        canary = CanaryKeeper(onions, metrics: metrics, log: log, on: loop)
        expiry = ExpiryWatch(providers, metrics: metrics, log: log)
        // They close in reverse: the cluster, which looks up host names, before the resolver, and before tor, which
        // needs seconds to stop.
        let all: [(any NodeComponent)?] = [
            endpoints, keyHolderWatch, isolationWatch, onions,
            UnbindRequests(in: configuration.state, intakeState, cluster: cluster, on: disk, log: log), cluster,
            GaugeRefresh(metrics, of: dispatch, connections, providers, cluster), canary, expiry,
            HourlyReport(metrics, log: log), history, RouteProbes(providers, configuration, metrics: metrics, log: log),
        ]
        components = all.compactMap(\.self)
    }

    // MARK: Start

    /// Starts the cluster, delivery, the endpoints, tor and the canary.
    /// - Parameter torObserver: receives each status of tor on the loop, and passes it to ``torChanged(to:)``.
    /// - Returns: the address of the TNP endpoint.
    /// - Throws: ``PortError``, `StoreError` or `ConfigurationError`; ``close()`` undoes what was done.
    func start(
        torObserver: @escaping @Sendable (TorStatus) -> Void, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Endpoint {
        await cluster?.start()
        (metrics.relayed, log.relayed) = (providers.upstreamRoutes, providers.upstreamRoutes)
        dispatch.start(
            providers.providers, reportingTo: outcomes, observedBy: self, claimingBy: cluster?.ledger)
        providersChanged(removed: [])
        expiry.secondPassed()
        warnOfSettings()
        let tnp = try endpoints.listen(for: self)
        if let spool { try await dispatch.use(spool) }
        endpoints.open()
        isServing = true
        history.begin()
        isolationWatch?.warn(about: configuration)
        log.listening(
            tnp: "\(tnp)", http: endpoints.http.map { "\($0)" },
            directHTTP: endpoints.directHTTP.map { "\($0)" }, admin: endpoints.admin.map { "\($0.endpoint)" },
            routes: providers.routes, spooled: spool?.count, variables: configuration.environmentVariables)
        await onions.start(tnp: tnp, http: endpoints.http, torObserver)
        canary.replace(with: try canary.made(for: configuration, inPlaceOf: configuration))
        return tnp
    }

    /// Tests all addresses, and reads the files that the start reads after it has bound them.
    // Inlining this into an asynchronous function crashes the optimiser of Swift 6.3.1.
    @inline(never)
    func rehearse() throws {
        try endpoints.rehearse()
        _ = try canary.made(for: configuration, inPlaceOf: configuration)
    }

    /// Takes a new status of the node's own tor.
    func torChanged(to now: TorStatus) { onions.changed(to: now, isQuiet: !isServing || isStopping) }

    // MARK: Reload

    /// Reads the configuration and the credentials again.
    func reload() { reload(.configuration) }

    /// Reloads now; or later, if a key holder is still reading for an earlier reload.
    private func reload(_ what: ReloadQueue.Reload) {
        guard let holder = keyHolder else { return finishReload(of: what, nil) }
        guard let due = reloads.request(what) else { return }
        log.logger.debug("a new key holder reads the configuration and the credentials")
        holder.start { [self] held in
            let next = reloads.ended()
            guard !isStopping else { return }
            finishReload(of: due, held)
            if let next { reload(next) }
        }
    }

    /// - Parameter held: the credentials of a new key holder; `nil` if the node reads them itself.
    private func finishReload(of what: ReloadQueue.Reload, _ held: Result<HeldCredentials, KeyHolder.Failure>?) {
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
            let restartKeys = new.keysRequiringRestart(comparedTo: configuration)
            let (rules, senders) = (connections.rules, intakeState.settings.senders)
            let token = try new.adminToken()
            let replaced = try apply(configuration.reloaded(from: new), held)
            endpoints.use(token, of: new)
            if connections.rules.announcesOther(than: rules) || intakeState.settings.senders != senders {
                // WELCOME is no longer true.
                connections.closeIdle("the node's configuration has changed")
                connections.revoke(rules.sites.changed(in: connections.rules.sites))
            }
            log.logger.notice("configuration reloaded", metadata: ["routes_replaced": .number(replaced)])
            for key in restartKeys {
                log.logger.warning("takes effect after a restart", metadata: ["key": "\(key)"])
            }
            reloadState.readConfiguration(restartKeys: restartKeys)
        } catch let error as KeyHolder.Failure {
            _ = reloadState.failed(.configuration, "\(error)", at: UnixTime.now)
            log.logger.error(
                "the new configuration cannot be read now; the node keeps the old one, reload again: \(error)")
        } catch {
            _ = reloadState.failed(.configuration, "\(error)", at: UnixTime.now)
            log.logger.error("the new configuration is invalid; the node keeps the old one: \(error)")
        }
    }

    private func reloadCredentials(_ held: Result<HeldCredentials, KeyHolder.Failure>?) {
        do {
            let held = try held?.get()
            var new = configuration
            new.copies = held?.copies
            let replaced = try apply(new, held)
            log.logger.notice("credentials reloaded", metadata: ["routes_replaced": .number(replaced)])
            reloadState.readCredentials()
        } catch let error as KeyHolder.Failure {
            providers.reportChangeAgain()
            guard reloadState.failed(.credentials, "\(error)", at: UnixTime.now) else { return }
            log.logger.error(
                "changed credential files cannot be read now; the node keeps the old credentials: \(error)")
        } catch {
            guard reloadState.failed(.credentials, "\(error)", at: UnixTime.now) else { return }
            log.logger.error("a changed credential file is invalid; the node keeps the old credential: \(error)")
        }
    }

    /// Replaces what a configuration changes. Changes nothing if it throws.
    /// - Parameter held: the credentials of a new key holder; `nil` to read them here.
    /// - Returns: how many routes have a new provider, or are new or gone.
    private func apply(_ new: Configuration, _ held: HeldCredentials?) throws -> Int {
        let newCanary = try canary.made(for: new, inPlaceOf: configuration)
        let (changed, removed) = try providers.load(new, from: held ?? CredentialFiles())
        if let held { keyHolder?.use(held) }
        configuration = new
        log.logger.logLevel = new.logLevel
        (metrics.relayed, log.relayed) = (providers.upstreamRoutes, providers.upstreamRoutes)
        dispatch.serve(providers.providers, limits: new.dispatchLimits)
        intakeState.settings = new.admission
        cluster?.outcomes.settingsChanged()
        if let settings = new.handles { handles?.limits = HandleStore.Limits(settings) }
        intake.announcePuzzle(connections.announce)
        providersChanged(removed: removed)
        connections.registry.limits = new.connectionLimits(openFiles: ProcessHardening.raiseOpenFiles())
        connections.rules = EndpointRules(
            new, routes: providers.routes, onion: onions.tnpAddress, onions: connections.rules.tnp.onions)
        warnOfSettings()
        for component in components { component.configurationChanged(to: new) }
        canary.replace(with: newCanary)
        return changed
    }

    private func providersChanged(removed: [Route]) {
        for route in removed { metrics.forget(route) }
        log.certificates = providers.certificates
        metrics.keep(tokensOf: Set(providers.tokensByApp.keys), certificatesOf: Set(providers.certificates.map(\.app)))
    }

    private func warnOfSettings() {
        alarms.forgetAdvice()
        if connections.registry.limits.connections < configuration.limits.connections {
            log.logger.warning(
                "fewer connections than limits.connections: raise the limit of open files (ulimit -n, LimitNOFILE)",
                metadata: AlarmLogHandler.setUp.merging([
                    "connections": .number(connections.registry.limits.connections)
                ]) { $1 })
        }
        for advice in HTTPEndpointAdvice.texts(for: configuration) {
            log.logger.warning("\(advice.key) \(advice.text)", metadata: AlarmLogHandler.setUp)
        }
        guard configuration.listen.servesHTTP else { return }
        for problem in connections.rules.resolver.unreachable {
            log.logger.warning("\(problem)", metadata: AlarmLogHandler.setUp)
        }
    }

    // MARK: While running

    func observe(_ event: DispatchEvent) {
        metrics.count(event)
        outcomes.observe(event)
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
        for component in components { component.secondPassed() }
        if providers.filesHaveChanged(at: .now) {
            // If the last reload of the configuration failed, one of these files may have been the cause.
            reload(reloadState.failures[.configuration] == nil ? .credentials : .configuration)
        }
        if let health = healthNotices.due(for: health, at: .now) { log.changed(to: health) }
    }

    // MARK: Stop

    /// Answers everything that was accepted, for at most `limits.shutdown_timeout`, and closes.
    /// - Returns: whether everything was answered.
    func stop(isolation: isolated (any Actor)? = #isolation) async -> Bool {
        isStopping = true
        canary.stop()
        let inFlight = dispatch.inFlight
        log.logger.notice("stopping", metadata: ["in_flight": .number(inFlight)])
        endpoints.closeToSenders()
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
        canary.stop()
        endpoints.closeToSenders()
        connections.closeAll()
        await dispatch.close()
        await spool?.close()
        await handles?.close(at: intakeState.reading.unix)
        await standing.close(savingChangesOf: intakeState)
        for component in components.reversed() { await component.close(isolation: isolation) }
    }
}
