// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Redis
import Simulator
import Testing
import Time

@testable import Cluster

/// Real Redis servers.
@Suite struct EngineTests {
    private let loop = EventLoop(name: "engine")
    private let secret = SecretBytes([UInt8](repeating: 7, count: 32))

    private func settings(_ server: RedisServer, node: String = "one", secret: SecretBytes? = nil) -> EngineSettings {
        EngineSettings(
            cluster: "test", node: node, address: .direct(server.endpoint), secret: secret ?? self.secret)
    }

    /// The events of an engine.
    private final class Events {
        var all: [Engine.Event] = []
        var problems: [String] {
            all.compactMap { if case .unavailable(let problem) = $0 { problem.description } else { nil } }
        }
    }

    /// Runs `body` on the loop with a running server.
    private func withServer(
        _ lines: [String] = [], _ body: @Sendable (RedisServer, isolated LoopDomain) async throws -> Void
    ) async throws {
        let server = try RedisServer(lines)
        try await server.start()
        try await LoopDomain(loop).run { domain in try await body(server, domain) }
        await server.stop()
    }

    private func engine(
        _ settings: EngineSettings, _ events: Events, on domain: isolated LoopDomain
    ) async -> Engine {
        let engine = Engine(settings, version: "1.0", on: domain.loop)
        engine.report = { events.all.append($0) }
        await engine.start()
        return engine
    }

    /// The first problem of an engine with these settings.
    private func problem(of settings: EngineSettings, on domain: isolated LoopDomain) async -> String {
        let events = Events()
        let engine = await engine(settings, events, on: domain)
        await engine.stop()
        return events.problems.first ?? "none"
    }

    private func admin(
        _ server: RedisServer, _ words: [String], on domain: isolated LoopDomain
    ) async throws -> RedisReply {
        let connection = RedisConnection(try await domain.loop.dial(server.endpoint, timeout: .seconds(5)))
        defer { connection.end(.disconnected("done")) }
        var command = RedisCommand()
        for word in words { command.append(word) }
        return try await connection.call(command)
    }

    @Test func `nodes see each other, and one that stops is gone`() async throws {
        try await withServer { server, domain in
            let (events, others) = (Events(), Events())
            let one = await engine(settings(server), events, on: domain)
            let two = await engine(settings(server, node: "two"), others, on: domain)
            #expect(events.all == [.available] && others.all == [.available])
            #expect(two.status.members.map(\.name) == ["one", "two"])
            #expect(two.status.members.allSatisfy { $0.isAlive && $0.version == "1.0" })
            #expect(two.status.clockOffset.map { abs($0.components.seconds) } == 0)
            await two.stop()
            let three = await engine(settings(server, node: "three"), others, on: domain)
            #expect(three.status.members.map(\.name) == ["one", "three"])
            await three.stop()
            await one.stop()
        }
    }

    @Test func `a node returns to a restarted engine by itself`() async throws {
        try await withServer { server, domain in
            let events = Events()
            let engine = await engine(settings(server), events, on: domain)
            await server.kill()
            while engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            do {
                _ = try await engine.call(.token, keys: [[1], [2]], [])
                Issue.record("a call without an engine")
            } catch {
                #expect(error as? EngineProblem == engine.status.problem)
            }
            try await server.start()
            while !engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            // The append-only file has kept the state.
            #expect(!events.all.contains(.lostState))
            #expect(events.all.first == .available && events.all.last == .available)
            await engine.stop()
        }
    }

    @Test func `a node notices that the engine has lost its state`() async throws {
        try await withServer { server, domain in
            let events = Events()
            let engine = await engine(settings(server), events, on: domain)
            _ = try await admin(server, ["FLUSHALL"], on: domain)
            _ = try await admin(server, ["FUNCTION", "FLUSH"], on: domain)
            _ = try await admin(server, ["CLIENT", "KILL", "TYPE", "normal"], on: domain)
            while !events.all.contains(.lostState) { await domain.loop.sleep(for: .milliseconds(5)) }
            while !engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            await engine.stop()
        }
    }

    @Test func `a node starts without the engine`() async throws {
        try await withServer { server, domain in
            await server.stop()
            let events = Events()
            let engine = await engine(settings(server), events, on: domain)
            #expect(!engine.status.isAvailable)
            #expect(events.problems.first?.hasPrefix("cannot connect to unix:") == true)
            try await server.start()
            while !engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            await engine.stop()
        }
    }

    @Test func `another key is refused`() async throws {
        try await withServer { server, domain in
            let engine = await engine(settings(server), Events(), on: domain)
            let other = settings(server, node: "two", secret: SecretBytes([UInt8](repeating: 8, count: 32)))
            #expect(
                await problem(of: other, on: domain).hasPrefix("cluster.key_file is not the key of the other nodes"))
            await engine.stop()
        }
    }

    @Test(arguments: [("2", "upgrade this node"), ("0", "stop all older nodes"), ("x", "not that of a cluster")])
    func `another layout of the state is refused`(schema: String, advice: String) async throws {
        try await withServer { server, domain in
            _ = try await admin(server, ["SET", "tocsin:{test}:schema", schema], on: domain)
            #expect(await problem(of: settings(server), on: domain).contains(advice))
        }
    }

    @Test func `a user with the documented rules suffices, and one without gets advice`() async throws {
        let rules = EngineSettings.aclRules(user: "node", cluster: "test").replacing("PASSWORD", with: "secret")
        try await withServer(["user default on >other ~* &* +@all", rules, "user weak on >secret ~none +ping"]) {
            server, domain in
            var settings = settings(server)
            #expect(await problem(of: settings, on: domain).contains("set cluster.password_file"))
            settings.password = SecretBytes(Array("wrong".utf8))
            settings.user = "node"
            #expect(await problem(of: settings, on: domain).contains("refused the password of the user node"))
            settings.password = SecretBytes(Array("secret".utf8))
            #expect(await problem(of: settings, on: domain) == "none")
            settings.user = "weak"
            #expect(await problem(of: settings, on: domain).contains("ACL does not allow the user weak"))
        }
    }

    @Test func `a living node with the same name is noticed`() async throws {
        try await withServer { server, domain in
            let events = Events()
            let one = await engine(settings(server), events, on: domain)
            let two = await engine(settings(server), Events(), on: domain)
            while !events.all.contains(.sameName) { await domain.loop.sleep(for: .milliseconds(20)) }
            await one.stop()
            await two.stop()
        }
    }
}
