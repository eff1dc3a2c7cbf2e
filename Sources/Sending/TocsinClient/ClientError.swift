// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Sender
import TNP
import Time

/// The error of a submission that has no outcome.
public enum ClientError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The client could not connect to the node, or lost the connection, until the time limit passed; with the last reason.
    case unreachable(String)
    /// A node's address ends in `.onion`, but is no onion address: a letter is wrong or missing.
    case invalidOnion(Endpoint)
    /// The client could not connect to tor's SOCKS port or another proxy; with the proxy's endpoint and the reason.
    case proxyUnreachable(Endpoint, String)
    /// The client was connected to the node, but received no result within this time limit. The node may still deliver the
    /// notification.
    case noResult(Duration)
    /// The client was connected, but the peer sent no WELCOME within this time.
    case noWelcome(Duration)
    /// The connection ended for a reason that a retry does not remove: the node sent this GOAWAY. If it does not speak
    /// TNP or refuses the site key, the client makes a GOAWAY that says so.
    case connectionClosed(GoAway)
    /// The client already has this number of submissions without an outcome.
    case queueFull(Int)
    /// The client was closed before the submission had an outcome.
    case closed

    /// The error for why a link has no connection.
    init(_ failure: NodeLink.Failure) {
        switch failure {
        case .unreachable, .closing, .nothingThere: self = .unreachable(failure.text)
        case .proxyUnreachable(let endpoint, let reason): self = .proxyUnreachable(endpoint, reason)
        case .refused(let goAway): self = .connectionClosed(goAway)
        case .siteRefused: self = .connectionClosed(GoAway(code: .abuse, text: SiteIdentity.refusal))
        case .protocolError(let reason):
            self = .connectionClosed(GoAway(code: .protocolError, text: "the node does not speak TNP (\(reason))"))
        }
    }

    /// The error of a submission that each node refuses for good.
    init(noNodeOf circuit: NodeCircuit) {
        self = circuit.links[0].failure.map { ClientError($0) } ?? .unreachable("no node can be used now")
    }

    /// The error of a submission without an outcome at its deadline.
    init(overdue terms: SubmissionRouting.Terms, at link: NodeLink, now: MonotonicTime) {
        let limit = terms.deadline - terms.started
        self =
            if !link.isConnected {
                link.failure.map { ClientError($0) }
                    ?? .unreachable("no connection within \(limit.components.seconds) s")
            } else {
                link.session.welcome == nil ? .noWelcome(now - link.connectedAt) : .noResult(limit)
            }
    }

    public var description: String {
        switch self {
        case .unreachable(let reason): "the node cannot be reached: \(reason)"
        case .invalidOnion(let node):
            "\(node) is not an onion address: before .onion, it has 56 letters and digits, which include a checksum. "
                + "Copy the whole address"
        case .proxyUnreachable(let endpoint, let reason): NodeLink.Failure.proxyUnreachable(endpoint, reason).text
        case .noResult(let time):
            "no result within \(time.components.seconds) s; the node may still deliver the notification"
        case .noWelcome(let time): "connected, but the node sent nothing within \(time.components.seconds) s"
        case .connectionClosed(let goAway): NodeLink.Failure.refused(goAway).text
        case .queueFull(let limit): "\(limit) submissions wait for an outcome already"
        case .closed: "the client was closed"
        }
    }
}
