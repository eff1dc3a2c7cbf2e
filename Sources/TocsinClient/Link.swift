// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Sender
import TNP
import Time

/// One node of a ``Channel``: its session and its connection. Owned by the ``TocsinClient`` that works with it.
final class Link {
    let id: Int
    /// The node's index in the client's list.
    let index: Int
    unowned let channel: Channel
    var node = NodeState()
    var session: SenderSession
    /// The callers whose submissions the session has, by request.
    var waiters: [UInt32: Waiter] = [:]
    /// The connection; `nil` while there is none.
    var wire: Wire?
    /// The running attempt to connect, with the pause before it.
    var dial: Task<Void, Never>?
    /// The node's GOAWAY on the current connection.
    var leaving: GoAway?
    /// Why the last attempt failed or the last connection ended.
    var failure: ClientError?
    var connectedAt = MonotonicTime.now
    /// When the last whole frame arrived, or the node began to owe an answer.
    var lastFrame = MonotonicTime.now
    /// Whether the client has sent PING since the last frame.
    var hasPinged = false
    /// Since when nothing is to be done; `nil` if there is something.
    var idleSince: MonotonicTime?
    /// The running searches for proofs of work, by request.
    var searches: [UInt32: Task<Void, Never>] = [:]

    init(_ id: Int, index: Int, of channel: Channel, doesWork: Bool) {
        self.id = id
        self.index = index
        self.channel = channel
        session = SenderSession(doesWork: doesWork)
    }

    /// The error of a submission whose deadline has passed.
    func deadlineError(of waiter: Waiter, now: MonotonicTime) -> ClientError {
        let limit = waiter.deadline - waiter.started
        guard wire != nil else { return failure ?? .unreachable("no connection within \(limit.components.seconds) s") }
        return session.welcome == nil ? .noWelcome(now - connectedAt) : .noResult(limit)
    }
}

/// The links to all nodes with a tor circuit each, for one phone or for all.
final class Channel {
    /// The device token, or nothing if phones share their circuits.
    let key: [UInt8]
    let credentials: SOCKS5.Credentials
    var links: [Link] = []
    /// The callers whose submissions have no outcome.
    var waiters: Set<Waiter> = []
    /// The callers whose submissions found no usable node.
    var unassigned: [Waiter] = []

    init(_ key: [UInt8], credentials: SOCKS5.Credentials) {
        self.key = key
        self.credentials = credentials
    }

    /// Whether submissions wait for an outcome.
    var isActive: Bool { !waiters.isEmpty }
}

/// A caller that waits for the outcome of its submission.
final class Waiter: Hashable {
    let id: UInt64
    let continuation: CheckedContinuation<Outcome, any Error>
    let returnsWhenQueued: Bool
    let started: MonotonicTime
    let deadline: MonotonicTime
    let channel: Channel
    /// The submission while no session has it.
    var submission: PendingSubmission?
    /// The link whose session has the submission, and its request number there.
    var place: (link: Link, request: UInt32)?
    /// When the submission is sent again after a RETRY.
    var resumesAt: MonotonicTime?
    /// The last RETRY of a node.
    var refusal: Outcome?
    /// QUEUED, if the current node has stored the envelope.
    var queued: Outcome?
    /// The nodes that answered RETRY for longer than the caller waits.
    var refusedBy: Set<Int> = []

    init(
        _ id: UInt64, _ continuation: CheckedContinuation<Outcome, any Error>, _ submission: PendingSubmission,
        on channel: Channel, returnsWhenQueued: Bool, started: MonotonicTime, deadline: MonotonicTime
    ) {
        self.id = id
        self.continuation = continuation
        self.submission = submission
        self.channel = channel
        self.returnsWhenQueued = returnsWhenQueued
        self.started = started
        self.deadline = deadline
    }

    static func == (one: Waiter, other: Waiter) -> Bool { one === other }
    func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

/// The client's end of a stream. Combines what the client sends in one turn of the loop into one write.
final class Wire: ByteStreamHandler, TurnEndHandler {
    private let stream: ByteStream
    private let link: Int
    private unowned let client: TocsinClient
    private var output: [UInt8] = []

    init(_ stream: ByteStream, link: Int, client: TocsinClient) {
        self.stream = stream
        self.link = link
        self.client = client
        stream.handler = self
    }

    /// The bytes that are written and not sent yet.
    var unsent: Int { output.count + stream.unsent }

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

    func stream(_ stream: ByteStream, received bytes: RawSpan) {
        // The closure of assumeIsolated cannot capture a RawSpan, only a copy of its bytes.
        let copy = bytes.withUnsafeBytes { Array($0) }
        let link = link
        client.assumeIsolated { $0.received(copy, from: link) }
    }

    func stream(_ stream: ByteStream, ended reason: StreamError) {
        let link = link
        client.assumeIsolated { $0.ended(reason.description, link) }
    }
}
