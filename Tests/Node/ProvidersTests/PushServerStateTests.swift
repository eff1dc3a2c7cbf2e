// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import Providers

@Suite(.tags(.computing)) struct PushServerStateTests {
    private typealias Action = PushServerState.Action

    private func after(
        _ state: inout PushServerState, _ event: (inout PushServerState, inout [Action]) -> Void
    ) -> [Action] {
        var actions: [Action] = []
        event(&state, &actions)
        return actions
    }

    /// A server that speaks HTTP/2, with one request in flight.
    private func open() -> PushServerState {
        var state = PushServerState(isSecure: true)
        #expect(after(&state) { $0.start(1, &$1) } == [.negotiate])
        #expect(after(&state) { $0.negotiated(.success(.version2), &$1) } == [.open(.version2), .send(1)])
        return state
    }

    @Test func `a server is asked once, and requests wait for the answer`() {
        var state = PushServerState(isSecure: true)
        #expect(after(&state) { $0.start(1, &$1) } == [.negotiate])
        #expect(after(&state) { $0.start(2, &$1) } == [])
        #expect(
            after(&state) { $0.negotiated(.success(.version1), &$1) } == [.open(.version1), .send(1), .send(2)])
        #expect(after(&state) { $0.start(3, &$1) } == [.send(3)])
        #expect(state.inFlight == 3)
    }

    @Test func `without TLS, the version is 1`() {
        var state = PushServerState(isSecure: false)
        #expect(after(&state) { $0.start(1, &$1) } == [.open(.version1), .send(1)])
    }

    @Test func `requests fail if the server cannot be asked, and the next one asks again`() {
        var state = PushServerState(isSecure: true)
        _ = after(&state) { $0.start(1, &$1) }
        #expect(after(&state) { $0.negotiated(.failure(.init(reason: "refused")), &$1) } == [.fail(1, "refused")])
        state.finished(isAnswered: false)
        #expect(after(&state) { $0.start(2, &$1) } == [.negotiate])
    }

    @Test func `after a failure the version is learned again, once no request is in flight`() {
        var state = open()
        _ = after(&state) { $0.start(2, &$1) }
        state.finished(isAnswered: false)
        #expect(after(&state) { $0.start(3, &$1) } == [.send(3)])
        state.finished(isAnswered: true)
        state.finished(isAnswered: false)
        #expect(after(&state) { $0.start(4, &$1) } == [.close, .negotiate])
    }

    @Test func `an answer keeps the version`() {
        var state = open()
        state.finished(isAnswered: true)
        #expect(after(&state) { $0.start(2, &$1) } == [.send(2)])
    }

    @Test func `a closed server takes no request, and no answer opens it`() {
        var state = PushServerState(isSecure: true)
        _ = after(&state) { $0.start(1, &$1) }
        #expect(after(&state) { $0.close(&$1) } == [.close, .fail(1, "closed locally")])
        #expect(after(&state) { $0.negotiated(.success(.version2), &$1) } == [])
        #expect(after(&state) { $0.start(2, &$1) } == [.fail(2, "closed locally")])
    }
}
