// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Redis
import Time

/// A node's access to the engine that the nodes of a cluster share: keeps a connection to its primary, and sends
/// heartbeats. ``EngineState`` decides what follows from the replies. While the engine cannot be reached, the node
/// decides alone, and connects again by itself.
package final class Engine: RedisReceiver, @unchecked Sendable {
    // Unchecked: used on the loop's thread only; its task prefers the loop's executor.

    /// How long a session lasts after the node's last heartbeat.
    package static let sessionTime = Duration.seconds(30)
    /// How long the node waits for an answer before it decides alone.
    package static let answerTimeout = Duration.milliseconds(250)
    private static let heartbeatInterval = Duration.seconds(5)
    /// How long the node waits for the engine at its start.
    private static let firstTimeout = Duration.seconds(3)
    private static let sessionLength = 8

    let settings: EngineSettings
    private let version: String
    /// The id of this session, which other nodes see.
    package let session: String
    /// The session of an earlier process of this node, which has ended for certain.
    private let formerSession: String?
    /// The names of the keys.
    package let names: KeyNames
    /// The calls by which this node claims envelopes.
    package let claims: ClaimCalls
    private let loop: EventLoop
    /// Receives each event, on the loop. Set it before ``start(isolation:)``.
    package var report: (Event) -> Void = { _ in }
    /// Receives each heartbeat that the engine has confirmed: when the session ends without another one, and whether
    /// other nodes may have taken over what this node had claimed. Called before ``report`` receives
    /// ``Event/available``. Set it before ``start(isolation:)``.
    package var renewed: (_ end: MonotonicTime, _ isNew: Bool) -> Void = { _, _ in }
    /// The connection to the primary; `nil` if there is none.
    private(set) var connection: RedisConnection?
    private var watch: SentinelWatch?
    private var heartbeatTimer: Timer?
    private var task: Task<Void, Never>?
    private var state: EngineState

    /// The current state.
    package var status: Status { state.status }
    /// A random number that is new after the engine has lost its state; `nil` before the first connection.
    package var epoch: [UInt8]? { state.epoch }
    /// Whether the node asks the engine; if not, it decides alone.
    package var isAsked: Bool { state.isAsked(at: .now) }

    /// - Parameters:
    ///   - version: the version of Tocsin, for the other nodes' dashboards.
    ///   - formerSession: ``session`` of an earlier process of this node; `nil` if none is known. What it was delivering
    ///     when it ended is then free for other nodes at once.
    package init(
        _ settings: EngineSettings, version: String, formerSession: String? = nil, on loop: EventLoop
    ) {
        session = Hex.encode(SecureRandom.bytes(Self.sessionLength))
        state = EngineState(session: session, now: .now)
        self.formerSession = formerSession
        self.settings = settings
        self.version = version
        names = KeyNames(cluster: settings.cluster, secret: settings.secret)
        claims = ClaimCalls(session: Array(session.utf8), sessionKey: names.name(ofSession: session))
        self.loop = loop
        heartbeatTimer = Timer(on: loop) { [unowned self] in sendHeartbeat() }
        watch = settings.sentinelWatch(on: loop)
        // A demoted primary loses what it still takes.
        watch?.changed = { [weak self] primary in
            self?.connection?.close(.disconnected("the engine's primary is now \(primary)"))
        }
    }

    // MARK: Life cycle

    /// Connects, and stays connected until ``stop()``. Waits until the first attempt has ended, but no longer than 3 s:
    /// a node starts without the engine, too.
    package func start(isolation: isolated (any Actor)? = #isolation) async {
        task = Task(executorPreference: loop) { await self.run() }
        let deadline = MonotonicTime.now + Self.firstTimeout
        while !state.hasTried, .now < deadline { await loop.sleep(for: .milliseconds(5)) }
    }

    /// Ends the session and the connection.
    package func stop(isolation: isolated (any Actor)? = #isolation) async {
        task?.cancel()
        if let connection {
            var command = RedisCommand(.leave, keys: [sessionKey, names.name(.nodes)])
            command.append(settings.node)
            _ = try? await connection.call(command)
            connection.close(.disconnected("the node stops"))
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
                guard !Task.isCancelled else { return connection.close(.disconnected("the node stops")) }
                backoff.reset()
                problem = EngineProblem(await use(connection, to: primary, epoch), user: settings.user)
            } catch {
                problem = error
            }
            guard !Task.isCancelled else { return }
            update { $0.failed(problem, now: .now, &$1) }
            await loop.sleep(for: backoff.next(random: SecureRandom.fraction()))
        }
    }

    /// Uses a connection until it fails.
    private func use(_ connection: RedisConnection, to primary: Endpoint, _ epoch: [UInt8]) async -> RedisError {
        let error = await withCheckedContinuation { continuation in
            connection.whenEnded { continuation.resume(returning: $0) }
            // The engine is available from the first reply on.
            self.connection = connection
            update { $0.connected(epoch: epoch, &$1) }
            // The Sentinels may have named another one meanwhile.
            if let watch, let latest = watch.latest, latest != primary { watch.changed(latest) }
            sendHeartbeat()
        }
        self.connection = nil
        heartbeatTimer?.stop()
        return error
    }

    private func update(_ event: (inout EngineState, inout [EngineState.Action]) -> Void) {
        var actions: [EngineState.Action] = []
        event(&state, &actions)
        for action in actions {
            switch action {
            case .report(let event): report(event)
            case .renewed(let end, let isNew): renewed(end, isNew)
            case .close(let error): connection?.close(error)
            }
        }
    }

    // MARK: Heartbeats

    private var sessionKey: [UInt8] { names.name(ofSession: session) }

    private func sendHeartbeat() {
        guard let connection else { return }
        heartbeatTimer?.start(after: Self.heartbeatInterval)
        state.heartbeatSent(now: .now, wall: UnixTime.milliseconds)
        var command = RedisCommand(
            .renew,
            keys: [sessionKey, names.name(.nodes), names.name(.epoch)])
        command.append(Self.sessionTime.wholeMilliseconds)
        command.append(settings.node)
        command.append(Member.text(session: session, version: version))
        command.append(formerSession.map { names.name(ofSession: $0) } ?? [])
        connection.send(command, for: self)
    }

    package func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) {
        update { $0.replied(reply, now: .now, &$1) }
    }

    /// Records that an answer took longer than ``answerTimeout``.
    package func wasSlow() { update { $0.wasSlow(now: .now, &$1) } }
}
