// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import TestSupport
import Testing

@testable import Ingress
@testable import Time
@testable import TocsinNode

@Suite(.tags(.computing)) struct PendingRequestTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000)

    private func pending(_ patience: Duration = .seconds(20)) -> PendingRequest {
        PendingRequest(1, .relay, deadline: start + patience)
    }

    @Test func `a final outcome is the response`() {
        for outcome in [Outcome.delivered(), .rejected(.badDeviceToken), .retry(.nodeBusy, after: 1), .gone(since: 1)] {
            var pending = pending()
            #expect(pending.finished(outcome, now: start) == .respond(outcome))
        }
    }

    @Test func `the response is RETRY if no outcome arrives in time`() {
        #expect(pending().fallback.kind == .retry && pending().fallback.reason == .providerUnreachable)
        #expect(pending().deadline == start + .seconds(20))
    }

    @Test func `a stored envelope is reported after five seconds, or at an earlier deadline`() {
        var long = pending()
        #expect(long.finished(Outcome(.queued), now: start) == .wait(until: start + .seconds(5)))
        #expect(long.fallback.kind == .queued)
        #expect(long.finished(.delivered(), now: start) == .respond(.delivered()))
        var short = pending(.seconds(2))
        #expect(short.finished(Outcome(.queued), now: start + .seconds(1)) == .wait(until: start + .seconds(2)))
    }

    @Test func `a stored envelope that waits for a push service is reported at once`() {
        var stored = pending()
        _ = stored.finished(Outcome(.queued), now: start)
        #expect(stored.parked() == .respond(Outcome(.queued)))
        // Not stored yet.
        #expect(pending().parked() == .wait(until: start + .seconds(20)))
    }

    @Test(arguments: [(200, 200), (1000, 1000), (60_000, 1000)] as [(UInt32, Int64)])
    func `the response to a circuit over its rate is delayed by at most a second`(
        _ retryAfter: UInt32, _ wait: Int64
    ) {
        var pending = pending()
        let refusal = Outcome.retry(.connectionOverRate, after: retryAfter)
        #expect(pending.refused(refusal, now: start) == .wait(until: start + .milliseconds(wait)))
        #expect(pending.fallback == refusal)
    }

    @Test func `every other refusal is sent at once`() {
        var pending = pending()
        let refusal = Outcome.retry(.deviceTokenOverRate, after: 5)
        #expect(pending.refused(refusal, now: start) == .respond(refusal))
    }

    @Test func `a shutdown shortens the deadline and keeps the result of a stored envelope`() {
        var waiting = pending()
        #expect(
            waiting.shutDown(within: .seconds(3), retryAfter: 5000, now: start)
                == .wait(until: start + .seconds(3)))
        #expect(waiting.fallback.reason == .shuttingDown && waiting.fallback.retryAfter == 5000)
        // A later event does not extend the deadline.
        #expect(waiting.finished(Outcome(.queued), now: start) == .wait(until: start + .seconds(3)))
        #expect(waiting.fallback.kind == .queued)
        var stored = pending()
        _ = stored.finished(Outcome(.queued), now: start)
        _ = stored.shutDown(within: .seconds(9), retryAfter: 5000, now: start)
        #expect(stored.fallback.kind == .queued && stored.deadline == start + .seconds(5))
    }
}
