// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time

/// What the operator sees of an upstream node.
package struct UpstreamStatus: Sendable {
    /// The node's address.
    package let node: Endpoint
    /// The number of open connections.
    package var connections = 0
    /// The last WELCOME, with the time of its arrival.
    package var welcome: (welcome: Welcome, time: MonotonicTime)?
    /// When the node last answered anything.
    package var answered: MonotonicTime?
    /// The last reason why the node could not be used, with the time.
    package var failure: (text: String, time: MonotonicTime)?

    /// How long a failure makes the node count as unreachable.
    private static let failureLifetime = Duration.seconds(1800)

    /// A node of which nothing is known.
    package init(node: Endpoint) { self.node = node }

    /// `false` if the node failed within ``failureLifetime`` and has not answered since; `nil` if it has never
    /// answered and has not failed recently; else `true`.
    package func isReachable(at now: MonotonicTime) -> Bool? {
        guard let failure, now - failure.time < Self.failureLifetime else { return answered.map { _ in true } }
        return answered.map { $0 > failure.time } ?? false
    }

    /// Adds what another provider has seen of the same node.
    package mutating func merge(_ other: UpstreamStatus) {
        connections += other.connections
        welcome = [welcome, other.welcome].compactMap(\.self).max { $0.time < $1.time }
        answered = [answered, other.answered].compactMap(\.self).max()
        failure = [failure, other.failure].compactMap(\.self).max { $0.time < $1.time }
    }
}
