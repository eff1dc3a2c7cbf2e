// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import EventLoop
import TNP
import TestSupport
import Testing

@testable import Time

@Suite(.tags(.computing)) struct PuzzleSeedsTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let digest = BLAKE2b.hash256("an envelope".utf8)
    private let other = BLAKE2b.hash256("another envelope".utf8)

    private func seed(_ number: UInt8) -> [UInt8] { Array(repeating: number, count: Puzzle.seedLength) }

    private func proof(
        _ seeds: PuzzleSeeds, effort: UInt32 = 16, for digest: Digest256? = nil, from nonce: UInt64 = 0
    ) throws -> Proof {
        try #require(
            seeds.puzzle(effort: effort, at: start).solve(for: digest ?? self.digest, from: nonce, tries: 1 << 24))
    }

    // MARK: Validation

    @Test func `a proof for the current seed counts its effort`() throws {
        let seeds = PuzzleSeeds(seed: seed(1), now: start)
        for effort in [1, 16, 300] as [UInt32] {
            let check = try seeds.validate(proof(seeds, effort: effort), for: digest, effort: effort, now: start)
            #expect(check == .valid(effort))
        }
    }

    @Test func `a proof of more than the required effort counts in full`() throws {
        let seeds = PuzzleSeeds(seed: seed(1), now: start)
        #expect(try seeds.validate(proof(seeds, effort: 300), for: digest, effort: 16, now: start) == .valid(300))
    }

    @Test func `a required proof that is absent is missing, and a smaller one is too small`() throws {
        let seeds = PuzzleSeeds(seed: seed(1), now: start)
        #expect(seeds.validate(nil, for: digest, effort: 16, now: start) == .missing)
        #expect(try seeds.validate(proof(seeds, effort: 16), for: digest, effort: 17, now: start) == .tooSmall)
        let zeroEffort = Proof(seedPrefix: Array(seed(1).prefix(4)), effort: 0, nonce: 0)
        #expect(seeds.validate(zeroEffort, for: digest, effort: 1, now: start) == .tooSmall)
    }

    @Test func `when no effort is required, only a valid proof counts`() throws {
        let seeds = PuzzleSeeds(seed: seed(1), now: start)
        #expect(seeds.validate(nil, for: digest, effort: 0, now: start) == .notRequired)
        #expect(try seeds.validate(proof(seeds), for: digest, effort: 0, now: start) == .valid(16))
        #expect(try seeds.validate(proof(seeds, effort: 4096), for: other, effort: 0, now: start) == .notRequired)
        let zeroEffort = Proof(seedPrefix: Array(seed(1).prefix(4)), effort: 0, nonce: 0)
        #expect(seeds.validate(zeroEffort, for: digest, effort: 0, now: start) == .notRequired)
    }

    @Test func `a proof is valid for one envelope only`() throws {
        let seeds = PuzzleSeeds(seed: seed(1), now: start)
        #expect(try seeds.validate(proof(seeds, effort: 4096), for: other, effort: 16, now: start) == .wrong)
    }

    @Test func `a proof with a changed field is wrong or stale`() throws {
        let seeds = PuzzleSeeds(seed: seed(1), now: start)
        let good = try proof(seeds, effort: 4096)
        var changed = [good, good, good]
        changed[0].nonce &+= 1
        changed[1].effort += 1
        changed[2].effort = .max
        for proof in changed { #expect(seeds.validate(proof, for: digest, effort: 16, now: start) == .wrong) }
        var stale = good
        stale.seedPrefix[3] ^= 1
        #expect(seeds.validate(stale, for: digest, effort: 16, now: start) == .stale)
        #expect(seeds.validate(stale, for: digest, effort: 0, now: start) == .notRequired)
    }

    // MARK: Seeds

    @Test func `the previous seed is accepted for one lifetime, and not a nanosecond longer`() throws {
        var seeds = PuzzleSeeds(seed: seed(1), now: start)
        let old = try proof(seeds)
        let change = seeds.rotatesAt
        seeds.rotate(to: seed(2), now: change)
        let end = change + PuzzleSeeds.lifetime
        let last = MonotonicTime(nanoseconds: end.nanoseconds - 1)
        #expect(seeds.validate(old, for: digest, effort: 16, now: change) == .valid(16))
        #expect(seeds.validate(old, for: digest, effort: 16, now: last) == .valid(16))
        #expect(seeds.validate(old, for: digest, effort: 16, now: end) == .stale)
        #expect(try seeds.validate(proof(seeds), for: digest, effort: 16, now: end) == .valid(16))
    }

    @Test func `the second rotation forgets a seed`() throws {
        var seeds = PuzzleSeeds(seed: seed(1), now: start)
        let old = try proof(seeds)
        seeds.rotate(to: seed(2), now: start)
        #expect(seeds.validate(old, for: digest, effort: 16, now: start) == .valid(16))
        seeds.rotate(to: seed(3), now: start)
        #expect(seeds.validate(old, for: digest, effort: 16, now: start) == .stale)
    }

    @Test func `two seeds with the same prefix are both accepted`() throws {
        var twin = seed(1)
        twin[15] = 2
        var seeds = PuzzleSeeds(seed: seed(1), now: start)
        let old = try proof(seeds)
        seeds.rotate(to: twin, now: start)
        #expect(seeds.validate(old, for: digest, effort: 16, now: start) == .valid(16))
        #expect(try seeds.validate(proof(seeds), for: digest, effort: 16, now: start) == .valid(16))
    }

    @Test func `the current seed and effort are announced`() {
        var seeds = PuzzleSeeds(seed: seed(1), now: start)
        #expect(seeds.puzzle(effort: 7, at: start) == Puzzle(seed: seed(1), effort: 7, lifetime: 7200))
        #expect(seeds.puzzle(effort: 7, at: start + .milliseconds(900)).lifetime == 7199)
        #expect(seeds.puzzle(effort: 0, at: seeds.rotatesAt) == Puzzle(seed: seed(1), effort: 0, lifetime: 3600))
        seeds.rotate(to: seed(2), now: seeds.rotatesAt)
        #expect(seeds.rotatesAt == start + PuzzleSeeds.lifetime * 2)
        let announced = seeds.puzzle(effort: 9, at: start + PuzzleSeeds.lifetime)
        #expect(announced == Puzzle(seed: seed(2), effort: 9, lifetime: 7200))
    }

    @Test(arguments: [-3000, -1, 0, 1, 5000])
    func `a seed is accepted for its announced lifetime, even if it rotates early or late`(delay: Int) throws {
        var seeds = PuzzleSeeds(seed: seed(1), now: start)
        let proof = try proof(seeds)
        let change = start + .seconds(3600 + delay)
        let times = [0, 600, 599.5, 3599.9, 3600, 8000].map { start + .seconds($0) } + [change]
        let ends = times.filter { $0 <= change }
            .map { $0 + .seconds(Int(seeds.puzzle(effort: 16, at: $0).lifetime)) }
        seeds.rotate(to: seed(2), now: change)
        for end in ends {
            let last = MonotonicTime(nanoseconds: end.nanoseconds - 1)
            #expect(seeds.validate(proof, for: digest, effort: 16, now: last) == .valid(16))
        }
        // And not much longer.
        let end = try #require(ends.max())
        #expect(seeds.validate(proof, for: digest, effort: 16, now: end + .seconds(1)) == .stale)
    }

    @Test func `a clock that goes back announces at most two lifetimes and drops no seed`() throws {
        var seeds = PuzzleSeeds(seed: seed(1), now: start)
        let old = try proof(seeds)
        seeds.rotate(to: seed(2), now: start)
        let past = MonotonicTime(nanoseconds: 0)
        #expect(seeds.puzzle(effort: 16, at: past).lifetime == 7200)
        #expect(seeds.validate(old, for: digest, effort: 16, now: past) == .valid(16))
        #expect(try seeds.validate(proof(seeds), for: digest, effort: 16, now: past) == .valid(16))
    }
}
