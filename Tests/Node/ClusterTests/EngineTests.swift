// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Redis
import StandIns
import TestSupport
import Testing
import Time

@testable import Cluster

/// Real Redis servers.
@Suite(.tags(.sockets)) struct EngineTests {
    private let loop = EventLoop(name: "engine")
    private let secret = SecretBytes([UInt8](repeating: 7, count: 32))
    private let reservations = PortReservations()

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
        // While a slow disk takes the data of the second before, Redis writes nothing to its file, and a kill loses that.
        let server = try RedisServer(["appendfsync always"] + lines)
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
        try await admin(server, [words], on: domain)
    }

    /// A call about a provider token.
    private func call(_ function: FunctionLibrary.Function, _ arguments: [String], of engine: Engine) -> RedisCommand {
        var command = RedisCommand(
            function, keys: [.providerToken, .providerTokenLock].map { engine.names.name($0, of: [1]) })
        for argument in arguments { command.append(argument) }
        return command
    }

    /// Runs commands on one connection.
    /// - Returns: the last reply.
    private func admin(
        _ server: RedisServer, _ commands: [[String]], on domain: isolated LoopDomain
    ) async throws -> RedisReply {
        let connection = RedisConnection(try await domain.loop.dial(server.endpoint, timeout: .seconds(60)))
        defer { connection.close(.disconnected("done")) }
        var reply = RedisReply.null
        for words in commands {
            var command = RedisCommand()
            for word in words { command.append(word) }
            reply = try await connection.call(command)
        }
        return reply
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
                _ = try await engine.call(RedisCommand(.token, keys: [[1], [2]]))
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

    @Test(arguments: [true, false])
    func `a node notices that the engine has lost its state`(endsConnections: Bool) async throws {
        try await withServer { server, domain in
            let events = Events()
            let engine = await engine(settings(server), events, on: domain)
            _ = try await admin(server, ["FLUSHALL"], on: domain)
            if endsConnections {
                _ = try await admin(server, ["FUNCTION", "FLUSH"], on: domain)
                _ = try await admin(server, ["CLIENT", "KILL", "TYPE", "normal"], on: domain)
            }
            while !events.all.contains(.lostState) { await domain.loop.sleep(for: .milliseconds(5)) }
            while !engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            await engine.stop()
        }
    }

    @Test func `a node learns that its session had ended`() async throws {
        try await withServer { server, domain in
            let engine = Engine(settings(server), version: "1.0", on: domain.loop)
            var renewals: [Bool] = []
            engine.renewed = { end, isNew in
                #expect(end > .now)
                renewals.append(isNew)
            }
            await engine.start()
            while renewals.count < 2 { await domain.loop.sleep(for: .milliseconds(20)) }
            _ = try await admin(server, ["DEL", "tocsin:{test}:n:\(engine.session)"], on: domain)
            while renewals.count < 3 { await domain.loop.sleep(for: .milliseconds(20)) }
            #expect(renewals == [true, false, true])
            await engine.stop()
        }
    }

    @Test func `a sender waits for a slow engine only briefly, and the next one not at all`() async throws {
        try await withServer { server, domain in
            let events = Events()
            let engine = await engine(settings(server), events, on: domain)
            server.freeze()
            #expect((try? await engine.ask(RedisCommand("PING"))) == nil)
            #expect(!engine.isAsked && engine.status.isAvailable)
            #expect((try? await engine.ask(RedisCommand("PING"))) == nil)
            server.thaw()
            // The reply that came too late is no failure of the connection.
            while !engine.isAsked { await domain.loop.sleep(for: .milliseconds(20)) }
            let pong = try await engine.ask(RedisCommand("PING"))
            #expect(pong == .status("PONG") && events.all == [.available, .slow])
            // The next heartbeat shows that the engine is fast again.
            while engine.status.isSlow { await domain.loop.sleep(for: .milliseconds(20)) }
            #expect(events.all == [.available, .slow, .fast])
            await engine.stop()
        }
    }

    @Test func `nodes follow the Sentinels to the next primary, which has the state`() async throws {
        try await LoopDomain(loop).run { domain in
            let ports = try (0..<4).map { _ in try reservations.reserve() }
            let primary = try RedisServer(["repl-diskless-sync-delay 0"], port: ports[0])
            let replica = try RedisServer(["replicaof 127.0.0.1 \(ports[0])"], port: ports[1])
            let sentinel = try RedisServer(sentinelOf: "test", primary: ports[0], port: ports[2])
            for server in [primary, replica, sentinel] { try await server.start() }
            var settings = settings(primary)
            // Nobody listens at the first address.
            settings.address = .sentinels([.tcp(host: "127.0.0.1", port: ports[3]), sentinel.endpoint])
            let events = Events()
            let engine = await engine(settings, events, on: domain)
            #expect(engine.status.isAvailable)
            let offered = try await engine.call(call(.offer, ["id", "sealed", "0", "1200", "3600"], of: engine))
            #expect(offered.elements?.first == .bytes(Array("sealed".utf8)))
            // The Sentinel must know the replica before it can promote it.
            while try await admin(sentinel, ["SENTINEL", "replicas", "test"], on: domain).elements?.isEmpty != false {
                await domain.loop.sleep(for: .milliseconds(100))
            }
            // WAIT is about the connection's own writes.
            let commands = [["SET", "written", "last"], ["WAIT", "1", "500"]]
            while try await admin(primary, commands, on: domain) != .integer(1) {}
            await primary.kill()
            while engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(20)) }
            while !engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(20)) }
            #expect(!events.all.contains(.lostState))
            let token = try await engine.call(call(.token, ["", "2880", "1200"], of: engine))
            #expect(token.elements?.first == .bytes(Array("sealed".utf8)))
            await engine.stop()
            for server in [replica, sentinel] { await server.stop() }
        }
    }

    /// `SENTINEL FAILOVER`: for some seconds the demoted primary takes writes, which are lost.
    @Test func `a planned failover leaves nothing with the demoted primary`() async throws {
        try await LoopDomain(loop).run { domain in
            let ports = try (0..<3).map { _ in try reservations.reserve() }
            let primary = try RedisServer(["repl-diskless-sync-delay 0"], port: ports[0])
            let replica = try RedisServer(["replicaof 127.0.0.1 \(ports[0])"], port: ports[1])
            let sentinel = try RedisServer(sentinelOf: "test", primary: ports[0], port: ports[2])
            for server in [primary, replica, sentinel] { try await server.start() }
            var settings = settings(primary)
            settings.address = .sentinels([sentinel.endpoint])
            let engine = await engine(settings, Events(), on: domain)
            while try await admin(sentinel, ["SENTINEL", "replicas", "test"], on: domain).elements?.isEmpty != false {
                await domain.loop.sleep(for: .milliseconds(100))
            }
            // A Sentinel promotes no replica of which it has not heard for a while.
            while (try? await admin(sentinel, ["SENTINEL", "FAILOVER", "test"], on: domain)) != .status("OK") {
                await domain.loop.sleep(for: .milliseconds(200))
            }
            let facts = ["SENTINEL", "get-master-addr-by-name", "test"]
            while try await admin(sentinel, facts, on: domain).elements?.last?.text != "\(ports[1])" {
                await domain.loop.sleep(for: .milliseconds(10))
            }
            // The Sentinel has named the other one: a second later, nothing goes to the demoted one.
            await domain.loop.sleep(for: .milliseconds(1500))
            while !engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            let offered = try await engine.call(call(.offer, ["id", "sealed", "0", "1200", "3600"], of: engine))
            #expect(offered.elements?.first == .bytes(Array("sealed".utf8)))
            #expect(try await admin(replica, ["ROLE"], on: domain).elements?.first?.text == "master")
            // What it took is with the new primary.
            settings.address = .direct(replica.endpoint)
            let other = await self.engine(settings, Events(), on: domain)
            let token = try await other.call(call(.token, ["", "2880", "1200"], of: other))
            #expect(token.elements?.first == .bytes(Array("sealed".utf8)))
            for node in [engine, other] { await node.stop() }
            for server in [primary, replica, sentinel] { await server.stop() }
        }
    }

    @Test func `a replica and a Sentinel that does not know the cluster are refused with advice`() async throws {
        try await LoopDomain(loop).run { domain in
            let ports = try (0..<3).map { _ in try reservations.reserve() }
            let primary = try RedisServer(port: ports[0])
            let replica = try RedisServer(["replicaof 127.0.0.1 \(ports[0])"], port: ports[1])
            let sentinel = try RedisServer(sentinelOf: "other", primary: ports[0], port: ports[2])
            for server in [primary, replica, sentinel] { try await server.start() }
            #expect(await problem(of: settings(replica), on: domain).contains("replica"))
            var settings = settings(primary)
            settings.address = .sentinels([sentinel.endpoint])
            #expect(await problem(of: settings, on: domain).contains("sentinel monitor test HOST PORT QUORUM"))
            for server in [replica, primary, sentinel] { await server.stop() }
        }
    }

    @Test func `an engine with TLS is used if its certificate is trusted and has its name`() async throws {
        try await LoopDomain(loop).run { domain in
            let (authority, other) = (CertificateAuthority(name: "an authority"), CertificateAuthority(name: "another"))
            let port = try reservations.reserve()
            let server = try RedisServer(
                port: port,
                identity: authority.issue(subject: "engine", purpose: .server(names: ["127.0.0.1"])))
            try await server.start()
            var settings = settings(server)
            settings.tls = try TLSContext.client(
                authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: nil)
            let trusted = await problem(of: settings, on: domain)
            #expect(trusted == "none")
            settings.tls = try TLSContext.client(
                authorities: TrustedAuthorities(and: other.pem), applicationProtocol: nil)
            let untrusted = await problem(of: settings, on: domain)
            #expect(untrusted.hasSuffix("TLS: self-signed certificate in certificate chain"))
            settings.tls = try TLSContext.client(
                authorities: TrustedAuthorities(and: authority.pem), applicationProtocol: nil)
            settings.address = .direct(.tcp(host: "localhost", port: port))
            let misnamed = await problem(of: settings, on: domain)
            #expect(misnamed.hasSuffix("TLS: hostname mismatch"))
            // Without TLS, the node learns nothing but that the server does not speak its protocol.
            settings.address = .direct(server.endpoint)
            settings.tls = nil
            #expect(await problem(of: settings, on: domain) != "none")
            await server.stop()
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

    @Test(arguments: [("3", "upgrade this node"), ("1", "stop all older nodes"), ("x", "not that of a cluster")])
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
