// SPDX-License-Identifier: Apache-2.0

import Sender
import TestSupport
import Testing

@testable import Providers
@testable import Time

@Suite(.tags(.computing)) struct UpstreamAttemptsTests {
    private typealias Place = UpstreamAttempts.Place

    private final class Receiver: AttemptReceiver {
        func attempted(_ number: UInt64, _ result: AttemptResult) {}
    }

    private static let start = MonotonicTime(nanoseconds: 0)
    private static let timeout = Duration.seconds(90)
    private let receiver = Receiver()

    /// Circuit 1 with the links 1 and 2, circuit 3 with the links 3 and 4.
    private var attempts: UpstreamAttempts {
        var attempts = UpstreamAttempts(timeout: Self.timeout)
        attempts.open(1, links: [1, 2])
        attempts.open(3, links: [3, 4])
        return attempts
    }

    private func caller(_ number: UInt64) -> UpstreamAttempts.Caller {
        UpstreamAttempts.Caller(number: number, receiver: receiver)
    }

    @Test func `a link needs a connection while its circuit has an attempt, wherever that is`() {
        var attempts = attempts
        #expect(!attempts.needs(1) && attempts.isIdle(1))
        let attempt = attempts.begin(caller(7), on: 1, now: Self.start)
        attempts.place(attempt, at: Place(link: 2, request: 5))
        #expect(attempts.needs(1) && attempts.needs(2) && !attempts.isIdle(1))
        #expect(!attempts.needs(3) && attempts.isIdle(3))
        #expect(attempts.finish(attempt)?.number == 7)
        #expect(!attempts.needs(1) && attempts.isIdle(1) && attempts.count == 0)
    }

    @Test func `a link stands for its node, until its circuit closes`() {
        var attempts = attempts
        #expect((1...4).map { attempts.node(of: $0) } == [0, 1, 0, 1])
        attempts.close(1, links: [1, 2])
        #expect((1...4).map { attempts.node(of: $0) } == [nil, nil, 0, 1])
        #expect(!attempts.needs(1) && !attempts.isIdle(1))
    }

    @Test func `an answer finds its attempt by link and request, and only once`() {
        var attempts = attempts
        let first = attempts.begin(caller(1), on: 1, now: Self.start)
        let second = attempts.begin(caller(2), on: 3, now: Self.start)
        attempts.place(first, at: Place(link: 1, request: 1))
        attempts.place(second, at: Place(link: 3, request: 1))
        #expect(attempts.attempt(at: Place(link: 1, request: 1)) == first)
        #expect(attempts.attempt(at: Place(link: 3, request: 1)) == second)
        #expect(attempts.attempt(at: Place(link: 1, request: 2)) == nil)
        #expect(attempts.finish(first)?.number == 1)
        #expect(attempts.finish(first) == nil)
        #expect(attempts.attempt(at: Place(link: 1, request: 1)) == nil)
        #expect(attempts.count == 1)
    }

    @Test
    func `an attempt that moves because a node failed does not go there again; one that moves from a slow node may`() {
        var attempts = attempts
        let attempt = attempts.begin(caller(1), on: 1, now: Self.start)
        attempts.place(attempt, at: Place(link: 1, request: 1))
        #expect(attempts.remove(from: Place(link: 1, request: 1)) == attempt)
        #expect(attempts[attempt]?.tried == [] && attempts[attempt]?.failure == nil)
        attempts.place(attempt, at: Place(link: 2, request: 1))
        #expect(attempts.remove(from: Place(link: 2, request: 1), because: .unreachable("reset")) == attempt)
        #expect(attempts[attempt]?.tried == [2] && attempts[attempt]?.failure == .unreachable("reset"))
        #expect(attempts[attempt]?.place == nil)
        #expect(attempts.remove(from: Place(link: 2, request: 1)) == nil)
    }

    @Test func `an attempt is overdue at its deadline, unless it has a result`() {
        var attempts = attempts
        let first = attempts.begin(caller(1), on: 1, now: Self.start)
        let second = attempts.begin(caller(2), on: 1, now: Self.start)
        _ = attempts.begin(caller(3), on: 1, now: Self.start + .seconds(1))
        _ = attempts.finish(first)
        #expect(attempts.nextOverdue(now: Self.start + (Self.timeout - .nanoseconds(1))) == nil)
        #expect(attempts.nextOverdue(now: Self.start + Self.timeout) == second)
        #expect(attempts.nextOverdue(now: Self.start + Self.timeout) == nil)
        #expect(attempts.hasDeadlines)
    }

    @Test func `at the end, each caller without a result gets one`() {
        var attempts = attempts
        let handles = (1...3).map { attempts.begin(caller($0), on: 1, now: Self.start) }
        _ = attempts.finish(handles[1])
        #expect(attempts.finishAll().map(\.number) == [1, 3])
        #expect(attempts.count == 0 && !attempts.hasDeadlines && attempts.node(of: 1) == nil)
    }
}
