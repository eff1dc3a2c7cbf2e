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
        let terms = waiter.routing.terms
        let limit = terms.deadline - terms.started
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

    /// Whether no node is in a pause, which would be forgotten with the channel.
    func hasNoPause(at now: MonotonicTime) -> Bool { links.allSatisfy { $0.access.node.retryAt <= now } }
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
    let channel: Channel
    /// The submission while no session has it.
    var submission: PendingSubmission?
    /// The link whose session has the submission, and its request number there.
    var place: (link: Link, request: UInt32)?
    /// The handle in the node's answer.
    var handle: Handle?
    /// What becomes of the submission.
    var routing: SubmissionRouting

    init(
        _ id: UInt64, _ continuation: CheckedContinuation<Answer, any Error>, _ submission: PendingSubmission,
        on channel: Channel, routing: SubmissionRouting
    ) {
        self.id = id
        self.continuation = continuation
        self.submission = submission
        self.channel = channel
        self.routing = routing
    }

    static func == (one: Waiter, other: Waiter) -> Bool { one === other }
    func hash(into hasher: inout Hasher) { hasher.combine(id) }
}
