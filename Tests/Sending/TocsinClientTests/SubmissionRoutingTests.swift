// SPDX-License-Identifier: Apache-2.0

import Sender
import TNP
import TestSupport
import Testing

@testable import Time
@testable import TocsinClient

@Suite(.tags(.computing)) struct SubmissionRoutingTests {
    private static let start = MonotonicTime(nanoseconds: 0)
    private static let queued = Outcome(.queued, reason: .none)

    /// A submission with a minute's time, whose caller obeys RETRY for half a minute.
    private func course(excluding: Set<Int> = [], returnsWhenQueued: Bool = false) -> SubmissionRouting {
        SubmissionRouting(
            SubmissionRouting.Terms(
                started: Self.start, deadline: Self.start + .seconds(60), maximumPause: .seconds(30),
                returnsWhenQueued: returnsWhenQueued), excluding: excluding)
    }

    private func retry(_ reason: Reason = .nodeBusy, after milliseconds: UInt32) -> Outcome {
        Outcome(.retry, reason: reason, retryAfter: milliseconds)
    }

    private func nodes(_ states: NodeState.State...) -> [NodeState] {
        states.map { state in
            var node = NodeState()
            node.state = state
            return node
        }
    }

    @Test func `the first usable node gets a submission`() {
        #expect(course().choice(of: nodes(.connected, .connected)) == .give(to: 0))
        #expect(course().choice(of: nodes(.down, .unused)) == .give(to: 1))
        #expect(course().choice(of: nodes(.down, .refused)) == .wait)
        #expect(course().choice(of: nodes(.refused, .refused)) == .fail)
    }

    @Test func `a request that only the first node understands waits for it`() {
        #expect(course(excluding: [1]).choice(of: nodes(.down, .connected)) == .wait)
        #expect(course(excluding: [1]).choice(of: nodes(.refused, .connected)) == .fail)
    }

    @Test func `a submission gives up after five seconds if all its nodes are hopeless since it began`() {
        func node(failedAt time: MonotonicTime) -> NodeState {
            var node = NodeState()
            node.state = .down
            for _ in 0..<3 { _ = node.failed(now: time, random: 0, byMistake: true) }
            return node
        }
        let (now, later) = (Self.start + .seconds(5), Self.start + .seconds(4))
        #expect(course().givesUp(on: [node(failedAt: later), node(failedAt: later)], now: now))
        #expect(!course().givesUp(on: [node(failedAt: later)], now: later))
        #expect(!course().givesUp(on: [node(failedAt: later), NodeState()], now: now))
        #expect(course(excluding: [1]).givesUp(on: [node(failedAt: later), NodeState()], now: now))
        // What failed before the submission began says nothing about it.
        let early = Self.start
        let course = SubmissionRouting(
            SubmissionRouting.Terms(
                started: later, deadline: later + .seconds(60), maximumPause: .zero, returnsWhenQueued: false),
            excluding: [])
        #expect(!course.givesUp(on: [node(failedAt: early)], now: later + .seconds(5)))
    }

    @Test func `a short RETRY is obeyed, with jitter`() {
        var course = course()
        let step = course.answered(retry(after: 10_000), by: 0, now: Self.start, random: 0.5)
        #expect(step == .pause(.milliseconds(10_500)))
        let times = [10_000, 10_500, 20_000].map { Self.start + .milliseconds($0) }
        #expect(times.map { course.resumes(at: $0) } == [false, true, false])
        #expect(course.choice(of: nodes(.connected, .connected)) == .give(to: 0))
    }

    @Test(arguments: [
        (Reason.nodeBusy, UInt32(31_000), Int64(0)), (.nodeBusy, 20_000, 45), (.nodeBusy, 0, 0),
        (.proofRequired, 1000, 0), (.proofWrong, 1000, 0),
    ])
    func `other nodes are asked if waiting is too long or does not help`(
        _ reason: Reason, _ milliseconds: UInt32, _ second: Int64
    ) {
        var course = course()
        let refusal = retry(reason, after: milliseconds)
        #expect(course.answered(refusal, by: 0, now: Self.start + .seconds(second), random: 0) == .move)
        #expect(course.choice(of: nodes(.connected, .connected)) == .give(to: 1))
        #expect(course.answered(refusal, by: 1, now: Self.start + .seconds(second), random: 0) == .move)
        #expect(course.choice(of: nodes(.connected, .connected)) == .end(refusal))
    }

    @Test func `what a node has stored stays with it, unless that ended the connection for good`() {
        var course = course()
        let (down, refused) = (nodes(.down)[0], nodes(.refused)[0])
        #expect(course.reassignment(stored: nil, from: down) == .move)
        #expect(course.answered(Self.queued, by: 0, now: Self.start, random: 0) == .stored(isEnd: false))
        #expect(course.reassignment(stored: nil, from: down) == .stay)
        #expect(course.reassignment(stored: nil, from: refused) == .end(Self.queued))
        // It came back with a RETRY: the node has dropped it.
        _ = course.answered(retry(after: 1000), by: 0, now: Self.start, random: 0)
        #expect(course.reassignment(stored: nil, from: down) == .move)
    }

    @Test func `a submission leaves a slow node only for one that is not slow`() {
        let course = course()
        let usable = NodeState()
        var slow = NodeState()
        slow.isSlow = true
        #expect(course.leaves(0, of: [slow, usable]))
        #expect(!course.leaves(1, of: [slow, usable]))
        #expect(!course.leaves(0, of: [slow, slow]))
        #expect(!course.leaves(1, of: [slow, slow]))
        #expect(!course.leaves(0, of: [slow] + nodes(.down)))
    }

    @Test func `the node's QUEUED counts even if nobody asked for it`() {
        var course = course()
        #expect(course.reassignment(stored: Self.queued, from: nodes(.down)[0]) == .stay)
        #expect(course.overdue(lacksProof: false, isInFlight: true) == .outcome(Self.queued))
    }

    @Test func `a caller may want no more than QUEUED`() {
        var course = course(returnsWhenQueued: true)
        #expect(course.answered(Self.queued, by: 0, now: Self.start, random: 0) == .stored(isEnd: true))
    }

    @Test func `at the deadline the caller learns the most that is known`() {
        var course = course()
        #expect(course.overdue(lacksProof: false, isInFlight: true) == .noAnswer)
        #expect(course.overdue(lacksProof: true, isInFlight: false) == .noProof)
        let refusal = retry(after: 1000)
        _ = course.answered(refusal, by: 0, now: Self.start, random: 0)
        #expect(course.overdue(lacksProof: false, isInFlight: false) == .outcome(refusal))
        // A node has it now, and may have delivered it.
        #expect(course.overdue(lacksProof: false, isInFlight: true) == .noAnswer)
    }
}
