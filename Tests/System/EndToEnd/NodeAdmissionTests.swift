// SPDX-License-Identifier: Apache-2.0

import Admission
import EventLoop
import Foundation
import StandIns
import TNP
import TestSupport
import Testing
import TocsinClient

@testable import ArgumentParser
@testable import Console
@testable import Cryptography
@testable import TocsinNode
@testable import tocsin

/// Admission in a real node: limits, standing, puzzles and sender keys as senders see them.
@Suite(.tags(.node)) struct NodeAdmissionTests {
    private func phone(_ magic: Magic, on stage: Stage) async -> Phone {
        let phone = Phone.new(magic, model: "test")
        await stage.services.register(phone)
        return phone
    }

    private func outcome(
        _ phone: Phone, on stage: Stage, by client: TocsinClient, _ title: String = "title",
        signedBy key: Ed25519.PrivateKey? = nil
    ) async throws -> Outcome {
        try await client.submit(
            try stage.envelope(for: phone, title: title), timeout: .seconds(60), signedBy: key)
    }

    private func key(_ byte: UInt8) throws -> Ed25519.PrivateKey {
        try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: byte, count: 32)))
    }

    // MARK: Limits

    @Test func `RESULT has the phone's remaining allowance, and a retry-after once it is used up`() async throws {
        let stage = Stage()
        try await stage.start(gates: "[limits]\ndevice_burst = 3\ndevice_per_minute = 30")
        let client = stage.client()
        let (phone, other) = (await phone(.iOS, on: stage), await phone(.iOS, on: stage))
        for left in [2, 1, 0] as [UInt32] {
            let outcome = try await outcome(phone, on: stage, by: client, "\(left)")
            #expect(outcome.kind == .delivered)
            #expect(outcome.left == left)
            #expect(try #require(outcome.fullIn) > (2 - left) * 2000)
        }
        let refused = try await outcome(phone, on: stage, by: client, "one more")
        #expect(refused.kind == .retry)
        #expect(refused.reason == .deviceTokenOverRate)
        #expect((1...2000).contains(refused.retryAfter))
        #expect(refused.left == 0)
        #expect(try await outcome(other, on: stage, by: client).kind == .delivered)
        try await Task.sleep(for: .milliseconds(Int64(refused.retryAfter)))
        #expect(try await outcome(phone, on: stage, by: client, "one more").kind == .delivered)
        #expect(await stage.services.received.count == 5)
        await client.close()
        await stage.end()
    }

    @Test func `a connection over its rate limit is throttled, others are not`() async throws {
        let stage = Stage()
        try await stage.start(gates: "[limits]\ncircuit_burst = 5\ncircuit_per_minute = 60")
        let (greedy, other) = (stage.client(), stage.client())
        let phone = await phone(.android, on: stage)
        var refused = 0
        for index in 0..<8 {
            let outcome = try await outcome(phone, on: stage, by: greedy, "\(index)")
            if outcome.reason == .connectionOverRate { refused += 1 }
        }
        #expect(refused > 0)
        #expect(try await outcome(phone, on: stage, by: other, "other").kind == .delivered)
        await greedy.close()
        await other.close()
        await stage.end()
    }

    @Test func `a reload applies limits, puzzle and sender settings at once`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start(gates: "[limits]\ndevice_burst = 1\ndevice_per_minute = 1")
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client, "1").kind == .delivered)
        #expect(try await outcome(phone, on: stage, by: client, "2").reason == .deviceTokenOverRate)
        let other = """
            [senders]
            mode = "required"
            [puzzle]
            mode = "always"
            effort = 50
            [limits]
            device_burst = 5
            device_per_minute = 600
            """
        try await stage.reload(stage.configuration(endpoints, gates: other))
        #expect(try await outcome(phone, on: stage, by: client, "3").reason == .senderKeyRequired)
        // The allowance refills at the new rate: in a tenth of a second instead of a minute.
        let used = try await outcome(phone, on: stage, by: client, "4", signedBy: try key(1))
        #expect(used.reason == .deviceTokenOverRate)
        #expect((1...100).contains(used.retryAfter))
        try await Task.sleep(for: .milliseconds(Int64(used.retryAfter)))
        #expect(try await outcome(phone, on: stage, by: client, "5", signedBy: try key(1)).kind == .delivered)
        await client.close()
        await stage.end()
    }

    // MARK: Standing

    @Test func `a dead device token gets GONE without another request, also after a restart`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client, "1").kind == .delivered)
        let now = UInt64(Date().timeIntervalSince1970 * 1000)
        await stage.services.set(
            Device(
                platform: .apnsProduction, app: "bisqremote.joachimneumann.com",
                state: .unregistered(since: now + 1000)), for: phone.pairing.deviceToken)
        let gone = try await outcome(phone, on: stage, by: client, "2")
        #expect(gone.kind == .gone)
        let requestsBefore = await stage.services.requests(.apnsProduction)
        let again = try await outcome(phone, on: stage, by: client, "4")
        #expect(again.kind == .gone)
        #expect(again.goneSince == gone.goneSince)
        await client.close()
        _ = await stage.stopNode()
        try await stage.startNode(stage.configuration(endpoints))
        let second = stage.client()
        #expect(try await outcome(phone, on: stage, by: second, "5").kind == .gone)
        #expect(await stage.services.requests(.apnsProduction) == requestsBefore)
        await second.close()
        await stage.end()
    }

    @Test func `a circuit that sends bad device tokens is blocked for abuse, others are served`() async throws {
        let stage = Stage()
        try await stage.start(
            circuitIDs: true, gates: "[limits]\nabuse_burst = 4\nabuse_per_minute = 1\nabuse_block = 60")
        let line = Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8)
        var bytes = line
        bytes.append(Hello(agent: ""))
        for request in 1...6 as ClosedRange<UInt32> {
            let unregistered = Phone.new(.android, model: "unregistered")
            bytes.append(Submission(request: request, envelope: try stage.envelope(for: unregistered)))
        }
        let heard = try messages(try await stage.raw(bytes))
        let codes = heard.compactMap { if case .goAway(let goAway) = $0 { goAway.code } else { nil } }
        #expect(codes == [.abuse])
        #expect(await stage.services.requests(.fcm) <= 4 + 1)
        var hello = line
        hello.append(Hello(agent: ""))
        let again = try messages(try await stage.raw(hello))
        guard case .goAway(let goAway)? = again.first else {
            Issue.record("the blocked circuit was accepted")
            return
        }
        #expect(goAway.code == .abuse)
        #expect((1...60_000).contains(goAway.retryAfter))
        var other = Array("PROXY TCP6 fc00:dead:beef:4dad::0:b8 ::1 184 80\r\n".utf8)
        other.append(Hello(agent: ""))
        guard case .welcome = try await stage.firstMessage(after: other) else {
            Issue.record("another circuit was rejected")
            return
        }
        await stage.end()
    }

    @Test func `device tokens are stored only as keyed hashes`() async throws {
        let stage = Stage()
        try await stage.start()
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client, signedBy: try key(3)).kind == .delivered)
        await client.close()
        _ = await stage.stopNode()
        let token = Array(phone.pairing.deviceToken.utf8)
        let raw = Hex.decode(phone.pairing.deviceToken) ?? []
        #expect(raw.count == 32)
        for file in ["standing.sqlite", "standing.sqlite-wal", "standing.key"] {
            let path = "\(stage.directory)/state/\(file)"
            guard let data = FileManager.default.contents(atPath: path) else {
                // SQLite deletes its write-ahead log when the last connection is closed.
                #expect(file == "standing.sqlite-wal", "\(file) is missing")
                continue
            }
            #expect(data.firstRange(of: token) == nil)
            #expect(data.firstRange(of: raw) == nil)
            #expect(data.firstRange(of: try key(3).publicKey) == nil)
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
        }
        await stage.end()
    }

    @Test func `a clock set years ahead does not erase sender key bindings`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(try await outcome(phone, on: stage, by: client, "1", signedBy: try key(1)).kind == .delivered)
        await client.close()
        _ = await stage.stopNode()
        // As if all stored records were three years old.
        let store = try StandingStore(
            at: "\(stage.directory)/state/standing.sqlite", keyFile: "\(stage.directory)/state/standing.key")
        var records: [TokenRecord] = []
        try store.load { records.append($0) }
        let old = records.map { record in
            var record = record
            record.day -= 1000
            return record
        }
        try await store.save(old, forgetting: [])
        await store.close()
        try await stage.startNode(stage.configuration(endpoints))
        let second = stage.client()
        #expect(try await outcome(phone, on: stage, by: second, "2", signedBy: try key(2)).reason == .senderKeyMismatch)
        #expect(try await outcome(phone, on: stage, by: second, "3", signedBy: try key(1)).kind == .delivered)
        await second.close()
        await stage.end()
    }

    // MARK: Puzzles

    @Test func `the client solves a required puzzle, and the notification arrives`() async throws {
        let stage = Stage()
        try await stage.start(gates: "[puzzle]\nmode = \"always\"\neffort = 2000\n[limits]")
        let phone = await phone(.iOS, on: stage)
        let client = stage.client()
        #expect(try await outcome(phone, on: stage, by: client).kind == .delivered)
        let lazy = stage.client(TocsinClient.Options(nodes: [stage.socket], workLimit: .zero))
        #expect(try await outcome(phone, on: stage, by: lazy, "2").reason == .proofRequired)
        #expect(await stage.services.received.count == 1)
        await client.close()
        await lazy.close()
        await stage.end()
    }

    // MARK: Sender keys

    @Test func `the first sender key to deliver is bound to the phone, and others are rejected`()
        async throws
    {
        let stage = Stage()
        let endpoints = try await stage.start()
        let phone = await phone(.iOSDev, on: stage)
        let client = stage.client()
        #expect(try await outcome(phone, on: stage, by: client, "1", signedBy: try key(1)).kind == .delivered)
        #expect(try await outcome(phone, on: stage, by: client, "2", signedBy: try key(1)).kind == .delivered)
        #expect(try await outcome(phone, on: stage, by: client, "3", signedBy: try key(2)).reason == .senderKeyMismatch)
        #expect(try await outcome(phone, on: stage, by: client, "4").reason == .senderKeyRequired)
        await client.close()
        _ = await stage.stopNode()
        try await stage.startNode(stage.configuration(endpoints))
        let second = stage.client()
        let withOtherKey = try await outcome(phone, on: stage, by: second, "5", signedBy: try key(2))
        #expect(withOtherKey.reason == .senderKeyMismatch)
        #expect(try await outcome(phone, on: stage, by: second, "6", signedBy: try key(1)).kind == .delivered)
        #expect(await stage.services.received.count == 3)
        await second.close()
        await stage.end()
    }

    @Test func `a key does not bind a phone that unsigned senders ring, and unbind removes a binding`()
        async throws
    {
        let stage = Stage()
        try await stage.start()
        let (owned, seized) = (await phone(.iOS, on: stage), await phone(.iOS, on: stage))
        let client = stage.client()
        // The owner's desktop cannot sign; an attacker who has the device token can.
        #expect(try await outcome(owned, on: stage, by: client, "1").kind == .delivered)
        #expect(try await outcome(owned, on: stage, by: client, "2", signedBy: try key(2)).kind == .delivered)
        #expect(try await outcome(owned, on: stage, by: client, "3").kind == .delivered)
        // The operator removes a binding that another sender made.
        #expect(try await outcome(seized, on: stage, by: client, "4", signedBy: try key(2)).kind == .delivered)
        #expect(try await outcome(seized, on: stage, by: client, "5").reason == .senderKeyRequired)
        try Data("\(seized.pairingToken)\n".utf8).write(to: URL(filePath: "\(stage.directory)/pairing"))
        let unbind = try #require(
            UnbindCommand.parseAsRoot(["\(stage.directory)/pairing", "--config", "\(stage.directory)/tocsin.toml"])
                as? UnbindCommand)
        try await unbind.run()
        #expect(try await outcome(seized, on: stage, by: client, "6").kind == .delivered)
        #expect(!FileManager.default.fileExists(atPath: "\(stage.directory)/state/unbind"))
        await client.close()
        _ = await stage.stopNode()
        await #expect(throws: ExitCode.unreachable) { try await unbind.run() }
        await stage.end()
    }

    // MARK: Fairness

    @Test func `a sender with two thousand envelopes does not delay other senders`() async throws {
        let stage = Stage()
        // Apple takes four at a time, 20 ms each: two thousand are ten seconds of work.
        try await stage.start(limits: "concurrency = 4\nin_flight = 5000")
        var slow = Faults()
        slow.latency = .fixed(20)
        try await stage.services.set(slow, on: .apnsProduction)
        let (crowd, quiet) = (await phone(.iOS, on: stage), await phone(.iOS, on: stage))
        let (greedy, other) = (stage.client(), stage.client())
        #expect(try await outcome(quiet, on: stage, by: other, "first").kind == .delivered)
        let flood = Task {
            await withTaskGroup { group in
                for index in 0..<2000 {
                    group.addTask { _ = try? await outcome(crowd, on: stage, by: greedy, "\(index)") }
                }
            }
        }
        while await stage.services.received.count < 20 { try await Task.sleep(for: .milliseconds(10)) }
        let before = await stage.services.received.count
        for index in 0..<5 {
            #expect(try await outcome(quiet, on: stage, by: other, "\(index)").kind == .delivered)
        }
        let deliveredMeanwhile = await stage.services.received.count - before
        // Each of the five waits for the requests in flight and one turn of the other sender, not for its whole queue.
        #expect(deliveredMeanwhile < 200, "\(deliveredMeanwhile)")
        await greedy.close()
        await flood.value
        await other.close()
        await stage.end()
    }

    // MARK: Replay

    @Test func `a flood of envelopes does not evict a stored outcome early`() async throws {
        let stage = Stage()
        // Room for 1010 outcomes, each kept for ten minutes.
        try await stage.start(limits: "replay_entries = 1000\ntotal_in_flight = 10\nin_flight = 5")
        let (honest, flood) = (stage.client(), stage.client())
        let (phone, other) = (await phone(.iOS, on: stage), await phone(.iOS, on: stage))
        let first = try stage.envelope(for: phone)
        #expect(try await honest.submit(first, timeout: .seconds(60)).kind == .delivered)
        var busy: Outcome?
        for index in 0..<1100 where busy == nil {
            let outcome = try await outcome(other, on: stage, by: flood, "\(index)")
            if outcome.reason == .nodeBusy { busy = outcome }
        }
        // The new envelope gets RETRY, with a retry-after until the oldest outcome expires.
        #expect(try #require(busy).retryAfter > 500_000)
        let rung = await stage.services.received.count
        #expect(rung == 1010)
        #expect(try await honest.submit(first, timeout: .seconds(60)).kind == .delivered)
        #expect(await stage.services.received.count == rung)
        await honest.close()
        await flood.close()
        await stage.end()
    }

    // MARK: Connections

    @Test func `an unidentified connection is evicted for one that sends HELLO`() async throws {
        let stage = Stage()
        try await stage.start(limits: "half_open = 5")
        for _ in 0..<20 { try await stage.holdOpen() }
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client).kind == .delivered)
        let first = try messages(await stage.readFirstHeld())
        guard case .goAway(let goAway)? = first.first else {
            Issue.record("the oldest unidentified connection was not closed")
            return
        }
        #expect(goAway.code == .busy)
        await stage.closeIdle()
        await client.close()
        await stage.end()
    }

    @Test func `silent connections block neither the TNP nor the HTTP endpoint`() async throws {
        let stage = Stage()
        try await stage.start(limits: "connections = 40")
        let phone = await phone(.iOS, on: stage)
        for round in 1...3 {
            for _ in 0..<100 {
                try await stage.holdOpen()
                try await stage.holdOpen(at: stage.httpSocket)
            }
            let client = stage.client()
            #expect(try await outcome(phone, on: stage, by: client, "\(round)").kind == .delivered)
            await client.close()
            let answer = try await stage.ask(BisqRelayRequest(try stage.envelope(for: phone)).bytes(host: "localhost"))
            #expect(answer.status == 200)
            #expect(await stage.connectionCount <= 40)
        }
        await stage.closeIdle()
        await stage.end()
    }

    @Test func `a closing connection is evicted like any other`() async throws {
        let stage = Stage()
        try await stage.start(limits: "connections = 8\nhandshake_timeout = 1")
        let phone = await phone(.iOS, on: stage)
        for round in 1...3 {
            // Their handshake times out, and the node waits for them to close, but they do not.
            for _ in 0..<2 {
                try await stage.holdOpen()
                try await stage.holdOpen(at: stage.httpSocket)
                try await stage.holdOpen(at: stage.httpSocket, saying: Array("PROXY \r\n".utf8))
            }
            try await Task.sleep(for: .milliseconds(1300))
            for _ in 0..<6 {
                try await stage.holdOpen()
                try await stage.holdOpen(at: stage.httpSocket, saying: Array("PROXY \r\n".utf8))
                try await stage.holdOpen(at: stage.httpSocket)
            }
            try await Task.sleep(for: .seconds(3))
            let client = stage.client()
            #expect(try await outcome(phone, on: stage, by: client, "\(round)").kind == .delivered)
            await client.close()
            let answer = try await stage.ask(BisqRelayRequest(try stage.envelope(for: phone)).bytes(host: "localhost"))
            #expect(answer.status == 200)
        }
        await stage.closeIdle()
        try await Task.sleep(for: .seconds(3))
        #expect(await stage.connectionCount == 0)
        await stage.end()
    }

    @Test func `at the connection limit the longest idle connection is evicted, never a recent one`() async throws {
        let stage = Stage()
        try await stage.start(limits: "connections = 8")
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client, "1").kind == .delivered)
        var hello: [UInt8] = []
        hello.append(Hello(agent: ""))
        for number in 2...6 {
            try await stage.holdOpen(saying: hello)
            // Each is identified before the next one connects.
            for _ in 0..<6000 where await stage.identifiedCount < number {
                try await Task.sleep(for: .milliseconds(10))
            }
        }
        // A recent connection is not evicted for another one.
        #expect(try goAwayCode(try await stage.raw(hello)) == .busy)
        try await Task.sleep(for: .seconds(10))
        guard case .welcome = try await stage.firstMessage(after: hello) else {
            Issue.record("nothing was evicted for a new connection")
            return
        }
        let received = try messages(await stage.readFirstHeld())
        guard case .goAway(let goAway)? = received.last else {
            Issue.record("the oldest idle connection was not closed")
            return
        }
        #expect(goAway.code == .idle)
        // The connection that rings phones was not evicted.
        #expect(try await outcome(phone, on: stage, by: client, "2").kind == .delivered)
        await stage.closeIdle()
        await client.close()
        await stage.end()
    }

    @Test func `a reload closes an idle connection only if its WELCOME is outdated`() async throws {
        let stage = Stage()
        let endpoints = try await stage.start()
        var hello: [UInt8] = []
        hello.append(Hello(agent: ""))
        try await stage.holdOpen(saying: hello)
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client, "1").kind == .delivered)
        try await stage.reload(stage.configuration(endpoints, limits: "idle_timeout = 500"))
        #expect(await stage.connectionCount == 2)
        try await stage.reload(stage.configuration(endpoints, more: "[senders]\nmode = \"required\""))
        let received = try messages(await stage.readFirstHeld())
        guard case .goAway(let goAway)? = received.last else {
            Issue.record("the connection was not closed")
            return
        }
        #expect(goAway.code == .idle)
        #expect(try await outcome(phone, on: stage, by: client, "2", signedBy: try key(1)).kind == .delivered)
        await stage.closeIdle()
        await client.close()
        await stage.end()
    }

    @Test func `a sender that never reads its results is disconnected, others are served`() async throws {
        let stage = Stage()
        try await stage.start(limits: "read_timeout = 1\nin_flight = 10000\nmax_frame = 4096")
        var bytes: [UInt8] = []
        bytes.append(Hello(agent: ""))
        // Each gets an answer, and the stream never reads one.
        for request in 1...20_000 as ClosedRange<UInt32> {
            bytes += [0, 0, 0, 5, 3] + [UInt8](withUnsafeBytes(of: request.bigEndian) { Array($0) })
        }
        try await stage.holdOpen(saying: bytes)
        let client = stage.client()
        let phone = await phone(.iOS, on: stage)
        #expect(try await outcome(phone, on: stage, by: client).kind == .delivered)
        for _ in 0..<6000 where await stage.connectionCount > 1 {
            try await Task.sleep(for: .milliseconds(100))
        }
        #expect(await stage.connectionCount == 1)
        await stage.closeIdle()
        await client.close()
        await stage.end()
    }

    // MARK: Sites

    @Test func `a node for sites only serves a site, until the operator revokes its key`() async throws {
        let stage = Stage()
        let endpoints = try await stage.services.start()
        let site = try key(7)
        let publicKey = String(decoding: Base64.encode(site.publicKey), as: UTF8.self)
        let table = """
            [[site]]
            name = "desk"
            key = "\(publicKey)"
            rate_burst = 3
            rate_per_minute = 1
            """
        func text(_ more: String) -> String {
            stage.configuration(
                endpoints, gates: "[puzzle]\nmode = \"always\"", more: "[sites]\nmode = \"required\"\n\(more)")
        }
        try await stage.startNode(text(table))
        let phone = await phone(.iOS, on: stage)
        let stranger = stage.client()
        let refused = try await outcome(phone, on: stage, by: stranger)
        #expect(refused.kind == .rejected && refused.reason == .notASite)
        let (client, unknown) = (stage.client(siteKey: site), stage.client(siteKey: try key(8)))
        for number in 1...3 {
            #expect(try await outcome(phone, on: stage, by: client, "\(number)").kind == .delivered)
        }
        #expect(try await outcome(phone, on: stage, by: client, "4").reason == .connectionOverRate)
        let error = await #expect(throws: ClientError.self) {
            try await outcome(phone, on: stage, by: unknown)
        }
        #expect(error?.description.contains("does not know this site key") == true)
        try await stage.reload(text(""))
        await #expect(throws: ClientError.self) { try await outcome(phone, on: stage, by: client, "5") }
        #expect(await stage.services.received.count == 3)
        for client in [stranger, client, unknown] { await client.close() }
        await stage.end()
    }

    @Test func `a site's signature for another onion is refused`() async throws {
        let site = try key(7)
        let publicKey = String(decoding: Base64.encode(site.publicKey), as: UTF8.self)
        let sites = "[sites]\nmode = \"open\"\n[[site]]\nname = \"desk\"\nkey = \"\(publicKey)\""
        let other = try #require(SignedOnion(publicKey: [UInt8](repeating: 9, count: 32)))
        for circuitIDs in [false, true] {
            let stage = Stage()
            try await stage.start(circuitIDs: circuitIDs, more: sites)
            let line = circuitIDs ? Array("PROXY TCP6 fc00:dead:beef:4dad::0:b7 ::1 183 80\r\n".utf8) : []
            // Behind tor, every sender uses an onion.
            let direct = try await stage.authenticate(site, onion: .none, after: line)
            #expect(direct == (circuitIDs ? .rejected : .accepted("desk")))
            #expect(try await stage.authenticate(site, onion: other, after: line) == .rejected)
            #expect(
                try await stage.authenticate(try key(8), onion: .none, after: line)
                    == .rejected)
            await stage.end()
        }
    }
}
