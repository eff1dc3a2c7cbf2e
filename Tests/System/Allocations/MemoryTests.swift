// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import Time

@testable import tocsin_bench

/// The memory of a node's process, without that of files such as the program itself.
@Suite(.tags(.released)) struct MemoryTests {
    /// The largest memory of an idle node, in bytes.
    private static let idleNode = 6 * 1024 * 1024
    /// The largest mean memory of a connection after HELLO, in bytes.
    private static let idleConnection = 2048.0
    /// The largest mean memory of an envelope in flight, in bytes.
    private static let envelopeInFlight = 16_384.0

    @Test func `an idle node needs at most 6 MB`() async throws {
        try await ReleaseNode.run("idle") { node in
            let memory = try await node.anonymousMemory()
            print("measured: \(memory / 1024) kB in an idle node")
            #expect(memory <= Self.idleNode, "\(memory) bytes")
        }
    }

    @Test func `a connection after HELLO needs at most 2048 bytes`() async throws {
        let count = 1000
        try #require(OpenFiles.raiseLimit() > count + 200, "the limit of open files is too low: ulimit -n 1500")
        try await ReleaseNode.run("connections", circuitIDs: true) { node in
            let crowd = IdleCrowd(node.endpoint)
            // The first ones cause memory that later ones share.
            try await crowd.connect(50)
            let before = try await node.anonymousMemory()
            try await crowd.connect(count)
            let each = Double(try await node.anonymousMemory() - before) / Double(count)
            let held = await crowd.close()
            let figure = String(format: "%.0f bytes a connection after HELLO", each)
            print("measured: \(figure)")
            #expect(held == count + 50)
            #expect(each <= Self.idleConnection, "\(figure)")
        }
    }

    @Test func `an envelope in flight needs at most 16 kB`() async throws {
        let (connections, each) = (40, 50)
        let count = connections * each
        try await ReleaseNode.run("flight", more: SimulatedConfiguration.unlimitedRates, devices: count) { node in
            // So that the node sends more and more requests at a time: this process then adds little to the latency.
            var faults = Faults()
            faults.latency = .fixed(1000)
            try await node.services.set(faults, on: .apnsProduction)
            let senders = Senders(connections, to: node)
            try await senders.deliver(connections, inFlight: 1)
            let before = try await node.anonymousMemory()
            try await senders.deliver(3 * count / 2, inFlight: each)
            faults = Faults()
            faults.stalls = true
            try await node.services.set(faults, on: .apnsProduction)
            let answered = await node.services.requests(.apnsProduction)
            await senders.submit(each: each)
            // Requests without an answer time out after 15 s.
            let deadline = MonotonicTime.now + .seconds(10)
            while try await node.envelopesInFlight() < count, MonotonicTime.now < deadline {
                try await Task.sleep(for: .milliseconds(200))
            }
            // Includes what the node remembers of the earlier envelopes: their memory, once freed, is used again.
            let mean = Double(try await node.anonymousMemory() - before) / Double(count)
            let requests = await node.services.requests(.apnsProduction) - answered
            let inFlight = try await node.envelopesInFlight()
            await senders.close()
            let figure = String(format: "%.0f bytes an envelope in flight, %d of %d at Apple", mean, requests, count)
            print("measured: \(figure)")
            #expect(inFlight == count)
            #expect(mean <= Self.envelopeInFlight, "\(figure)")
        }
    }
}

/// Connections that send HELLO and then nothing, each on a circuit of its own.
private actor IdleCrowd: ByteStreamHandler {
    private nonisolated let loop = EventLoop(name: "crowd")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let node: Endpoint
    private var circuits = TorCircuits(after: 0)
    private var streams: [ByteStream] = []
    private var welcomed: Set<ObjectIdentifier> = []
    private var ended = 0

    init(_ node: Endpoint) { self.node = node }

    /// Opens connections until the node has answered HELLO on each.
    func connect(_ count: Int) async throws {
        for number in 0..<count {
            // Paced, because a unix socket refuses connections when its backlog is full.
            if number.isMultiple(of: 100) { await loop.sleep(for: .milliseconds(50)) }
            let stream = try await loop.dial(node, timeout: .seconds(10))
            stream.handler = self
            var bytes = circuits.next().proxyLine
            bytes.append(Hello(agent: ""))
            stream.write(bytes)
            stream.resumeReading()
            streams.append(stream)
        }
        for _ in 0..<200 where welcomed.count < streams.count { await loop.sleep(for: .milliseconds(50)) }
        guard welcomed.count == streams.count else {
            throw ReleaseNode.Failure(description: "\(welcomed.count) of \(streams.count) connections got WELCOME")
        }
    }

    /// Closes the connections.
    /// - Returns: how many the node still held.
    func close() -> Int {
        for stream in streams { stream.close() }
        defer { streams = [] }
        return streams.count - ended
    }

    nonisolated func stream(_ stream: ByteStream, received bytes: RawSpan) {
        let name = ObjectIdentifier(stream)
        assumeIsolated { _ = $0.welcomed.insert(name) }
    }

    nonisolated func stream(_ stream: ByteStream, ended reason: StreamError) {
        assumeIsolated { $0.ended += 1 }
    }
}
