// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Testing

@testable import Admission

/// What work is asked of whom, and when.
extension AdmissionTests {
    /// A gatehouse with one connection of circuit 1 that asks everybody for 256 hashes.
    private func makeHouse(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionHarness {
        let house = AdmissionHarness {
            $0.puzzle = .init(mode: .always, least: 256, most: 4096)
            change(&$0)
        }
        house.connect()
        return house
    }

    private func puzzle(_ house: AdmissionHarness) -> Puzzle { house.admission.puzzle(at: house.now) }

    /// A puzzle of the same seed that asks for another effort.
    private func puzzle(_ house: AdmissionHarness, effort: UInt32) -> Puzzle {
        Puzzle(seed: puzzle(house).seed, effort: effort, lifetime: 0)
    }

    /// A submission with a proof that does not hold.
    private func submitWrong(_ house: AdmissionHarness, to device: Int) throws -> AdmissionHarness.Answer {
        let (envelope, other) = (try house.envelope(for: device), try house.envelope(for: device))
        return house.submit(envelope, proof: puzzle(house, effort: 4096).solve(for: other.digest, tries: 1 << 24))
    }

    // MARK: The gate for everybody

    @Test func `a submission without the required proof is refused with the puzzle`() throws {
        let house = makeHouse()
        #expect(puzzle(house).effort == 256)
        #expect(try house.submit(to: 1).refusal == Refusal(.retry(.proofRequired, after: 0), puzzle: puzzle(house)))
    }

    @Test func `a proof below the required effort is wrong but not charged`() throws {
        let house = makeHouse()
        for _ in 0..<50 {
            let answer = try house.submit(to: 1, solving: puzzle(house, effort: 255))
            #expect(answer.refusal == Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle(house)))
        }
    }

    @Test func `an invalid proof is wrong and charged`() throws {
        let house = makeHouse()
        for number in 1...20 {
            let refusal = try submitWrong(house, to: 1).refusal
            #expect(refusal?.outcome == .retry(.proofWrong, after: 0))
            #expect(refusal?.puzzle == puzzle(house))
            #expect(refusal?.goAway?.code == (number < 20 ? nil : .abuse))
        }
    }

    @Test func `a valid proof is admitted and counts its full effort`() throws {
        let house = makeHouse()
        #expect(try house.submit(to: 1, solving: puzzle(house)).ticket?.effort == 256)
        #expect(try house.submit(to: 1, solving: puzzle(house, effort: 1000)).ticket?.effort == 1000)
    }

    @Test func `with puzzles off no proof counts`() throws {
        let house = makeHouse { $0.puzzle = .init(mode: .off) }
        #expect(try house.submit(to: 1, solving: puzzle(house, effort: 100)).ticket?.effort == 0)
    }

    @Test func `an optional proof counts if it is valid and reaches the minimum effort`()
        throws
    {
        let house = makeHouse { $0.puzzle = .init(mode: .adaptive, least: 50) }
        #expect(try house.submit(to: 1).ticket?.effort == 0)
        #expect(try house.submit(to: 1, solving: puzzle(house, effort: 100)).ticket?.effort == 100)
        #expect(try house.submit(to: 1, solving: puzzle(house, effort: 50)).ticket?.effort == 50)
        for effort in [1, 2, 49] as [UInt32] {
            #expect(try house.submit(to: 1, solving: puzzle(house, effort: effort)).ticket?.effort == 0)
        }
        for _ in 0..<50 {
            let answer = try submitWrong(house, to: 1)
            #expect(answer.ticket?.effort == 0)
            house.conclude(answer)
        }
    }

    @Test func `the proof is checked before everything but the circuit's rate limit`() throws {
        let house = AdmissionHarness {
            for limit in [Limit.device, .unproven, .app, .node] { limit.set(Rate(burst: 6, perMinute: 1), in: &$0) }
        }
        house.connect()
        try house.send(to: 2, .gone(since: nil))
        house.admission.settings.puzzle = .init(mode: .always, least: 256)
        for _ in 0..<100 {
            // Neither a dead one nor one whose sender has no key is told anything.
            #expect(try house.submit(to: 1).reason == .proofRequired)
            #expect(try house.submit(to: 2).reason == .proofRequired)
        }
        house.admission.settings.senders = .required
        #expect(try house.submit(to: 1).reason == .proofRequired)
        house.admission.settings.senders = .off
        // Nothing was charged for the dead one.
        #expect(try house.submit(to: 2, solving: puzzle(house)).reason == .unregistered)
        let admitted = try (0..<10).count { _ in try house.submit(to: 1, solving: puzzle(house)).isAdmitted }
        #expect(admitted == 5)
    }

    @Test func `a circuit over its rate is refused before its proof is checked`() throws {
        let house = makeHouse { $0.circuit = Rate(burst: 5, perMinute: 1) }
        for _ in 0..<5 { #expect(try house.submit(to: 1).reason == .proofRequired) }
        for _ in 0..<50 {
            let answer = try submitWrong(house, to: 1)
            #expect(answer.reason == .connectionOverRate && answer.refusal?.goAway == nil)
        }
        #expect(try house.submit(to: 1).reason == .connectionOverRate)
    }

    // MARK: Pressure

    @Test func `refusals by the node's limit require work of every sender until they stop`() throws {
        let house = AdmissionHarness {
            $0.node = Rate(burst: 3, perMinute: 60)
            $0.puzzle = .init(mode: .adaptive, least: 256, most: 4096)
        }
        house.connect()
        #expect(house.admission.efforts.all == 0)
        for _ in 0..<20 { _ = try house.submit(to: 1) }
        #expect(!house.tick())
        #expect(house.tick())
        #expect(house.admission.efforts.all == 256 && house.admission.efforts.unproven == 256)
        #expect(puzzle(house).effort == 256)
        #expect(try house.submit(to: 1).reason == .proofRequired)
        #expect(try house.submit(to: 1, solving: puzzle(house)).isAdmitted)
        var changes = 0
        for _ in 0..<60 where house.tick() { changes += 1 }
        #expect(house.admission.efforts.all == 0 && changes == 1)
        #expect(try house.submit(to: 1).isAdmitted)
    }

    @Test func `submissions refused for lack of room after admission raise the effort`() throws {
        let house = AdmissionHarness { $0.puzzle = .init(mode: .adaptive, least: 256, most: 4096) }
        house.connect()
        try house.send(to: 1, .delivered())
        // The same outcome for want of room on the disk, or in memory: more work makes only the one less.
        for reach in [ProviderContact.contacted, .notContacted, .noCapacity] {
            for _ in 0..<20 { house.conclude(try house.submit(to: 1), .retry(.nodeBusy, after: 1), reach) }
            house.tick()
            house.tick()
            #expect(house.admission.efforts.all == (reach == .noCapacity ? 256 : 0))
        }
    }

    @Test func `a full queue raises the effort`() throws {
        let house = AdmissionHarness { $0.puzzle = .init(mode: .adaptive, least: 256, most: 4096) }
        house.connect()
        for _ in 0..<5 { try house.send(to: 1, .delivered()) }
        #expect(!house.tick(queue: 0.9))
        #expect(house.tick(queue: 0.9))
        #expect(puzzle(house).effort == 256)
    }

    @Test func `a sender over its own limits does not raise the effort`() throws {
        let house = AdmissionHarness {
            $0.device = Rate(burst: 2, perMinute: 1)
            $0.circuit = Rate(burst: 50, perMinute: 1)
            $0.puzzle = .init(mode: .adaptive, least: 256, most: 4096)
        }
        house.connect()
        for _ in 0..<1000 { _ = try house.submit(to: 1) }
        for _ in 0..<10 { #expect(!house.tick()) }
        #expect(house.admission.efforts.all == 0 && house.admission.efforts.unproven == 0)
    }

    // MARK: Unproven device tokens

    /// A gatehouse that asks those who send to unproven device tokens for 256 hashes, and others for nothing; phone 1 is
    /// proven.
    private func makePressedHouse(_ mode: EffortControl.Mode = .adaptive) throws -> AdmissionHarness {
        let house = AdmissionHarness {
            $0.unproven = Rate(burst: 4, perMinute: 60)
            $0.puzzle = .init(mode: mode, least: 256, most: 4096)
        }
        house.connect()
        try house.send(to: 1, .delivered())
        for device in 2...20 { _ = try house.submit(to: device) }
        house.tick()
        house.tick()
        return house
    }

    @Test func `too many unproven device tokens raise the effort for unproven ones only`() throws {
        let house = try makePressedHouse()
        #expect(house.admission.efforts.all == 0 && house.admission.efforts.unproven == 256)
        #expect(puzzle(house).effort == 0)
        let asked = puzzle(house, effort: 256)
        let lifetime = puzzle(house).lifetime
        let expected = Puzzle(seed: asked.seed, effort: 256, lifetime: lifetime)
        #expect(try house.submit(to: 30).refusal == Refusal(.retry(.proofRequired, after: 0), puzzle: expected))
        let small = try house.submit(to: 30, solving: puzzle(house, effort: 255))
        #expect(small.refusal == Refusal(.retry(.proofWrong, after: 0), puzzle: expected))
        #expect(try house.submit(to: 30, solving: asked).ticket?.effort == 256)
        #expect(try house.submit(to: 1).isAdmitted)
    }

    @Test func `an invalid proof for an unproven device token is refused but not charged`() throws {
        let house = try makePressedHouse()
        for _ in 0..<50 {
            let refusal = try submitWrong(house, to: 30).refusal
            #expect(refusal?.outcome == .retry(.proofWrong, after: 0))
            #expect(refusal?.puzzle?.effort == 256)
            #expect(refusal?.goAway == nil)
        }
    }

    @Test func `a proof does not bypass the limit for unproven device tokens`() throws {
        let house = try makePressedHouse()
        let asked = puzzle(house, effort: 256)
        let answers = try (30..<40).map { try house.submit(to: $0, solving: asked) }
        // 2 s have passed, and the burst is 4.
        #expect(answers.count { $0.isAdmitted } == 2)
        #expect(answers.last?.reason == .tooManyUnproven)
        #expect(answers.last?.retryAfter == 1000)
    }

    @Test func `with puzzles off unproven device tokens require no proof`() throws {
        let house = try makePressedHouse(.off)
        #expect(house.admission.efforts.unproven == 0)
        #expect(try house.submit(to: 30).isAdmitted)
    }

    @Test func `unproven device tokens require at least the effort that all submissions require`() throws {
        let house = makeHouse()
        #expect(house.admission.efforts.unproven == 256)
        #expect(try house.submit(to: 1).reason == .proofRequired)
        #expect(try house.submit(to: 1, solving: puzzle(house)).isAdmitted)
    }

    // MARK: Time and reload

    @Test func `the seed rotates once an hour, and the rotation is announced`() {
        let house = AdmissionHarness()
        var draws = 0
        var changes: [Int] = []
        for second in 1...7300 {
            house.pass(.seconds(1))
            let isChanged = house.admission.tick(queue: 0, at: house.moment) {
                draws += 1
                return Array(repeating: UInt8(draws), count: Puzzle.seedLength)
            }
            if isChanged { changes.append(second) }
        }
        #expect(changes == [3600, 7200] && draws == 2)
        #expect(puzzle(house).seed.first == 2)
    }

    @Test func `a proof for the previous seed is accepted`() throws {
        let house = makeHouse()
        let old = puzzle(house)
        house.pass(.seconds(3600))
        #expect(house.tick())
        #expect(puzzle(house).seed != old.seed)
        #expect(try house.submit(to: 1, solving: old).isAdmitted)
    }

    @Test func `new puzzle settings take effect immediately`() throws {
        let house = makeHouse()
        house.admission.settings.puzzle = .init(mode: .always, least: 512, most: 4096)
        #expect(try house.submit(to: 1, solving: puzzle(house, effort: 511)).reason == .proofWrong)
        #expect(puzzle(house).effort == 512)
        house.admission.settings.puzzle = .init(mode: .off)
        #expect(puzzle(house).effort == 0)
        #expect(try house.submit(to: 1).isAdmitted)
        let pressed = try makePressedHouse()
        pressed.admission.settings.puzzle = .init(mode: .off)
        #expect(try pressed.submit(to: 40).isAdmitted)
    }
}
