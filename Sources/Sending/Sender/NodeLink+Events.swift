// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import TNP

extension NodeLink {
    /// What the owner learns of a link.
    package enum Event: Equatable, Sendable {
        /// The link is connecting to the node.
        case connecting
        /// The link is connected: the node is usable, and gets HELLO and the session's submissions.
        case connected
        /// The node has answered with WELCOME.
        case welcomed(Welcome)
        /// A submission has an outcome, which may be QUEUED.
        case answered(SubmissionResult)
        /// The link could not connect or lost the connection; it tries again after this time.
        case retrying(reason: String, after: Duration)
        /// The link searches for a proof of work, with `effort` hashes expected.
        case solving(effort: UInt32)
        /// The pause of a node that had refused is over: it is usable.
        case usable
        /// Connecting takes long: these submissions should move to a usable node that is not slow, if there is one.
        /// Repeated at each ``NodeLink/watch(now:)`` until the attempt ends.
        case slow(requests: [UInt32])
        /// The node takes none of these submissions now, for this reason: they should move to another node.
        case unusable(requests: [UInt32], because: Failure)
    }

    /// Why the last attempt to connect failed or the last connection ended.
    package enum Failure: Equatable, Sendable {
        /// The node could not be reached, or the connection was lost, for this reason.
        case unreachable(String)
        /// The node closed the connection with this GOAWAY, and may be used again later.
        case closing(GoAway)
        /// The proxy could not be reached, for this reason.
        case proxyUnreachable(Endpoint, String)
        /// The node sent this GOAWAY, and would close the next connection for the same reason.
        case refused(GoAway)
        /// The peer broke the protocol, or speaks another one, as this reason says.
        case protocolError(String)
        /// The node has refused the sender's site key.
        case siteRefused
        /// Without a proxy, nothing answers at the node's address, for this reason.
        case nothingThere(String)

        /// Why an attempt to connect failed.
        /// - Parameter isDirect: whether the link connects without a proxy.
        init(_ error: StreamError, isDirect: Bool) {
            self =
                switch error {
                case .proxyUnreachable(let endpoint, let reason): .proxyUnreachable(endpoint, reason)
                case _ where isDirect && error.isNothingThere: .nothingThere(error.description)
                default: .unreachable(error.description)
                }
        }

        /// Whether a wrong setting is the likely cause, which waiting does not remove: a wrong address, or a proxy that
        /// does not run.
        package var isLikelyMistake: Bool {
            switch self {
            case .proxyUnreachable, .nothingThere: true
            case .unreachable, .closing, .refused, .protocolError, .siteRefused: false
            }
        }

        package var text: String {
            switch self {
            case .unreachable(let reason), .nothingThere(let reason): reason
            case .closing(let goAway): goAway.text.isEmpty ? "the node sent GOAWAY" : goAway.text
            case .proxyUnreachable(let endpoint, let reason):
                "the SOCKS proxy at \(endpoint) cannot be reached: \(reason)"
            case .refused(let goAway): "connection closed: \(Self.text(goAway))"
            case .siteRefused: "connection closed: \(SiteIdentity.refusal)"
            case .protocolError(let reason): "connection closed: the node does not speak TNP (\(reason))"
            }
        }

        private static func text(_ goAway: GoAway) -> String {
            let text = goAway.text.isEmpty ? "GOAWAY with code \(goAway.code.rawValue)" : goAway.text
            guard goAway.retryAfter > 0 else { return text }
            return "\(text); try again in \((UInt64(clamping: goAway.retryAfter) + 999) / 1000) s"
        }
    }
}

extension StreamError {
    /// Whether the name is unknown, or nothing listens at the address. A node that is only slow or far away fails with
    /// another error.
    fileprivate var isNothingThere: Bool {
        switch self {
        case .unknownHost: true
        case .system(let reason): [ECONNREFUSED, ENOENT].contains { reason == String(cString: strerror($0)) }
        default: false
        }
    }
}
