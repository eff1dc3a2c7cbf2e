// SPDX-License-Identifier: Apache-2.0

import Confinement
import TestSupport
import Testing

@testable import KeyHolder
@testable import Time

@Suite(.tags(.computing)) struct SupervisorStateTests {
    private static let start = MonotonicTime(nanoseconds: 0)

    @Test func `no more key holders run than the maximum`() {
        var state = SupervisorState()
        for process in 1...Int32(SupervisorState.maximumHolders) {
            #expect(state.received(.startHolder, now: Self.start) == [.start(.holder)])
            state.started(.holder, process)
        }
        #expect(state.received(.startHolder, now: Self.start) == [])
        #expect(state.ended(1, "by signal 9", isRegular: false) == [.report(.holderEnded("by signal 9"))])
        #expect(state.received(.startHolder, now: Self.start) == [.start(.holder)])
    }

    @Test func `a node cannot make the supervisor start processes without end`() {
        var state = SupervisorState()
        let starts = (0..<50).map { _ in state.received(.startResolver, now: Self.start) }
        #expect(starts.count { $0 == [.start(.resolver)] } == Int(SupervisorState.burst))
        #expect(state.received(.startResolver, now: Self.start + .seconds(10)) == [.start(.resolver)])
    }

    @Test func `a new resolver takes the place of the one before, whose end is nobody's concern`() {
        var state = SupervisorState()
        _ = state.received(.startResolver, now: Self.start)
        state.started(.resolver, 5)
        #expect(state.received(.startResolver, now: Self.start) == [.kill(5), .start(.resolver)])
        state.started(.resolver, 6)
        #expect(state.ended(5, "by signal 9", isRegular: false) == [])
        #expect(state.ended(6, "by signal 31", isRegular: false) == [.report(.resolverEnded("by signal 31"))])
    }

    @Test func `a resolver that the node has left ends regularly, which is not reported`() {
        var state = SupervisorState()
        state.started(.resolver, 5)
        #expect(state.ended(5, "with status 0", isRegular: true) == [])
    }

    @Test func `each refused call is reported, and logged once a minute`() {
        var state = SupervisorState()
        let call = RefusedCall(name: "ptrace", thread: 258)
        #expect(state.refused(call, now: Self.start) == [.log(call), .report(.refused(call))])
        #expect(state.refused(call, now: Self.start + .seconds(59)) == [.report(.refused(call))])
        #expect(
            state.refused(call, now: Self.start + SupervisorState.logInterval) == [
                .log(call), .report(.refused(call)),
            ])
    }

    @Test func `the log of refused calls is bounded`() {
        var state = SupervisorState()
        let logged = (0..<500).count { number in
            state.refused(RefusedCall(name: "call\(number)", thread: 1), now: Self.start).count == 2
        }
        #expect(logged == SupervisorState.maximumLogged)
    }

    @Test func `the sandbox is watched once`() {
        var state = SupervisorState()
        #expect(state.received(.watch(logsJSON: true), now: Self.start) == [.watch(logsJSON: true)])
        #expect(state.received(.watch(logsJSON: false), now: Self.start) == [])
    }

    @Test func `resolvers end with the node, and key holders by themselves`() {
        var state = SupervisorState()
        state.started(.holder, 4)
        state.started(.resolver, 5)
        #expect(state.nodeEnded() == [.kill(5)])
    }

    @Test(arguments: [SupervisorCommand.startHolder, .startResolver, .watch(logsJSON: true), .watch(logsJSON: false)])
    func `a command survives`(_ command: SupervisorCommand) {
        #expect(SupervisorCommand(command.bytes) == command)
        for bytes: [UInt8] in [[], [0], [4], [255, 1]] { #expect(SupervisorCommand(bytes) == nil) }
    }
}
