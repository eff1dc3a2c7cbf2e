// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Cryptography
import Delivery
import Diagnostics
import EventLoop
import Glibc
import HTTP1
import Ingress
import Logging
import NodeConfiguration
import Prometheus
import Providers
import TNP
import Time
import Tor

/// The node: listens for senders, delivers what they submit, and stops without losing what it has taken. One that was
/// started lives until it is stopped.
package actor Node: IngressConnection.Host, HTTPSender.Host {
    nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private(set) var configuration: Configuration
    private(set) var logger: Logger
    private(set) var dispatch: Dispatch!
    private var parts: [Route: ProviderAssembly.Part] = [:]
    private var tokens: ProviderAssembly.Tokens = [:]
    /// By app, for their ages.
    private(set) var providerTokens: [String: APNsProviderToken] = [:]
    private var watch = CredentialWatch()
    private var expiryWarnings = ExpiryWarnings()
    private(set) var certificates: [ProviderAssembly.Certificate] = []
    /// Every figure of the node, as Prometheus reads them.
    nonisolated let registry = PrometheusRegistry(NodeMetrics.catalogue)
    var figures: NodeMetrics
    var history = History()
    var recent = RecentMetrics()
    /// Warnings and what is worse, for the dashboard.
    nonisolated let alarms = AlarmLog()
    var admin: AdminServer?
    /// Where the admin port is, while the node runs and has one.
    package internal(set) var adminEndpoint: Endpoint?
    var tor: ManagedTor?
    /// Nil: the node runs no tor.
    var torStatus: TorStatus?
    /// Told when its own onion can be reached.
    let whenReachable: (@Sendable (OnionAddress) -> Void)?
    nonisolated let started = MonotonicTime.now
    /// Held while the node runs: two of them at one state directory would undo each other's work.
    private var lock: FileLock?
    /// The spool from when it is open until delivery has it.
    private var openedSpool: Spool?
    private(set) var rules: IngressSession.Rules!
    private var resolver: AppResolver!
    /// One for each endpoint.
    private var listeners: [Listener] = []
    /// Where the desktops of today connect, while the node runs and serves them.
    package private(set) var httpEndpoint: Endpoint?
    /// By their numbers.
    var connections: [UInt64: any SenderConnection] = [:]
    var connectionRegistry = ConnectionRegistry(.init(connections: 1, halfOpen: 1, servesHTTP: false))
    var lastConnection: UInt64 = 0
    var admission: Admission!
    var standing: StandingStore?
    var isSavingStanding = false
    /// What admission counts days by.
    var clock = GuardedClock(wall: UnixTime.now, at: .now)
    /// The effort that everybody was told, and the one that was asked for unproven device tokens at that time.
    var announced: UInt32 = 0
    var announcedToUnproven: UInt32 = 0
    private var secondTimer: Timer?
    private var credentialTimer: Timer?
    private var pseudonyms = Pseudonyms()
    var throttle = LogThrottle()
    private var idleWaiters: [CheckedContinuation<Void, Never>] = []
    private(set) var isStopping = false
    /// Whether its endpoints are open.
    package private(set) var isServing = false
    /// The node itself while it runs: what hangs on the loop must not be let go of on another thread.
    private var whileRunning: Node?

    /// A node that does not run yet.
    /// - Parameters:
    ///   - loop: all of it runs there.
    ///   - whenReachable: told each time its own tor has published the onion anew.
    package init(
        _ configuration: Configuration, logger: Logger, on loop: EventLoop,
        whenReachable: (@Sendable (OnionAddress) -> Void)? = nil
    ) {
        self.configuration = configuration
        self.logger = logger
        self.logger.handler = AlarmLogHandler(logger.handler, noting: alarms)
        self.loop = loop
        self.whenReachable = whenReachable
        figures = NodeMetrics(factory: registry)
        ProcessCollector.register(in: registry)
        BuildInfo.register(Version.current, in: registry)
    }

    // MARK: Life cycle

    /// Reads the credentials, opens the spool and starts to listen. Where it throws, nothing of it is left.
    /// - Returns: where senders connect.
    /// - Throws: ``ConfigurationError``, ``PortError``, `StandingStoreError` or `SpoolError`.
    package func start() async throws -> Endpoint {
        whileRunning = self
        do {
            return try await open()
        } catch {
            await undoStart()
            throw error
        }
    }

    private func undoStart() async {
        listeners = []
        httpEndpoint = nil
        admin?.close()
        (admin, adminEndpoint) = (nil, nil)
        await dispatch?.close()
        await openedSpool?.close()
        openedSpool = nil
        await closeStanding()
        lock = nil
        whileRunning = nil
    }

    private func open() async throws -> Endpoint {
        try makeStateDirectory()
        lock = try await lockStateDirectory()
        raiseDescriptorLimit()
        var assembly = ProviderAssembly(configuration, on: loop)
        let parts = try assembly.parts()
        let dispatch = Dispatch(limits: configuration.dispatchLimits, on: loop) { [unowned self] event in
            let event = UnsafeTransfer(event)
            assumeIsolated { $0.observe(event.value) }
        }
        try openStanding()
        let spool = try openSpool(for: dispatch)
        openedSpool = spool
        await dispatch.start(providers(of: parts))
        self.dispatch = dispatch
        adopt(assembly, parts)
        makeRules()
        let listener = try listen(at: configuration.listen.tnp, .tnp)
        let httpListener = try configuration.listen.http.map { try listen(at: $0, .http) }
        listeners = [listener] + [httpListener].compactMap(\.self)
        httpEndpoint = httpListener?.endpoint
        try PortError.naming("listen.admin") { () throws(ListenError) in try openAdminPort() }
        if let spool { try await dispatch.use(spool) }
        openedSpool = nil
        for listener in listeners { listener.resume() }
        isServing = true
        scheduleSecond()
        scheduleCredentialCheck()
        let routes = rules.routes.joined(separator: " ")
        var metadata: Logger.Metadata = [
            "tnp": "\(listener.endpoint)", "routes": "\(routes)", "spool": "\(spool?.count ?? 0)",
        ]
        metadata["http"] = httpEndpoint.map { "\($0)" }
        metadata["admin"] = adminEndpoint.map { "\($0)" }
        logger.notice("listening", metadata: metadata)
        if configuration.tor.managed != true, configuration.tor.onionDirectory == nil {
            logger.warning(
                """
                no tor: the node runs none, and tor.onion_directory names no other, so that only this machine reaches it. \
                Install tor, or set tor.managed = false and tor.onion_directory
                """)
        }
        await startTor(for: listener.endpoint)
        return listener.endpoint
    }

    /// Opens a endpoint, behind which nobody is served yet: an address that is in use must not end a process that has begun to
    /// deliver, and first it must be known what an earlier process has left.
    private func listen(at endpoint: Endpoint, _ senderProtocol: Admission.SenderProtocol) throws(PortError) -> Listener
    {
        let listener = try PortError.naming("listen.\(senderProtocol.rawValue)") { () throws(ListenError) in
            try Listener(endpoint, on: loop) { [unowned self] stream in accepted(stream, at: senderProtocol) }
        }
        listener.pause()
        return listener
    }

    /// Reads the configuration and the credentials anew, without dropping a connection or an envelope. What is wrong is
    /// logged, and then everything stays as it was.
    package func reload() {
        guard whileRunning != nil, !isStopping else { return }
        do {
            var new = try Configuration(file: configuration.file)
            if let managed = configuration.tor.managed { new.decideTor(managed) }
            for key in new.keysRequiringRestart(comparedTo: configuration) {
                logger.warning("this setting changes when the node is started anew", metadata: ["key": "\(key)"])
            }
            let served = (rules.apps.map(\.name), rules.apps.map(\.format), rules.routes, admission.settings.senders)
            let replaced = try rebuild(configuration.reloaded(from: new))
            // What was said in WELCOME is true no longer.
            if served != (rules.apps.map(\.name), rules.apps.map(\.format), rules.routes, admission.settings.senders) {
                for connection in connections.values { connection.closeIdle("the node's configuration has changed") }
            }
            logger.notice("configuration read anew", metadata: ["routes_replaced": "\(replaced)"])
        } catch {
            logger.error("the new configuration is wrong; the node goes on with the old one: \(error)")
        }
    }

    /// Replaces what has changed.
    /// - Returns: how many routes have a new provider, or are new or gone.
    private func rebuild(_ new: Configuration) throws -> Int {
        var assembly = ProviderAssembly(new, on: loop, tokens: tokens)
        var parts = try assembly.parts()
        var replaced = self.parts.keys.count { parts[$0] == nil }
        for (route, part) in parts {
            if let old = self.parts[route], old.fingerprint == part.fingerprint {
                parts[route] = old
            } else {
                replaced += 1
            }
        }
        configuration = new
        logger.logLevel = new.logLevel
        raiseDescriptorLimit()
        dispatch.replace(providers(of: parts), limits: new.dispatchLimits)
        admission.settings = new.admission
        announcePuzzle()
        adopt(assembly, parts)
        makeRules()
        return replaced
    }

    private func providers(of parts: [Route: ProviderAssembly.Part]) -> Dispatch.Providers {
        Dispatch.Providers(parts.mapValues(\.provider))
    }

    private func adopt(_ assembly: ProviderAssembly, _ parts: [Route: ProviderAssembly.Part]) {
        for route in self.parts.keys where parts[route] == nil { figures.forget(route) }
        self.parts = parts
        tokens = assembly.tokens
        providerTokens = assembly.tokensByApp
        figures.keep(tokensOf: Set(providerTokens.keys), certificatesOf: Set(assembly.certificates.map(\.app)))
        certificates = assembly.certificates
        watch = CredentialWatch(assembly.versions)
        warnOfExpiry()
    }

    private func openSpool(for dispatch: Dispatch) throws -> Spool? {
        guard let settings = configuration.spool else { return nil }
        return try Spool.open(
            at: settings.file, keyFile: settings.keyFile, maxBytes: settings.maximumBytes,
            onExpired: { [weak dispatch] rows in Task { await dispatch?.expired(rows) } })
    }

    private func makeRules() {
        if configuration.listen.http != nil, configuration.admission.senders == .required {
            logger.warning(
                "nothing is taken through the HTTP endpoint: its senders sign nothing, and senders.mode is \"required\""
            )
        }
        for advice in HTTPEndpointAdvice.texts(for: configuration) { logger.warning("\(advice.key) \(advice.text)") }
        resolver = AppResolver(configuration.apps)
        if configuration.listen.http != nil {
            for problem in resolver.unreachable { logger.warning("\(problem)") }
        }
        let routes = parts.keys.map(\.description).sorted()
        rules = IngressSession.Rules(
            circuitIDs: configuration.listen.circuitIDs,
            onion: torStatus.flatMap(onion(of:)),
            maximumFrame: configuration.limits.maximumFrame,
            maximumInFlight: configuration.limits.inFlight,
            handshakeTimeout: .seconds(configuration.limits.handshakeTimeout),
            idleTimeout: .seconds(configuration.limits.idleTimeout),
            frameTimeout: .seconds(configuration.limits.frameTimeout), control: configuration.limits.control,
            apps: configuration.apps.map { ($0.name, $0.format) }, routes: routes)
    }

    /// The node's own tor has come further.
    func learnOnion(_ status: TorStatus) { rules.onion = onion(of: status) }

    private func onion(of status: TorStatus) -> String? {
        let ports = configuration.tor.settings(state: configuration.state).tnpPorts
        return status.address.flatMap { address in ports.first.map { "\(address):\($0)" } }
    }

    /// Stops: no new work, everything that was taken is answered, for at most `limits.shutdown_timeout`; what is then
    /// still without an outcome loses its connection. What lies in the spool stays there.
    /// - Returns: whether everything was answered.
    package func stop() async -> Bool {
        guard !isStopping else { return true }
        isStopping = true
        let underWay = await dispatch.inFlight
        logger.notice("stopping", metadata: ["in_flight": "\(underWay)"])
        listeners = []
        secondTimer = nil
        credentialTimer = nil
        let timeout = Timer(on: loop) { [unowned self] in assumeIsolated { $0.resumeIdleWaiters() } }
        timeout.start(after: .seconds(configuration.limits.shutdownTimeout))
        for connection in connections.values { connection.shutDown(retryAfter: 5000) }
        await dispatch.drain()
        if !connections.isEmpty { await withCheckedContinuation { idleWaiters.append($0) } }
        timeout.stop()
        let isComplete = connections.isEmpty
        for connection in connections.values { connection.close() }
        connections = [:]
        await dispatch.close()
        await closeStanding()
        await tor?.stop()
        admin?.close()
        lock = nil
        whileRunning = nil
        logger.notice("stopped", metadata: ["all_answered": "\(isComplete)"])
        return isComplete
    }

    func resumeIdleWaiters() {
        let waiting = idleWaiters
        idleWaiters = []
        for continuation in waiting { continuation.resume() }
    }

    /// `tocsin check` holds the lock for a moment to see whether it is free: that must not keep a node from its start.
    private func lockStateDirectory() async throws -> FileLock {
        for isLast in [false, false, false, true] {
            do throws(PrivateFileError) {
                return try FileLock(at: "\(configuration.state)/lock", for: configuration.state)
            } catch {
                guard case .inUse = error, !isLast else {
                    throw ConfigurationError(file: configuration.file, key: "node.state", problem: "\(error)")
                }
            }
            await loop.sleep(for: .milliseconds(200))
        }
        preconditionFailure("the last turn returns or throws")
    }

    private func makeStateDirectory() throws {
        if mkdir(configuration.state, 0o700) != 0, errno != EEXIST {
            throw ConfigurationError(
                file: configuration.file, key: "node.state",
                problem: "cannot make \(configuration.state): \(String(cString: strerror(errno)))")
        }
        let check = StateCheck(lookingAt: configuration.state)
        if let problem = check.refusal {
            throw ConfigurationError(
                file: configuration.file, key: "node.state", problem: "\(configuration.state) \(problem)")
        }
        if check.mode & 0o077 != 0 {
            logger.warning(
                check.mode & 0o022 == 0
                    ? "others can read the state directory: run chmod 700"
                    : "others can write to the state directory: run chmod 700",
                metadata: ["directory": "\(configuration.state)"])
        }
    }

    /// Each connection is a descriptor, and the usual limit is far below what `limits.connections` allows.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let connections = min(
            configuration.limits.connections, max(1, Int(clamping: limit.rlim_max) - configuration.reservedDescriptors))
        if connections < configuration.limits.connections {
            logger.warning(
                "fewer connections than limits.connections: raise the limit of open files (ulimit -n, LimitNOFILE)",
                metadata: ["connections": "\(connections)"])
        }
        connectionRegistry.limits = ConnectionRegistry.Limits(
            connections: connections, halfOpen: configuration.limits.halfOpen,
            servesHTTP: configuration.listen.http != nil)
    }

    private func scheduleSecond() {
        let timer = secondTimer ?? Timer(on: loop) { [unowned self] in assumeIsolated { $0.secondPassed() } }
        timer.start(after: .seconds(1))
        secondTimer = timer
    }

    private func secondPassed() {
        guard !isStopping else { return }
        dispatch.expireWaiting()
        advanceAdmission()
        updateMetrics()
        scheduleSecond()
    }

    private func scheduleCredentialCheck() {
        let timer =
            credentialTimer
            ?? Timer(on: loop) { [unowned self] in assumeIsolated { $0.checkCredentials() } }
        timer.start(after: CredentialWatch.interval)
        credentialTimer = timer
    }

    private func checkCredentials() {
        guard !isStopping else { return }
        warnOfExpiry()
        if watch.hasChanged() {
            do {
                let replaced = try rebuild(configuration)
                logger.notice("credentials read anew", metadata: ["routes_replaced": "\(replaced)"])
            } catch {
                logger.error("a credential file has changed and is wrong; the node goes on with the old one: \(error)")
            }
        }
        scheduleCredentialCheck()
    }

    private func warnOfExpiry() {
        for certificate in certificates {
            figures.show(expiry: certificate.notAfter, of: certificate.app, kind: "APNs certificate")
            let due = expiryWarnings.due(for: certificate.file, end: certificate.notAfter, now: UnixTime.now)
            guard let due else { continue }
            let date = Format.date(certificate.notAfter)
            logger.log(
                level: due >= .day ? .error : .warning,
                due == .ended
                    ? "Apple's certificate expired, and Apple refuses connections with it: put a new one from developer.apple.com in its place"
                    : "Apple's certificate expires soon: put a new one from developer.apple.com in its place",
                metadata: ["file": "\(certificate.file)", "expires": "\(date)"])
        }
    }

    // MARK: Senders

    private nonisolated func accepted(_ stream: ByteStream, at senderProtocol: Admission.SenderProtocol) {
        let stream = UnsafeTransfer(stream)
        assumeIsolated { $0.accept(stream.value, at: senderProtocol) }
    }

    private func accept(_ stream: ByteStream, at senderProtocol: Admission.SenderProtocol) {
        lastConnection += 1
        let connection = connection(stream, at: senderProtocol)
        connections[connection.number] = connection
        place(connection)
    }

    private func connection(_ stream: ByteStream, at senderProtocol: Admission.SenderProtocol) -> any SenderConnection {
        let limits = configuration.limits
        switch senderProtocol {
        case .tnp:
            return IngressConnection(
                stream, number: lastConnection, rules: rules, readTimeout: .seconds(limits.readTimeout), host: self)
        case .http:
            let http = HTTPLimits(
                target: Self.longestTarget, requestTimeout: .seconds(limits.httpRequestTimeout),
                idleTimeout: .seconds(limits.idleTimeout), readTimeout: .seconds(limits.readTimeout),
                firstTimeout: .seconds(limits.handshakeTimeout))
            let rules = HTTPSender.Rules(
                circuitIDs: configuration.listen.circuitIDs, http: http,
                answerTimeout: .seconds(limits.httpAnswerTimeout),
                lastAnswerTimeout: .seconds(limits.shutdownTimeout) * 3 / 4)
            return HTTPSender(stream, number: lastConnection, rules: rules, host: self)
        }
    }

    /// Hexadecimal of the largest notification, and what stands beside it.
    private static let longestTarget = 10_240

    package nonisolated var appResolver: AppResolver { assumeIsolated { $0.resolver } }

    // MARK: Log

    private func observe(_ event: DispatchEvent) {
        figures.count(event)
        switch event {
        case .attempt(let route, let deviceToken, let attemptResult, _, _): log(route, deviceToken, attemptResult)
        case .serving, .finished: break
        case .recovered(let envelope, let app, let outcome):
            admission.recordOutcome(outcome, of: envelope, app: app, at: moment)
        case .unprovenTokenRefused(let circuit):
            // Its connections hear of it when they send again.
            if admission.chargeSuspectedToken(circuit, at: .now) != nil { recordAbuse() }
        case .breaker(let route, let state, let answer):
            guard throttle.allows("breaker \(route) \(state)", at: .now) else { return }
            logger.log(
                level: state == .closed ? .notice : .error,
                state == .closed
                    ? "the push service works again"
                    : "nothing more goes to this push service for a while: see the answer, and run tocsin check --online",
                metadata: ["route": "\(route)", "breaker": "\(state.rawValue)", "answer": "\(answer)"])
        case .tokenRefusalSurge(let route, let isActive):
            logger.log(
                level: isActive ? .error : .notice,
                isActive
                    ? "the push service refuses most device tokens: wrong environment or topic? Senders keep their pairings"
                    : "the push service takes most device tokens again", metadata: ["route": "\(route)"])
        case .spoolRefused(let reason):
            guard throttle.allows("spool", at: .now) else { return }
            logger.error(
                "an envelope could not be stored; its sender is told RETRY 202", metadata: ["reason": "\(reason)"])
        case .spoolShortage(let why?):
            logger.error(
                "the spool takes no more envelopes; senders are told RETRY 202 until there is room again",
                metadata: ["reason": "\(why.text)"])
        case .spoolShortage(nil): logger.notice("the spool takes envelopes again")
        case .spoolUnreadable(let count):
            logger.error(
                "rows of the spool could not be read and were dropped: was its key replaced, or the disk damaged?",
                metadata: ["rows": "\(count)"])
        }
    }

    private func log(_ route: Route, _ deviceToken: Bytes, _ attemptResult: AttemptResult) {
        let level = Self.level(of: attemptResult.disposition.failureSource)
        guard level >= logger.logLevel else { return }
        let key = "\(route) \(attemptResult.answer)"
        guard level <= .debug || throttle.allows(key, at: .now) else { return }
        var metadata: Logger.Metadata = [
            "route": "\(route)", "answer": "\(attemptResult.answer)", "outcome": "\(attemptResult.outcome.kind)",
            "phone": "\(pseudonyms.name(of: deviceToken, at: UnixTime.now))",
        ]
        metadata["detail"] = attemptResult.detail.map { "\($0)" }
        // Apple says so in the TLS handshake at best, which then looks like an outage.
        let expired = certificates.first { $0.app == route.app && $0.notAfter <= UnixTime.now }
        if route.magic != .android, attemptResult.disposition.failureSource == .provider, let expired {
            metadata["cause"] = "the certificate \(expired.file) expired on \(Format.date(expired.notAfter))"
        }
        logger.log(level: level, Self.message(for: attemptResult.disposition.failureSource), metadata: metadata)
    }

    private static func level(of failureSource: FailureSource) -> Logger.Level {
        switch failureSource {
        case .none: .debug
        case .deviceToken: .info
        case .provider: .warning
        case .nodeOperator, .developer: .error
        }
    }

    private static func message(for failureSource: FailureSource) -> Logger.Message {
        switch failureSource {
        case .none: "accepted"
        case .deviceToken: "the push service does not take this device token"
        case .provider: "the push service is out of order or out of reach"
        case .nodeOperator: "the push service refuses this node: look at its credentials, topic and clock"
        case .developer: "the push service calls a request wrong: please report this"
        }
    }
}

/// Hands a value of this loop's isolation domain across a check that the compiler cannot see is none.
struct UnsafeTransfer<Value>: @unchecked Sendable {
    // Unchecked: made and taken apart in one synchronous call on the loop's thread (assumeIsolated checks that).
    let value: Value
    init(_ value: Value) { self.value = value }
}
