// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop

/// Makes a sender's links to its nodes, the preferred node first.
package struct NodeLinkFactory {
    private let nodes: [Endpoint]
    private let proxy: Proxy?
    private let requiresCircuitIsolation: Bool
    private let agent: String
    private let connectTimeout: Duration
    private let computesProofOfWork: Bool
    private let maximumEffort: UInt32
    private let siteKey: Ed25519.PrivateKey?
    private let searches: SearchSlots
    private var lastLink = 0

    /// - Parameters:
    ///   - proxy: the proxy to connect through; `nil` to connect directly.
    ///   - requiresCircuitIsolation: whether a proxy must take a password, by which tor chooses the circuit.
    ///   - agent: the agent in HELLO, at most 64 bytes of UTF-8.
    ///   - connectTimeout: the time limit for one attempt to connect.
    ///   - computesProofOfWork: whether the sender computes proofs of work.
    ///   - maximumEffort: the maximum effort, in expected hashes, that the sender accepts.
    ///   - siteKey: the key of a site that the nodes know; `nil` for any other sender.
    ///   - searches: limits concurrent searches for proofs of work.
    package init(
        _ nodes: [Endpoint], through proxy: Proxy?, requiresCircuitIsolation: Bool, agent: String,
        connectTimeout: Duration,
        computesProofOfWork: Bool, maximumEffort: UInt32 = .max, siteKey: Ed25519.PrivateKey?, searches: SearchSlots
    ) {
        self.nodes = nodes
        self.proxy = proxy
        self.requiresCircuitIsolation = requiresCircuitIsolation
        self.agent = agent
        self.connectTimeout = connectTimeout
        self.computesProofOfWork = computesProofOfWork
        self.maximumEffort = maximumEffort
        self.siteKey = siteKey
        self.searches = searches
    }

    /// Makes a link to each node. Through SOCKS, all of them use one new password, so that tor keeps their circuits
    /// apart from those of other links.
    package mutating func links(for owner: any NodeLinkOwner, on loop: EventLoop) -> [NodeLink] {
        let proxy = proxy?.withNewCircuit(isRequired: requiresCircuitIsolation)
        return nodes.map { node in
            lastLink += 1
            let session = SenderSession(
                doesWork: computesProofOfWork, maximumEffort: maximumEffort,
                site: siteKey.map { SiteIdentity($0, at: node) })
            return NodeLink(
                lastLink, to: Destination(node, through: proxy, timeout: connectTimeout), agent: agent,
                session: session, slots: searches, owner: owner, on: loop)
        }
    }
}
