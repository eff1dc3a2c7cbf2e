// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import TestSupport
import Testing

@testable import Providers
@testable import Time

@Suite(.tags(.computing)) struct UpstreamNodesTests {
    private static let start = MonotonicTime(nanoseconds: 0)

    private let unused = NodeState()
    private let connected = state(.connected)
    private let down = state(.down)

    private static func state(_ state: NodeState.State, isSlow: Bool = false) -> NodeState {
        var node = NodeState()
        (node.state, node.isSlow) = (state, isSlow)
        return node
    }

    private var nodes: UpstreamNodes { UpstreamNodes((1...3).map { .tcp(host: "node\($0)", port: 7077) }) }

    @Test func `the first node of the list is preferred, but a connected one before one that has to be dialled`() {
        #expect(nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start) == 0)
        #expect(nodes.choice(of: [unused, connected, connected], excluding: [], now: Self.start) == 1)
    }

    @Test func `a node that has failed the envelope does not get it again`() {
        #expect(nodes.choice(of: [connected, unused, connected], excluding: [0], now: Self.start) == 2)
        #expect(nodes.choice(of: [connected, down, connected], excluding: [0, 2], now: Self.start) == nil)
    }

    @Test func `a node that could not be reached is avoided for a while, but used if there is no other`() {
        var nodes = nodes
        nodes.failed(0, .unreachable("refused"), now: Self.start)
        #expect(nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start) == 1)
        #expect(nodes.choice(of: [unused, down, connected], excluding: [2], now: Self.start) == 0)
        #expect(
            nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start + UpstreamNodes.avoidance) == 0)
        #expect(nodes.statuses[0].isReachable(at: Self.start) == false)
    }

    @Test func `a node to which connecting takes long is avoided for a while, without a failure`() {
        var nodes = nodes
        nodes.hesitated(0, now: Self.start)
        #expect(nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start) == 1)
        #expect(nodes.choice(of: [unused, down, connected], excluding: [2], now: Self.start) == 0)
        #expect(nodes.statuses[0].failure == nil)
        // An answer shows that the node is there.
        nodes.answered(0, now: Self.start)
        nodes.hesitated(0, now: Self.start + .seconds(14))
        #expect(nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start + .seconds(14)) == 0)
    }

    @Test func `a node to which this phone's connection takes long comes last`() {
        let slow = Self.state(.connecting, isSlow: true)
        #expect(nodes.choice(of: [slow, unused, unused], excluding: [], now: Self.start) == 1)
        #expect(nodes.choice(of: [slow, slow, down], excluding: [], now: Self.start) == 0)
        #expect(nodes.choice(of: [slow, unused, down], excluding: [1], now: Self.start) == 0)
    }

    @Test func `a node that answers is not avoided any more`() {
        var nodes = nodes
        nodes.failed(0, .unreachable("refused"), now: Self.start)
        nodes.answered(0, now: Self.start + .seconds(1))
        #expect(nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start + .seconds(1)) == 0)
        #expect(nodes.statuses[0].isReachable(at: Self.start + .seconds(1)) == true)
    }

    @Test func `a node that blocks one circuit is not avoided by others`() {
        var nodes = nodes
        nodes.failed(0, .refused(GoAway(code: .abuse, retryAfter: 1000)), now: Self.start)
        #expect(nodes.choice(of: [unused, unused, unused], excluding: [], now: Self.start) == 0)
        #expect(nodes.statuses[0].failure == nil)
    }
}

@Suite(.tags(.computing)) struct UpstreamEnvelopeBuilderTests {
    private static let keys = UpstreamKeys(secret: SecretBytes([UInt8](repeating: 7, count: 32)))
    private static let token = String(repeating: "ab", count: 32)

    private func outgoing(app: String? = nil) -> UpstreamEnvelopeBuilder {
        UpstreamEnvelopeBuilder(app: app, format: .pipe, keys: Self.keys)
    }

    @Test func `an envelope is signed by this node, one hop further and with the time that is left`() throws {
        let envelope = try makeEnvelope(to: Self.token, magic: .iOS)
        let made = try outgoing().build(from: envelope, ttl: 17)
        #expect(made.hops == envelope.hops + 1 && made.ttl == 17)
        #expect(made.signature != nil && made.digest == envelope.digest)
    }

    @Test func `a sender's own signature is kept, unless the app has another name there`() throws {
        var envelope = try makeEnvelope(to: Self.token, magic: .iOS)
        let key = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 3, count: 32)))
        envelope.signature = SenderSignature(of: envelope.digest, by: key)
        #expect(try outgoing().build(from: envelope, ttl: 1).signature == envelope.signature)
        let renamed = try outgoing(app: "other").build(from: envelope, ttl: 1)
        #expect(renamed.signature != envelope.signature && renamed.digest != envelope.digest)
        #expect(renamed.app.elementsEqual("other".utf8))
    }

    @Test func `an envelope that came too far is not passed on`() throws {
        var envelope = try makeEnvelope(to: Self.token, magic: .iOS)
        envelope.hops = Envelope.maximumHops - 2
        try outgoing().check(envelope)
        envelope.hops = Envelope.maximumHops - 1
        #expect(throws: Rejection.self) { try outgoing().check(envelope) }
    }
}
