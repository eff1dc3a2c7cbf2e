// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Synchronization
import TestSupport
import Testing
import Time

@testable import Sender
@testable import StandIns
@testable import TNP

@Suite(.tags(.sockets)) struct PuzzleSolverTests {
    private let digest = BLAKE2b.hash256([1, 2, 3])
    private let past = MonotonicTime(nanoseconds: 0)
    private let never = MonotonicTime.now + .seconds(3600)

    private func puzzle(_ effort: UInt32, seed: UInt8 = 7) -> Puzzle {
        Puzzle(seed: [UInt8](repeating: seed, count: 16), effort: effort, lifetime: 60)
    }

    @Test func `the hash covers the label, the seed, the digest, the effort and the nonce`() {
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

    @Test func `solving finds the first valid nonce from any start`() throws {
        var random = SplitMix64(seed: 2)
        for _ in 0..<50 {
            let puzzle = puzzle(UInt32(1 + random.below(60)), seed: UInt8(random.below(256)))
            let start = random.next()
            var expected = Proof(seedPrefix: Array(puzzle.seed.prefix(4)), effort: puzzle.effort, nonce: start)
            var tries: UInt64 = 1
            while !puzzle.isValid(expected, for: digest) {
                expected.nonce &+= 1
                tries += 1
            }
            #expect(puzzle.solve(for: digest, from: start, tries: tries) == expected)
            #expect(puzzle.solve(for: digest, from: start, tries: tries - 1) == nil)
        }
    }

    @Test func `the search wraps from the largest nonce to the smallest`() throws {
        let puzzle = puzzle(1000)
        let first = try #require(puzzle.solve(for: digest, from: 0, tries: 100_000))
        try #require(puzzle.solve(for: digest, from: .max - 3, tries: 4) == nil)
        #expect(puzzle.solve(for: digest, from: .max - 3, tries: 100_000) == first)
    }

    @Test func `a required effort of 0 is solved by the first nonce tried`() throws {
        let proof = try #require(puzzle(0).solve(for: digest, from: 9, tries: 1))
        #expect(proof.nonce == 9)
        #expect(puzzle(0).isValid(proof, for: digest))
    }

    @Test func `a search finds a valid proof beyond its first batch`() async throws {
        let puzzle = puzzle(60_000)
        let proof = try #require(await puzzle.proof(for: digest, until: never, from: 5))
        #expect(puzzle.isValid(proof, for: digest))
        #expect(proof.nonce - 5 >= Puzzle.batchSize)
        #expect(proof == puzzle.solve(for: digest, from: 5, tries: .max))
    }

    @Test func `an unsuccessful search ends at its deadline`() async {
        let looks = Mutex(0)
        let proof = await puzzle(.max).proof(for: digest, until: MonotonicTime(nanoseconds: 3), from: 0) {
            looks.withLock {
                $0 += 1
                return MonotonicTime(nanoseconds: UInt64($0))
            }
        }
        #expect(proof == nil)
        #expect(looks.withLock { $0 } == 3)
    }

    @Test func `a search with no time left does not start`() async {
        #expect(await puzzle(1).proof(for: digest, until: past, from: 0) == nil)
    }

    @Test func `a search ends when it is cancelled`() async {
        let search = Task { await puzzle(.max).proof(for: digest, until: never, from: 0) }
        search.cancel()
        #expect(await search.value == nil)
    }
}
