// SPDX-License-Identifier: Apache-2.0

import Cluster
import Cryptography
import EventLoop
import Foundation
import Handles
import NodeConfiguration
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient
import Tor

@testable import AdminPort
@testable import TocsinNode

/// Several nodes that share a real Redis server.
@Suite(.tags(.node)) struct ClusterTests {
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
            #expect(try await client.submit(envelope, timeout: .seconds(60)).kind == .delivered)
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

    /// Submits envelopes that a node stores.
    private func queue(_ count: Int, for phone: Phone, at stage: Stage) async throws {
        let client = stage.client()
        for number in 0..<count {
            let outcome = try await client.submit(
                try stage.envelope(for: phone, title: "\(number)"), timeout: .seconds(60), acceptQueued: true,
                returnsWhenQueued: true)
            #expect(outcome.kind == .queued)
        }
        await client.close()
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
        try await queue(20, for: phone, at: stages[0])
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

    @Test func `a node that other nodes believed to be dead does not deliver what they have delivered`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let stages = [Stage(), Stage()]
        for (number, stage) in stages.enumerated() {
            try await startNode(stage, engine, named: "node\(number)", more: "[spool]\nenabled = true")
        }
        let phone = Phone.new(.iOS, model: "test")
        for stage in stages { await stage.services.register(phone) }
        await stages[0].services.kill(.apnsProduction)
        try await queue(20, for: phone, at: stages[0])
        guard case .unix(let socket) = engine.endpoint else { return }
        let session = try String(contentsOfFile: "\(stages[0].directory)/state/cluster.session", encoding: .utf8)
        for _ in 0..<2000 {
            // As if its heartbeats did not come through.
            _ = try await ChildProcess.output(of: "redis-cli", ["-s", socket, "DEL", "tocsin:{tocsin}:n:\(session)"])
            if await stages[1].services.received.count == 20 { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(await stages[1].services.received.count == 20)
        // A heartbeat comes every five seconds.
        try await Task.sleep(for: .seconds(6))
        try await stages[0].services.restart(.apnsProduction)
        for _ in 0..<1200 {
            if await stages[0].snapshot?.spool?.envelopes == 0 { break }
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(await stages[0].snapshot?.spool?.envelopes == 0)
        #expect(await stages[0].services.received.isEmpty)
        for stage in stages { await stage.end() }
        await engine.stop()
    }

    // MARK: Handles

    /// Nodes of a cluster that keep handles under one key.
    private func startNodesWithHandles(
        _ count: Int, _ engine: RedisServer, gates: String = SimulatedConfiguration.unlimitedRates
    ) async throws -> [Stage] {
        let stages = (0..<count).map { _ in Stage() }
        for (number, stage) in stages.enumerated() {
            if number > 0 {
                let state = "\(stage.directory)/state"
                try FileManager.default.createDirectory(
                    atPath: state, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
                try FileManager.default.copyItem(
                    atPath: "\(stages[0].directory)/state/handles.key", toPath: "\(state)/handles.key")
            }
            try await startNode(
                stage, engine, named: "node\(number)", gates: gates, more: "[handles]\nenabled = true")
        }
        return stages
    }

    private func waitForEngine(_ isAvailable: Bool, on stages: [Stage]) async {
        for stage in stages {
            for _ in 0..<6000 where await stage.snapshot?.cluster?.isAvailable != isAvailable {
                try? await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    @Test func `a handle is known to all nodes, also what changed while the engine was gone`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let stages = try await startNodesWithHandles(2, engine)
        let clients = stages.map { $0.client() }
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
        let phones = (0..<3).map { Phone.new(.iOS, model: "\($0)") }
        for stage in stages { for phone in phones { await stage.services.register(phone) } }
        let handle = try await clients[0].register(phones[0].handleRegistration(), owner: owner)
        let pairing = try PairingToken(phones[0].pairingToken(by: handle))
        var rings = 0
        /// Rings at a node. Returns the number of the phone that has rung.
        func ring(at node: Int) async throws -> Int? {
            rings += 1
            let envelope = try Sealer(pairing).seal(
                BisqNotification(kind: .trade, title: "\(rings)", message: "", sentDate: 1).json)
            let outcome = try await clients[node].submit(envelope, timeout: .seconds(60))
            guard outcome.kind == .delivered else {
                #expect(outcome.reason == .unknownHandle)
                return nil
            }
            let token = await stages[node].services.received.last?.deviceToken
            return phones.firstIndex { $0.deviceToken == token }
        }
        #expect(try await ring(at: 1) == 0)
        try await clients[1].rotate(handle, to: phones[1].handleRegistration(), owner: owner)
        #expect(try await ring(at: 0) == 1)
        // Without the engine, a node changes what it has; afterwards, the owner's last request counts everywhere.
        await engine.kill()
        await waitForEngine(false, on: stages)
        try await clients[0].rotate(handle, to: phones[2].handleRegistration(), owner: owner)
        #expect(try await ring(at: 0) == 2)
        #expect(try await ring(at: 1) == 1)
        try engine.eraseState()
        try await engine.start()
        await waitForEngine(true, on: stages)
        try await Task.sleep(for: .seconds(3))
        #expect(try await ring(at: 1) == 2)
        try await clients[1].forget(handle, owner: owner)
        #expect(try await ring(at: 0) == nil)
        for client in clients { await client.close() }
        for stage in stages { await stage.end() }
        await engine.stop()
    }

    @Test func `an engine that has lost its state learns handles that nobody uses`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let stages = try await startNodesWithHandles(2, engine)
        let clients = stages.map { $0.client() }
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
        let phone = Phone.new(.iOS, model: "phone")
        for stage in stages { await stage.services.register(phone) }
        // The second node has never seen the handle.
        let handle = try await clients[0].register(phone.handleRegistration(), owner: owner)
        await engine.kill()
        try engine.eraseState()
        await waitForEngine(false, on: stages)
        let envelope = try Sealer(PairingToken(phone.pairingToken(by: handle))).seal(Array("{}".utf8))
        // It cannot ask the first node for it: GONE would end the pairing.
        #expect(try await clients[1].submit(envelope, timeout: .seconds(60)) == HandleEntry.unknownHere)
        let refused = await #expect(throws: TocsinClient.HandleRefused.self) {
            try await clients[1].rotate(handle, to: phone.handleRegistration(), owner: owner)
        }
        #expect(refused?.outcome.kind == .retry)
        try await engine.start()
        await waitForEngine(true, on: stages)
        try await Task.sleep(for: .seconds(3))
        #expect(try await clients[1].submit(envelope, timeout: .seconds(60)).kind == .delivered)
        for client in clients { await client.close() }
        for stage in stages { await stage.end() }
        await engine.stop()
    }

    @Test func `REGISTER takes from one budget at all nodes`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let gates = "[puzzle]\nmode = \"off\"\n[limits]\nunproven_burst = 4\nunproven_per_minute = 1"
        let stages = try await startNodesWithHandles(2, engine, gates: gates)
        let clients = stages.map { $0.client() }
        let owner = try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: 1, count: 32)))
        var registered = 0
        for number in 0..<8 {
            let phone = Phone.new(.iOS, model: "\(number)")
            do {
                _ = try await clients[number % 2].register(phone.handleRegistration(), owner: owner)
                registered += 1
            } catch let error as TocsinClient.HandleRefused {
                #expect(error.outcome.reason == .tooManyUnproven)
            }
        }
        #expect(registered == 4)
        for client in clients { await client.close() }
        for stage in stages { await stage.end() }
        await engine.stop()
    }

    @Test func `a node with another handles key does not use the engine, and says what to do`() async throws {
        let engine = try RedisServer()
        try await engine.start()
        let stages = [Stage(), Stage()]
        for (number, stage) in stages.enumerated() {
            try await startNode(stage, engine, named: "node\(number)", more: "[handles]\nenabled = true")
        }
        #expect(await stages[0].snapshot?.cluster?.isAvailable == true)
        #expect(await stages[1].snapshot?.cluster?.problem?.contains("handles.key") == true)
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
        let page = try String(contentsOf: Repository.file("Docs/cluster.md"), encoding: .utf8)
        #expect(page.contains(EngineSettings.aclRules(user: "node", cluster: "tocsin")))
    }
}
