// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import Time

/// A client that submits envelopes to a node and waits for their outcomes.
///
/// The client connects at its first submission. When the connection breaks, it reconnects and sends every submission
/// without a final result again, with the same bytes, so that the node recognises it. If the node requires proof of
/// work, the client computes it on threads other than the event loop's.
///
/// A connected client keeps itself alive: call ``close()``, or the connection stays until the node closes it as idle.
public actor TocsinClient {
    /// The node's address and the settings of the connection.
    public struct Options: Sendable {
        /// The node's onion address and port, or the endpoint at which the node listens.
        public var node: Endpoint
        /// tor's SOCKS port or another proxy; `nil` to connect directly.
        public var proxy: Proxy?
        /// The agent in HELLO, at most 64 bytes of UTF-8. Leave it empty, so that the client does not differ from others.
        public var agent: String
        /// The time limit for one attempt to connect. tor needs some time to find an onion service.
        public var connectTimeout: Duration
        /// The longest time to compute proofs of work for one submission; zero to compute none.
        public var workLimit: Duration

        /// Creates options; `agent` must be at most 64 bytes of UTF-8.
        /// - Parameters: as the properties of the same names.
        public init(
            node: Endpoint, proxy: Proxy? = nil, agent: String = "", connectTimeout: Duration = .seconds(60),
            workLimit: Duration = .seconds(60)
        ) {
            precondition(agent.utf8.count <= Hello.maximumAgentLength, "an agent is at most 64 bytes")
            self.node = node
            self.proxy = proxy
            self.agent = agent
            self.connectTimeout = connectTimeout
            self.workLimit = workLimit
        }
    }

    /// A step in the client's work, for display.
    public enum Progress: Sendable, Equatable {
        /// The client is connecting, through the proxy if one is set.
        case connecting
        /// The client is connected and sends HELLO and the submissions.
        case connected
        /// The node has answered with WELCOME.
        case welcomed(Welcome)
        /// The client could not connect or lost the connection; it tries again after this time.
        case retrying(reason: String, after: Duration)
        /// QUEUED: the node has stored an envelope, and the final outcome follows.
        case queued
        /// The client is computing a proof of work, with `effort` hashes expected.
        case solvingPuzzle(effort: UInt32)
    }

    /// A caller that waits for the outcome of its submission.
    private struct Waiter {
        let continuation: CheckedContinuation<Outcome, any Error>
        let returnsWhenQueued: Bool
        let started: MonotonicTime
        let deadline: MonotonicTime
    }

    private nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let options: Options
    private let progress: (@Sendable (Progress) -> Void)?
    private var session: SenderSession
    /// The running searches for proofs of work, by request.
    private(set) var solving: [UInt32: Task<Void, Never>] = [:]
    private var waiters: [UInt32: Waiter] = [:]
    private var wire: Wire?
    /// Keeps self alive while connected: resources of the loop must be released on its thread.
    private var selfWhileConnected: TocsinClient?
    /// The node's GOAWAY on the current connection: the node takes no more submissions, but may still answer those that
    /// it has taken.
    private var leaving: GoAway?
    private var isConnecting = false
    private var isClosed = false
    private var backoff = Backoff(base: .milliseconds(250), cap: .seconds(30))
    private var lastFailure = ClientError.unreachable("not tried yet")
    private var connectedAt = MonotonicTime.now
    private var lastReceived = MonotonicTime.now
    private var connecting: Task<Void, Never>?
    /// The longest `retryAfter` of a GOAWAY that the client waits for.
    private static let longestPause = Duration.seconds(600)
    /// Fires every 250 ms while submissions wait, to end those whose deadline has passed.
    private var deadlineTimer: Timer?

    /// Creates a client, which connects at its first submission.
    /// - Parameters:
    ///   - options: the node's address and the settings of the connection.
    ///   - loop: the event loop on which the client runs.
    ///   - progress: receives the steps of the client's work, on the thread of `loop`.
    public init(_ options: Options, on loop: EventLoop, progress: (@Sendable (Progress) -> Void)? = nil) {
        self.options = options
        self.loop = loop
        self.progress = progress
        session = SenderSession(workLimit: options.workLimit)
    }

    /// Submits an envelope and waits for its final outcome.
    ///
    /// If the node requires more proof of work than ``Options/workLimit`` or `timeout` allows, the outcome is RETRY with
    /// reason 203 or 204.
    /// - Parameters:
    ///   - envelope: the envelope to submit.
    ///   - timeout: the longest time to wait for an outcome, including time in which the node is unreachable, does not
    ///     answer or requires work.
    ///   - acceptQueued: whether the node may store the envelope durably and deliver it later.
    ///   - returnsWhenQueued: whether to return at QUEUED. The node then tries to deliver until the ttl expires, and
    ///     the client does not report the final outcome.
    ///   - key: the sender key that signs the submission; `nil` for an unsigned one.
    /// - Returns: the final outcome, or QUEUED if `returnsWhenQueued` is set.
    /// - Throws: ``ClientError`` if there is no outcome.
    public func submit(
        _ envelope: Envelope, timeout: Duration = .seconds(180), acceptQueued: Bool = false,
        returnsWhenQueued: Bool = false, signedBy key: Ed25519.PrivateKey? = nil
    ) async throws -> Outcome {
        guard !isClosed else { throw ClientError.closed }
        let signature = key.map { SenderSignature(of: envelope.digest, by: $0) }
        let request = session.add {
            Submission(request: $0, envelope: envelope, acceptQueued: acceptQueued, signature: signature)
        }
        flush()
        if deadlineTimer == nil { startDeadlineTimer() }
        return try await withCheckedThrowingContinuation {
            let now = MonotonicTime.now
            waiters[request] = Waiter(
                continuation: $0, returnsWhenQueued: returnsWhenQueued, started: now, deadline: now + timeout)
        }
    }

    /// Closes the connection; submissions without an outcome fail with ``ClientError/closed``.
    public func close() {
        isClosed = true
        connecting?.cancel()
        fatal(.closed)
    }

    // MARK: Connection

    private func flush() {
        if wire == nil { connect() }
        for action in session.flush(now: .now) { perform(action) }
        if wire != nil, session.isBlockedByAbandoned { reconnect(because: "abandoned submissions occupy all slots") }
    }

    private func connect(after pause: (reason: String, delay: Duration)? = nil) {
        guard !isConnecting, !isClosed, session.pendingCount > 0 else { return }
        isConnecting = true
        connecting = Task {
            if let pause { await self.pause(after: .unreachable(pause.reason), atLeast: pause.delay) }
            await keepConnecting()
        }
    }

    private func keepConnecting() async {
        while !isClosed, wire == nil, session.pendingCount > 0 {
            progress?(.connecting)
            do {
                let stream = try await loop.dial(options.node, through: options.proxy, timeout: options.connectTimeout)
                guard !isClosed else {
                    stream.close()
                    break
                }
                progress?(.connected)
                // Reset before `open`, which may read a GOAWAY at once: `reconnect` then has to start a new attempt, after
                // a pause.
                isConnecting = false
                return open(stream)
            } catch {
                if case .proxyUnreachable(let endpoint, let reason) = error {
                    await pause(after: .proxyUnreachable(endpoint, reason))
                } else {
                    await pause(after: .unreachable(error.description))
                }
            }
        }
        isConnecting = false
    }

    private func open(_ stream: ByteStream) {
        let wire = Wire(stream, client: self)
        self.wire = wire
        selfWhileConnected = self
        connectedAt = .now
        leaving = nil
        wire.send(session.connected(agent: options.agent))
        flush()
        stream.resumeReading()
    }

    private func pause(after failure: ClientError, atLeast minimum: Duration = .zero) async {
        lastFailure = failure
        let delay = max(min(minimum, Self.longestPause), backoff.next(random: Double.random(in: 0..<1)))
        progress?(.retrying(reason: failure.reason, after: delay))
        await loop.sleep(for: delay)
    }

    fileprivate nonisolated func received(_ bytes: RawSpan) {
        // The closure of assumeIsolated cannot capture a RawSpan, only a copy of its bytes.
        let copy = bytes.withUnsafeBytes { Array($0) }
        assumeIsolated { $0.take(copy) }
    }

    private func take(_ bytes: [UInt8]) {
        lastReceived = .now
        var actions: [SenderSession.Action] = []
        do throws(ProtocolError) {
            defer {
                for action in actions { perform(action) }
                // A slot may be free even if there is no action.
                flush()
            }
            try session.received(bytes.span.bytes, &actions)
        } catch {
            fatal(.connectionClosed(GoAway(code: .protocolError, text: "the node does not speak TNP (\(error))")))
        }
    }

    private func perform(_ action: SenderSession.Action) {
        switch action {
        case .welcomed(let welcome):
            backoff.reset()
            progress?(.welcomed(welcome))
        case .result(let result):
            guard result.outcome.isFinal else {
                progress?(.queued)
                if waiters[result.request]?.returnsWhenQueued == true {
                    session.remove(result.request)
                    waiters.removeValue(forKey: result.request)?.continuation.resume(returning: result.outcome)
                }
                return
            }
            waiters.removeValue(forKey: result.request)?.continuation.resume(returning: result.outcome)
        case .goAway(let goAway, let isFatal):
            if isFatal { return fatal(.connectionClosed(goAway)) }
            leaving = goAway
            if !goAway.code.answersInFlight { reconnect(because: "the node closed the connection") }
        case .send(let bytes): wire?.send(bytes)
        case .solve(let request, let digest, let puzzle, let deadline):
            progress?(.solvingPuzzle(effort: puzzle.effort))
            solve(puzzle, for: digest, of: request, until: deadline)
        case .stopSolving(let request): stopSolving(request)
        }
    }

    // MARK: Proof of work

    private func solve(_ puzzle: Puzzle, for digest: Digest256, of request: UInt32, until deadline: MonotonicTime) {
        solving[request] = Task(priority: .utility) {
            let proof = await puzzle.proof(for: digest, until: deadline, from: .random(in: 0 ... .max))
            // Ignore a cancelled search: another may be running for the same request.
            guard !Task.isCancelled else { return }
            solving[request] = nil
            if let proof {
                session.solved(request, proof, now: .now)
            } else {
                for action in session.searchEnded(request) { perform(action) }
            }
            flush()
        }
    }

    private func stopSolving(_ request: UInt32) { solving.removeValue(forKey: request)?.cancel() }

    // MARK: Disconnection

    fileprivate nonisolated func ended(_ reason: StreamError) {
        assumeIsolated { $0.reconnect(because: reason.description) }
    }

    private func reconnect(because reason: String) {
        let reason = leaving.map { $0.text.isEmpty ? "the node sent GOAWAY" : $0.text } ?? reason
        let delay = Duration.milliseconds(Int64(leaving?.retryAfter ?? 0))
        disconnect()
        connect(after: (reason, delay))
    }

    private func disconnect() {
        wire?.stream.close()
        wire = nil
        selfWhileConnected = nil
        session.disconnected()
    }

    /// Disconnects, and fails all submissions.
    private func fatal(_ error: ClientError) {
        disconnect()
        deadlineTimer = nil
        let all = waiters
        waiters = [:]
        for (request, waiter) in all {
            stopSolving(request)
            session.remove(request)
            waiter.continuation.resume(throwing: error)
        }
    }

    // MARK: Deadlines

    private func startDeadlineTimer() {
        deadlineTimer = Timer(on: loop, after: .milliseconds(250)) { [unowned self] in
            assumeIsolated { $0.endOverdue() }
        }
    }

    /// The error of a submission whose deadline has passed.
    private func failure(of waiter: Waiter, now: MonotonicTime) -> ClientError {
        if wire == nil { return lastFailure }
        return session.welcome == nil ? .noWelcome(now - connectedAt) : .noResult(waiter.deadline - waiter.started)
    }

    private func endOverdue() {
        let now = MonotonicTime.now
        var isSilent = false
        for (request, waiter) in waiters where waiter.deadline <= now {
            if session.lacksProof(request) {
                stopSolving(request)
                for action in session.searchEnded(request) { perform(action) }
                continue
            }
            isSilent = isSilent || lastReceived < waiter.started
            waiters[request] = nil
            session.remove(request)
            waiter.continuation.resume(throwing: failure(of: waiter, now: now))
        }
        // The client has received nothing since a submission was made: the circuit is dead.
        if isSilent, wire != nil { reconnect(because: "the node stopped responding") }
        // Removed submissions leave their slots to others, and their searches stop.
        flush()
        guard !waiters.isEmpty else {
            deadlineTimer = nil
            return
        }
        deadlineTimer?.start(after: .milliseconds(250))
    }
}

/// The client's end of a stream. Combines what the client sends in one turn of the loop into one write.
private final class Wire: ByteStreamHandler, TurnEndHandler {
    let stream: ByteStream
    private unowned let client: TocsinClient
    private var output: [UInt8] = []

    init(_ stream: ByteStream, client: TocsinClient) {
        self.stream = stream
        self.client = client
        stream.handler = self
    }

    func send(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        if output.isEmpty { stream.loop.atEndOfTurn(self) }
        output += bytes
    }

    func turnEnded() {
        stream.write(output)
        output.removeAll(keepingCapacity: true)
    }

    func stream(_ stream: ByteStream, received bytes: RawSpan) { client.received(bytes) }

    func stream(_ stream: ByteStream, ended reason: StreamError) { client.ended(reason) }
}
