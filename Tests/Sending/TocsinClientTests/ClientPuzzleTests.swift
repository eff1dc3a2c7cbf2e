// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Synchronization
import TNP
import TestSupport
import Testing
import Time

@testable import Sender
@testable import TocsinClient

/// Proof of work during a submission of the client.
@Suite(.tags(.sockets)) struct ClientPuzzleTests {

    private func puzzle(_ effort: UInt32, seed: UInt8 = 7) -> Puzzle {
        Puzzle(seed: [UInt8](repeating: seed, count: 16), effort: effort, lifetime: 60)
    }

    private func envelope(_ number: Int = 0) throws -> Envelope {
        try Envelope(
            magic: .iOS, deviceToken: Array("d45161df3d172837".utf8)[...],
            iv: Array(String(1_000_000_000_000_000 + number).utf8)[...],
            ciphertext: [UInt8](repeating: 0x41, count: 32)[...], format: .pipe)
    }

    @Test func `the client solves the required puzzle, and the caller sees only the outcome`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let efforts = Mutex<[UInt32]>([])
        let client = TocsinClient(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop) { progress in
            if case .solvingPuzzle(let effort) = progress { efforts.withLock { $0.append(effort) } }
        }
        let envelope = try envelope()
        async let outcome = client.submit(envelope, timeout: .seconds(60))
        try await node.accept()
        let early = try await node.submission()
        #expect(early.proof == nil)
        await node.welcome(puzzle(8))
        let dearer = puzzle(20_000)
        await node.send { $0.append(dearer) }
        await node.answer(early.request, .retry(.proofRequired, after: 1000))
        let late = try await node.submission()
        #expect(late.request == early.request)
        #expect(late.envelope.digest == envelope.digest)
        #expect(dearer.isValid(try #require(late.proof), for: envelope.digest))
        #expect(late.proof?.effort == dearer.effort)
        await node.answer(late.request, .delivered(id: "x"))
        #expect(try await outcome == .delivered(id: "x"))
        #expect(efforts.withLock { $0 } == [dearer.effort])
        #expect(await client.solving.isEmpty)
        await client.close()
        await node.end()
    }

    @Test func `a search moves to the puzzle of a new connection`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop)
        let envelope = try envelope()
        async let outcome = client.submit(envelope, timeout: .seconds(60))
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofRequired, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        try await node.accept()
        await node.welcome(puzzle(32, seed: 8))
        let second = try await node.submission()
        #expect(puzzle(32, seed: 8).isValid(try #require(second.proof), for: envelope.digest))
        await node.answer(second.request, .delivered())
        #expect(try await outcome.kind == .delivered)
        await client.close()
        await node.end()
    }

    @Test(arguments: [Duration.zero, .milliseconds(30)])
    func `work beyond the limit ends with RETRY and an explanation`(_ limit: Duration) async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let options = TocsinClient.Options(nodes: [try await node.start()], workLimit: limit)
        let client = TocsinClient(options, on: node.loop)
        let envelope = try envelope()
        async let outcome = client.submit(envelope, timeout: .seconds(60))
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofRequired, after: 1500))
        let text = "the node requires more proof of work than the sender's limit allows: effort \(UInt32.max)"
        #expect(try await outcome == .retry(.proofRequired, after: 1500, text: text))
        await client.close()
        await node.end()
    }

    @Test func `a submission timeout ends its search and lets the next submission search`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop)
        let envelopes = try (0..<4).map { try envelope($0) }
        async let first = client.submit(envelopes[0], timeout: .seconds(60))
        try await node.accept()
        let submission = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(submission.request, .delivered())
        #expect(try await first.kind == .delivered)

        // Short: in five seconds, two searches find a proof of the largest effort once in some hundred runs.
        async let second = client.submit(envelopes[1], timeout: .seconds(1))
        async let third = client.submit(envelopes[2], timeout: .seconds(1))
        try #require(await eventually { await client.solving.count == 2 })
        async let fourth = client.submit(envelopes[3], timeout: .seconds(60))
        for outcome in [try await second, try await third] {
            #expect(outcome.kind == .retry)
            #expect(outcome.reason == .proofRequired)
        }
        #expect(await eventually { await client.solving.count == 1 })
        let cheaper = puzzle(4)
        await node.send { $0.append(cheaper) }
        let last = try await node.submission()
        #expect(last.envelope.digest == envelopes[3].digest)
        await node.answer(last.request, .delivered())
        #expect(try await fourth.kind == .delivered)
        await client.close()
        await node.end()
    }

    @Test func `a node that disappears during a search is unreachable`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop)
        let envelope = try envelope()
        let submission = Task { try await client.submit(envelope, timeout: .seconds(5)) }
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofRequired, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        await node.end()
        let error = await #expect(throws: ClientError.self) { try await submission.value }
        let isUnreachable = if case .unreachable = error { true } else { false }
        #expect(isUnreachable)
        #expect(await client.solving.isEmpty)
        await client.close()
    }

    @Test func `a search stops when proof of work is no longer required`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop)
        let envelope = try envelope()
        async let outcome = client.submit(envelope, timeout: .seconds(60))
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofRequired, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        let nothing = puzzle(0)
        await node.send { $0.append(nothing) }
        let second = try await node.submission()
        #expect(second.proof == nil)
        #expect(await client.solving.isEmpty)
        await node.answer(second.request, .delivered())
        #expect(try await outcome.kind == .delivered)
        await client.close()
        await node.end()
    }

    @Test func `closing the client stops its searches`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(nodes: [try await node.start()]), on: node.loop)
        let envelope = try envelope()
        let submission = Task { try await client.submit(envelope, timeout: .seconds(60)) }
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofRequired, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        await client.close()
        await #expect(throws: ClientError.closed) { try await submission.value }
        #expect(await client.solving.isEmpty)
        await node.end()
    }

    @Test func `a GOAWAY error states its text or code and the retry time`() {
        let abuse = ClientError.connectionClosed(
            GoAway(code: .abuse, retryAfter: 600_001, text: "too many bad device tokens"))
        #expect("\(abuse)" == "connection closed: too many bad device tokens; try again in 601 s")
        let silent = ClientError.connectionClosed(GoAway(code: .abuse, retryAfter: .max))
        #expect("\(silent)" == "connection closed: GOAWAY with code 6; try again in 4294968 s")
        let fault = ClientError.connectionClosed(GoAway(code: .protocolError, text: "a second HELLO"))
        #expect("\(fault)" == "connection closed: a second HELLO")
    }
}

extension TocsinClient {
    /// The running searches for proofs of work of all links.
    fileprivate var solving: [UInt32: Task<Void, Never>] {
        circuits.all.flatMap(\.links).reduce(into: [:]) {
            $0.merge($1.searches.running.mapValues(\.task)) { one, _ in one }
        }
    }
}
