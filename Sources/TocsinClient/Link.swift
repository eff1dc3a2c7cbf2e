// SPDX-License-Identifier: Apache-2.0

import Sender
import TNP
import Time

/// A ``Channel``'s access to one node. Owned by the ``TocsinClient`` that works with it.
final class Link {
    /// The node's index in the client's list.
    let index: Int
    unowned let channel: Channel
    let access: NodeLink
    /// The callers whose submissions the session has, by request.
    var waiters: [UInt32: Waiter] = [:]

    init(_ access: NodeLink, index: Int, of channel: Channel) {
        self.access = access
        self.index = index
        self.channel = channel
    }

    /// Why the last attempt to connect failed or the last connection ended.
    var failure: ClientError? { access.failure.map { ClientError($0) } }

    /// The error of a submission whose deadline has passed.
    func deadlineError(of waiter: Waiter, now: MonotonicTime) -> ClientError {
        let limit = waiter.deadline - waiter.started
        guard access.isConnected else {
            return failure ?? .unreachable("no connection within \(limit.components.seconds) s")
        }
        return access.session.welcome == nil ? .noWelcome(now - access.connectedAt) : .noResult(limit)
    }
}

/// The links to all nodes with a tor circuit each, for one phone or for all.
final class Channel {
    /// The device token, or nothing if phones share their circuits.
    let key: [UInt8]
    var links: [Link] = []
    /// The callers whose submissions have no outcome.
    var waiters: Set<Waiter> = []
    /// The callers whose submissions found no usable node.
    var unassigned: [Waiter] = []

    init(_ key: [UInt8]) { self.key = key }

    /// Whether submissions wait for an outcome.
    var isActive: Bool { !waiters.isEmpty }
}

/// A caller that waits for the outcome of its submission.
final class Waiter: Hashable {
    /// What the caller gets.
    struct Answer {
        let outcome: Outcome
        /// The handle, in the answer to a request about one.
        let handle: Handle?
    }

    let id: UInt64
    let continuation: CheckedContinuation<Answer, any Error>
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
    /// The handle in the node's answer.
    var handle: Handle?
    /// The nodes that cannot know what the request is about.
    var excluded: Set<Int> = []
    /// The nodes that answered RETRY for longer than the caller waits.
    var refusedBy: Set<Int> = []

    init(
        _ id: UInt64, _ continuation: CheckedContinuation<Answer, any Error>, _ submission: PendingSubmission,
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
