// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Testing

@testable import Admission

/// Which submissions require proof of work, and when.
extension AdmissionTests {
    /// A harness with one connection of circuit 1 that requires 256 hashes of every submission.
    private func makeHarness(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let harness = AdmissionHarness {
            $0.puzzle = .init(mode: .always, minimum: 256, maximum: 4096)
            change(&$0)
        }
        harness.connect()
        return harness
    }

    private func puzzle(_ harness: AdmissionHarness) -> Puzzle { harness.admission.puzzle(at: harness.now) }

    /// A puzzle with the same seed and another effort.
    private func puzzle(_ harness: AdmissionHarness, effort: UInt32) -> Puzzle {
        Puzzle(seed: puzzle(harness).seed, effort: effort, lifetime: 0)
    }

    /// Submits an envelope with an invalid proof.
    private func submitWrong(_ harness: AdmissionHarness, to device: Int) throws -> AdmissionHarness.Answer {
        let (envelope, other) = (try harness.envelope(for: device), try harness.envelope(for: device))
        return harness.submit(envelope, proof: puzzle(harness, effort: 4096).solve(for: other.digest, tries: 1 << 24))
    }

    // MARK: Required of all submissions

    @Test func `a submission without the required proof is refused with the puzzle`() throws {
        let harness = makeHarness()
        #expect(puzzle(harness).effort == 256)
        #expect(try harness.submit(to: 1).refusal == Refusal(.retry(.proofRequired, after: 0), puzzle: puzzle(harness)))
    }

    @Test func `a proof below the required effort is wrong but not charged`() throws {
        let harness = makeHarness()
        for _ in 0..<50 {
            let answer = try harness.submit(to: 1, solving: puzzle(harness, effort: 255))
            #expect(answer.refusal == Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle(harness)))
        }
    }

    @Test func `an invalid proof is wrong and charged`() throws {
        let harness = makeHarness()
        for number in 1...20 {
            let refusal = try submitWrong(harness, to: 1).refusal
            #expect(refusal?.outcome == .retry(.proofWrong, after: 0))
            #expect(refusal?.puzzle == puzzle(harness))
            #expect(refusal?.goAway?.code == (number < 20 ? nil : .abuse))
        }
    }

    @Test func `a valid proof is admitted and counts its full effort`() throws {
        let harness = makeHarness()
        #expect(try harness.submit(to: 1, solving: puzzle(harness)).ticket?.terms.effort == 256)
        #expect(try harness.submit(to: 1, solving: puzzle(harness, effort: 1000)).ticket?.terms.effort == 1000)
    }

    @Test func `with puzzles off no proof counts`() throws {
        let harness = makeHarness { $0.puzzle = .init(mode: .off) }
        #expect(try harness.submit(to: 1, solving: puzzle(harness, effort: 100)).ticket?.terms.effort == 0)
    }

    @Test func `an optional proof counts if it is valid and reaches the minimum effort`()
        throws
    {
        let harness = makeHarness { $0.puzzle = .init(mode: .adaptive, minimum: 50) }
        #expect(try harness.submit(to: 1).ticket?.terms.effort == 0)
        #expect(try harness.submit(to: 1, solving: puzzle(harness, effort: 100)).ticket?.terms.effort == 100)
        #expect(try harness.submit(to: 1, solving: puzzle(harness, effort: 50)).ticket?.terms.effort == 50)
        for effort in [1, 2, 49] as [UInt32] {
            #expect(try harness.submit(to: 1, solving: puzzle(harness, effort: effort)).ticket?.terms.effort == 0)
        }
        for _ in 0..<50 {
            let answer = try submitWrong(harness, to: 1)
            #expect(answer.ticket?.terms.effort == 0)
            harness.conclude(answer)
        }
    }

    @Test func `the proof is checked before everything but the circuit's rate limit`() throws {
        let harness = AdmissionHarness {
            for limit in [Limit.device, .unproven, .app, .node] { limit.set(Rate(burst: 6, perMinute: 1), in: &$0) }
        }
        harness.connect()
        try harness.send(to: 2, .gone(since: nil))
        harness.admission.settings.puzzle = .init(mode: .always, minimum: 256)
        for _ in 0..<100 {
            // Neither a dead device token nor a missing sender key shows in the refusal.
            #expect(try harness.submit(to: 1).reason == .proofRequired)
            #expect(try harness.submit(to: 2).reason == .proofRequired)
        }
        harness.admission.settings.senders = .required
        #expect(try harness.submit(to: 1).reason == .proofRequired)
        harness.admission.settings.senders = .off
        // The refusals for the dead device token were not charged.
        #expect(try harness.submit(to: 2, solving: puzzle(harness)).reason == .unregistered)
        let admitted = try (0..<10).count { _ in try harness.submit(to: 1, solving: puzzle(harness)).isAdmitted }
        #expect(admitted == 5)
    }

    @Test func `a circuit over its rate is refused before its proof is checked`() throws {
        let harness = makeHarness { $0.circuit = Rate(burst: 5, perMinute: 1) }
        for _ in 0..<5 { #expect(try harness.submit(to: 1).reason == .proofRequired) }
        for _ in 0..<50 {
            let answer = try submitWrong(harness, to: 1)
            #expect(answer.reason == .connectionOverRate && answer.refusal?.goAway == nil)
        }
        #expect(try harness.submit(to: 1).reason == .connectionOverRate)
    }

    // MARK: Pressure

    @Test func `refusals by the node's limit require work of every sender until they stop`() throws {
        let harness = AdmissionHarness {
            $0.node = Rate(burst: 3, perMinute: 60)
            $0.puzzle = .init(mode: .adaptive, minimum: 256, maximum: 4096)
        }
        harness.connect()
        #expect(harness.admission.efforts.all == 0)
        for _ in 0..<20 { _ = try harness.submit(to: 1) }
        #expect(!harness.tick())
        #expect(harness.tick())
        #expect(harness.admission.efforts.all == 256 && harness.admission.efforts.unproven == 256)
        #expect(puzzle(harness).effort == 256)
        #expect(try harness.submit(to: 1).reason == .proofRequired)
        #expect(try harness.submit(to: 1, solving: puzzle(harness)).isAdmitted)
        var changes = 0
        for _ in 0..<60 where harness.tick() { changes += 1 }
        #expect(harness.admission.efforts.all == 0 && changes == 1)
        #expect(try harness.submit(to: 1).isAdmitted)
    }

    @Test func `submissions refused for lack of room after admission raise the effort`() throws {
        let harness = AdmissionHarness { $0.puzzle = .init(mode: .adaptive, minimum: 256, maximum: 4096) }
        harness.connect()
        try harness.send(to: 1, .delivered())
        // The outcome is the same for a full disk and for full memory; a higher effort relieves only the latter.
        for contact in [ProviderContact.contacted, .notContacted, .noCapacity] {
            for _ in 0..<20 { harness.conclude(try harness.submit(to: 1), .retry(.nodeBusy, after: 1), contact) }
            harness.tick()
            harness.tick()
            #expect(harness.admission.efforts.all == (contact == .noCapacity ? 256 : 0))
        }
    }

    @Test func `a full queue raises the effort`() throws {
        let harness = AdmissionHarness { $0.puzzle = .init(mode: .adaptive, minimum: 256, maximum: 4096) }
        harness.connect()
        for _ in 0..<5 { try harness.send(to: 1, .delivered()) }
        #expect(!harness.tick(queue: 0.9))
        #expect(harness.tick(queue: 0.9))
        #expect(puzzle(harness).effort == 256)
    }

    @Test func `a sender over its own limits does not raise the effort`() throws {
        let harness = AdmissionHarness {
            $0.device = Rate(burst: 2, perMinute: 1)
            $0.circuit = Rate(burst: 50, perMinute: 1)
            $0.puzzle = .init(mode: .adaptive, minimum: 256, maximum: 4096)
        }
        harness.connect()
        for _ in 0..<1000 { _ = try harness.submit(to: 1) }
        for _ in 0..<10 { #expect(!harness.tick()) }
        #expect(harness.admission.efforts.all == 0 && harness.admission.efforts.unproven == 0)
    }

    // MARK: Unproven device tokens

    /// A harness that requires 256 hashes for unproven device tokens and nothing for others; device 1 is proven.
    private func makeHarnessUnderPressure(_ mode: EffortControl.Mode = .adaptive) throws -> AdmissionHarness {
        let harness = AdmissionHarness {
            $0.unproven = Rate(burst: 4, perMinute: 60)
            $0.puzzle = .init(mode: mode, minimum: 256, maximum: 4096)
        }
        harness.connect()
        try harness.send(to: 1, .delivered())
        for device in 2...20 { _ = try harness.submit(to: device) }
        harness.tick()
        harness.tick()
        return harness
    }

    @Test func `too many unproven device tokens raise the effort for unproven ones only`() throws {
        let harness = try makeHarnessUnderPressure()
        #expect(harness.admission.efforts.all == 0 && harness.admission.efforts.unproven == 256)
        #expect(puzzle(harness).effort == 0)
        let required = puzzle(harness, effort: 256)
        let lifetime = puzzle(harness).lifetime
        let expected = Puzzle(seed: required.seed, effort: 256, lifetime: lifetime)
        #expect(try harness.submit(to: 30).refusal == Refusal(.retry(.proofRequired, after: 0), puzzle: expected))
        let small = try harness.submit(to: 30, solving: puzzle(harness, effort: 255))
        #expect(small.refusal == Refusal(.retry(.proofWrong, after: 0), puzzle: expected))
        #expect(try harness.submit(to: 30, solving: required).ticket?.terms.effort == 256)
        #expect(try harness.submit(to: 1).isAdmitted)
    }

    @Test func `an invalid proof for an unproven device token is refused but not charged`() throws {
        let harness = try makeHarnessUnderPressure()
        for _ in 0..<50 {
            let refusal = try submitWrong(harness, to: 30).refusal
            #expect(refusal?.outcome == .retry(.proofWrong, after: 0))
            #expect(refusal?.puzzle?.effort == 256)
            #expect(refusal?.goAway == nil)
        }
    }

    @Test func `a proof does not bypass the limit for unproven device tokens`() throws {
        let harness = try makeHarnessUnderPressure()
        let required = puzzle(harness, effort: 256)
        let answers = try (30..<40).map { try harness.submit(to: $0, solving: required) }
        // The burst is 4, and 2 s at one per second have passed.
        #expect(answers.count { $0.isAdmitted } == 2)
        #expect(answers.last?.reason == .tooManyUnproven)
        #expect(answers.last?.retryAfter == 1000)
    }

    @Test func `with puzzles off unproven device tokens require no proof`() throws {
        let harness = try makeHarnessUnderPressure(.off)
        #expect(harness.admission.efforts.unproven == 0)
        #expect(try harness.submit(to: 30).isAdmitted)
    }

    @Test func `unproven device tokens require at least the effort that all submissions require`() throws {
        let harness = makeHarness()
        #expect(harness.admission.efforts.unproven == 256)
        #expect(try harness.submit(to: 1).reason == .proofRequired)
        #expect(try harness.submit(to: 1, solving: puzzle(harness)).isAdmitted)
    }

    // MARK: Time and reload

    @Test func `the seed rotates once an hour, and the rotation is announced`() {
        let harness = AdmissionHarness()
        var draws = 0
        var changes: [Int] = []
        for second in 1...7300 {
            harness.pass(.seconds(1))
            let isChanged = harness.admission.tick(queue: 0, at: harness.moment) {
                draws += 1
                return Array(repeating: UInt8(draws), count: Puzzle.seedLength)
            }
            if isChanged { changes.append(second) }
        }
        #expect(changes == [3600, 7200] && draws == 2)
        #expect(puzzle(harness).seed.first == 2)
    }

    @Test func `a proof for the previous seed is accepted`() throws {
        let harness = makeHarness()
        let old = puzzle(harness)
        harness.pass(.seconds(3600))
        #expect(harness.tick())
        #expect(puzzle(harness).seed != old.seed)
        #expect(try harness.submit(to: 1, solving: old).isAdmitted)
    }

    @Test func `new puzzle settings take effect immediately`() throws {
        let harness = makeHarness()
        harness.admission.settings.puzzle = .init(mode: .always, minimum: 512, maximum: 4096)
        #expect(try harness.submit(to: 1, solving: puzzle(harness, effort: 511)).reason == .proofWrong)
        #expect(puzzle(harness).effort == 512)
        harness.admission.settings.puzzle = .init(mode: .off)
        #expect(puzzle(harness).effort == 0)
        #expect(try harness.submit(to: 1).isAdmitted)
        let underPressure = try makeHarnessUnderPressure()
        underPressure.admission.settings.puzzle = .init(mode: .off)
        #expect(try underPressure.submit(to: 40).isAdmitted)
    }
}
