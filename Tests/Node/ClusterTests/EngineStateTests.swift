// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import Cluster
@testable import Redis
@testable import Time

@Suite(.tags(.computing)) struct EngineStateTests {
    private typealias Action = EngineState.Action
    private static let start = MonotonicTime(nanoseconds: 0)
    private static let epoch: [UInt8] = [1, 2, 3]

    private static func seconds(_ seconds: Double) -> MonotonicTime { start + .milliseconds(seconds * 1000) }

    /// The reply to a heartbeat.
    private func reply(
        owner: String? = nil, hadEnded: Bool = false, epoch: [UInt8] = Self.epoch, time: Int64 = 1_000_000
    ) -> Result<RedisReply, RedisError> {
        let name = owner.map { RedisReply.bytes(Array("x \($0)".utf8)) } ?? .null
        return .success(
            .array([
                .bytes(Array("\(time * 1000)".utf8)), .array([]), name, .integer(hadEnded ? 0 : 1), .bytes(epoch),
            ]))
    }

    private func after(_ state: inout EngineState, _ event: (inout EngineState, inout [Action]) -> Void) -> [Action] {
        var actions: [Action] = []
        event(&state, &actions)
        return actions
    }

    /// Sends a heartbeat and has it answered after a time.
    private func beat(
        _ state: inout EngineState, at second: Double = 0, taking time: Double = 0.1,
        _ answer: Result<RedisReply, RedisError>? = nil
    ) -> [Action] {
        state.heartbeatSent(now: Self.seconds(second), wall: 999_000)
        return after(&state) { $0.replied(answer ?? reply(), now: Self.seconds(second + time), &$1) }
    }

    private func renewed(at second: Double, isNew: Bool) -> Action {
        .renewed(end: Self.seconds(second) + Engine.sessionTime, isNew: isNew)
    }

    /// A state with an engine that can be used.
    private func available() -> EngineState {
        var state = EngineState(session: "me", now: Self.start)
        #expect(after(&state) { $0.connected(epoch: Self.epoch, &$1) } == [])
        #expect(!state.status.isAvailable)
        #expect(beat(&state) == [renewed(at: 0, isNew: true), .report(.available)])
        return state
    }

    @Test func `the engine is available from the first heartbeat that it confirms`() {
        let state = available()
        #expect(state.status.isAvailable && state.isAsked(at: Self.start))
        #expect(state.status.roundTrip == .milliseconds(100))
        #expect(state.status.clockOffset == .milliseconds(950))
    }

    @Test func `the session lasts from when the heartbeat was sent, not from its answer`() {
        var state = available()
        #expect(beat(&state, at: 5, taking: 0.2) == [renewed(at: 5, isNew: false)])
        #expect(beat(&state, at: 10, reply(hadEnded: true)) == [renewed(at: 10, isNew: true)])
    }

    @Test func `a lost connection is reported once for each reason, and what was claimed may be another's`() {
        var state = available()
        let problem = EngineProblem("gone")
        #expect(after(&state) { $0.failed(problem, now: Self.seconds(9), &$1) } == [.report(.unavailable(problem))])
        #expect(after(&state) { $0.failed(problem, now: Self.seconds(10), &$1) } == [])
        #expect(state.status.since == Self.seconds(9))
        #expect(
            after(&state) { $0.failed(EngineProblem("other"), now: Self.seconds(11), &$1) }
                == [.report(.unavailable(EngineProblem("other")))])
        #expect(state.status.since == Self.seconds(9))
        _ = after(&state) { $0.connected(epoch: Self.epoch, &$1) }
        #expect(beat(&state, at: 12) == [renewed(at: 12, isNew: true), .report(.available)])
    }

    @Test func `an engine that lost its state is noticed at the handshake, and between two`() {
        var state = available()
        #expect(
            beat(&state, at: 5, reply(epoch: [9])) == [.close(.disconnected("the engine has lost its state"))])
        #expect(after(&state) { $0.connected(epoch: [9], &$1) } == [.report(.lostState)])
        #expect(beat(&state, at: 6, reply(epoch: [9])) == [renewed(at: 6, isNew: false)])
    }

    @Test func `another node of the same name is reported once, and the former process is none`() {
        var state = EngineState(session: "me", now: Self.start)
        _ = after(&state) { $0.connected(epoch: Self.epoch, &$1) }
        #expect(!beat(&state, reply(owner: "former")).contains(.report(.sameName)))
        #expect(!beat(&state, at: 5, reply(owner: "me")).contains(.report(.sameName)))
        #expect(beat(&state, at: 10, reply(owner: "other")).contains(.report(.sameName)))
        #expect(!beat(&state, at: 15, reply(owner: "other")).contains(.report(.sameName)))
    }

    @Test func `a slow engine is left alone for a moment, and only a quick heartbeat ends its slowness`() {
        var state = available()
        #expect(after(&state) { $0.wasSlow(now: Self.seconds(1), &$1) } == [.report(.slow)])
        #expect(after(&state) { $0.wasSlow(now: Self.seconds(1.5), &$1) } == [])
        #expect(!state.isAsked(at: Self.seconds(2)) && state.isAsked(at: Self.seconds(2.5)))
        #expect(state.status.isSlow)
        #expect(beat(&state, at: 5) == [.report(.fast), renewed(at: 5, isNew: false)])
        #expect(beat(&state, at: 10, taking: 0.25) == [.report(.slow), renewed(at: 10, isNew: false)])
    }

    @Test func `an answer that is none ends the connection`() {
        var state = available()
        #expect(beat(&state, at: 5, .success(.integer(1))) == [.close(.malformed("not the reply to a heartbeat"))])
        #expect(beat(&state, at: 5, .failure(.timedOut)) == [.close(.timedOut)])
        // The next one comes soon enough.
        #expect(beat(&state, at: 5, .failure(.tooManyWaiting)) == [])
    }

    @Test func `an answer without a question ends the connection`() {
        var state = EngineState(session: "me", now: Self.start)
        _ = after(&state) { $0.connected(epoch: Self.epoch, &$1) }
        let actions = after(&state) { $0.replied(reply(), now: Self.start, &$1) }
        #expect(actions == [.close(.malformed("not the reply to a heartbeat"))])
    }
}

@Suite(.tags(.computing)) struct SentinelPanelTests {
    private let sentinels: [Endpoint] = (1...2).map { .tcp(host: "10.0.1.\($0)", port: 26379) }
    private let old = Endpoint.tcp(host: "10.0.0.1", port: 6379)
    private let new = Endpoint.tcp(host: "10.0.0.2", port: 6379)

    private func texts(_ texts: [String]) -> RedisReply { .array(texts.map { .bytes(Array($0.utf8)) }) }

    /// A Sentinel that has been asked names a primary.
    private func name(_ host: String, epoch: Int, by index: Int, _ panel: inout SentinelPanel) -> Endpoint? {
        _ = panel.replied(index, isAddress: true, .success(texts([host, "6379"])))
        let facts = texts(["ip", host, "port", "6379", "config-epoch", "\(epoch)"])
        return panel.replied(index, isAddress: false, .success(facts))
    }

    private func asked() -> SentinelPanel {
        var panel = SentinelPanel(sentinels, masterName: "tocsin")
        for index in sentinels.indices {
            #expect(panel.question(to: index, isConnected: false) == .dial)
            panel.connected(index)
        }
        return panel
    }

    @Test func `a Sentinel is dialled once, and asked again when it has answered`() {
        var panel = SentinelPanel(sentinels, masterName: "tocsin")
        #expect(panel.question(to: 0, isConnected: false) == .dial)
        #expect(panel.question(to: 0, isConnected: false) == .none)
        panel.connected(0)
        #expect(panel.question(to: 0, isConnected: true) == .none)
        _ = name("10.0.0.1", epoch: 1, by: 0, &panel)
        #expect(panel.question(to: 0, isConnected: true) == .ask)
        #expect(!panel.isComplete)
        // Its connection has ended.
        #expect(panel.question(to: 0, isConnected: false) == .dial)
    }

    @Test func `the first primary is no change, and the next one is`() {
        var panel = asked()
        #expect(name("10.0.0.1", epoch: 1, by: 0, &panel) == nil)
        #expect(name("10.0.0.1", epoch: 1, by: 1, &panel) == nil)
        #expect(panel.isComplete && panel.answer == .success(old))
        #expect(name("10.0.0.2", epoch: 2, by: 0, &panel) == new)
        #expect(panel.latest == new)
    }

    @Test func `without an answer, the operator learns what is wrong with each Sentinel`() {
        var panel = asked()
        panel.couldNotConnect(0, StreamError.timedOut)
        _ = panel.replied(1, isAddress: false, .failure(.refused("ERR No such master with that name")))
        #expect(panel.isComplete)
        guard case .failure(let problem) = panel.answer else { return #expect(Bool(false), "nobody named a primary") }
        #expect(problem.description.contains("cannot connect to 10.0.1.1:26379"))
        #expect(problem.description.contains("watches no primary named tocsin"))
    }

    @Test func `a Sentinel whose answer is none has failed`() {
        var panel = asked()
        #expect(panel.replied(0, isAddress: false, .success(.null)) == nil)
        guard case .failure(let problem) = panel.answer else { return #expect(Bool(false), "nobody named a primary") }
        #expect(problem.description.contains("does not answer as Sentinels do"))
    }
}
