// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import StandIns
import TNP
import TestSupport
import Testing

@testable import Admission
@testable import Time

@Suite(.tags(.computing)) struct AdmissionTests {
    // MARK: Limits

    /// The limits that a submission meets, from the first to the last.
    enum Limit: CaseIterable {
        case circuit, device, unproven, app, node

        var reason: Reason {
            switch self {
            case .circuit: .connectionOverRate
            case .device: .deviceTokenOverRate
            case .unproven: .tooManyUnproven
            case .app, .node: .nodeBusy
            }
        }

        func set(_ rate: Rate, in settings: inout AdmissionSettings) {
            switch self {
            case .circuit: settings.circuit = rate
            case .device: settings.device = rate
            case .unproven: settings.unproven = rate
            case .app: settings.app = rate
            case .node: settings.node = rate
            }
        }
    }

    /// A harness with one connection of circuit 1, in which device 1 is proven.
    private func makeHarness(_ change: (inout AdmissionSettings) -> Void = { _ in }) throws -> AdmissionHarness {
        let harness = AdmissionHarness(change)
        harness.connect()
        try harness.send(to: 1, .delivered())
        return harness
    }

    @Test(arguments: Limit.allCases)
    func `the burst is admitted, and later submissions are told to retry when one is available`(limit: Limit) throws {
        let harness = AdmissionHarness {
            limit.set(Rate(burst: 4, perMinute: 7), in: &$0)
        }
        harness.connect()
        #expect(try harness.admitted(of: 4, to: 1) == 4)
        for _ in 0..<10 {
            let answer = try harness.submit(to: 1)
            #expect(answer.refusal?.outcome?.kind == .retry)
            #expect(answer.reason == limit.reason)
            // 60 s / 7, rounded up to whole milliseconds.
            #expect(answer.retryAfter == 8572)
            #expect(answer.refusal?.goAway == nil)
            #expect(answer.refusal?.puzzle == nil)
        }
    }

    @Test(arguments: Limit.allCases)
    func `a sender that waits for retry-after is admitted, and one that waits less is not`(limit: Limit) throws {
        for perMinute in [1, 7, 60, 600, 12_000, 59_999] {
            let harness = AdmissionHarness {
                limit.set(Rate(burst: 3, perMinute: perMinute), in: &$0)
                $0.puzzle = .init(mode: .off)
            }
            harness.connect()
            for _ in 0..<3 { #expect(try harness.submit(to: 1).isAdmitted) }
            for _ in 0..<5 {
                let wait = try harness.submit(to: 1).retryAfter
                #expect(wait > 0)
                let slept = harness.now
                harness.pass(.milliseconds(Int(wait) - 1))
                #expect(try harness.submit(to: 1).reason == limit.reason)
                harness.now = slept
                harness.pass(.milliseconds(Int(wait)))
                #expect(try harness.submit(to: 1).isAdmitted)
            }
        }
    }

    @Test func `each device token has its own allowance`() throws {
        let harness = AdmissionHarness { $0.device = Rate(burst: 5, perMinute: 1) }
        harness.connect()
        for device in 1...3 {
            try harness.send(to: device, .delivered())
            #expect(try harness.admitted(of: 10, to: device) == 4)
        }
    }

    @Test func `a device token's allowance is shared by all circuits`() throws {
        let harness = AdmissionHarness { $0.device = Rate(burst: 5, perMinute: 1) }
        for id in 0..<10 as Range<UInt32> { harness.connect(.tor(id)) }
        try harness.send(to: 1, .delivered())
        let admitted = try (0..<10 as Range<UInt32>).count { try harness.submit(to: 1, on: .tor($0)).isAdmitted }
        #expect(admitted == 4)
    }

    @Test func `each circuit has its own allowance, shared by its connections`() throws {
        let harness = try makeHarness { $0.circuit = Rate(burst: 5, perMinute: 1) }
        for id in 2...4 as ClosedRange<UInt32> {
            harness.connect(.tor(id))
            #expect(try harness.admitted(of: 10, to: 1, on: .tor(id)) == 5)
        }
        // Connections of one circuit share it.
        harness.connect(.tor(2))
        #expect(try harness.submit(to: 1, on: .tor(2)).reason == .connectionOverRate)
    }

    @Test func `apps do not share limits`() throws {
        let harness = AdmissionHarness {
            $0.app = Rate(burst: 5, perMinute: 1)
            $0.device = Rate(burst: 3, perMinute: 1)
        }
        harness.connect()
        for app in ["one", "two"] {
            // The same device token in another app counts separately.
            #expect(try harness.admitted(of: 10, to: 1, app: app) == 3)
            #expect(try harness.admitted(of: 10, to: 2, app: app) == 2)
        }
    }

    @Test func `apps share the node's limit, and a submission over two limits waits for both`() throws {
        let harness = AdmissionHarness {
            $0.app = Rate(burst: 5, perMinute: 60)
            $0.node = Rate(burst: 8, perMinute: 6)
        }
        harness.connect()
        #expect(try harness.admitted(of: 10, to: 1, app: "one") == 5)
        #expect(try harness.submit(to: 1, app: "one").retryAfter == 1000)
        #expect(try harness.admitted(of: 10, to: 1, app: "two") == 3)
        #expect(try harness.submit(to: 1, app: "one").retryAfter == 10_000)
        #expect(try harness.submit(to: 1, app: "two").retryAfter == 10_000)
        #expect(try harness.submit(to: 1, app: "three").reason == .nodeBusy)
    }

    // MARK: What a refusal takes

    @Test(arguments: 1...4)
    func `a refusal by a later limit takes nothing from earlier ones but the circuit's`(number: Int) throws {
        // Each limit allows 10, the scarce one 5.
        let scarce = [Limit.device, .unproven, .app, .node][number - 1]
        let harness = AdmissionHarness {
            for limit in Limit.allCases { limit.set(Rate(burst: limit == scarce ? 5 : 10, perMinute: 1), in: &$0) }
            $0.circuit = Rate(burst: 60, perMinute: 1)
            $0.puzzle = .init(mode: .off)
        }
        harness.connect()
        #expect(try harness.admitted(of: 55, to: 1) == 5)
        #expect(try harness.submit(to: 1).reason == scarce.reason)
        // Each of these 56 submissions used one of the circuit's 60.
        harness.connect(.tor(2))
        #expect(try harness.admitted(of: 4, to: 1) == 0)
        #expect(try harness.submit(to: 1).reason == .connectionOverRate)
        // With the scarce limit raised, the other limits have five left.
        scarce.set(Rate(burst: 100, perMinute: 1), in: &harness.admission.settings)
        #expect(try harness.admitted(of: 10, to: 1, on: .tor(2)) == 5)
    }

    @Test func `a refusal by sender key takes nothing but from the circuit's allowance`() throws {
        let harness = AdmissionHarness {
            $0.device = Rate(burst: 10, perMinute: 1)
            $0.unproven = Rate(burst: 10, perMinute: 1)
            $0.node = Rate(burst: 10, perMinute: 1)
            $0.app = Rate(burst: 10, perMinute: 1)
            $0.senders = .required
        }
        let key = try Ed25519.PrivateKey.numbered(1)
        harness.connect()
        for _ in 0..<10 { #expect(try harness.submit(to: 1).reason == .senderKeyRequired) }
        for _ in 0..<10 {
            let (envelope, other) = (try harness.envelope(for: 1), try harness.envelope(for: 1))
            let answer = harness.submit(envelope, signature: SenderSignature(of: other.digest, by: key))
            #expect(answer.reason == .senderKeyMismatch)
        }
        let admitted = try (0..<20).count { _ in try harness.submit(to: 1, by: key).isAdmitted }
        #expect(admitted == 10)
    }

    @Test func `every submission of a circuit counts against its allowance`() throws {
        let harness = AdmissionHarness {
            $0.circuit = Rate(burst: 40, perMinute: 1)
            $0.puzzle = .init(mode: .always, minimum: 16, maximum: 16)
            $0.senders = .required
        }
        harness.connect()
        // No proof, a proof that is too small, no signature, and one that is admitted.
        for _ in 0..<20 { #expect(try harness.submit(to: 1).reason == .proofRequired) }
        for _ in 0..<10 {
            let small = Puzzle(seed: Array(repeating: 1, count: 16), effort: 15, lifetime: 0)
            #expect(try harness.submit(to: 1, solving: small).reason == .proofWrong)
        }
        let puzzle = harness.admission.puzzle(at: harness.now)
        for _ in 0..<9 { #expect(try harness.submit(to: 1, solving: puzzle).reason == .senderKeyRequired) }
        #expect(try harness.submit(to: 1, by: .numbered(1), solving: puzzle).isAdmitted)
        #expect(try harness.submit(to: 1, by: .numbered(1), solving: puzzle).reason == .connectionOverRate)
        #expect(try harness.submit(to: 1).reason == .connectionOverRate)
    }

    // MARK: The remaining allowance

    @Test func `an outcome reports the device token's remaining allowance and when it is full`() throws {
        let harness = AdmissionHarness { $0.device = Rate(burst: 20, perMinute: 10) }
        harness.connect()
        for number in 1...20 {
            let ticket = try #require(try harness.submit(to: 1).ticket)
            _ = harness.admission.finish(ticket, with: .delivered(), contact: .contacted, at: harness.moment)
            let outcome = harness.admission.addingAllowance(to: .delivered(id: "an-id"), of: ticket, at: harness.now)
            #expect(outcome.left == UInt32(20 - number))
            #expect(outcome.fullIn == UInt32(6000 * number))
            #expect(outcome.kind == .delivered && outcome.providerID == "an-id")
        }
        let refused = try #require(try harness.submit(to: 1).refusal?.outcome)
        #expect(refused.left == 0 && refused.fullIn == 120_000 && refused.retryAfter == 6000)
        harness.pass(.milliseconds(6001))
        let ticket = try #require(try harness.submit(to: 1).ticket)
        let outcome = harness.admission.addingAllowance(to: .delivered(), of: ticket, at: harness.now)
        #expect(outcome.left == 0 && outcome.fullIn == 119_999)
    }

    @Test func `an evicted device token is reported with a full allowance`() throws {
        let harness = AdmissionHarness {
            $0.device = Rate(burst: 20, perMinute: 10)
            $0.deviceTokens = 1
        }
        harness.connect()
        let ticket = try #require(try harness.submit(to: 1).ticket)
        _ = try harness.submit(to: 2)
        let outcome = harness.admission.addingAllowance(to: .delivered(), of: ticket, at: harness.now)
        #expect(outcome.left == 20 && outcome.fullIn == 0)
    }

    @Test func `only a retry refunds the device token's allowance`() throws {
        let outcomes: [(Outcome, isBack: Bool)] = [
            (.retry(.providerUnreachable, after: 1), true), (.retry(.providerThrottles, after: 1), true),
            (.retry(.nodeBusy, after: 1), true), (.retry(.shuttingDown, after: 1), true),
            (.retry(.credentialsRefused, after: 1), true), (.delivered(), false), (.rejected(.payloadRefused), false),
            (.rejected(.ttlRanOut), false),
        ]
        for (outcome, isBack) in outcomes {
            let harness = try makeHarness { $0.device = Rate(burst: 5, perMinute: 1) }
            for _ in 0..<50 { try harness.send(to: 1, outcome) }
            #expect(try harness.submit(to: 1).isAdmitted == isBack, "\(outcome)")
        }
    }

    @Test func `a refund goes to the same device token only`() throws {
        let harness = try makeHarness { $0.device = Rate(burst: 5, perMinute: 1) }
        try harness.send(to: 2, .delivered())
        #expect(try harness.admitted(of: 9, to: 2) == 4)
        for _ in 0..<10 { try harness.send(to: 1, .retry(.providerUnreachable, after: 1)) }
        #expect(try harness.submit(to: 2).reason == .deviceTokenOverRate)
    }

    // MARK: Unproven device tokens

    @Test func `unknown device tokens share a budget that proven ones do not use`() throws {
        let harness = try makeHarness { $0.unproven = Rate(burst: 11, perMinute: 6) }
        for id in 2...20 as ClosedRange<UInt32> { harness.connect(.tor(id)) }
        let admitted = try (2...20).count { try harness.submit(to: $0, on: .tor(UInt32($0))).isAdmitted }
        // Device 1 has used one.
        #expect(admitted == 10)
        let refused = try harness.submit(to: 99)
        #expect(refused.reason == .tooManyUnproven && refused.retryAfter == 10_000)
        for _ in 0..<50 { #expect(try harness.submit(to: 1).isAdmitted) }
    }

    @Test func `a device token that was reached once no longer uses the unproven budget`() throws {
        let harness = AdmissionHarness { $0.unproven = Rate(burst: 1, perMinute: 1) }
        harness.connect()
        let answer = try harness.submit(to: 1)
        #expect(answer.ticket?.isUnproven == true)
        #expect(try harness.submit(to: 1).reason == .tooManyUnproven)
        harness.conclude(answer)
        let second = try harness.submit(to: 1)
        #expect(second.ticket?.isUnproven == false)
    }

    @Test func `the abuse account limits a circuit's unproven device tokens in flight`() throws {
        let harness = AdmissionHarness { $0.abuse = Rate(burst: 20, perMinute: 1) }
        harness.connect()
        harness.connect(.tor(2))
        let answers = try (1...30).map { try harness.submit(to: $0) }
        #expect(answers.map(\.isAdmitted) == (1...30).map { $0 <= 20 })
        let refused = try #require(answers.last?.refusal?.outcome)
        #expect(refused.kind == .retry && refused.reason == .tooManyUnproven && refused.retryAfter == 5000)
        // Other circuits are not affected.
        #expect(try harness.submit(to: 40, on: .tor(2)).isAdmitted)
        // A delivery or a retry frees a place; a bad device token does not.
        harness.conclude(answers[0])
        #expect(try harness.submit(to: 50).isAdmitted)
        harness.conclude(answers[1], .rejected(.badDeviceToken))
        #expect(try harness.submit(to: 51).reason == .tooManyUnproven)
        harness.conclude(answers[2], .retry(.providerUnreachable, after: 1))
        #expect(try harness.submit(to: 52).isAdmitted)
        #expect(try harness.submit(to: 53).reason == .tooManyUnproven)
    }

    @Test func `proven device tokens in flight are not limited`() throws {
        let harness = try makeHarness()
        #expect(try harness.admitted(of: 500, to: 1) == 500)
    }

    @Test func `reconnecting does not open a new abuse account`() throws {
        let harness = AdmissionHarness()
        harness.connect()
        var answers: [AdmissionHarness.Answer] = []
        for number in 0..<100 {
            answers.append(try harness.submit(to: number))
            harness.disconnect()
            harness.connect()
        }
        #expect(answers.count { $0.isAdmitted } == 20)
        var goAway: GoAway?
        for answer in answers where answer.isAdmitted { goAway = harness.conclude(answer, .rejected(.badDeviceToken)) }
        #expect(goAway?.code == .abuse)
    }

    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func `a circuit's admitted bad device tokens never exceed its abuse account`(
        seed: UInt64
    ) throws {
        var generator = SplitMix64(seed: seed)
        let abuse = Rate(burst: 1 + generator.below(20), perMinute: 1 + generator.below(4))
        let harness = AdmissionHarness {
            $0.abuse = abuse
            $0.abuseBlock = 1 + generator.below(600)
        }
        var isConnected = harness.connect() == nil
        var inFlight: [Admission.Ticket] = []
        var passed: [UInt64] = []
        for number in 0..<1500 {
            harness.pass(.milliseconds(generator.below(4000)))
            switch generator.below(6) {
            case 0:
                if isConnected { harness.disconnect() }
                isConnected = harness.connect() == nil
            case 1, 2:
                guard !inFlight.isEmpty else { continue }
                let ticket = inFlight.remove(at: generator.below(inFlight.count))
                _ = harness.admission.finish(
                    ticket, with: .rejected(.badDeviceToken), contact: .contacted, at: harness.moment)
            default:
                guard isConnected, let ticket = try harness.submit(to: number).ticket else { continue }
                inFlight.append(ticket)
                passed.append(harness.now.nanoseconds)
            }
            if generator.below(5) == 0 { harness.tick() }
        }
        #expect(passed.count >= abuse.burst)
        // Device tokens admitted long before their outcome are charged at the outcome, so that one more burst can
        // coincide.
        #expect(Self.largestExcess(of: passed, above: abuse) <= Int64(2 * abuse.burst) * Int64(abuse.interval))
        let whole = harness.now - MonotonicTime(nanoseconds: 1_000_000_000_000)
        let allowed = Double(abuse.burst) + whole.milliseconds / 60_000 * Double(abuse.perMinute)
        #expect(Double(passed.count) <= allowed)
    }

    // MARK: Blocked circuits

    @Test func `the twentieth bad device token blocks the circuit`() throws {
        let harness = AdmissionHarness()
        harness.connect()
        for number in 1...19 { #expect(try harness.send(to: number, .rejected(.badDeviceToken)) == nil) }
        let goAway = try harness.send(to: 20, .rejected(.badDeviceToken))
        #expect(goAway?.code == .abuse)
        #expect(goAway?.retryAfter == 600_000)
    }

    @Test func `a blocked circuit is refused until the block ends, on old and new connections`() throws {
        let harness = try makeHarness()
        for number in 2...21 { try harness.send(to: number, .rejected(.badDeviceToken)) }
        let end = harness.now + .seconds(600)
        for (left, isOver) in [(600_000, false), (1, false), (0, true)] as [(UInt32, Bool)] {
            harness.now = MonotonicTime(nanoseconds: end.nanoseconds - UInt64(left) * 1_000_000)
            let answer = try harness.submit(to: 1)
            #expect(answer.isAdmitted == isOver)
            #expect(answer.refusal?.goAway?.code == (isOver ? nil : .abuse))
            #expect(answer.refusal?.goAway?.retryAfter == (isOver ? nil : left))
            #expect(answer.refusal?.outcome == nil)
            let newcomer = harness.connect()
            #expect(newcomer?.code == (isOver ? nil : .abuse))
            #expect(newcomer?.retryAfter == (isOver ? nil : left))
        }
    }

    @Test func `a blocked sender that returns on another circuit is admitted`() throws {
        let harness = try makeHarness()
        for number in 2...21 { try harness.send(to: number, .rejected(.badDeviceToken)) }
        #expect(harness.connect(.tor(2)) == nil)
        #expect(try harness.submit(to: 1, on: .tor(2)).isAdmitted)
    }

    @Test func `a block outlasts the circuit's connections`() throws {
        let harness = try makeHarness()
        for number in 2...21 { try harness.send(to: number, .rejected(.badDeviceToken)) }
        harness.disconnect()
        for _ in 0..<599 { harness.tick() }
        #expect(harness.connect()?.code == .abuse)
        harness.tick()
        #expect(harness.connect() == nil)
    }

    @Test func `violations at the abuse account's refill rate never block a circuit`() throws {
        let harness = AdmissionHarness { $0.abuse = Rate(burst: 20, perMinute: 2) }
        harness.connect()
        for number in 1...19 { #expect(try harness.send(to: number, .rejected(.badDeviceToken)) == nil) }
        for number in 20...200 {
            harness.pass(.seconds(30))
            #expect(try harness.send(to: number, .rejected(.badDeviceToken)) == nil)
        }
        harness.pass(.seconds(29))
        #expect(try harness.send(to: 201, .rejected(.badDeviceToken))?.code == .abuse)
    }

    @Test func `all kinds of violations share one abuse account`() throws {
        let harness = try makeHarness { $0.puzzle = .init(mode: .off) }
        try harness.send(to: 2, .gone(since: nil))
        let key = try Ed25519.PrivateKey.numbered(1)
        try harness.send(to: 3, by: key, .delivered())
        for number in 0..<9 {
            #expect(try harness.send(to: 50 + number, .rejected(.badDeviceToken)) == nil)
            // Answered from memory, and not charged.
            #expect(try harness.submit(to: 2).refusal?.goAway == nil)
            let unsigned = try harness.envelope(for: 3)
            let forged = SenderSignature(of: try harness.envelope(for: 3).digest, by: key)
            #expect(harness.submit(unsigned, signature: forged).refusal?.goAway == nil)
        }
        // 19 violations so far.
        #expect(harness.admission.charge(.tor(1), at: harness.now)?.code == .abuse)
    }

    @Test func `outcomes that are not the sender's fault are not charged`() throws {
        let outcomes: [Outcome] = [
            .delivered(), .retry(.providerUnreachable, after: 1), .retry(.providerThrottles, after: 1),
            .retry(.nodeBusy, after: 1), .rejected(.payloadRefused), .rejected(.ttlRanOut), .rejected(.ivReused),
            .rejected(.platformNotConfigured), .retry(.shuttingDown, after: 1), .retry(.internalError, after: 1),
        ]
        for outcome in outcomes {
            let harness = AdmissionHarness()
            harness.connect()
            for number in 1...100 { #expect(try harness.send(to: number, outcome) == nil) }
            #expect(try harness.submit(to: 1000).isAdmitted)
        }
    }

    @Test func `refused node credentials are not charged to senders`() throws {
        let harness = try makeHarness()
        for number in 1...100 { #expect(try harness.send(to: number, .retry(.credentialsRefused, after: 1)) == nil) }
    }

    @Test func `unknown device tokens refused during a surge are charged to the circuit`() throws {
        let harness = try makeHarness { $0.unproven = Rate(burst: 26, perMinute: 1) }
        for number in 2...20 {
            let answer = try harness.submit(to: number)
            #expect(harness.admission.charge(.tor(1), at: harness.now) == nil)
            #expect(harness.conclude(answer, .retry(.credentialsRefused, after: 1)) == nil)
        }
        let last = try harness.submit(to: 21)
        #expect(harness.admission.charge(.tor(1), at: harness.now)?.code == .abuse)
        harness.conclude(last, .retry(.credentialsRefused, after: 1))
        // They also used the unproven budget.
        harness.connect(.tor(2))
        let admitted = try (30...50).count { try harness.submit(to: $0, on: .tor(2)).isAdmitted }
        #expect(admitted == 5)
    }

    @Test func `a submission that reached no push service uses only the circuit's allowance`() throws {
        let outcomes: [Outcome] = [
            .retry(.providerUnreachable, after: 1), .retry(.nodeBusy, after: 1), .rejected(.ivReused),
            .rejected(.platformNotConfigured), .retry(.shuttingDown, after: 1),
        ]
        let one = Rate(burst: 1, perMinute: 1)
        for outcome in outcomes {
            let harness = AdmissionHarness { ($0.unproven, $0.device, $0.app, $0.node) = (one, one, one, one) }
            harness.connect()
            for _ in 0..<30 { harness.conclude(try harness.submit(to: 1), outcome, .notContacted) }
            #expect(try harness.submit(to: 1).isAdmitted)
        }
        for outcome in [Outcome.delivered(), .gone(since: nil), .rejected(.badDeviceToken), .rejected(.ttlRanOut)] {
            let harness = AdmissionHarness { $0.unproven = one }
            harness.connect()
            harness.conclude(try harness.submit(to: 1), outcome)
            #expect(try harness.submit(to: 2).reason == .tooManyUnproven)
        }
        // Not refunded, because it occupies an entry of the replay window.
        let harness = AdmissionHarness { $0.unproven = one }
        harness.connect()
        harness.conclude(try harness.submit(to: 1), .rejected(.ttlRanOut), .notContacted)
        #expect(try harness.submit(to: 2).reason == .tooManyUnproven)
    }

    @Test func `the default node rate raises the effort even if one app reaches its own limit too`()
        throws
    {
        let standard = AdmissionSettings()
        let harness = AdmissionHarness { ($0.app, $0.node) = (standard.app, standard.node) }
        harness.connect()
        let phones = 1000
        for number in 0..<phones {
            harness.connect(.tor(UInt32(number)))
            try harness.send(to: number, on: .tor(UInt32(number)), .delivered())
            harness.pass(.milliseconds(600))
        }
        for _ in 0..<5 {
            for number in 0..<phones { _ = try harness.submit(to: number, on: .tor(UInt32(number))) }
            harness.tick()
        }
        #expect(harness.admission.efforts.all > 0)
    }

    @Test func `a submission rejected as too large is charged`() throws {
        let harness = try makeHarness()
        for _ in 0..<19 {
            #expect(harness.conclude(try harness.submit(to: 1), .rejected(.tooLarge), .notContacted) == nil)
        }
        #expect(harness.conclude(try harness.submit(to: 1), .rejected(.tooLarge), .notContacted)?.code == .abuse)
    }

    @Test func `a looser abuse rate resets an account used under a stricter one`() throws {
        let harness = AdmissionHarness { $0.abuse = Rate(burst: 20, perMinute: 2) }
        harness.connect()
        for number in 1...10 { try harness.send(to: number, .rejected(.badDeviceToken)) }
        harness.admission.settings.abuse = Rate(burst: 20, perMinute: 60)
        for number in 11...29 { #expect(try harness.send(to: number, .rejected(.badDeviceToken)) == nil) }
    }

    @Test func `several submissions in flight to a dead device token are charged once`() throws {
        let harness = try makeHarness()
        let answers = try (0..<15).map { _ in try harness.submit(to: 50) }
        for answer in answers { #expect(harness.conclude(answer, .gone(since: nil)) == nil) }
        for number in 2...19 { #expect(try harness.send(to: number, .rejected(.badDeviceToken)) == nil) }
        #expect(try harness.send(to: 20, .rejected(.badDeviceToken))?.code == .abuse)
    }

    @Test func `a circuit without connections is charged as well`() throws {
        let harness = AdmissionHarness()
        harness.connect()
        let answers = try (1...20).map { try harness.submit(to: $0) }
        harness.disconnect()
        for answer in answers { harness.conclude(answer, .rejected(.badDeviceToken)) }
        #expect(harness.connect()?.code == .abuse)
    }

    @Test func `a charge to an unknown circuit has no effect`() throws {
        let harness = AdmissionHarness { $0.circuits = 1 }
        harness.connect()
        let answer = try harness.submit(to: 1)
        harness.disconnect()
        harness.connect(.tor(2))
        #expect(harness.conclude(answer, .rejected(.badDeviceToken)) == nil)
        for _ in 0..<100 { #expect(harness.admission.charge(.tor(1), at: harness.now) == nil) }
        harness.disconnect(.tor(1))
        #expect(harness.admission.known.circuits == 1)
    }

    // MARK: Connections

    @Test func `a circuit may have 16 connections and no more`() {
        let harness = AdmissionHarness()
        for _ in 0..<16 { #expect(harness.connect() == nil) }
        let refused = harness.connect()
        #expect(refused?.code == .busy && refused?.retryAfter == 10_000)
        #expect(harness.connect(.tor(2)) == nil)
        harness.disconnect()
        #expect(harness.connect() == nil)
        #expect(harness.connect()?.code == .busy)
    }

    @Test func `a new circuit does not evict one that has a connection`() throws {
        let harness = AdmissionHarness { $0.circuits = 1000 }
        for id in 0..<1000 as Range<UInt32> { #expect(harness.connect(.tor(id)) == nil) }
        let refused = harness.connect(.tor(5000))
        #expect(refused?.code == .busy && refused?.retryAfter == 10_000)
        for id in 0..<1000 as Range<UInt32> { #expect(try harness.submit(to: 1, on: .tor(id)).isAdmitted || id > 0) }
        harness.disconnect(.tor(7))
        #expect(harness.connect(.tor(5000)) == nil)
        #expect(harness.admission.known.circuits == 1000)
    }

    @Test func `known circuits and device tokens never exceed their capacity`() throws {
        let harness = AdmissionHarness {
            $0.circuits = 1000
            $0.deviceTokens = 1000
        }
        for number in 0..<5000 {
            let circuit = CircuitID.connection(UInt64(number))
            #expect(harness.connect(circuit) == nil)
            try harness.send(to: number, on: circuit, number % 2 == 0 ? .delivered() : .rejected(.badDeviceToken))
            harness.disconnect(circuit)
        }
        #expect(harness.admission.known.circuits == 1000)
        #expect(harness.admission.known.deviceTokens == 1000)
    }

    @Test func `a disconnected circuit is forgotten within 121 s`() throws {
        let harness = AdmissionHarness()
        for id in 0..<100 as Range<UInt32> {
            harness.connect(.tor(id))
            try harness.send(to: Int(id), on: .tor(id), .delivered())
            harness.disconnect(.tor(id))
        }
        #expect(harness.admission.known.circuits == 100)
        for _ in 0..<121 { harness.tick() }
        #expect(harness.admission.known.circuits == 0)
    }

    // MARK: Properties

    /// The largest excess over the refill in any window of those that passed, in nanoseconds of refill time.
    private static func largestExcess(of passed: [UInt64], above rate: Rate) -> Int64 {
        var (largest, smallest): (Int64, Int64) = (0, .max)
        for (index, time) in passed.enumerated() {
            let before = Int64(index) * Int64(rate.interval) - Int64(time)
            smallest = min(smallest, before)
            largest = max(largest, before + Int64(rate.interval) - smallest)
        }
        return largest
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func `in no window does any limit admit more than its burst and rate`(
        seed: UInt64
    ) throws {
        var generator = SplitMix64(seed: seed)
        func rate(_ burst: Int, _ perMinute: Int) -> Rate {
            Rate(burst: 1 + generator.below(burst), perMinute: 1 + generator.below(perMinute))
        }
        let (device, circuit, app) = (rate(20, 40), rate(40, 100), rate(100, 400))
        let (node, unproven) = (rate(150, 600), rate(30, 100))
        let harness = AdmissionHarness {
            ($0.device, $0.circuit, $0.app, $0.node, $0.unproven) = (device, circuit, app, node, unproven)
            $0.abuse = Rate(burst: 1_000_000, perMinute: 1)
        }
        for id in 0..<10 as Range<UInt32> { harness.connect(.tor(id)) }
        var passed: [String: [UInt64]] = [:]
        let pause = 1 + generator.below(1000)
        for _ in 0..<3000 {
            harness.pass(.milliseconds(generator.below(pause)))
            // Few devices with many senders, or many devices with few.
            let (device, circuit) = (generator.below(1 + generator.below(15)), generator.below(10))
            let app = ["one", "two"][generator.below(2)]
            let answer = try harness.submit(to: device, app: app, on: .tor(UInt32(circuit)))
            guard let ticket = answer.ticket else { continue }
            let time = harness.now.nanoseconds
            for key in ["device \(device) of \(app)", "circuit \(circuit)", "app \(app)", "node"] {
                passed[key, default: []].append(time)
            }
            let isBad = device >= 12
            if ticket.isUnproven, isBad { passed["unproven", default: []].append(time) }
            harness.conclude(answer, isBad ? .rejected(.badDeviceToken) : .delivered())
        }
        #expect((passed["node"] ?? []).count > 100)
        #expect((passed["unproven"] ?? []).count > 0)
        for (key, times) in passed {
            let rate =
                switch key.prefix(3) {
                case "dev": device
                case "cir": circuit
                case "app": app
                case "nod": node
                default: unproven
                }
            #expect(Self.largestExcess(of: times, above: rate) <= Int64(rate.refillTime), "\(key)")
        }
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func `a device token is rung no more often than burst and rate, whatever fails in between`(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let rate = Rate(burst: 5 + generator.below(10), perMinute: 10)
        let harness = try makeHarness { $0.device = rate }
        let begin = harness.now
        var (inFlight, rung): ([Admission.Ticket], Int) = ([], 1)
        for _ in 0..<3000 {
            harness.pass(.milliseconds(generator.below(1000)))
            if generator.below(2) == 0, let ticket = try harness.submit(to: 1).ticket { inFlight.append(ticket) }
            guard !inFlight.isEmpty, generator.below(2) == 0 else { continue }
            let ticket = inFlight.remove(at: generator.below(inFlight.count))
            let isDelivered = generator.below(3) == 0
            if isDelivered { rung += 1 }
            _ = harness.admission.finish(
                ticket, with: isDelivered ? .delivered() : .retry(.providerUnreachable, after: 1), contact: .contacted,
                at: harness.moment)
            #expect(Double(rung) <= Double(rate.burst) + (harness.now - begin).milliseconds / 6000)
        }
        #expect(rung > 150)
    }

    // MARK: Reload

    @Test(arguments: Limit.allCases)
    func `a new limit takes effect immediately`(limit: Limit) throws {
        let harness = AdmissionHarness {
            limit.set(Rate(burst: 2, perMinute: 1), in: &$0)
            $0.puzzle = .init(mode: .off)
        }
        harness.connect()
        #expect(try harness.admitted(of: 10, to: 1) == 2)
        limit.set(Rate(burst: 7, perMinute: 1), in: &harness.admission.settings)
        #expect(try harness.admitted(of: 10, to: 1) == 5)
        limit.set(Rate(burst: 1, perMinute: 60), in: &harness.admission.settings)
        #expect(try harness.submit(to: 1).retryAfter == 1000)
    }

    @Test func `new limits on circuits and connections take effect immediately`() {
        let harness = AdmissionHarness()
        for _ in 0..<3 { #expect(harness.connect() == nil) }
        harness.admission.settings.connectionsPerCircuit = 2
        #expect(harness.connect()?.code == .busy)
        harness.admission.settings.connectionsPerCircuit = 4
        #expect(harness.connect() == nil)
        harness.admission.settings.circuits = 1
        #expect(harness.connect(.tor(2))?.code == .busy)
        harness.admission.settings.circuits = 2
        #expect(harness.connect(.tor(2)) == nil)
    }

    @Test func `new abuse settings take effect from the next charge`() throws {
        let harness = AdmissionHarness()
        harness.connect()
        for number in 1...3 { #expect(try harness.send(to: number, .rejected(.badDeviceToken)) == nil) }
        harness.admission.settings.abuse = Rate(burst: 5, perMinute: 2)
        harness.admission.settings.abuseBlock = 7
        #expect(try harness.send(to: 4, .rejected(.badDeviceToken)) == nil)
        #expect(try harness.send(to: 5, .rejected(.badDeviceToken))?.retryAfter == 7000)
        harness.admission.settings.abuseBlock = 1000
        #expect(harness.connect()?.retryAfter == 7000)
        harness.pass(.seconds(7))
        #expect(harness.connect() == nil)
    }

    // MARK: The monotonic clock

    @Test func `if the monotonic clock goes back, each limit behaves as if empty`() throws {
        let harness = try makeHarness {
            $0.device = Rate(burst: 5, perMinute: 60)
            $0.circuit = Rate(burst: 50, perMinute: 60_000)
        }
        #expect(try harness.admitted(of: 10, to: 1) == 4)
        harness.now = MonotonicTime(nanoseconds: 5)
        for (reason, wait) in [
            (.connectionOverRate, 1), (.nodeBusy, 1), (.tooManyUnproven, 1), (.deviceTokenOverRate, 998),
        ]
            as [(Reason, UInt32)]
        {
            let answer = try harness.submit(to: 1)
            #expect(answer.reason == reason)
            #expect(answer.retryAfter == wait)
            harness.pass(.milliseconds(Int(wait)))
        }
        #expect(try harness.admitted(of: 10, to: 1) == 1)
        harness.pass(.seconds(5))
        #expect(try harness.admitted(of: 10, to: 1) == 5)
        harness.tick()
        #expect(harness.admission.known.circuits == 1)
    }

    @Test func `nothing overflows at the end of the monotonic clock's range`() throws {
        let harness = AdmissionHarness(now: MonotonicTime(nanoseconds: .max - 3_000_000_000))
        harness.connect()
        for number in 0..<30 {
            try harness.send(to: number, .rejected(.badDeviceToken))
            harness.now = MonotonicTime(nanoseconds: harness.now.nanoseconds &+ 300_000_000)
            _ = harness.admission.tick(queue: 1, at: harness.moment) { Array(repeating: 2, count: Puzzle.seedLength) }
        }
        harness.disconnect()
        #expect(harness.admission.known.circuits <= 1)
    }

    // MARK: Sites

    @Test func `a site has a rate of its own, owes no proof of work and may open any number of connections`() throws {
        let harness = AdmissionHarness {
            $0.circuit = Rate(burst: 1, perMinute: 1)
            $0.sites = [7: Rate(burst: 3, perMinute: 60)]
            $0.connectionsPerCircuit = 1
            $0.puzzle = .init(mode: .always, minimum: 256, maximum: 4096)
        }
        for _ in 0..<3 { #expect(harness.connect(.site(7)) == nil) }
        #expect(try harness.admitted(of: 5, to: 1, on: .site(7)) == 3)
        #expect(try harness.submit(to: 1, on: .site(7)).reason == .connectionOverRate)
        harness.pass(.seconds(1))
        #expect(try harness.admitted(of: 5, to: 1, on: .site(7)) == 1)
        // Everybody else is asked for a proof, and has one connection.
        #expect(harness.connect() == nil)
        #expect(harness.connect() != nil)
        #expect(try harness.submit(to: 1).reason == .proofRequired)
    }

    @Test func `a site's new phones count against the budget of unproven ones`() throws {
        let harness = AdmissionHarness {
            $0.sites = [7: AdmissionHarness.wide]
            $0.unproven = Rate(burst: 2, perMinute: 1)
        }
        #expect(harness.connect(.site(7)) == nil)
        #expect(try (1...5).count { try harness.submit(to: $0, on: .site(7)).isAdmitted } == 2)
    }
}
