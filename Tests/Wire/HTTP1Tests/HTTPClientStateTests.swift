// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import HTTP1
@testable import Time

@Suite(.tags(.computing)) struct HTTPClientStateTests {
    private typealias Action = HTTPClientState.Action
    private static let start = MonotonicTime(nanoseconds: 0)

    private static func seconds(_ seconds: Int64) -> MonotonicTime { start + .seconds(seconds) }

    /// Applies an event and returns the actions.
    private func after(
        _ state: inout HTTPClientState, _ event: (inout HTTPClientState, inout [Action]) -> Void
    ) -> [Action] {
        var actions: [Action] = []
        event(&state, &actions)
        return actions
    }

    /// A client whose connection 1 carries request 1, with a deadline after ten seconds.
    private func busy() -> HTTPClientState {
        var state = HTTPClientState()
        #expect(after(&state) { $0.start(1, deadline: Self.seconds(10), &$1) } == [.dial(1)])
        #expect(after(&state) { $0.opened(1, now: Self.start, &$1) } == [.send(request: 1, on: 1)])
        return state
    }

    @Test func `a connection is used again once its request is answered`() {
        var state = busy()
        #expect(after(&state) { $0.answered(on: 1, keepsAlive: true, now: Self.seconds(1), &$1) } == [])
        #expect(after(&state) { $0.start(2, deadline: Self.seconds(10), &$1) } == [.send(request: 2, on: 1)])
    }

    @Test func `a connection that the server will close is not used again`() {
        var state = busy()
        #expect(after(&state) { $0.start(2, deadline: Self.seconds(10), &$1) } == [.dial(2)])
        let actions = after(&state) { $0.answered(on: 1, keepsAlive: false, now: Self.seconds(1), &$1) }
        #expect(actions == [.close(1)])
        #expect(after(&state) { $0.opened(2, now: Self.start, &$1) } == [.send(request: 2, on: 2)])
    }

    @Test func `no more connections are opened than the maximum`() {
        var state = HTTPClientState()
        let dials = (1...20).flatMap { request in
            after(&state) { $0.start(request, deadline: Self.seconds(10), &$1) }
        }
        #expect(dials == (1...HTTPClientState.maximumConnections).map { .dial($0) })
    }

    @Test func `requests that wait fail if no connection can be opened`() {
        var state = HTTPClientState()
        _ = after(&state) { $0.start(1, deadline: Self.seconds(10), &$1) }
        _ = after(&state) { $0.start(2, deadline: Self.seconds(10), &$1) }
        #expect(after(&state) { $0.couldNotOpen(1, .timedOut, &$1) } == [])
        #expect(
            after(&state) { $0.couldNotOpen(2, .timedOut, &$1) } == [
                .fail(request: 1, .unreachable(.timedOut)), .fail(request: 2, .unreachable(.timedOut)),
            ])
        #expect(state.isEmpty)
    }

    @Test func `a server that closes every connection at once gets no more connections`() {
        var state = HTTPClientState()
        _ = after(&state) { $0.start(1, deadline: Self.seconds(10), &$1) }
        _ = after(&state) { $0.answered(on: 7, keepsAlive: true, now: Self.start, &$1) }
        _ = after(&state) { $0.opened(1, now: Self.start, &$1) }
        let lost = after(&state) { $0.ended(1, because: .closed, &$1) }
        #expect(lost == [.fail(request: 1, .lost(StreamError.closed.description))])
        // One that never carried a request, while another request waits for it.
        _ = after(&state) { $0.start(2, deadline: Self.seconds(10), &$1) }
        _ = after(&state) { $0.opened(2, now: Self.start, &$1) }
        _ = after(&state) { $0.answered(on: 2, keepsAlive: true, now: Self.start, &$1) }
        #expect(after(&state) { $0.ended(2, because: .closed, &$1) } == [])
        #expect(state.isEmpty)
    }

    @Test func `a request without a response at its deadline resets its connection`() {
        var state = busy()
        #expect(after(&state) { $0.timePassed(Self.seconds(9), &$1) } == [])
        #expect(after(&state) { $0.timePassed(Self.seconds(10), &$1) } == [.fail(request: 1, .timedOut), .abort(1)])
        #expect(state.isEmpty)
    }

    @Test func `a request without a connection at its deadline has not been sent`() {
        var state = HTTPClientState()
        _ = after(&state) { $0.start(1, deadline: Self.seconds(10), &$1) }
        #expect(after(&state) { $0.timePassed(Self.seconds(10), &$1) } == [.fail(request: 1, .noConnection)])
        // The connection comes too late for it, and waits for the next.
        #expect(after(&state) { $0.opened(1, now: Self.seconds(10), &$1) } == [])
        #expect(!state.isEmpty)
    }

    @Test func `an idle connection is closed`() {
        var state = busy()
        _ = after(&state) { $0.answered(on: 1, keepsAlive: true, now: Self.start, &$1) }
        let end = Self.start + HTTPClientState.idleTime
        #expect(after(&state) { $0.timePassed(Self.seconds(1), &$1) } == [])
        #expect(after(&state) { $0.timePassed(end, &$1) } == [.close(1)])
        #expect(state.isEmpty)
    }

    @Test func `a connection that breaks the protocol is closed, and its request may have been processed`() {
        var state = busy()
        #expect(after(&state) { $0.broken(1, .tooLarge, &$1) } == [.fail(request: 1, .tooLarge), .close(1)])
        #expect(after(&state) { $0.ended(1, because: .closed, &$1) } == [])
    }

    @Test func `a closed client opens nothing, and closes what opens late`() {
        var state = busy()
        _ = after(&state) { $0.start(2, deadline: Self.seconds(10), &$1) }
        #expect(
            after(&state) { $0.close(&$1) } == [
                .fail(request: 1, .lost("closed locally")), .close(1), .fail(request: 2, .closed),
            ])
        #expect(after(&state) { $0.opened(2, now: Self.start, &$1) } == [.close(2)])
        #expect(
            after(&state) { $0.start(3, deadline: Self.seconds(10), &$1) } == [.fail(request: 3, .closed)])
        #expect(state.isEmpty)
    }
}
