// SPDX-License-Identifier: Apache-2.0

import Sender
import TestSupport
import Testing
import Time

@Suite(.tags(.sockets)) struct NodeStateTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000)

    @Test func `the wait doubles with each failure up to 30 s, and starts again after a RESULT`() {
        var node = NodeState()
        let waits = (0..<9).map { _ in node.failed(now: start, random: 1) }
        #expect(
            waits == [
                .milliseconds(250), .milliseconds(500), .seconds(1), .seconds(2), .seconds(4), .seconds(8),
                .seconds(16), .seconds(30), .seconds(30),
            ])
        node.answered()
        #expect(node.failed(now: start, random: 0.5) == .milliseconds(125))
        #expect(node.retryAt == start + .milliseconds(125))
    }

    @Test func `where nobody listens, attempts are frequent, and hopeless after three`() {
        var node = NodeState()
        node.state = .down
        for _ in 0..<5 { _ = node.failed(now: start, random: 1, byMistake: true) }
        #expect(node.failed(now: start, random: 1, byMistake: true) == .seconds(2))
        #expect(node.isHopeless(since: start) && !node.isHopeless(since: start + .milliseconds(1)))
        _ = node.failed(now: start, random: 1)
        #expect(!node.isHopeless(since: start))
        var young = NodeState()
        young.state = .down
        for _ in 0..<2 { _ = young.failed(now: start, random: 1, byMistake: true) }
        #expect(!young.isHopeless(since: start))
    }

    @Test func `a node's retry_after is obeyed up to ten minutes`() {
        var node = NodeState()
        #expect(node.failed(now: start, random: 0, atLeast: .seconds(5)) == .seconds(5))
        #expect(node.failed(now: start, random: 0, atLeast: .seconds(86_400)) == .seconds(600))
    }

    @Test func `a node that refuses is not used for a minute, or longer if it says so`() {
        for (retryAfter, pause) in [(0, 60), (59, 60), (90, 90), (86_400, 600)] {
            var node = NodeState()
            node.refused(now: start, atLeast: .seconds(retryAfter))
            node.revive(now: start + (.seconds(pause) - .nanoseconds(1)))
            #expect(!node.isUsable)
            node.revive(now: start + .seconds(pause))
            #expect(node.isUsable)
        }
    }

    @Test func `a node that is down is usable again once its pause is over, if its owner asks`() {
        var node = NodeState()
        node.state = .down
        let pause = node.failed(now: start, random: 1)
        node.endPause(now: start + (pause - .nanoseconds(1)))
        #expect(!node.isUsable)
        node.endPause(now: start + pause)
        #expect(node.isUsable)
    }

    @Test func `the first usable node of the list is chosen`() {
        var nodes = [NodeState(), NodeState(), NodeState()]
        #expect(NodeState.choose(nodes, excluding: []) == 0)
        nodes[0].state = .down
        #expect(NodeState.choose(nodes, excluding: []) == 1)
        #expect(NodeState.choose(nodes, excluding: [1]) == 2)
        nodes[1].refused(now: start, atLeast: .zero)
        #expect(NodeState.choose(nodes, excluding: [2]) == nil)
        nodes[0].state = .connecting
        #expect(NodeState.choose(nodes, excluding: []) == 0)
    }

    @Test func `a node to which connecting takes long is chosen only if there is no other`() {
        var nodes = [NodeState(), NodeState()]
        nodes[0].state = .connecting
        nodes[0].isSlow = true
        #expect(NodeState.choose(nodes, excluding: []) == 1)
        #expect(NodeState.choose(nodes, excluding: [1]) == 0)
        nodes[1].state = .down
        #expect(NodeState.choose(nodes, excluding: []) == 0)
    }
}
