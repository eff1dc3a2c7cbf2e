// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Handles
import Redis
import StandIns
import TestSupport
import Testing

@testable import Cluster

/// What the engine holds of handles, with a real Redis server.
@Suite(.tags(.sockets)) struct SharedHandleTests {
    private let loop = EventLoop(name: "handles")
    private static let name = [UInt8](repeating: 5, count: 16)

    private func withEngine(
        _ body: @Sendable (Engine, HandleCalls, isolated LoopDomain) async throws -> Void
    ) async throws {
        let server = try RedisServer()
        try await server.start()
        try await LoopDomain(loop).run { domain in
            let engine = Engine(
                EngineSettings(
                    cluster: "test", node: "one", address: .direct(server.endpoint),
                    secret: SecretBytes([UInt8](repeating: 7, count: 32))),
                version: "1", on: domain.loop)
            await engine.start()
            try await body(engine, HandleCalls(in: engine.names), domain)
            await engine.stop()
        }
        await server.stop()
    }

    private static func handle(
        _ sequence: UInt64, state: HandleEntry.State = .unconfirmed, time: Int64 = 100
    ) -> SealedHandle {
        SealedHandle(
            name: name, sealed: Array("\(sequence)".utf8), state: state, time: time, sequence: sequence)
    }

    /// Pairs of records: the second is newer.
    private static let orders: [(SealedHandle, SealedHandle)] = [
        (handle(9), handle(10)),
        // A Lua number cannot tell these apart.
        (handle(9_007_199_254_740_992), handle(9_007_199_254_740_993)),
        (handle(.max - 1), handle(.max)),
        (handle(10, state: .confirmed, time: 200), handle(11, state: .forgotten, time: 100)),
        (handle(10, time: 200), handle(10, state: .confirmed, time: 100)),
        (handle(10, state: .confirmed, time: 100), handle(10, state: .confirmed, time: 200)),
    ]

    @Test(arguments: orders.indices)
    func `the newer record wins, whichever comes first`(_ index: Int) async throws {
        let (older, newer) = Self.orders[index]
        try await withEngine { engine, calls, domain in
            var answers: [SealedHandle?] = []
            for own in [nil, older, nil, newer, older, newer] {
                answers.append(
                    SealedHandle(try await engine.call(calls.exchange(Self.name, own, life: 600)), of: Self.name))
            }
            #expect(answers == [nil, nil, older, nil, newer, nil])
        }
    }

    @Test func `a ring confirms a handle, unless it has ended`() async throws {
        try await withEngine { engine, calls, domain in
            func present(on domain: isolated LoopDomain) async throws -> [Int64]? {
                let reply = try await engine.call(calls.exchange(Self.name, nil, life: 600))
                return SealedHandle(reply, of: Self.name).map { [Int64($0.state.rawValue), $0.time] }
            }
            _ = try await engine.call(calls.ring(Self.name, on: 50, life: 600))
            let before = try await present(on: domain)
            _ = try await engine.call(calls.exchange(Self.name, Self.handle(1), life: 600))
            _ = try await engine.call(calls.ring(Self.name, on: 50, life: 600))
            let rung = try await present(on: domain)
            _ = try await engine.call(calls.exchange(Self.name, Self.handle(2, state: .forgotten, time: 40), life: 600))
            _ = try await engine.call(calls.ring(Self.name, on: 60, life: 600))
            let ended = try await present(on: domain)
            #expect(before == nil && rung == [1, 50] && ended == [2, 40])
        }
    }
}
