// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Redis
import Time

/// The engine that the nodes of a cluster share: keeps a connection to its primary, and gives signs of life. A node
/// works on alone while the engine cannot be reached, and returns to it by itself.
package final class Engine: RedisReceiver, @unchecked Sendable {
    // Unchecked: used on the loop's thread only; its task prefers the loop's executor.

    /// What changes.
    package enum Event: Equatable {
        /// The engine can be used.
        case available
        /// The engine cannot be used, for this reason.
        case unavailable(EngineProblem)
        /// An answer took longer than ``patience``: the node decides alone for a moment.
        case slow
        /// The engine is no longer slow.
        case fast
        /// The engine has lost its state since this node used it last.
        case lostState
        /// A living node has this node's name.
        case sameName
    }

    /// The state for the dashboard.
    package struct Status: Sendable, Equatable {
        /// Why the engine cannot be used; `nil` if it can, and before the first attempt has ended.
        package var problem: EngineProblem?
        /// Whether the engine can be used.
        package var isAvailable = false
        /// Whether it took longer than ``patience`` to answer, and no sign of life has been answered in time since.
        package var isSlow = false
        /// When ``isAvailable`` last changed, or the node started.
        package var since: MonotonicTime
        /// The time between the last sign of life and its reply.
        package var roundTrip: Duration?
        /// The engine's clock minus this node's.
        package var clockOffset: Duration?
        /// All nodes of the last day, in the order of their names.
        package var members: [Member] = []
    }

    /// How long a session lasts after the node's last sign of life.
    package static let sessionTime = Duration.seconds(30)
    /// How long the node waits for an answer before it decides alone.
    package static let patience = Duration.milliseconds(250)
    /// How long the node decides alone after the engine was slow.
    private static let slowPause = Duration.seconds(1)
    private static let heartbeatInterval = Duration.seconds(5)
    /// How long the node waits for the engine at its start.
    private static let firstTimeout = Duration.seconds(3)
    private static let sessionLength = 8

    private let settings: EngineSettings
    private let version: String
    /// The id of this session, which other nodes see.
    package let session = Hex.encode(SecureRandom.bytes(sessionLength))
    /// The session of an earlier process of this node, which has ended for certain.
    private let formerSession: String?
    /// The names of the keys.
    package let names: KeyNames
    private let loop: EventLoop
    /// Receives each event, on the loop. Set it before ``start(isolation:)``.
    package var report: (Event) -> Void = { _ in }
    /// Receives each sign of life that the engine has confirmed: when the session ends without another one, and whether
    /// other nodes may have taken over what this node had claimed. Called before ``report``. Set it before
    /// ``start(isolation:)``.
    package var renewed: (_ end: MonotonicTime, _ isNew: Bool) -> Void = { _, _ in }
    private var connection: RedisConnection?
    private var watch: SentinelWatch?
    /// A random number that is new after the engine has lost its state; `nil` before the first connection.
    package private(set) var epoch: [UInt8]?
    private var heartbeatTimer: Timer?
    private var heartbeatSent: (monotonic: MonotonicTime, wall: Int64)?
    private var task: Task<Void, Never>?
    private var hasTried = false
    /// Whether the engine has had this session under the node's name.
    private var hasName = false
    private var reportedSameName = false
    /// The current state.
    package private(set) var status = Status(since: .now)

    /// - Parameters:
    ///   - version: of Tocsin, for the other nodes' dashboards.
    ///   - formerSession: ``session`` of an earlier process of this node; `nil` if none is known. What it was delivering
    ///     when it ended is then free for other nodes at once.
    package init(
        _ settings: EngineSettings, version: String, formerSession: String? = nil, on loop: EventLoop
    ) {
        self.formerSession = formerSession
        self.settings = settings
        self.version = version
        names = KeyNames(cluster: settings.cluster, secret: settings.secret)
        self.loop = loop
        heartbeatTimer = Timer(on: loop) { [unowned self] in sendHeartbeat() }
        watch = settings.sentinelWatch(on: loop)
        // What a demoted primary takes is lost.
        watch?.changed = { [weak self] primary in
            self?.connection?.end(.disconnected("the engine's primary is now \(primary)"))
        }
    }

    // MARK: Life cycle

    /// Connects, and stays connected until ``stop()``. Waits until the first attempt has ended, but not for long: a node
    /// starts without the engine, too.
    package func start(isolation: isolated (any Actor)? = #isolation) async {
        task = Task(executorPreference: loop) { await self.run() }
        let deadline = MonotonicTime.now + Self.firstTimeout
        while !hasTried, .now < deadline { await loop.sleep(for: .milliseconds(5)) }
    }

    /// Ends the session and the connection.
    package func stop(isolation: isolated (any Actor)? = #isolation) async {
        task?.cancel()
        if let connection {
            var command = RedisCommand(
                function: FunctionLibrary.current.name(of: .leave), keys: [sessionKey, names.name(.nodes)])
            command.append(settings.node)
            _ = try? await connection.call(command)
            connection.end(.disconnected("the node stops"))
        }
        await task?.value
        watch?.stop()
    }

    private func run() async {
        var backoff = Backoff(base: .milliseconds(500), cap: .seconds(10))
        while !Task.isCancelled {
            let problem: EngineProblem
            do throws(EngineProblem) {
                let handshake = EngineHandshake(settings: settings, names: names, loop: loop)
                let primary = try await settings.primary(by: watch)
                let (connection, epoch) = try await handshake.connect(to: primary)
                backoff.reset()
                problem = EngineProblem(await use(connection, to: primary, epoch), user: settings.user)
            } catch {
                problem = error
            }
            becomeUnavailable(problem)
            guard !Task.isCancelled else { return }
            await loop.sleep(for: backoff.next(random: SecureRandom.fraction()))
        }
    }

    /// Uses a connection until it fails.
    private func use(_ connection: RedisConnection, to primary: Endpoint, _ epoch: [UInt8]) async -> RedisError {
        let error = await withCheckedContinuation { continuation in
            connection.whenEnded { continuation.resume(returning: $0) }
            // The engine is available from the first reply on.
            self.connection = connection
            if let known = self.epoch, known != epoch { report(.lostState) }
            self.epoch = epoch
            // The Sentinels may have named another one meanwhile.
            if let watch, let latest = watch.latest, latest != primary { watch.changed(latest) }
            sendHeartbeat()
        }
        self.connection = nil
        heartbeatTimer?.stop()
        return error
    }

    private func becomeUnavailable(_ problem: EngineProblem) {
        hasTried = true
        guard !Task.isCancelled, status.isAvailable || status.problem != problem else { return }
        if status.isAvailable { status.since = .now }
        (status.isAvailable, status.isSlow) = (false, false)
        status.problem = problem
        report(.unavailable(problem))
    }

    // MARK: Signs of life

    private var sessionKey: [UInt8] { names.name(ofSession: session) }

    private func sendHeartbeat() {
        guard let connection else { return }
        heartbeatTimer?.start(after: Self.heartbeatInterval)
        heartbeatSent = (.now, UnixTime.milliseconds)
        var command = RedisCommand(
            function: FunctionLibrary.current.name(of: .renew),
            keys: [sessionKey, names.name(.nodes), names.name(.epoch)])
        command.append(Int64(Self.sessionTime.milliseconds))
        command.append(settings.node)
        command.append(Member.text(session: session, version: version))
        command.append(formerSession.map { names.name(ofSession: $0) } ?? [])
        connection.send(command, for: self)
    }

    package func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        switch reply {
        // The next sign of life comes soon enough.
        case .failure(.tooManyWaiting): break
        case .failure(let error): connection?.end(error)
        case .success(let reply):
            guard let membership = Membership(reply), let sent = heartbeatSent else {
                connection?.end(.malformed("not the reply to a sign of life"))
                return
            }
            // The handshake gives the engine a new one.
            guard membership.epoch == epoch else {
                connection?.end(.disconnected("the engine has lost its state")); return
            }
            received(membership, sent)
        }
    }

    private func received(_ membership: Membership, _ sent: (monotonic: MonotonicTime, wall: Int64)) {
        let roundTrip = MonotonicTime.now - sent.monotonic
        status.roundTrip = roundTrip
        status.clockOffset = .milliseconds(membership.time - sent.wall) - roundTrip / 2
        status.members = membership.members
        hasTried = true
        noticeSpeed(roundTrip)
        if let owner = membership.nameOwner, owner != session, hasName, !reportedSameName {
            reportedSameName = true
            report(.sameName)
        }
        hasName = true
        // While the engine was not available, it may have forgotten claims.
        renewed(sent.monotonic + Self.sessionTime, membership.hadEnded || !status.isAvailable)
        guard !status.isAvailable else { return }
        (status.isAvailable, status.problem, status.since) = (true, nil, .now)
        report(.available)
    }

    // MARK: Calls

    /// While the engine is slow, when the node asks it again.
    private var slowUntil = MonotonicTime(nanoseconds: 0)

    /// Whether the node asks the engine; if not, it decides alone.
    package var isAsked: Bool { status.isAvailable && slowUntil <= .now }

    /// Records that an answer took longer than ``patience``.
    package func wasSlow() {
        slowUntil = .now + Self.slowPause
        guard !status.isSlow else { return }
        status.isSlow = true
        report(.slow)
    }

    /// Only a sign of life ends slowness, so that an engine that is slow every other second is not reported each time.
    private func noticeSpeed(_ roundTrip: Duration) {
        guard roundTrip < Self.patience else { return wasSlow() }
        guard status.isSlow, slowUntil <= .now else { return }
        status.isSlow = false
        report(.fast)
    }

    /// The calls by which this node claims envelopes.
    package var claims: ClaimCalls { ClaimCalls(session: Array(session.utf8), sessionKey: sessionKey) }

    /// Sends a command.
    /// - Returns: `false` if the engine cannot be used; the receiver then learns nothing.
    package func send(_ command: RedisCommand, number: UInt64, for receiver: any RedisReceiver) -> Bool {
        guard status.isAvailable, let connection else { return false }
        connection.send(command, number: number, for: receiver)
        return true
    }

    /// Calls a function and waits for its reply.
    /// - Throws: ``EngineProblem`` if the engine cannot be used.
    package func call(
        _ function: FunctionLibrary.Function, keys: [[UInt8]], _ arguments: [[UInt8]],
        isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        var command = RedisCommand(function: FunctionLibrary.current.name(of: function), keys: keys)
        for argument in arguments { command.append(argument) }
        return try await call(command)
    }

    /// Sends a command and waits for its reply.
    /// - Throws: ``EngineProblem`` if the engine cannot be used.
    package func call(
        _ command: RedisCommand, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        try await call(command, within: RedisConnection.replyTimeout)
    }

    /// Sends a command for which a sender waits, and waits for its reply no longer than ``patience``.
    /// - Throws: ``EngineProblem`` if the engine cannot be used, or is slow.
    package func ask(
        _ command: RedisCommand, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        guard isAsked else { throw status.problem ?? EngineProblem("the engine is slow") }
        let start = MonotonicTime.now
        defer { if MonotonicTime.now - start >= Self.patience { wasSlow() } }
        return try await call(command, within: Self.patience)
    }

    private func call(
        _ command: RedisCommand, within time: Duration, isolation: isolated (any Actor)? = #isolation
    ) async throws(EngineProblem) -> RedisReply {
        guard status.isAvailable, let connection else {
            throw status.problem ?? EngineProblem("the engine has not been reached yet")
        }
        do {
            return try await connection.call(command, within: time)
        } catch {
            throw EngineProblem(error, user: settings.user)
        }
    }
}
