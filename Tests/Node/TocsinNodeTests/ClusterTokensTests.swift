// SPDX-License-Identifier: Apache-2.0

import Cluster
import Cryptography
import EventLoop
import FoundationEssentials
import Redis
import StandIns
import TestSupport
import Testing
import Time

@testable import Providers
@testable import TocsinNode

/// The nodes of a cluster with a real Redis server.
@Suite(.tags(.sockets)) struct ClusterTokensTests {
    private let loop = EventLoop(name: "tokens")
    private let key = SigningKey.generate(.es256)
    private let identity = BLAKE2b.hash256([1])

    /// What one node has of Apple's key.
    private final class Member {
        let token: APNsProviderToken
        let engine: Engine
        let tokens: ClusterTokens

        init(_ name: String, _ key: SigningKey, _ identity: Digest256, _ server: RedisServer, on loop: EventLoop) {
            let token = APNsProviderToken(AppleKey(key, keyID: "KEY0000001", teamID: "TEAM000001"))
            self.token = token
            engine = Engine(
                EngineSettings(
                    cluster: "test", node: name, address: .direct(server.endpoint),
                    secret: SecretBytes([UInt8](repeating: 7, count: 32))), version: "1", on: loop)
            tokens = ClusterTokens(engine, on: loop) { [identity: token] }
        }

        var present: [UInt8]? { token.present(at: UnixTime.now) }

        /// Whether another token takes the place of this one at once.
        func renew(_ header: [UInt8]) -> Bool {
            var isRenewed: Bool?
            token.renew(refused: header, at: UnixTime.now) { isRenewed = $0 }
            return isRenewed == true
        }

        func start(isolation: isolated (any Actor)? = #isolation) async {
            await engine.start()
            await tokens.start()
        }
    }

    private func withMembers(
        _ body: @Sendable (Member, Member, RedisServer, isolated LoopDomain) async throws -> Void
    ) async throws {
        let server = try RedisServer()
        try await server.start()
        try await LoopDomain(loop).run { domain in
            let one = Member("one", key, identity, server, on: domain.loop)
            let two = Member("two", key, identity, server, on: domain.loop)
            try await body(one, two, server, domain)
            await one.engine.stop()
            await two.engine.stop()
        }
        await server.stop()
    }

    /// Lets seconds pass at both nodes until `condition` holds.
    private func wait(
        _ one: Member, _ two: Member, on domain: isolated LoopDomain, until condition: () -> Bool
    ) async {
        for _ in 0..<6000 where !condition() {
            one.tokens.secondPassed()
            two.tokens.secondPassed()
            await domain.loop.sleep(for: .milliseconds(10))
        }
        #expect(condition())
    }

    /// Makes the token of the engine and of these nodes older.
    private func age(
        _ members: [Member], by seconds: Int64, _ server: RedisServer, on domain: isolated LoopDomain
    ) async throws {
        let connection = RedisConnection(try await domain.loop.dial(server.endpoint, timeout: .seconds(60)))
        defer { connection.close(.disconnected("done")) }
        var command = RedisCommand("HINCRBY")
        command.append(members[0].engine.names.name(.providerToken, of: identity.bytes))
        command.append("issued")
        command.append(-seconds * 1_000_000)
        _ = try await connection.call(command)
        for member in members { #expect(member.token.adopt(member.present ?? [], at: UnixTime.now + seconds)) }
    }

    @Test func `nodes that start together issue one token`() async throws {
        try await withMembers { one, two, server, domain in
            await one.engine.start()
            await two.engine.start()
            await wait(one, two, on: domain) { one.present != nil && one.present == two.present }
            let files = try FileManager.default.subpathsOfDirectory(atPath: server.directory)
            let stored = files.compactMap { FileManager.default.contents(atPath: "\(server.directory)/\($0)") }
            #expect(stored.contains { !$0.isEmpty })
            // A JSON web token begins with the Base64 of {".
            #expect(stored.allSatisfy { $0.firstRange(of: Data("eyJ".utf8)) == nil })
        }
    }

    @Test func `a node takes over the token of the others at its start, as old as the token says`() async throws {
        try await withMembers { one, two, server, domain in
            let header = one.token.authorization(at: UnixTime.now - 1000)
            one.token.wasSent(header)
            await one.start()
            // The engine believes the first node, which has just got it.
            await two.start()
            #expect(two.present != nil && two.present == one.present)
            #expect(two.token.age(at: .now).map { (1000...2000).contains($0) } == true)
        }
    }

    @Test func `all nodes renew an old token together`() async throws {
        try await withMembers { one, two, server, domain in
            await one.start()
            await two.start()
            let first = one.present
            try await age([one, two], by: ClusterTokens.renewalAge, server, on: domain)
            await wait(one, two, on: domain) { one.present != first && one.present == two.present }
        }
    }

    @Test func `a token that Apple refuses as expired is renewed once for all`() async throws {
        try await withMembers { one, two, server, domain in
            await one.start()
            await two.start()
            let first = try #require(one.present)
            let header = try #require(one.token.authorization(at: UnixTime.now))
            // Too young: Apple accepts no second one within 20 minutes.
            #expect(!one.renew(header) && one.present == first)
            try await age([one, two], by: APNsProviderToken.shortestInterval + 1, server, on: domain)
            #expect(!one.renew(header) && one.present == first)
            await wait(one, two, on: domain) { one.present != first }
            let second = one.present
            #expect(two.present == first)
            #expect(!two.renew(header))
            await wait(one, two, on: domain) { two.present != first }
            #expect(one.present == second && two.present == second)
        }
    }

    @Test func `a node renews alone while the engine cannot be used, and shares its token afterwards`() async throws {
        try await withMembers { one, two, server, domain in
            await one.start()
            await two.start()
            let first = try #require(one.present)
            await server.kill()
            while one.engine.status.isAvailable { await domain.loop.sleep(for: .milliseconds(5)) }
            #expect(one.token.adopt(first, at: UnixTime.now + APNsProviderToken.shortestInterval))
            let header = try #require(one.token.authorization(at: UnixTime.now))
            #expect(one.renew(header))
            #expect(one.present != first)
            try await server.start()
            while !one.engine.status.isAvailable || !two.engine.status.isAvailable {
                await domain.loop.sleep(for: .milliseconds(5))
            }
            one.tokens.engineReturned()
            two.tokens.engineReturned()
            await wait(one, two, on: domain) { one.present == two.present }
        }
    }
}
