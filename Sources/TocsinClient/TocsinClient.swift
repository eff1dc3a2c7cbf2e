// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import Time

/// A sender: keeps a connection to a node, submits envelopes over it and waits for what comes of each. A broken
/// connection is made anew, and what has no final result is sent again with the same bytes, which the node recognises.
/// Where the node asks for proof of work, it is done on other threads than the loop's.
/// It lives until it is closed, or until the node ends an idle connection.
public actor TocsinClient {
    /// How the node is reached.
    public struct Options: Sendable {
        /// The onion address with its port, or where the node listens.
        public var node: Endpoint
        /// tor's SOCKS port, or nil to connect directly.
        public var proxy: Proxy?
        /// Named in HELLO; leave it empty to be like everyone.
        public var agent: String
        /// For one try to connect; tor takes its time to find an onion service.
        public var dialTimeout: Duration
        /// How long the client may compute for one submission, where the node asks for proof of work; zero: it never
        /// does.
        public var workLimit: Duration

        /// - Parameters: as the properties of the same names; `agent` is at most 64 bytes of UTF-8.
        public init(
            node: Endpoint, proxy: Proxy? = nil, agent: String = "", dialTimeout: Duration = .seconds(60),
            workLimit: Duration = .seconds(60)
        ) {
            precondition(agent.utf8.count <= Hello.longestAgent, "an agent is at most 64 bytes")
            self.node = node
            self.proxy = proxy
            self.agent = agent
            self.dialTimeout = dialTimeout
            self.workLimit = workLimit
        }
    }

    /// What the client is doing, for those who watch.
    public enum Progress: Sendable, Equatable {
        /// Connecting, through the proxy where there is one.
        case dialling
        /// The node is reached; HELLO and what is to be sent are on their way.
        case connected
        /// The node has answered.
        case welcomed(Welcome)
        /// Connecting failed or the connection was lost; the next try follows after this time.
        case retrying(reason: String, after: Duration)
        /// QUEUED: the node has stored it, and the final outcome follows.
        case queued
        /// The node asks for proof of work, and one is looked for; `effort` hashes are to be expected.
        case working(effort: UInt32)
    }

    private struct Waiter {
        let continuation: CheckedContinuation<Outcome, any Error>
        let isContentWithQueued: Bool
        let started: MonotonicTime
        let deadline: MonotonicTime
    }

    private nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let options: Options
    private let progress: (@Sendable (Progress) -> Void)?
    private var session: SenderSession
    /// Searches for proofs of work, by request.
    private(set) var solving: [UInt32: Task<Void, Never>] = [:]
    private var waiters: [UInt32: Waiter] = [:]
    private var wire: Wire?
    /// The client itself while it has a connection: what hangs on the loop must not be let go of on another thread.
    private var whileConnected: TocsinClient?
    /// What the node said when it began to leave: it still answers what it has taken, and takes nothing more.
    private var leaving: GoAway?
    private var isConnecting = false
    private var isClosed = false
    private var backoff = Backoff(base: .milliseconds(250), cap: .seconds(30))
    private var lastFailure = ClientError.unreachable("not tried yet")
    /// When the present connection was made.
    private var connectedAt = MonotonicTime.now
    private var lastReceived = MonotonicTime.now
    private var connecting: Task<Void, Never>?
    /// However long a node says to stay away.
    private static let longestPause = Duration.seconds(600)
    private var sweep: Timer?

    /// A client that connects at its first submission.
    public init(_ options: Options, on loop: EventLoop, progress: (@Sendable (Progress) -> Void)? = nil) {
        self.options = options
        self.loop = loop
        self.progress = progress
        session = SenderSession(workLimit: options.workLimit)
    }

    /// Submits an envelope and waits for its final outcome. Where the node asks for more proof of work than may be done,
    /// that is RETRY with reason 203 or 204.
    /// - Parameters:
    ///   - patience: how long to go on trying while the node cannot be reached, does not answer or wants work done.
    ///   - acceptQueued: whether the node may store it durably and answer later.
    ///   - returnsWhenQueued: whether QUEUED ends the wait: the node goes on trying until the ttl is over, and nobody here
    ///     hears what came of it.
    ///   - key: signs the submission, where the phone is to be rung by one sender only.
    /// - Throws: ``ClientError``.
    public func submit(
        _ envelope: Envelope, patience: Duration = .seconds(180), acceptQueued: Bool = false,
        returnsWhenQueued: Bool = false, signedBy key: Ed25519.PrivateKey? = nil
    ) async throws -> Outcome {
        guard !isClosed else { throw ClientError.closed }
        let signature = key.map { SenderSignature(of: envelope.digest, by: $0) }
        let request = session.add {
            Submission(request: $0, envelope: envelope, acceptQueued: acceptQueued, signature: signature)
        }
        flush()
        if sweep == nil { startSweep() }
        return try await withCheckedThrowingContinuation {
            let now = MonotonicTime.now
            waiters[request] = Waiter(
                continuation: $0, isContentWithQueued: returnsWhenQueued, started: now, deadline: now + patience)
        }
    }

    /// Ends the connection; submissions without an outcome fail with ``ClientError/closed``.
    public func close() {
        isClosed = true
        connecting?.cancel()
        disconnect()
        sweep = nil
        failAll(ClientError.closed)
    }

    // MARK: Connection

    private func flush() {
        if wire == nil { connect() }
        for action in session.flush(now: .now) { perform(action) }
        if wire != nil, session.isStuck { reconnect(because: "the node works on what was left to it") }
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
            progress?(.dialling)
            do {
                let stream = try await loop.dial(options.node, through: options.proxy, timeout: options.dialTimeout)
                guard !isClosed else {
                    stream.close()
                    break
                }
                progress?(.connected)
                // What the node has said already is heard at once, and may be that it does not serve us: that is no reason
                // to go on without a pause.
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
        whileConnected = self
        connectedAt = .now
        leaving = nil
        wire.send(session.connected(agent: options.agent))
        flush()
        wire.start()
    }

    private func pause(after failure: ClientError, atLeast minimum: Duration = .zero) async {
        lastFailure = failure
        let delay = max(min(minimum, Self.longestPause), backoff.next(random: Double.random(in: 0..<1)))
        progress?(.retrying(reason: failure.reason, after: delay))
        await loop.sleep(for: delay)
    }

    fileprivate nonisolated func received(_ bytes: RawSpan) {
        // A RawSpan cannot go into the closure of assumeIsolated; the bytes of one read can.
        let copy = bytes.withUnsafeBytes { Array($0) }
        assumeIsolated { $0.take(copy) }
    }

    private func take(_ bytes: [UInt8]) {
        lastReceived = .now
        var actions: [SenderSession.Action] = []
        do throws(ProtocolError) {
            defer {
                for action in actions { perform(action) }
                // A place may have become free also without an action.
                flush()
            }
            try session.received(bytes.span.bytes, &actions)
        } catch {
            fatal(.refused(GoAway(code: .protocolError, text: "it does not speak TNP (\(error))")))
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
                if waiters[result.request]?.isContentWithQueued == true {
                    session.remove(result.request)
                    waiters.removeValue(forKey: result.request)?.continuation.resume(returning: result.outcome)
                }
                return
            }
            waiters.removeValue(forKey: result.request)?.continuation.resume(returning: result.outcome)
        case .goAway(let goAway, let isFatal):
            if isFatal { return fatal(.refused(goAway)) }
            leaving = goAway
            if !goAway.code.answersWhatWasTaken { reconnect(because: "the connection was closed") }
        case .send(let bytes): wire?.send(bytes)
        case .solve(let request, let digest, let puzzle, let deadline):
            progress?(.working(effort: puzzle.effort))
            solve(request, PuzzleSolver(puzzle: puzzle, digest: digest, deadline: deadline))
        case .stopSolving(let request): stopSolving(request)
        }
    }

    // MARK: Proof of work

    private func solve(_ request: UInt32, _ solver: PuzzleSolver) {
        solving[request] = Task(priority: .utility) {
            let proof = await solver.proof(from: UInt64.random(in: 0...UInt64.max))
            // One that was stopped has nothing to say: another may be under way for the same request.
            guard !Task.isCancelled else { return }
            solving[request] = nil
            if let proof {
                session.solved(request, proof, now: .now)
            } else {
                for action in session.gaveUp(request) { perform(action) }
            }
            flush()
        }
    }

    private func stopSolving(_ request: UInt32) { solving.removeValue(forKey: request)?.cancel() }

    // MARK: The end of a connection

    fileprivate nonisolated func ended(_ reason: StreamError) {
        assumeIsolated { $0.reconnect(because: reason.description) }
    }

    private func reconnect(because reason: String) {
        let words = leaving.map { $0.text.isEmpty ? "the node said GOAWAY" : $0.text } ?? reason
        let delay = Duration.milliseconds(Int64(leaving?.retryAfter ?? 0))
        disconnect()
        connect(after: (words, delay))
    }

    private func disconnect() {
        wire?.close()
        wire = nil
        whileConnected = nil
        session.disconnected()
    }

    private func fatal(_ error: ClientError) {
        disconnect()
        sweep = nil
        failAll(error)
    }

    private func failAll(_ error: ClientError) {
        let all = waiters
        waiters = [:]
        for (request, waiter) in all {
            stopSolving(request)
            session.remove(request)
            waiter.continuation.resume(throwing: error)
        }
    }

    // MARK: Patience

    private func startSweep() {
        let timer = Timer(on: loop) { [unowned self] in assumeIsolated { $0.endOverdue() } }
        timer.start(after: .milliseconds(250))
        sweep = timer
    }

    /// Why a submission has no outcome though its time is over.
    private func failure(of waiter: Waiter, now: MonotonicTime) -> ClientError {
        if wire == nil { return lastFailure }
        return session.welcome == nil ? .silent(now - connectedAt) : .noResult(waiter.deadline - waiter.started)
    }

    private func endOverdue() {
        let now = MonotonicTime.now
        var isSilent = false
        for (request, waiter) in waiters where waiter.deadline <= now {
            if session.lacksProof(request) {
                stopSolving(request)
                for action in session.gaveUp(request) { perform(action) }
                continue
            }
            isSilent = isSilent || lastReceived < waiter.started
            waiters[request] = nil
            session.remove(request)
            waiter.continuation.resume(throwing: failure(of: waiter, now: now))
        }
        // Nothing at all since it was submitted: a circuit that died without a word.
        if isSilent, wire != nil { reconnect(because: "the node no longer answers") }
        // What is gone leaves its place to the next, and its proof is looked for no more.
        flush()
        guard !waiters.isEmpty else {
            sweep = nil
            return
        }
        sweep?.start(after: .milliseconds(250))
    }
}

/// The client's end of a stream: what is sent in one turn of the loop goes out as one write.
private final class Wire: ByteStreamHandler, TurnEndHandler {
    private let stream: ByteStream
    private unowned let client: TocsinClient
    private var output: [UInt8] = []

    init(_ stream: ByteStream, client: TocsinClient) {
        self.stream = stream
        self.client = client
        stream.handler = self
    }

    func start() { stream.resumeReading() }

    func send(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        if output.isEmpty { stream.loop.atEndOfTurn(self) }
        output += bytes
    }

    func turnEnded() {
        stream.write(output)
        output.removeAll(keepingCapacity: true)
    }

    func close() { stream.close() }

    func stream(_ stream: ByteStream, received bytes: RawSpan) { client.received(bytes) }

    func stream(_ stream: ByteStream, ended reason: StreamError) { client.ended(reason) }
}
