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
/// A connected client keeps itself alive: call ``close()``, or it stays until its connections have been idle for a minute.
public actor TocsinClient {
    /// The nodes' addresses and the settings of the connections.
    public struct Options: Sendable {
        /// The nodes' onion addresses and ports, or the endpoints at which they listen; the preferred one first. What is
        /// addressed by handle goes to the first node only, which keeps the handle.
        public var nodes: [Endpoint]
        /// tor's SOCKS port or another proxy; `nil` to connect directly. If phones are isolated, the client replaces the
        /// password of SOCKS credentials by one for each phone.
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
        /// Which fields notifications have: what the phones' app reads.
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
    /// The links of each phone, by device token or handle.
    private var channels = PhoneCircuits<Channel>()
    private var linkFactory: NodeLinkFactory
    var links: [Int: Link] = [:]
    private var waiterCount: UInt64 = 0
    private var pending: [UInt64: Waiter] = [:]
    private(set) var isClosed = false
    /// Whether the client has ever reached a node: what fails then is no mistake in its settings.
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
        linkFactory = NodeLinkFactory(
            options.nodes, through: options.proxy, requiresCircuitIsolation: requiresCircuitIsolation,
            agent: options.agent,
            connectTimeout: options.connectTimeout, computesProofOfWork: options.workLimit > .zero,
            siteKey: options.siteKey,
            searches: SearchSlots(Self.maximumSearches))
    }

    /// Submits an envelope and waits for its final outcome. Cancel the task to abandon the submission.
    ///
    /// The client obeys a node's RETRY within `timeout` and ``Options/patience``; then it tries the other nodes. RETRY is the outcome if all nodes
    /// answer it, or if they require more proof of work than ``Options/workLimit`` or `timeout` allows.
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
    ///   - address: decides which connections the request uses.
    ///   - toFirstNodeOnly: whether no other node can know what the request is about.
    func send(
        _ request: SenderRequest, of address: [UInt8], toFirstNodeOnly: Bool, timeout: Duration,
        returnsWhenQueued: Bool = false
    ) async throws -> Waiter.Answer {
        guard !isClosed else { throw ClientError.closed }
        if let invalidNode { throw ClientError.invalidOnion(invalidNode) }
        guard pending.count < Self.maximumPending else { throw ClientError.queueFull(Self.maximumPending) }
        waiterCount += 1
        let number = waiterCount
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let now = MonotonicTime.now
                let channel = channel(for: address)
                let terms = SubmissionRouting.Terms(
                    started: now, deadline: now + timeout, maximumPause: options.patience,
                    returnsWhenQueued: returnsWhenQueued)
                let others = toFirstNodeOnly ? Set(options.nodes.indices.dropFirst()) : []
                let waiter = Waiter(
                    number, continuation, PendingSubmission(request, workLimit: options.workLimit), on: channel,
                    routing: SubmissionRouting(terms, excluding: others))
                pending[number] = waiter
                channel.waiters.insert(waiter)
                if Task.isCancelled { return cancel(number) }
                // The client may have been closed before the runtime created the continuation.
                if isClosed { return finish(waiter, .failure(ClientError.closed)) }
                assign(waiter)
                for link in channel.links { link.access.wake() }
                if ticker == nil { tick() }
            }
        } onCancel: {
            Task { await self.cancel(number) }
        }
    }

    private func cancel(_ number: UInt64) {
        guard let waiter = pending[number] else { return }
        let link = waiter.place?.link
        finish(waiter, .failure(CancellationError()))
        link?.access.flush()
    }

    /// Resumes a caller.
    func finish(_ waiter: Waiter, _ result: Result<Outcome, any Error>) {
        guard pending.removeValue(forKey: waiter.id) != nil else { return }
        waiter.channel.waiters.remove(waiter)
        waiter.channel.unassigned.removeAll { $0 === waiter }
        if let (link, request) = waiter.place {
            link.waiters[request] = nil
            link.access.session.remove(request)
        }
        waiter.continuation.resume(with: result.map { Waiter.Answer(outcome: $0, handle: waiter.handle) })
    }

    /// Closes the connections; submissions without an outcome fail with ``ClientError/closed``.
    public func close() {
        isClosed = true
        for link in links.values { link.access.close() }
        for waiter in pending.values { finish(waiter, .failure(ClientError.closed)) }
        ticker = nil
        channels = PhoneCircuits()
        links = [:]
        loop.letGo(of: self)
    }

    // MARK: Channels

    /// The channel of a phone.
    private func channel(for address: [UInt8]) -> Channel {
        let key = options.isolatesPhones ? address : []
        let now = MonotonicTime.now
        // A node's pause, which a channel remembers, holds for the phones that follow, too.
        switch channels.circuit(for: key, isIdle: { !$0.isActive && $0.hasNoPause(at: now) }) {
        case .known(let channel): return channel
        case .new(let idle):
            if let idle {
                for link in idle.links { link.access.close() }
                forgetLinks(of: idle)
            }
            let channel = Channel(key)
            for (index, access) in linkFactory.links(for: self, on: loop).enumerated() {
                let link = Link(access, index: index, of: channel)
                channel.links.append(link)
                links[access.id] = link
            }
            channels.insert(channel, for: key)
            return channel
        }
    }

    private func forgetLinks(of channel: Channel) {
        for link in channel.links { links[link.access.id] = nil }
    }

    // MARK: Time

    /// Ends submissions whose deadline has passed, resends those whose pause is over, and checks the connections.
    private func tick() {
        let now = MonotonicTime.now
        for waiter in pending.values {
            if waiter.routing.terms.deadline <= now {
                overdue(waiter, now: now)
            } else if !hasConnected, waiter.routing.givesUp(on: waiter.channel.links.map(\.access.node), now: now) {
                finish(waiter, .failure(waiter.channel.links[0].failure ?? .unreachable("no node can be used now")))
            } else if waiter.routing.resumes(at: now) {
                again(waiter)
            }
        }
        for link in links.values { link.access.watch(now: now) }
        let unused = channels.all.filter { channel in
            !channel.isActive && channel.hasNoPause(at: now) && channel.links.allSatisfy(\.access.isUnused)
        }
        for channel in unused {
            channels.remove(channel.key)
            forgetLinks(of: channel)
        }
        guard !channels.all.isEmpty, !isClosed else {
            ticker = nil
            loop.letGo(of: self)
            return
        }
        loop.keep(self)
        ticker = Timer(on: loop, after: pending.isEmpty ? .seconds(1) : .milliseconds(250)) { [unowned self] in
            assumeIsolated { $0.tick() }
        }
    }
}
