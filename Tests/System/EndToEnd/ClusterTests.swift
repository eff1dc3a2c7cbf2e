// SPDX-License-Identifier: Apache-2.0

import Cluster
import Foundation
import NodeConfiguration
import Simulator
import TNP
import Testing
import TocsinClient
import Tor

@testable import AdminPort
@testable import TocsinNode

/// Several nodes that share a real Redis server.
@Suite struct ClusterTests {
    private func tables(_ engine: RedisServer, node: String) -> String {
        """
        [cluster]
        node = "\(node)"
        redis = "\(engine.endpoint)"
        key_file = "cluster.key"
        """
    }

    /// Starts a node of a cluster with this key.
    private func startNode(
        _ stage: Stage, _ engine: RedisServer, named name: String, key: UInt8 = 7,
        gates: String = SimulatedConfiguration.unlimitedRates, more: String = ""
    ) async throws {
        try FileManager.default.createDirectory(atPath: stage.directory, withIntermediateDirectories: true)
        let file = "\(stage.directory)/cluster.key"
        try Data(repeating: key, count: 32).write(to: URL(filePath: file))
        #expect(chmod(file, 0o600) == 0)
        try await stage.start(gates: gates, more: tables(engine, node: name) + "\n" + more)
    }

    @Test func `two nodes ring a phone once, and both tell its sender so`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let stages = [Stage(), Stage()]
        for (number, stage) in stages.enumerated() { try await startNode(stage, engine, named: "node\(number)") }
        // Each node has push services of its own, and both know the phone.
        let phone = Phone.new(.iOS, model: "test")
        for stage in stages { await stage.services.register(phone) }
        let envelope = try stages[0].envelope(for: phone)
        for stage in stages {
            let client = stage.client()
            #expect(try await client.submit(envelope, timeout: .seconds(20)).kind == .delivered)
            await client.close()
        }
        let counts = (await stages[0].services.received.count, await stages[1].services.received.count)
        #expect(counts == (1, 0))
        #expect(await stages[1].snapshot?.cluster?.nodes.map(\.name) == ["node0", "node1"])
        for stage in stages { await stage.end() }
        await engine.stop()
    }

    @Test func `a phone's rate holds across nodes, and a node alone has its share`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let gates = "[puzzle]\nmode = \"off\"\n[limits]\ndevice_burst = 4\ndevice_per_minute = 2"
        let stages = [Stage(), Stage()]
        for (number, stage) in stages.enumerated() {
            try await startNode(stage, engine, named: "node\(number)", gates: gates)
        }
        let phone = Phone.new(.iOS, model: "test")
        for stage in stages { await stage.services.register(phone) }
        let clients = stages.map { $0.client() }
        func delivered(_ count: Int, to phone: Phone) async throws -> Int {
            var delivered = 0
            for number in 0..<count {
                let envelope = try stages[0].envelope(for: phone, title: "\(number)")
                let outcome = try? await clients[number % 2].submit(envelope, timeout: .seconds(2))
                if outcome?.kind == .delivered { delivered += 1 }
            }
            return delivered
        }
        #expect(try await delivered(8, to: phone) == 4)
        await engine.kill()
        let other = Phone.new(.iOS, model: "test")
        for stage in stages { await stage.services.register(other) }
        // Two of four at each node.
        #expect(try await delivered(8, to: other) == 4)
        #expect(await stages[0].snapshot?.cluster?.isAvailable == false)
        for client in clients { await client.close() }
        for stage in stages { await stage.end() }
    }

    @Test func `another node delivers what an ended node has stored, and that node does not deliver it again`()
        async throws
    {
        let engine = try RedisServer()
        try await engine.start()
        let spool = "[spool]\nenabled = true"
        let stages = [Stage(), Stage()]
        for (number, stage) in stages.enumerated() {
            // An outcome must outlive the replay window until the first node returns.
            let gates = SimulatedConfiguration.unlimitedRates + "\nreplay_window = 10"
            try await startNode(stage, engine, named: "node\(number)", gates: gates, more: spool)
        }
        let phone = Phone.new(.iOS, model: "test")
        for stage in stages { await stage.services.register(phone) }
        for stage in stages { await stage.services.kill(.apnsProduction) }
        let client = stages[0].client()
        for number in 0..<20 {
            let outcome = try await client.submit(
                try stages[0].envelope(for: phone, title: "\(number)"), timeout: .seconds(20), acceptQueued: true,
                returnsWhenQueued: true)
            #expect(outcome.kind == .queued)
        }
        await client.close()
        #expect(await stages[0].stopNode())
        try await stages[1].services.restart(.apnsProduction)
        #expect(await received(20, on: stages[1]) == 20)
        try await Task.sleep(for: .seconds(12))
        try await stages[0].services.restart(.apnsProduction)
        try await startNode(stages[0], engine, named: "node0", more: spool)
        for _ in 0..<200 {
            if await stages[0].snapshot?.spool?.envelopes == 0 { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(await stages[0].snapshot?.spool?.envelopes == 0)
        #expect(await stages[0].services.received.isEmpty)
        #expect(await stages[1].services.received.count == 20)
        for stage in stages { await stage.end() }
        await engine.stop()
    }

    /// Waits up to 30 s for this many notifications.
    private func received(_ count: Int, on stage: Stage) async -> Int {
        for _ in 0..<600 {
            if await stage.services.received.count >= count { break }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return await stage.services.received.count
    }

    @Test func `a node with records under another key does not start, and says what to do`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let stage = Stage()
        try await startNode(stage, engine, named: "node")
        #expect(await stage.stopNode())
        await #expect {
            try await startNode(stage, engine, named: "node", key: 8)
        } throws: {
            "\($0)".contains("cluster.key_file") && "\($0)".contains("remove")
        }
        await stage.end()
        await engine.stop()
    }

    @Test func `kill -9 of nodes and of the engine loses nothing and repeats nothing without need`() async throws {
        let (isSuccess, text) = try await ChildProcess.output(
            of: Program.bench, ["cluster", "--kills", "5", "--engine-kills", "1", "--interval", "1"])
        #expect(isSuccess, "\(text)")
        #expect(text.contains("lost                                  0"))
    }

    @Test func `the documented rules of the engine's user are those that the tests use`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "Docs/cluster.md"), encoding: .utf8)
        #expect(page.contains(EngineSettings.aclRules(user: "node", cluster: "tocsin")))
    }
}
