// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import Time

/// A client that submits envelopes to nodes, the preferred one first, and waits for their outcomes.
///
/// The client connects at its first submission. When a connection breaks, it reconnects and sends every submission
/// without a final result again, with the same bytes, so that the node recognises it. If a node cannot be reached, is
/// shutting down or answers RETRY for longer than the caller waits, its submissions go to the next node. If a node
/// requires proof of work, the client computes it on threads other than the event loop's.
///
/// A client with connections keeps itself alive until ``close()``, or until its connections have been idle for about a
/// minute.
public actor TocsinClient {
    /// The nodes' addresses and the settings of the connections.
    public struct Options: Sendable {
        /// The nodes' onion addresses and ports, or the endpoints at which they listen; the preferred one first. A
        /// notification by handle goes to the first node only, which keeps the handle.
        public var nodes: [Endpoint]
        /// tor's SOCKS port or another proxy; `nil` to connect directly. The client replaces SOCKS credentials by its
        /// own, with a password for each phone if phones are isolated.
        public var proxy: Proxy?
        /// The agent in HELLO, at most 64 bytes of UTF-8. Leave it empty, so that the client does not differ from others.
        public var agent: String
        /// The time limit for one attempt to connect. tor needs some time to find an onion service.
        public var connectTimeout: Duration
        /// The longest time to compute proofs of work for one submission; zero to compute none.
        public var workLimit: Duration
        /// The longest time for which the client obeys a node's RETRY, if the submission's own time limit allows it. For
        /// a longer `retryAfter`, it tries the other nodes, and then returns RETRY.
        public var patience: Duration
        /// Whether each phone has connections of its own, so that a node cannot link phones by their tor circuits.
        public var isolatesPhones: Bool
        /// The private key of a site that the nodes' operators know (PROTOCOL §10); `nil` for any other sender.
        public var siteKey: Ed25519.PrivateKey?
        /// The fields that the phones' app reads in notifications.
        public var schema: TextSchema

        /// Creates options; there must be a node, and `agent` must be at most 64 bytes of UTF-8.
        public init(
            nodes: [Endpoint], proxy: Proxy? = nil, agent: String = "", connectTimeout: Duration = .seconds(60),
            workLimit: Duration = .seconds(60), patience: Duration = .seconds(600), isolatesPhones: Bool = true,
            siteKey: Ed25519.PrivateKey? = nil, schema: TextSchema = .bisq
        ) {
            precondition(!nodes.isEmpty, "a client needs at least one node")
            precondition(agent.utf8.count <= Hello.maximumAgentLength, "an agent is at most 64 bytes")
            self.nodes = nodes
            self.proxy = proxy
            self.agent = agent
            self.connectTimeout = connectTimeout
            self.workLimit = workLimit
            self.patience = patience
            self.isolatesPhones = isolatesPhones
            self.siteKey = siteKey
            self.schema = schema
        }
    }

    /// A step in the client's work, for display.
    public enum Progress: Sendable, Equatable {
        /// The client is connecting to this node, through the proxy if one is set.
        case connecting(Endpoint)
        /// The client is connected and sends HELLO and the submissions.
        case connected
        /// The node has answered with WELCOME.
        case welcomed(Welcome)
        /// The client could not connect or lost the connection; it tries again after this time.
        case retrying(reason: String, after: Duration)
        /// The node answered RETRY; the client sends the envelope again after this time.
        case waiting(reason: String, after: Duration)
        /// QUEUED: the node has stored an envelope, and the final outcome follows.
        case queued
        /// The client is computing a proof of work, with `effort` hashes expected.
        case solvingPuzzle(effort: UInt32)
    }

    nonisolated let loop: EventLoop
    public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    let options: Options
    /// A node whose address ends in `.onion`, but is no onion address; `nil` if there is none.
    private let invalidNode: Endpoint?
    let progress: (@Sendable (Progress) -> Void)?
    let onGone: (@Sendable (PairingToken) -> Void)?
    /// The pairings of ``pair(_:app:timeout:)`` and ``remember(_:)``, by device token or handle.
    var remembered: [[UInt8]: PairingToken] = [:]
    /// The connections for each phone, by device token or handle, and the callers that wait for an outcome.
    let circuits: NodeCircuits
    var waiters: [UInt64: Waiter] = [:]
    private(set) var isClosed = false
    /// Whether the client has ever reached a node: a wrong setting is then no likely cause of a failure.
    var hasConnected = false
    /// Fires while submissions wait or connections are open: see ``tick()``.
    private var ticker: Timer?

    /// The largest number of submissions without an outcome.
    private static let maximumPending = 10_000
    /// The largest number of searches for proofs of work at a time.
    private static let maximumSearches = 2

    /// Creates a client, which connects at its first submission.
    /// - Parameters:
    ///   - options: the nodes' addresses and the settings of the connections.
    ///   - loop: the event loop on which the client runs.
    ///   - progress: receives the steps of the client's work, on the thread of `loop`.
    ///   - onGone: receives the pairing of a phone that no longer has its device token, or whose handle the node does not
    ///     know, on the thread of `loop`. The client has forgotten the pairing.
    public init(
        _ options: Options, on loop: EventLoop, progress: (@Sendable (Progress) -> Void)? = nil,
        onGone: (@Sendable (PairingToken) -> Void)? = nil
    ) {
        self.options = options
        invalidNode = options.nodes.first(where: \.isInvalidOnion)
        self.loop = loop
        self.progress = progress
        self.onGone = onGone
        let requiresCircuitIsolation = if case .socks5(_, let it?) = options.proxy { it.isRequired } else { false }
        circuits = NodeCircuits(
            NodeLinkFactory(
                options.nodes, through: options.proxy, requiresCircuitIsolation: requiresCircuitIsolation,
                agent: options.agent, connectTimeout: options.connectTimeout,
                computesProofOfWork: options.workLimit > .zero, siteKey: options.siteKey,
                searches: SearchSlots(Self.maximumSearches)),
            on: loop)
    }

    /// Submits an envelope and waits for its final outcome. Cancel the task to abandon the submission.
    ///
    /// The client obeys a node's RETRY within `timeout` and ``Options/patience``; then it tries the other nodes. RETRY
    /// is the outcome if all nodes that can be used answer it, or if they require more proof of work than
    /// ``Options/workLimit`` or `timeout` allows.
    /// - Parameters:
    ///   - envelope: the envelope to submit.
    ///   - timeout: the longest time to wait for an outcome, including time in which no node is reachable, answers or
    ///     takes the envelope.
    ///   - acceptQueued: whether the node may store the envelope durably and deliver it later.
    ///   - returnsWhenQueued: whether to return at QUEUED. The node then tries to deliver until the ttl is over, and the
    ///     client does not report the final outcome.
    ///   - key: the sender key that signs the submission; `nil` for an unsigned one.
    ///   - earlier: the sender key of an earlier pairing with the same phone, to which its device token may be bound: the
    ///     notification moves that binding to `key` when it is delivered (PROTOCOL §3, "A new key").
    /// - Returns: the final outcome, or QUEUED if `returnsWhenQueued` is set or the time is over.
    /// - Throws: ``ClientError`` if there is no outcome, `CancellationError`.
    public func submit(
        _ envelope: Envelope, timeout: Duration = .seconds(180), acceptQueued: Bool = false,
        returnsWhenQueued: Bool = false, signedBy key: Ed25519.PrivateKey? = nil,
        succeeding earlier: Ed25519.PrivateKey? = nil
    ) async throws -> Outcome {
        let submission = Submission(
            request: 0, envelope: envelope, acceptQueued: acceptQueued,
            signature: key.map { SenderSignature(of: envelope, by: $0, succeeding: earlier) })
        let address = envelope.handle?.bytes ?? Array(envelope.deviceToken)
        let outcome = try await send(
            .submission(submission), of: address, toFirstNodeOnly: envelope.handle != nil, timeout: timeout,
            returnsWhenQueued: returnsWhenQueued
        ).outcome
        if outcome.endsPairing(byHandle: envelope.handle != nil),
            let pairing = remembered.removeValue(forKey: address)
        {
            onGone?(pairing)
        }
        return outcome
    }

    /// Sends a request and waits for its final answer.
    /// - Parameters:
    ///   - address: the device token or handle, which decides on the connections of the request.
    ///   - toFirstNodeOnly: whether only the first node may get the request, because it keeps the handle.
    func send(
        _ request: SenderRequest, of address: [UInt8], toFirstNodeOnly: Bool, timeout: Duration,
        returnsWhenQueued: Bool = false
    ) async throws -> Waiter.Answer {
        guard !isClosed else { throw ClientError.closed }
        if let invalidNode { throw ClientError.invalidOnion(invalidNode) }
        guard circuits.submissions.count < Self.maximumPending else {
            throw ClientError.queueFull(Self.maximumPending)
        }
        let number = circuits.submissions.newNumber()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The client may have been closed, or the task cancelled, before the runtime created the continuation.
                if isClosed { return continuation.resume(throwing: ClientError.closed) }
                if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
                let now = MonotonicTime.now
                let terms = SubmissionRouting.Terms(
                    started: now, deadline: now + timeout, maximumPause: options.patience,
                    returnsWhenQueued: returnsWhenQueued)
                let others = toFirstNodeOnly ? Set(options.nodes.indices.dropFirst()) : []
                // A node's pause, which a circuit remembers, holds for the phones that follow, too.
                let circuit = circuits.circuit(for: options.isolatesPhones ? address : [], of: self) {
                    $0.hasNoPause(at: now)
                }
                waiters[number] = Waiter(
                    continuation: continuation, submission: PendingSubmission(request, workLimit: options.workLimit),
                    routing: SubmissionRouting(terms, excluding: others))
                circuits.submissions.insert(number, on: circuit.number)
                assign(number)
                for link in circuit.links { link.wake() }
                if ticker == nil { tick() }
            }
        } onCancel: {
            Task { await self.cancel(number) }
        }
    }

    private func cancel(_ number: UInt64) {
        let link = circuits.place(of: number)?.link
        finish(number, .failure(CancellationError()))
        link?.flush()
    }

    /// Ends a submission: resumes its caller with the result.
    func finish(_ number: UInt64, _ result: Result<Outcome, any Error>) {
        let place = circuits.place(of: number)
        guard let waiter = waiters.removeValue(forKey: number) else { return }
        circuits.submissions.remove(number)
        if let (link, request) = place { link.session.remove(request) }
        waiter.continuation.resume(with: result.map { Waiter.Answer(outcome: $0, handle: waiter.handle) })
    }

    /// Closes the connections; submissions without an outcome fail with ``ClientError/closed``.
    public func close() {
        isClosed = true
        for number in circuits.submissions.numbers { finish(number, .failure(ClientError.closed)) }
        circuits.close()
        ticker = nil
        loop.letGo(of: self)
    }

    // MARK: Time

    /// Ends submissions whose deadline has passed, resends those whose pause is over, and checks the connections.
    private func tick() {
        let now = MonotonicTime.now
        for number in circuits.submissions.numbers where circuits.submissions.contains(number) {
            let circuit = circuits.circuit(of: number)
            let routing = waiters[number]!.routing
            if routing.terms.deadline <= now {
                overdue(number, now: now)
            } else if !hasConnected, routing.givesUp(on: circuit.nodes, now: now) {
                finish(number, .failure(ClientError(noNodeOf: circuit)))
            } else if waiters[number]!.routing.resumes(at: now) {
                again(number)
            }
        }
        circuits.watch(now: now)
        guard !circuits.all.isEmpty else {
            ticker = nil
            loop.letGo(of: self)
            return
        }
        loop.keep(self)
        let interval: Duration = circuits.submissions.count == 0 ? .seconds(1) : .milliseconds(250)
        ticker = Timer(on: loop, after: interval) { [unowned self] in assumeIsolated { $0.tick() } }
    }
}
