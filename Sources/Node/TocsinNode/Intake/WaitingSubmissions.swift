// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Delivery
import Handles
import Ingress
import TNP
import Tables

/// What the node knows about a sender that has used a handle.
struct HandleSender {
    let handle: Handle
    let access: HandleAccess
    /// Whether another node of the cluster may know a newer device token.
    let isLookedUpAlone: Bool
    /// Whether the store knows that the handle is in use today.
    let isSaved: Bool
    /// The owner of an unconfirmed handle, which DELIVERED confirms; `nil` for a confirmed one.
    let confirming: HandleBounds.Owner?
}

/// A submission that waits for its outcome.
struct WaitingSubmission {
    /// Whether the submission was admitted.
    enum State {
        /// A resend of an envelope that was admitted before.
        case resend
        /// The engine of the cluster has not decided yet.
        case asking(Admission.Terms)
        /// It was admitted; in a cluster, with the envelope's keys in the engine.
        case admitted(Admission.Ticket, EnvelopeKeys? = nil)
        /// The engine of the cluster has refused it, or this node in the engine's place.
        case refused(Refusal)
    }

    /// The number of its connection, which may have closed.
    let connection: UInt64
    let request: UInt32
    let senderProtocol: Admission.SenderProtocol
    fileprivate(set) var state: State
    /// `nil` for a resend.
    let route: Route?
    /// `nil` for a resend, or if the submission names a device token instead of a handle.
    let sender: HandleSender?

    init(
        _ submission: Submission, from connection: any SenderConnection, _ state: State = .resend,
        _ route: Route? = nil,
        by sender: HandleSender? = nil
    ) {
        self.connection = connection.number
        request = submission.request
        senderProtocol = connection.senderProtocol
        self.state = state
        self.route = route
        self.sender = sender
    }
}

/// The submissions that wait for their outcomes. Bounded by `Dispatch`, which bounds the envelopes without an outcome,
/// and the submissions that wait for each.
struct WaitingSubmissions {
    private var submissions = Slab<WaitingSubmission>()

    private static func place(_ reply: Reply) -> Slab<WaitingSubmission>.Handle {
        Slab<WaitingSubmission>.Handle(rawValue: reply.number)
    }

    /// A submission that has no final outcome yet.
    subscript(reply: Reply) -> WaitingSubmission { submissions[Self.place(reply)] }

    /// Remembers where to report the outcomes of a submission.
    mutating func insert(_ submission: WaitingSubmission, acceptsQueued: Bool) -> Reply {
        Reply(number: submissions.insert(submission).rawValue, acceptsQueued: acceptsQueued)
    }

    /// Removes a submission that gets its final outcome.
    mutating func remove(_ reply: Reply) -> WaitingSubmission? { submissions.remove(Self.place(reply)) }

    /// Records what the nodes of the cluster, or this one alone, have decided.
    mutating func decide(_ reply: Reply, _ state: WaitingSubmission.State) {
        submissions[Self.place(reply)].state = state
    }
}
