// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Sender
import TNP
import Time

/// Remembers what a provider knows of its upstream nodes, and chooses the node that gets an envelope. No I/O and no clock.
/// Nodes are identified by their index in the operator's list.
struct UpstreamNodes {
    /// A phone's link to a node.
    struct Candidate: Equatable {
        let isUsable: Bool
        let isConnected: Bool
        /// Whether it has failed this envelope.
        let hasFailed: Bool
    }

    /// How long other circuits avoid a node that could not be reached.
    static let avoidance = Duration.seconds(60)

    private(set) var statuses: [UpstreamStatus]
    /// Until when to prefer other nodes, by index.
    private var avoided: [Int: MonotonicTime] = [:]

    init(_ nodes: [Endpoint]) { statuses = nodes.map { UpstreamStatus(node: $0) } }

    /// The node for an envelope: the first of the list, but a connected one before one that has to be dialled, and a node
    /// that could be reached recently before one that could not. `nil` if there is none.
    /// - Parameter candidates: the phone's link to each node.
    func choice(of candidates: [Candidate], now: MonotonicTime) -> Int? {
        let usable = candidates.indices.filter { candidates[$0].isUsable && !candidates[$0].hasFailed }
        return usable.first { candidates[$0].isConnected }
            ?? usable.first { avoided[$0].map { $0 <= now } ?? true } ?? usable.first
    }

    /// A node has answered.
    /// - Parameter welcome: its WELCOME, if it was that.
    mutating func answered(_ node: Int, welcome: Welcome? = nil, now: MonotonicTime) {
        if let welcome { statuses[node].welcome = (welcome, now) }
        statuses[node].answered = now
        avoided[node] = nil
    }

    /// A connection to a node takes long.
    mutating func hesitated(_ node: Int, now: MonotonicTime) { avoided[node] = now + Self.avoidance }

    /// A node could not be used, on one circuit.
    mutating func failed(_ node: Int, _ failure: NodeLink.Failure, now: MonotonicTime) {
        // A blocked circuit says nothing about the node.
        if case .refused(let goAway) = failure, goAway.code == .abuse { return }
        statuses[node].failure = (UpstreamAnswers.attemptResult(on: failure, isNew: true).detail ?? "", now)
        hesitated(node, now: now)
    }
}
