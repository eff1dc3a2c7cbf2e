// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import TocsinNode
@testable import Tor

/// QUEUED and its guarantees: a real node, its spool on disk, and stand-ins that are down.
@Suite(.tags(.node)) struct SpoolRestartTests {
    private let spool = "[spool]\nenabled = true"

    /// Waits up to 10 s for this many notifications.
    private func waitForReceived(_ count: Int, on stage: Stage) async throws -> [ReceivedNotification] {
        for _ in 0..<200 {
            let received = await stage.services.received
            if received.count >= count { return received }
            try await Task.sleep(for: .milliseconds(50))
        }
        return await stage.services.received
    }

    private func phone(_ magic: Magic, on stage: Stage) async -> Phone {
        let phone = Phone.new(magic, model: "test")
        await stage.services.register(phone)
        return phone
    }

    @Test func `a node reports QUEUED only with a spool, and WELCOME announces it`() async throws {
        var slow = Faults()
        slow.latency = .fixed(1500)
        for (more, canQueue) in [("", false), (spool, true)] {
            let stage = Stage()
            try await stage.start(more: more)
            try await stage.services.set(slow, on: .apnsProduction)
            let phone = await phone(.iOS, on: stage)
            let welcomed = Once<Bool>()
            let client = TocsinClient(TocsinClient.Options(nodes: [stage.socket]), on: stage.loop) { progress in
                if case .welcomed(let welcome) = progress {
                    welcomed.set(welcome.features.contains(.durableQueue))
                }
            }
            let outcome = try await client.submit(
                try stage.envelope(for: phone), timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: true)
            #expect(outcome.kind == (canQueue ? .queued : .delivered))
            #expect(welcomed.value == canQueue)
            #expect(try await waitForReceived(1, on: stage).count == 1)
            await client.close()
            await stage.end()
        }
    }

    @Test func `envelopes queued during an outage are delivered once each after a restart of the node`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.start(more: spool)
        let phones = (await phone(.iOS, on: stage), await phone(.android, on: stage))
        await stage.services.kill(.apnsProduction)
        let client = stage.client()
        var envelopes: [Envelope] = []
        for index in 0..<20 {
            let envelope = try stage.envelope(for: phones.0, title: "\(index)")
            let outcome = try await client.submit(
                envelope, timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: true)
            #expect(outcome.kind == .queued)
            envelopes.append(envelope)
        }
        // Queued envelopes do not delay the other routes.
        let google = try await client.submit(try stage.envelope(for: phones.1), timeout: .seconds(60))
        #expect(google.kind == .delivered)
        // A sender that does not accept QUEUED gets RETRY soon, and does not wait for the spooled envelope.
        let resent = try await client.submit(envelopes[0], timeout: .seconds(60))
        #expect(resent.kind == .retry)
        await client.close()
        #expect(await stage.stopNode())
        try await stage.services.restart(.apnsProduction)
        try await stage.startNode(stage.configuration(endpoints, more: spool))
        let received = try await waitForReceived(21, on: stage)
        #expect(received.count == 21 && Set(received.map(\.encrypted)).count == 21)
        // A sender that returns later gets the outcome, and the phone does not ring again.
        let later = stage.client()
        for envelope in envelopes {
            #expect(try await later.submit(envelope, timeout: .seconds(60)).kind == .delivered)
        }
        #expect(await stage.services.received.count == 21)
        await later.close()
        await stage.end()
    }

    @Test func `a full spool makes the node not ready, names the limit and logs the recovery`() async throws {
        let stage = Stage()
        try await stage.start(more: spool + "\nmax_bytes = 65536")
        let phone = await phone(.iOS, on: stage)
        await stage.services.kill(.apnsProduction)
        let client = stage.client()
        func queue(_ title: String) async throws -> Outcome {
            try await client.submit(
                stage.envelope(for: phone, title: title), timeout: .seconds(60), acceptQueued: true,
                returnsWhenQueued: true)
        }
        var outcome = try await queue("first")
        #expect(outcome.kind == .queued)
        for number in 0..<400 where outcome.kind == .queued { outcome = try await queue("\(number)") }
        #expect(outcome.reason == .nodeBusy)
        #expect(
            await stage.reasonsNotReady.contains(
                "the spool takes no more envelopes: spool.max_bytes reached"))
        #expect(stage.log.count(of: "the spool takes no more envelopes") == 1)
        try await stage.services.restart(.apnsProduction)
        for _ in 0..<6000 where stage.log.count(of: "the spool takes envelopes again") == 0 {
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(stage.log.count(of: "the spool takes envelopes again") == 1)
        #expect(await !stage.reasonsNotReady.contains { $0.contains("spool") })
        await client.close()
        await stage.end()
    }

    @Test func `a queued envelope expires at its ttl and is never delivered late`() async throws {
        let stage = Stage()
        try await stage.start(more: spool)
        let phone = await phone(.iOS, on: stage)
        await stage.services.kill(.apnsProduction)
        let envelope = try Sealer(phone.pairing).seal(
            BisqNotification(kind: .price, title: "t", message: "m", sentDate: 1).json, ttl: 3)
        let client = stage.client()
        let outcome = try await client.submit(envelope, timeout: .seconds(60), acceptQueued: true)
        #expect(outcome.kind == .rejected && outcome.reason == .ttlRanOut)
        try await stage.services.restart(.apnsProduction)
        try await Task.sleep(for: .seconds(1))
        #expect(await stage.services.received.isEmpty)
        await client.close()
        await stage.end()
    }

    @Test func `envelopes that expire during an outage do not block the one behind them`() async throws {
        let stage = Stage()
        try await stage.start(more: spool)
        let phone = await phone(.iOS, on: stage)
        await stage.services.kill(.apnsProduction)
        let client = stage.client()
        // Enough envelopes to open the breaker, which then uses them as probes.
        for index in 0..<30 {
            let envelope = try Sealer(phone.pairing).seal(
                BisqNotification(kind: .price, title: "\(index)", message: "m", sentDate: 1).json, ttl: 4)
            _ = try await client.submit(envelope, timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: true)
        }
        let last = try stage.envelope(for: phone, title: "last")
        _ = try await client.submit(last, timeout: .seconds(60), acceptQueued: true, returnsWhenQueued: true)
        try await Task.sleep(for: .seconds(6))
        #expect(stage.log.count(of: "breaker=open") >= 1)
        try await stage.services.restart(.apnsProduction)
        // No other traffic: only the queued envelope can detect that the service is back.
        var received: [ReceivedNotification] = []
        for _ in 0..<6000 where received.isEmpty {
            try await Task.sleep(for: .milliseconds(100))
            received = await stage.services.received
        }
        #expect(received.count == 1)
        #expect(try received.first.map { try phone.open($0.encrypted).title } == "last")
        await client.close()
        await stage.end()
    }

    @Test func `a node that cannot open its spool does not start, and says how to fix it`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start(more: spool)
        #expect(await stage.stopNode())
        let key = "\(stage.directory)/state/spool.key"
        let configuration = stage.configuration(endpoints, more: spool)
        let bytes = try Data(contentsOf: URL(filePath: key))
        #expect(chmod(key, 0o644) == 0)
        await #expect { try await stage.startNode(configuration) } throws: { "\($0)".contains("chmod 600") }
        try FileManager.default.removeItem(atPath: key)
        await #expect { try await stage.startNode(configuration) } throws: { "\($0)".contains("spool.key") }
        try bytes.write(to: URL(filePath: key))
        #expect(chmod(key, 0o600) == 0)
        try await stage.startNode(configuration)
        await stage.end()
    }

    @Test func `kill -9 at random moments loses no envelope and causes no needless duplicate`() async throws {
        let (isSuccess, text) = try await ChildProcess.output(
            of: Program.bench, ["crash", "--kills", "4", "--in-flight", "60", "--interval", "1"])
        #expect(isSuccess, "\(text)")
        #expect(text.contains("lost                                  0"))
    }

    @Test func `a soak under faults loses nothing and repeats only requests of unknown outcome`() async throws {
        let (isSuccess, text) = try await ChildProcess.output(
            of: Program.bench,
            [
                "soak", "--envelopes", "4000", "--connections", "8", "--in-flight", "20", "--interval", "0.7",
            ])
        #expect(isSuccess, "\(text)")
        #expect(text.contains("lost                                  0"))
    }
}

/// The programs that are built next to the tests.
enum Program {
    static var path: String { built("tocsin") }
    static var bench: String { built("tocsin-bench") }

    private static func built(_ name: String) -> String {
        let tests = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        return tests.deletingLastPathComponent().appending(path: name).path()
    }
}

/// A value that a closure on another thread sets.
private final class Once<Value: Sendable>: @unchecked Sendable {
    // Unchecked: set on one loop before the call that is awaited returns.
    private(set) var value: Value?
    func set(_ value: Value) { self.value = value }
}
