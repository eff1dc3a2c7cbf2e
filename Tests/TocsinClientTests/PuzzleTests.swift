// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import TNP
@testable import TocsinClient

/// Looking for proofs: the hashing, the search beside the loop, and the client that has it done.
@Suite struct PuzzleTests {
    private let digest = BLAKE2b.hash256([1, 2, 3])
    private let past = MonotonicTime(nanoseconds: 0)
    private let never = MonotonicTime.now + .seconds(3600)

    private func puzzle(_ effort: UInt32, seed: UInt8 = 7) -> Puzzle {
        Puzzle(seed: [UInt8](repeating: seed, count: 16), effort: effort, lifetime: 60)
    }

    private func envelope(_ number: Int = 0) throws -> Envelope {
        try Envelope(
            magic: .iOS, deviceToken: Array("d45161df3d172837".utf8)[...],
            iv: Array(String(1_000_000_000_000_000 + number).utf8)[...],
            ciphertext: [UInt8](repeating: 0x41, count: 32)[...], format: .pipe)
    }

    /// Waits until something is true, for at most ten seconds.
    private func eventually(_ isTrue: () async -> Bool) async -> Bool {
        for _ in 0..<1000 {
            if await isTrue() { return true }
            try? await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    // MARK: Hashing

    @Test func `what is hashed is the label, the seed, the digest, the effort and the nonce`() {
        var random = SplitMix64(seed: 1)
        for _ in 0..<200 {
            let seed = (0..<16).map { _ in UInt8(random.below(256)) }
            let (effort, nonce) = (UInt32(truncatingIfNeeded: random.next()), random.next())
            let digest = BLAKE2b.hash256(seed + [1])
            var message = Array("tnp1-puzzle".utf8) + seed + digest.bytes
            message.append(bigEndian: effort)
            message.append(bigEndian: nonce)
            let expected = BLAKE2b.hash256(message).leading
            #expect(Puzzle.hash(seed: seed, digest: digest, effort: effort, nonce: nonce) == expected)
        }
    }

    @Test func `solving finds the first nonce that holds, from wherever it begins`() throws {
        var random = SplitMix64(seed: 2)
        for _ in 0..<50 {
            let puzzle = puzzle(UInt32(1 + random.below(60)), seed: UInt8(random.below(256)))
            let start = random.next()
            var expected = Proof(seedPrefix: Array(puzzle.seed.prefix(4)), effort: puzzle.effort, nonce: start)
            var tries: UInt64 = 1
            while !puzzle.holds(expected, for: digest) {
                expected.nonce &+= 1
                tries += 1
            }
            #expect(puzzle.solve(for: digest, from: start, tries: tries) == expected)
            #expect(puzzle.solve(for: digest, from: start, tries: tries - 1) == nil)
        }
    }

    @Test func `after the largest nonce comes the smallest`() throws {
        let puzzle = puzzle(1000)
        let first = try #require(puzzle.solve(for: digest, from: 0, tries: 100_000))
        try #require(puzzle.solve(for: digest, from: .max - 3, tries: 4) == nil)
        #expect(puzzle.solve(for: digest, from: .max - 3, tries: 100_000) == first)
    }

    @Test func `where nothing is asked any nonce will do, for the least effort`() throws {
        let proof = try #require(puzzle(0).solve(for: digest, from: 9, tries: 1))
        #expect(proof.nonce == 9)
        #expect(puzzle(0).holds(proof, for: digest))
    }

    // MARK: The search

    @Test func `a search finds a proof that holds, also beyond its first piece`() async throws {
        let puzzle = puzzle(60_000)
        let solver = PuzzleSolver(puzzle: puzzle, digest: digest, deadline: never)
        let proof = try #require(await solver.proof(from: 5))
        #expect(puzzle.holds(proof, for: digest))
        #expect(proof.nonce - 5 >= PuzzleSolver.triesAtATime)
        #expect(proof == puzzle.solve(for: digest, from: 5, tries: .max))
    }

    @Test func `a search that finds nothing ends at its deadline`() async {
        let looks = Mutex(0)
        let solver = PuzzleSolver(puzzle: puzzle(.max), digest: digest, deadline: MonotonicTime(nanoseconds: 3))
        let proof = await solver.proof(from: 0) {
            looks.withLock {
                $0 += 1
                return MonotonicTime(nanoseconds: UInt64($0))
            }
        }
        #expect(proof == nil)
        #expect(looks.withLock { $0 } == 3)
    }

    @Test func `a search that has no time left does not begin`() async {
        #expect(await PuzzleSolver(puzzle: puzzle(1), digest: digest, deadline: past).proof(from: 0) == nil)
    }

    @Test func `a search ends when it is cancelled`() async {
        let solver = PuzzleSolver(puzzle: puzzle(.max), digest: digest, deadline: never)
        let search = Task { await solver.proof(from: 0) }
        search.cancel()
        #expect(await search.value == nil)
    }

    // MARK: The client

    @Test func `the client does the work that a node asks for, and its caller sees the outcome only`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let efforts = Mutex<[UInt32]>([])
        let client = TocsinClient(TocsinClient.Options(node: try await node.start()), on: node.loop) { progress in
            if case .working(let effort) = progress { efforts.withLock { $0.append(effort) } }
        }
        let envelope = try envelope()
        async let outcome = client.submit(envelope, patience: .seconds(20))
        try await node.accept()
        let early = try await node.submission()
        #expect(early.proof == nil)
        await node.welcome(puzzle(8))
        let dearer = puzzle(20_000)
        await node.say { $0.append(dearer) }
        await node.answer(early.request, .retry(.proofNeeded, after: 1000))
        let late = try await node.submission()
        #expect(late.request == early.request)
        #expect(late.envelope.digest == envelope.digest)
        #expect(dearer.holds(try #require(late.proof), for: envelope.digest))
        #expect(late.proof?.effort == dearer.effort)
        await node.answer(late.request, .delivered(id: "x"))
        #expect(try await outcome == .delivered(id: "x"))
        #expect(efforts.withLock { $0 } == [dearer.effort])
        #expect(await client.solving.isEmpty)
        await client.close()
        await node.end()
    }

    @Test func `the proof is for the connection that is there when it is found`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(node: try await node.start()), on: node.loop)
        let envelope = try envelope()
        async let outcome = client.submit(envelope, patience: .seconds(30))
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofNeeded, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        try await node.accept()
        await node.welcome(puzzle(32, seed: 8))
        let second = try await node.submission()
        #expect(puzzle(32, seed: 8).holds(try #require(second.proof), for: envelope.digest))
        await node.answer(second.request, .delivered())
        #expect(try await outcome.kind == .delivered)
        await client.close()
        await node.end()
    }

    @Test(arguments: [Duration.zero, .milliseconds(30)])
    func `more work than allowed is RETRY with a text that says so`(_ limit: Duration) async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let options = TocsinClient.Options(node: try await node.start(), workLimit: limit)
        let client = TocsinClient(options, on: node.loop)
        let envelope = try envelope()
        async let outcome = client.submit(envelope, patience: .seconds(20))
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofNeeded, after: 1500))
        let text = "the node asks for more proof of work than is allowed: effort \(UInt32.max)"
        #expect(try await outcome == .retry(.proofNeeded, after: 1500, text: text))
        await client.close()
        await node.end()
    }

    @Test func `patience ends the work, and the next submission has its turn`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(node: try await node.start()), on: node.loop)
        let envelopes = try (0..<4).map { try envelope($0) }
        async let first = client.submit(envelopes[0], patience: .seconds(20))
        try await node.accept()
        let submission = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(submission.request, .delivered())
        #expect(try await first.kind == .delivered)

        async let second = client.submit(envelopes[1], patience: .milliseconds(100))
        async let third = client.submit(envelopes[2], patience: .milliseconds(100))
        try #require(await eventually { await client.solving.count == 2 })
        async let fourth = client.submit(envelopes[3], patience: .seconds(20))
        for outcome in [try await second, try await third] {
            #expect(outcome.kind == .retry)
            #expect(outcome.reason == .proofNeeded)
        }
        #expect(await eventually { await client.solving.count == 1 })
        let cheaper = puzzle(4)
        await node.say { $0.append(cheaper) }
        let last = try await node.submission()
        #expect(last.envelope.digest == envelopes[3].digest)
        await node.answer(last.request, .delivered())
        #expect(try await fourth.kind == .delivered)
        await client.close()
        await node.end()
    }

    @Test func `a node that is gone is unreachable, whatever work it had asked for`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(node: try await node.start()), on: node.loop)
        let envelope = try envelope()
        let submission = Task { try await client.submit(envelope, patience: .seconds(1)) }
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofNeeded, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        await node.end()
        let error = await #expect(throws: ClientError.self) { try await submission.value }
        let isUnreachable = if case .unreachable = error { true } else { false }
        #expect(isUnreachable)
        #expect(await client.solving.isEmpty)
        await client.close()
    }

    @Test func `work that is not asked for any more ends`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(node: try await node.start()), on: node.loop)
        let envelope = try envelope()
        async let outcome = client.submit(envelope, patience: .seconds(20))
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofNeeded, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        let nothing = puzzle(0)
        await node.say { $0.append(nothing) }
        let second = try await node.submission()
        #expect(second.proof == nil)
        #expect(await client.solving.isEmpty)
        await node.answer(second.request, .delivered())
        #expect(try await outcome.kind == .delivered)
        await client.close()
        await node.end()
    }

    @Test func `closing the client ends the work`() async throws {
        let node = FakeNode(on: EventLoop(name: "test"))
        let client = TocsinClient(TocsinClient.Options(node: try await node.start()), on: node.loop)
        let envelope = try envelope()
        let submission = Task { try await client.submit(envelope, patience: .seconds(20)) }
        try await node.accept()
        let first = try await node.submission()
        await node.welcome(puzzle(.max))
        await node.answer(first.request, .retry(.proofNeeded, after: 1000))
        #expect(await eventually { await client.solving.count == 1 })
        await client.close()
        await #expect(throws: ClientError.closed) { try await submission.value }
        #expect(await client.solving.isEmpty)
        await node.end()
    }

    // MARK: Refused for abuse

    @Test func `a node that will not listen for a while says for how long`() {
        let abuse = ClientError.refused(GoAway(code: .abuse, retryAfter: 600_001, text: "too many bad device tokens"))
        #expect("\(abuse)" == "the node refused: too many bad device tokens; try again in 601 s")
        let silent = ClientError.refused(GoAway(code: .abuse, retryAfter: .max))
        #expect("\(silent)" == "the node refused: GOAWAY with code 6; try again in 4294968 s")
        let fault = ClientError.refused(GoAway(code: .protocolError, text: "a second HELLO"))
        #expect("\(fault)" == "the node refused: a second HELLO")
    }
}
