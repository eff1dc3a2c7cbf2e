// SPDX-License-Identifier: Apache-2.0

import Redis
import Settings
import TestSupport
import Testing

@testable import Cluster
@testable import Diagnostics

@Suite(.tags(.sockets)) struct EngineCheckTests {
    private func findings(
        _ information: [String: String] = [:], offset: Duration = .zero, isExposed: Bool = false,
        absence: Int64 = 1000, configuredNodes: Int = 2, nodes: Int = 1, obeysStrangers: Bool = false
    ) throws -> [Finding] {
        let good = [
            "redis_version": "7.0.15", "maxmemory_policy": "noeviction", "aof_enabled": "1", "connected_slaves": "1",
        ]
        let node: RedisReply = .array([
            .bytes(Array("one".utf8)), .integer(absence), .bytes(Array("00ff 1.2.3".utf8)),
        ])
        let membership = try #require(
            Membership(.array([.bytes(Array("1700000000000000".utf8)), .array(Array(repeating: node, count: nodes))])))
        return EngineCheck(
            address: "unix:/run/redis", isExposed: isExposed, isRemote: isExposed, configuredNodes: configuredNodes,
            facts: EngineFacts(
                information: good.merging(information) { $1 }, membership: membership, clockOffset: offset,
                obeysStrangers: obeysStrangers)
        ).findings
    }

    @Test func `a good engine with living nodes passes`() throws {
        let findings = try findings()
        #expect(findings.map(\.grade) == [.ok, .ok])
        #expect(findings[0].text == "Redis 7.0.15 is the primary, with 1 replica")
        #expect(findings[1].subject == "one" && findings[1].text == "the node lives, and runs Tocsin 1.2.3")
    }

    @Test(arguments: [
        ("redis_version", "6.2.14", Finding.Grade.failed, "too old"),
        ("redis_version", "", .failed, "too old"),
        ("maxmemory_policy", "allkeys-lru", .failed, "set maxmemory-policy noeviction"),
        ("aof_enabled", "0", .warning, "set appendonly yes"),
        ("connected_slaves", "0", .warning, "no replica"),
    ])
    func `what is missing is named`(name: String, value: String, grade: Finding.Grade, text: String) throws {
        #expect(try findings([name: value]).contains { $0.grade == grade && $0.text.contains(text) })
    }

    @Test func `Valkey is named`() throws {
        let found = try findings(["server_name": "valkey", "valkey_version": "8.1.0", "redis_version": "7.2.4"])
        #expect(found[0].grade == .ok && found[0].text.hasPrefix("Valkey 8.1.0 is the primary"))
    }

    @Test func `another machine needs TLS`() throws {
        #expect(try findings(isExposed: true).contains { $0.grade == .warning && $0.text.contains("not encrypted") })
    }

    @Test func `an engine without a password is named, and fails if other machines reach it`() throws {
        func grade(isExposed: Bool) throws -> Finding.Grade? {
            try findings(isExposed: isExposed, obeysStrangers: true).first { $0.text.contains("without a password") }?
                .grade
        }
        #expect(try grade(isExposed: true) == .failed)
        #expect(try grade(isExposed: false) == .warning)
    }

    @Test(arguments: [-61, 61])
    func `clocks that differ are named`(seconds: Int64) throws {
        let found = try findings(offset: .seconds(seconds))
        #expect(found.contains { $0.grade == .warning && $0.text.contains("by \(seconds) s") })
    }

    @Test func `more nodes than configured are named`() throws {
        #expect(try findings(configuredNodes: 2, nodes: 2).allSatisfy { $0.grade == .ok })
        let found = try findings(configuredNodes: 2, nodes: 3)
        #expect(found.contains { $0.grade == .failed && $0.text.contains("Set it to 3 on all nodes") })
        // A node that has ended does not count.
        let former = try findings(absence: 60_000, configuredNodes: 2, nodes: 3)
        #expect(!former.contains { $0.grade == .failed })
    }

    @Test func `an absent node is named`() throws {
        let found = try findings(absence: 3_600_000)
        #expect(found.last?.grade == .warning && found.last?.text.contains("absent for 1 h") == true)
    }
}
