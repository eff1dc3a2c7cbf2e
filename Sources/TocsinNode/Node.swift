import Cryptography
import Delivery
import EventLoop
import Glibc
import Logging
import Providers
import TNP

/// The node: listens for senders, delivers what they submit, and stops without losing what it has taken. One that was
/// started lives until it is stopped.
public actor Node: IngressConnection.Host {
    private nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let configuration: Configuration
    private let logger: Logger
    private var dispatch: Dispatch!
    private var rules: IngressSession.Rules!
    private var listener: Listener?
    private var connections: [ObjectIdentifier: IngressConnection] = [:]
    private var puzzle: PuzzleSchedule
    private var puzzleTimer: Timer?
    private var pseudonyms = Pseudonyms()
    private var throttle = LogThrottle()
    private var whenIdle: [CheckedContinuation<Void, Never>] = []
    private var isStopping = false
    /// The node itself while it runs: what hangs on the loop must not be let go of on another thread.
    private var whileRunning: Node?
    private var mostConnections = 0
    /// Descriptors for what is no sender: the push services, files, and the last words of refused connections.
    private static let otherDescriptors = 128

    /// A node that does not run yet.
    /// - Parameter loop: all of it runs there.
    public init(_ configuration: Configuration, logger: Logger, on loop: EventLoop) {
        self.configuration = configuration
        self.logger = logger
        self.loop = loop
        puzzle = PuzzleSchedule(seed: SecureRandom.bytes(Puzzle.seedLength), now: .now)
    }

    // MARK: Life cycle

    /// Reads the credentials and starts to listen.
    /// - Returns: where senders connect.
    /// - Throws: ``ConfigurationError`` or `ListenError`.
    public func start() throws -> Endpoint {
        try makeStateDirectory()
        raiseDescriptorLimit()
        let providers = try Assembly(configuration: configuration, loop: loop).providers()
        dispatch = Dispatch(providers: providers, limit: configuration.limits.totalInFlight) {
            [unowned self] route, envelope, verdict in
            assumeIsolated { $0.observe(route, envelope, verdict) }
        }
        rules = IngressSession.Rules(
            circuitIDs: configuration.listen.circuitIDs, maximumFrame: configuration.limits.maximumFrame,
            maximumInFlight: configuration.limits.inFlight,
            handshakeTimeout: .seconds(configuration.limits.handshakeTimeout),
            idleTimeout: .seconds(configuration.limits.idleTimeout),
            apps: configuration.apps.map { ($0.name, $0.format) }, routes: dispatch.routes.map(\.description))
        let listener = try Listener(configuration.listen.tnp, on: loop) { [unowned self] stream in
            accepted(stream)
        }
        let endpoint = listener.endpoint
        self.listener = listener
        whileRunning = self
        schedulePuzzleChange()
        let routes = rules.routes.joined(separator: " ")
        logger.notice("listening", metadata: ["tnp": "\(endpoint)", "routes": "\(routes)"])
        return endpoint
    }

    /// Stops: no new work, everything that was taken is answered, for at most `limits.shutdown_timeout`; what is then
    /// still without an outcome loses its connection.
    /// - Returns: whether everything was answered.
    public func stop() async -> Bool {
        guard !isStopping else { return true }
        isStopping = true
        logger.notice("stopping", metadata: ["in_flight": "\(dispatch.inFlight)"])
        listener = nil
        puzzleTimer = nil
        let timeout = Timer(on: loop) { [unowned self] in assumeIsolated { $0.wakeWaiting() } }
        timeout.start(after: .seconds(configuration.limits.shutdownTimeout))
        for connection in connections.values { connection.shutDown(retryAfter: 5000) }
        if !connections.isEmpty { await withCheckedContinuation { whenIdle.append($0) } }
        timeout.stop()
        let isComplete = dispatch.inFlight == 0
        for connection in connections.values { connection.close() }
        connections = [:]
        dispatch.close()
        whileRunning = nil
        logger.notice("stopped", metadata: ["all_answered": "\(isComplete)"])
        return isComplete
    }

    private func wakeWaiting() {
        let waiting = whenIdle
        whenIdle = []
        for continuation in waiting { continuation.resume() }
    }

    private func makeStateDirectory() throws {
        if mkdir(configuration.state, 0o700) != 0, errno != EEXIST {
            throw ConfigurationError(
                file: configuration.file, key: "node.state",
                problem: "cannot make \(configuration.state): \(String(cString: strerror(errno)))")
        }
    }

    /// Each connection is a descriptor, and the usual limit is far below what `limits.connections` allows.
    private func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        mostConnections = min(configuration.limits.connections, Int(clamping: limit.rlim_max) - Self.otherDescriptors)
        if mostConnections < configuration.limits.connections {
            logger.warning(
                "fewer connections than limits.connections: raise the limit of open files (ulimit -n, LimitNOFILE)",
                metadata: ["connections": "\(mostConnections)"])
        }
    }

    private func schedulePuzzleChange() {
        let timer = Timer(on: loop) { [unowned self] in assumeIsolated { $0.changePuzzle() } }
        timer.start(after: puzzle.changesAt - .now)
        puzzleTimer = timer
    }

    private func changePuzzle() {
        puzzle.change(to: SecureRandom.bytes(Puzzle.seedLength), now: .now)
        for connection in connections.values { connection.announce(puzzle.puzzle(at: .now)) }
        schedulePuzzleChange()
    }

    // MARK: Senders

    private nonisolated func accepted(_ stream: ByteStream) {
        let stream = Loan(stream)
        assumeIsolated { $0.accept(stream.value) }
    }

    private func accept(_ stream: ByteStream) {
        let connection = IngressConnection(stream, rules: rules, host: self)
        let isFull = connections.count >= mostConnections
        // Also one that is refused is kept until its last words are out; a second bound keeps those few.
        guard connections.count < mostConnections + Self.otherDescriptors / 2 else { return connection.close() }
        connections[ObjectIdentifier(connection)] = connection
        if isFull { connection.refuse(retryAfter: 10_000) }
    }

    nonisolated func welcome() -> Welcome {
        assumeIsolated { node in
            Welcome(
                maximumFrame: UInt32(node.configuration.limits.maximumFrame),
                maximumInFlight: UInt16(node.configuration.limits.inFlight),
                idleTimeout: UInt32(node.configuration.limits.idleTimeout),
                serverTime: UInt64(max(UnixTime.now, 0)) * 1000, puzzle: node.puzzle.puzzle(at: .now),
                routes: node.rules.routes)
        }
    }

    nonisolated func deliver(_ submission: Submission, app: String, for connection: IngressConnection) {
        let connection = Loan(connection)
        assumeIsolated { $0.start(submission, app: app, for: connection.value) }
    }

    private func start(_ submission: Submission, app: String, for connection: IngressConnection) {
        Task {
            let outcome = await dispatch.deliver(submission.envelope, app: app)
            connection.finished(submission.request, outcome)
        }
    }

    nonisolated func ended(_ connection: IngressConnection) {
        let identifier = ObjectIdentifier(connection)
        assumeIsolated { node in
            node.connections[identifier] = nil
            if node.connections.isEmpty { node.wakeWaiting() }
        }
    }

    // MARK: Log

    private func observe(_ route: Route, _ envelope: Envelope, _ verdict: Verdict) {
        let level = Self.level(of: verdict.concern)
        guard level >= logger.logLevel else { return }
        let key = "\(route) \(verdict.answer)"
        guard level <= .debug || throttle.allows(key, at: .now) else { return }
        var metadata: Logger.Metadata = [
            "route": "\(route)", "answer": "\(verdict.answer)", "outcome": "\(verdict.outcome.kind)",
            "phone": "\(pseudonyms.name(of: envelope.deviceToken, at: UnixTime.now))",
        ]
        metadata["detail"] = verdict.detail.map { "\($0)" }
        logger.log(level: level, Self.message(for: verdict.concern), metadata: metadata)
    }

    private static func level(of concern: Concern) -> Logger.Level {
        switch concern {
        case .nobody: .debug
        case .deviceToken: .info
        case .provider: .warning
        case .nodeOperator, .developer: .error
        }
    }

    private static func message(for concern: Concern) -> Logger.Message {
        switch concern {
        case .nobody: "accepted"
        case .deviceToken: "the push service does not take this device token"
        case .provider: "the push service is out of order or out of reach"
        case .nodeOperator: "the push service refuses this node: look at its credentials, topic and clock"
        case .developer: "the push service calls a request wrong: please report this"
        }
    }
}

/// Hands a value of this loop's isolation domain across a check that the compiler cannot see is none.
private struct Loan<Value>: @unchecked Sendable {
    // Unchecked: made and taken apart in one synchronous call on the loop's thread (assumeIsolated checks that).
    let value: Value
    init(_ value: Value) { self.value = value }
}
