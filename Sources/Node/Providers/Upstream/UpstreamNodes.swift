// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Sender
import TNP
import Time

/// Remembers what a provider knows of its upstream nodes, and chooses the node that gets an envelope. No I/O and no clock.
/// Nodes are identified by their index in the operator's list.
struct UpstreamNodes {
    /// How long other circuits avoid a node that could not be reached.
    static let avoidance = Duration.seconds(60)
    /// The age up to which an answer shows that a node works, although connecting to it takes long.
    private static let recentAnswer = Duration.seconds(15)

    private(set) var statuses: [UpstreamStatus]
    /// Until when to prefer other nodes, by index.
    private var avoided: [Int: MonotonicTime] = [:]

    init(_ nodes: [Endpoint]) { statuses = nodes.map { UpstreamStatus(node: $0) } }

    /// The node for an envelope: the first of the list, but a connected one before one that has to be dialled, and a node
    /// that could be reached recently before one that could not; one to which connecting takes long comes last. `nil` if there
    /// is none.
    /// - Parameters:
    ///   - links: what the phone's links know of each node.
    ///   - excluded: the nodes that have failed the envelope.
    func choice(of links: [NodeState], excluding excluded: Set<Int>, now: MonotonicTime) -> Int? {
        let quick = links.indices.filter { links[$0].isUsable && !links[$0].isSlow && !excluded.contains($0) }
        return quick.first { links[$0].state == .connected }
            ?? quick.first { avoided[$0].map { $0 <= now } ?? true }
            ?? NodeState.choose(links, excluding: excluded)
    }

    /// A node has answered.
    /// - Parameter welcome: its WELCOME, if it was that.
    mutating func answered(_ node: Int, welcome: Welcome? = nil, now: MonotonicTime) {
        if let welcome { statuses[node].welcome = (welcome, now) }
        statuses[node].answered = now
        avoided[node] = nil
    }

    /// A connection to a node takes long. Other circuits avoid it, too, unless it has answered one of them lately.
    mutating func hesitated(_ node: Int, now: MonotonicTime) {
        guard statuses[node].answered.map({ now - $0 >= Self.recentAnswer }) ?? true else { return }
        avoided[node] = now + Self.avoidance
    }

    /// A node could not be used, on one circuit.
    mutating func failed(_ node: Int, _ failure: NodeLink.Failure, now: MonotonicTime) {
        // A blocked circuit says nothing about the node.
        if case .refused(let goAway) = failure, goAway.code == .abuse { return }
        statuses[node].failure = (UpstreamAnswers.attemptResult(on: failure, isNew: true).detail ?? "", now)
        avoided[node] = now + Self.avoidance
    }
}
