// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Simulator
import TNP
import Testing

@testable import Admission
@testable import Time

@Suite struct AdmissionTests {
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

    /// A gatehouse with one connection of circuit 1, where phone 1 is proven.
    private func makeHouse(_ change: (inout AdmissionSettings) -> Void = { _ in }) throws -> AdmissionHarness {
        let house = AdmissionHarness(change)
        house.connect()
        try house.send(to: 1, .delivered())
        return house
    }

    @Test(arguments: Limit.allCases)
    func `the burst is admitted, and later submissions are told to retry when one is available`(limit: Limit) throws {
        let house = AdmissionHarness {
            limit.set(Rate(burst: 4, perMinute: 7), in: &$0)
        }
        house.connect()
        #expect(try house.admitted(of: 4, to: 1) == 4)
        for _ in 0..<10 {
            let answer = try house.submit(to: 1)
            #expect(answer.refusal?.outcome?.kind == .retry)
            #expect(answer.reason == limit.reason)
            // 60 s / 7, and up to whole milliseconds.
            #expect(answer.retryAfter == 8572)
            #expect(answer.refusal?.goAway == nil)
            #expect(answer.refusal?.puzzle == nil)
        }
    }

    @Test(arguments: Limit.allCases)
    func `a sender that waits for retry-after is admitted, and one that waits less is not`(limit: Limit) throws {
        for perMinute in [1, 7, 60, 600, 12_000, 59_999] {
            let house = AdmissionHarness {
                limit.set(Rate(burst: 3, perMinute: perMinute), in: &$0)
                $0.puzzle = .init(mode: .off)
            }
            house.connect()
            for _ in 0..<3 { #expect(try house.submit(to: 1).isAdmitted) }
            for _ in 0..<5 {
                let wait = try house.submit(to: 1).retryAfter
                #expect(wait > 0)
                let slept = house.now
                house.pass(.milliseconds(Int(wait) - 1))
                #expect(try house.submit(to: 1).reason == limit.reason)
                house.now = slept
                house.pass(.milliseconds(Int(wait)))
                #expect(try house.submit(to: 1).isAdmitted)
            }
        }
    }

    @Test func `each device token has its own allowance`() throws {
        let house = AdmissionHarness { $0.device = Rate(burst: 5, perMinute: 1) }
        house.connect()
        for device in 1...3 {
            try house.send(to: device, .delivered())
            #expect(try house.admitted(of: 10, to: device) == 4)
        }
    }

    @Test func `a device token's allowance is shared by all circuits`() throws {
        let house = AdmissionHarness { $0.device = Rate(burst: 5, perMinute: 1) }
        for id in 0..<10 as Range<UInt32> { house.connect(.tor(id)) }
        try house.send(to: 1, .delivered())
        let admitted = try (0..<10 as Range<UInt32>).count { try house.submit(to: 1, on: .tor($0)).isAdmitted }
        #expect(admitted == 4)
    }

    @Test func `each circuit has its own allowance, shared by its connections`() throws {
        let house = try makeHouse { $0.circuit = Rate(burst: 5, perMinute: 1) }
        for id in 2...4 as ClosedRange<UInt32> {
            house.connect(.tor(id))
            #expect(try house.admitted(of: 10, to: 1, on: .tor(id)) == 5)
        }
        // Connections of one circuit share it.
        house.connect(.tor(2))
        #expect(try house.submit(to: 1, on: .tor(2)).reason == .connectionOverRate)
    }

    @Test func `apps do not share limits`() throws {
        let house = AdmissionHarness {
            $0.app = Rate(burst: 5, perMinute: 1)
            $0.device = Rate(burst: 3, perMinute: 1)
        }
        house.connect()
        for app in ["one", "two"] {
            // The same device token in another app is another phone.
            #expect(try house.admitted(of: 10, to: 1, app: app) == 3)
            #expect(try house.admitted(of: 10, to: 2, app: app) == 2)
        }
    }

    @Test func `apps share the node's limit, and a submission over two limits waits for both`() throws {
        let house = AdmissionHarness {
            $0.app = Rate(burst: 5, perMinute: 60)
            $0.node = Rate(burst: 8, perMinute: 6)
        }
        house.connect()
        #expect(try house.admitted(of: 10, to: 1, app: "one") == 5)
        #expect(try house.submit(to: 1, app: "one").retryAfter == 1000)
        #expect(try house.admitted(of: 10, to: 1, app: "two") == 3)
        #expect(try house.submit(to: 1, app: "one").retryAfter == 10_000)
        #expect(try house.submit(to: 1, app: "two").retryAfter == 10_000)
        #expect(try house.submit(to: 1, app: "three").reason == .nodeBusy)
    }

    // MARK: What a refusal takes

    @Test(arguments: 1...4)
    func `a refusal by a later limit takes nothing from earlier ones but the circuit's`(number: Int) throws {
        // Of everything there is enough for 10, and of one thing for 5.
        let scarce = [Limit.device, .unproven, .app, .node][number - 1]
        let house = AdmissionHarness {
            for limit in Limit.allCases { limit.set(Rate(burst: limit == scarce ? 5 : 10, perMinute: 1), in: &$0) }
            $0.circuit = Rate(burst: 60, perMinute: 1)
            $0.puzzle = .init(mode: .off)
        }
        house.connect()
        #expect(try house.admitted(of: 55, to: 1) == 5)
        #expect(try house.submit(to: 1).reason == scarce.reason)
        // There was enough for 60 of the circuit's, and each has cost it one.
        house.connect(.tor(2))
        #expect(try house.admitted(of: 4, to: 1) == 0)
        #expect(try house.submit(to: 1).reason == .connectionOverRate)
        // What was not short is there for five more of those to whom the shortage means nothing.
        scarce.set(Rate(burst: 100, perMinute: 1), in: &house.admission.settings)
        #expect(try house.admitted(of: 10, to: 1, on: .tor(2)) == 5)
    }

    @Test func `a refusal by sender key takes nothing but from the circuit's allowance`() throws {
        let house = AdmissionHarness {
            $0.device = Rate(burst: 10, perMinute: 1)
            $0.unproven = Rate(burst: 10, perMinute: 1)
            $0.node = Rate(burst: 10, perMinute: 1)
            $0.app = Rate(burst: 10, perMinute: 1)
            $0.senders = .required
        }
        let key = try Ed25519.PrivateKey.numbered(1)
        house.connect()
        for _ in 0..<10 { #expect(try house.submit(to: 1).reason == .senderKeyRequired) }
        for _ in 0..<10 {
            let (envelope, other) = (try house.envelope(for: 1), try house.envelope(for: 1))
            let answer = house.submit(envelope, signature: SenderSignature(of: other.digest, by: key))
            #expect(answer.reason == .senderKeyMismatch)
        }
        let admitted = try (0..<20).count { _ in try house.submit(to: 1, by: key).isAdmitted }
        #expect(admitted == 10)
    }

    @Test func `every submission of a circuit counts against its allowance`() throws {
        let house = AdmissionHarness {
            $0.circuit = Rate(burst: 40, perMinute: 1)
            $0.puzzle = .init(mode: .always, least: 16, most: 16)
            $0.senders = .required
        }
        house.connect()
        // Without a proof, with one that is too small, without a signature, and one that passes.
        for _ in 0..<20 { #expect(try house.submit(to: 1).reason == .proofRequired) }
        for _ in 0..<10 {
            let small = Puzzle(seed: Array(repeating: 1, count: 16), effort: 15, lifetime: 0)
            #expect(try house.submit(to: 1, solving: small).reason == .proofWrong)
        }
        let puzzle = house.admission.puzzle(at: house.now)
        for _ in 0..<9 { #expect(try house.submit(to: 1, solving: puzzle).reason == .senderKeyRequired) }
        #expect(try house.submit(to: 1, by: .numbered(1), solving: puzzle).isAdmitted)
        #expect(try house.submit(to: 1, by: .numbered(1), solving: puzzle).reason == .connectionOverRate)
        #expect(try house.submit(to: 1).reason == .connectionOverRate)
    }

    // MARK: What is left

    @Test func `an outcome reports the device token's remaining allowance and when it is full`() throws {
        let house = AdmissionHarness { $0.device = Rate(burst: 20, perMinute: 10) }
        house.connect()
        for number in 1...20 {
            let ticket = try #require(try house.submit(to: 1).ticket)
            _ = house.admission.finish(ticket, with: .delivered(), contact: .contacted, at: house.moment)
            let outcome = house.admission.addingAllowance(to: .delivered(id: "an-id"), of: ticket, at: house.now)
            #expect(outcome.left == UInt32(20 - number))
            #expect(outcome.fullIn == UInt32(6000 * number))
            #expect(outcome.kind == .delivered && outcome.providerID == "an-id")
        }
        let refused = try #require(try house.submit(to: 1).refusal?.outcome)
        #expect(refused.left == 0 && refused.fullIn == 120_000 && refused.retryAfter == 6000)
        house.pass(.milliseconds(6001))
        let ticket = try #require(try house.submit(to: 1).ticket)
        let outcome = house.admission.addingAllowance(to: .delivered(), of: ticket, at: house.now)
        #expect(outcome.left == 0 && outcome.fullIn == 119_999)
    }

    @Test func `an evicted device token is reported with a full allowance`() throws {
        let house = AdmissionHarness {
            $0.device = Rate(burst: 20, perMinute: 10)
            $0.deviceTokens = 1
        }
        house.connect()
        let ticket = try #require(try house.submit(to: 1).ticket)
        _ = try house.submit(to: 2)
        let outcome = house.admission.addingAllowance(to: .delivered(), of: ticket, at: house.now)
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
            let house = try makeHouse { $0.device = Rate(burst: 5, perMinute: 1) }
            for _ in 0..<50 { try house.send(to: 1, outcome) }
            #expect(try house.submit(to: 1).isAdmitted == isBack, "\(outcome)")
        }
    }

    @Test func `a refund goes to the same device token only`() throws {
        let house = try makeHouse { $0.device = Rate(burst: 5, perMinute: 1) }
        try house.send(to: 2, .delivered())
        #expect(try house.admitted(of: 9, to: 2) == 4)
        for _ in 0..<10 { try house.send(to: 1, .retry(.providerUnreachable, after: 1)) }
        #expect(try house.submit(to: 2).reason == .deviceTokenOverRate)
    }

    // MARK: Unproven device tokens

    @Test func `unknown device tokens share a budget that proven ones do not use`() throws {
        let house = try makeHouse { $0.unproven = Rate(burst: 11, perMinute: 6) }
        for id in 2...20 as ClosedRange<UInt32> { house.connect(.tor(id)) }
        let admitted = try (2...20).count { try house.submit(to: $0, on: .tor(UInt32($0))).isAdmitted }
        // Phone 1 has taken one.
        #expect(admitted == 10)
        let refused = try house.submit(to: 99)
        #expect(refused.reason == .tooManyUnproven && refused.retryAfter == 10_000)
        for _ in 0..<50 { #expect(try house.submit(to: 1).isAdmitted) }
    }

    @Test func `a device token that was reached once no longer uses the unproven budget`() throws {
        let house = AdmissionHarness { $0.unproven = Rate(burst: 1, perMinute: 1) }
        house.connect()
        let answer = try house.submit(to: 1)
        #expect(answer.ticket?.isUnproven == true)
        #expect(try house.submit(to: 1).reason == .tooManyUnproven)
        house.conclude(answer)
        let second = try house.submit(to: 1)
        #expect(second.ticket?.isUnproven == false)
    }

    @Test func `the abuse account limits a circuit's unproven device tokens in flight`() throws {
        let house = AdmissionHarness { $0.abuse = Rate(burst: 20, perMinute: 1) }
        house.connect()
        house.connect(.tor(2))
        let answers = try (1...30).map { try house.submit(to: $0) }
        #expect(answers.map(\.isAdmitted) == (1...30).map { $0 <= 20 })
        let refused = try #require(answers.last?.refusal?.outcome)
        #expect(refused.kind == .retry && refused.reason == .tooManyUnproven && refused.retryAfter == 5000)
        // It is the circuit's own matter.
        #expect(try house.submit(to: 40, on: .tor(2)).isAdmitted)
        // Each that was good makes room; each that was bad does not.
        house.conclude(answers[0])
        #expect(try house.submit(to: 50).isAdmitted)
        house.conclude(answers[1], .rejected(.badDeviceToken))
        #expect(try house.submit(to: 51).reason == .tooManyUnproven)
        house.conclude(answers[2], .retry(.providerUnreachable, after: 1))
        #expect(try house.submit(to: 52).isAdmitted)
        #expect(try house.submit(to: 53).reason == .tooManyUnproven)
    }

    @Test func `proven device tokens in flight are not limited`() throws {
        let house = try makeHouse()
        #expect(try house.admitted(of: 500, to: 1) == 500)
    }

    @Test func `reconnecting does not open a new abuse account`() throws {
        let house = AdmissionHarness()
        house.connect()
        var answers: [AdmissionHarness.Answer] = []
        for number in 0..<100 {
            answers.append(try house.submit(to: number))
            house.disconnect()
            house.connect()
        }
        #expect(answers.count { $0.isAdmitted } == 20)
        var goAway: GoAway?
        for answer in answers where answer.isAdmitted { goAway = house.conclude(answer, .rejected(.badDeviceToken)) }
        #expect(goAway?.code == .abuse)
    }

    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func `a circuit's admitted bad device tokens never exceed its abuse account`(
        seed: UInt64
    ) throws {
        var generator = SplitMix64(seed: seed)
        let abuse = Rate(burst: 1 + generator.below(20), perMinute: 1 + generator.below(4))
        let house = AdmissionHarness {
            $0.abuse = abuse
            $0.abuseBlock = 1 + generator.below(600)
        }
        var isConnected = house.connect() == nil
        var underWay: [Admission.Ticket] = []
        var passed: [UInt64] = []
        for number in 0..<1500 {
            house.pass(.milliseconds(generator.below(4000)))
            switch generator.below(6) {
            case 0:
                if isConnected { house.disconnect() }
                isConnected = house.connect() == nil
            case 1, 2:
                guard !underWay.isEmpty else { continue }
                let ticket = underWay.remove(at: generator.below(underWay.count))
                _ = house.admission.finish(
                    ticket, with: .rejected(.badDeviceToken), contact: .contacted, at: house.moment)
            default:
                guard isConnected, let ticket = try house.submit(to: number).ticket else { continue }
                underWay.append(ticket)
                passed.append(house.now.nanoseconds)
            }
            if generator.below(5) == 0 { house.tick() }
        }
        #expect(passed.count >= abuse.burst)
        // Those that were admitted long before they were charged are counted when they are, so that one burst more can
        // come together.
        #expect(Self.most(of: passed, above: abuse) <= Int64(2 * abuse.burst) * Int64(abuse.interval))
        let whole = house.now - MonotonicTime(nanoseconds: 1_000_000_000_000)
        let allowed = Double(abuse.burst) + whole.milliseconds / 60_000 * Double(abuse.perMinute)
        #expect(Double(passed.count) <= allowed)
    }

    // MARK: Circuits that are sent away

    @Test func `the twentieth bad device token blocks the circuit`() throws {
        let house = AdmissionHarness()
        house.connect()
        for number in 1...19 { #expect(try house.send(to: number, .rejected(.badDeviceToken)) == nil) }
        let goAway = try house.send(to: 20, .rejected(.badDeviceToken))
        #expect(goAway?.code == .abuse)
        #expect(goAway?.retryAfter == 600_000)
    }

    @Test func `a blocked circuit is refused until the block ends, on old and new connections`() throws
    {
        let house = try makeHouse()
        for number in 2...21 { try house.send(to: number, .rejected(.badDeviceToken)) }
        let end = house.now + .seconds(600)
        for (left, isOver) in [(600_000, false), (1, false), (0, true)] as [(UInt32, Bool)] {
            house.now = MonotonicTime(nanoseconds: end.nanoseconds - UInt64(left) * 1_000_000)
            let answer = try house.submit(to: 1)
            #expect(answer.isAdmitted == isOver)
            #expect(answer.refusal?.goAway?.code == (isOver ? nil : .abuse))
            #expect(answer.refusal?.goAway?.retryAfter == (isOver ? nil : left))
            #expect(answer.refusal?.outcome == nil)
            let newcomer = house.connect()
            #expect(newcomer?.code == (isOver ? nil : .abuse))
            #expect(newcomer?.retryAfter == (isOver ? nil : left))
        }
    }

    @Test func `a blocked sender that returns on another circuit is admitted`() throws {
        let house = try makeHouse()
        for number in 2...21 { try house.send(to: number, .rejected(.badDeviceToken)) }
        #expect(house.connect(.tor(2)) == nil)
        #expect(try house.submit(to: 1, on: .tor(2)).isAdmitted)
    }

    @Test func `a block outlasts the circuit's connections`() throws {
        let house = try makeHouse()
        for number in 2...21 { try house.send(to: number, .rejected(.badDeviceToken)) }
        house.disconnect()
        for _ in 0..<599 { house.tick() }
        #expect(house.connect()?.code == .abuse)
        house.tick()
        #expect(house.connect() == nil)
    }

    @Test func `violations at the abuse account's refill rate never block a circuit`() throws {
        let house = AdmissionHarness { $0.abuse = Rate(burst: 20, perMinute: 2) }
        house.connect()
        for number in 1...19 { #expect(try house.send(to: number, .rejected(.badDeviceToken)) == nil) }
        for number in 20...200 {
            house.pass(.seconds(30))
            #expect(try house.send(to: number, .rejected(.badDeviceToken)) == nil)
        }
        house.pass(.seconds(29))
        #expect(try house.send(to: 201, .rejected(.badDeviceToken))?.code == .abuse)
    }

    @Test func `all kinds of violations share one abuse account`() throws {
        let house = try makeHouse { $0.puzzle = .init(mode: .off) }
        try house.send(to: 2, .gone(since: nil))
        let key = try Ed25519.PrivateKey.numbered(1)
        try house.send(to: 3, by: key, .delivered())
        for _ in 0..<6 {
            #expect(try house.send(to: 50, .rejected(.badDeviceToken)) == nil)
            #expect(try house.submit(to: 2).refusal?.goAway == nil)
            let unsigned = try house.envelope(for: 3)
            let forged = SenderSignature(of: try house.envelope(for: 3).digest, by: key)
            #expect(house.submit(unsigned, signature: forged).refusal?.goAway == nil)
        }
        // 19 by now.
        #expect(house.admission.charge(.tor(1), at: house.now)?.code == .abuse)
    }

    @Test func `outcomes that are not the sender's fault are not charged`() throws {
        let outcomes: [Outcome] = [
            .delivered(), .retry(.providerUnreachable, after: 1), .retry(.providerThrottles, after: 1),
            .retry(.nodeBusy, after: 1), .rejected(.payloadRefused), .rejected(.ttlRanOut), .rejected(.ivReused),
            .rejected(.platformNotConfigured), .retry(.shuttingDown, after: 1), .retry(.internalError, after: 1),
        ]
        for outcome in outcomes {
            let house = AdmissionHarness()
            house.connect()
            for number in 1...100 { #expect(try house.send(to: number, outcome) == nil) }
            #expect(try house.submit(to: 1000).isAdmitted)
        }
    }

    @Test func `refused node credentials are not charged to senders`() throws {
        let house = try makeHouse()
        for number in 1...100 { #expect(try house.send(to: number, .retry(.credentialsRefused, after: 1)) == nil) }
    }

    @Test func `unknown device tokens refused during a surge are charged to the circuit`() throws
    {
        let house = try makeHouse { $0.unproven = Rate(burst: 26, perMinute: 1) }
        for number in 2...20 {
            let answer = try house.submit(to: number)
            #expect(house.admission.chargeSuspectedToken(.tor(1), at: house.now) == nil)
            #expect(house.conclude(answer, .retry(.credentialsRefused, after: 1)) == nil)
        }
        let last = try house.submit(to: 21)
        #expect(house.admission.chargeSuspectedToken(.tor(1), at: house.now)?.code == .abuse)
        house.conclude(last, .retry(.credentialsRefused, after: 1))
        // And the budget has paid for them.
        house.connect(.tor(2))
        let admitted = try (30...50).count { try house.submit(to: $0, on: .tor(2)).isAdmitted }
        #expect(admitted == 5)
    }

    @Test func `a submission that reached no push service uses only the circuit's allowance`() throws {
        let outcomes: [Outcome] = [
            .retry(.providerUnreachable, after: 1), .retry(.nodeBusy, after: 1), .rejected(.ivReused),
            .rejected(.platformNotConfigured), .retry(.shuttingDown, after: 1),
        ]
        let one = Rate(burst: 1, perMinute: 1)
        for outcome in outcomes {
            let house = AdmissionHarness { ($0.unproven, $0.device, $0.app, $0.node) = (one, one, one, one) }
            house.connect()
            for _ in 0..<30 { house.conclude(try house.submit(to: 1), outcome, .notContacted) }
            #expect(try house.submit(to: 1).isAdmitted)
        }
        for outcome in [Outcome.delivered(), .gone(since: nil), .rejected(.badDeviceToken), .rejected(.ttlRanOut)] {
            let house = AdmissionHarness { $0.unproven = one }
            house.connect()
            house.conclude(try house.submit(to: 1), outcome)
            #expect(try house.submit(to: 2).reason == .tooManyUnproven)
        }
        // It keeps a place in the window of outcomes.
        let house = AdmissionHarness { $0.unproven = one }
        house.connect()
        house.conclude(try house.submit(to: 1), .rejected(.ttlRanOut), .notContacted)
        #expect(try house.submit(to: 2).reason == .tooManyUnproven)
    }

    @Test func `the default node rate raises the effort even if one app reaches its own limit too`()
        throws
    {
        let standard = AdmissionSettings()
        let house = AdmissionHarness { ($0.app, $0.node) = (standard.app, standard.node) }
        house.connect()
        let phones = 1000
        for number in 0..<phones {
            house.connect(.tor(UInt32(number)))
            try house.send(to: number, on: .tor(UInt32(number)), .delivered())
            house.pass(.milliseconds(600))
        }
        for _ in 0..<5 {
            for number in 0..<phones { _ = try house.submit(to: number, on: .tor(UInt32(number))) }
            house.tick()
        }
        #expect(house.admission.efforts.all > 0)
    }

    @Test func `a submission rejected as too large is charged`() throws {
        let house = try makeHouse()
        for _ in 0..<19 { #expect(house.conclude(try house.submit(to: 1), .rejected(.tooLarge), .notContacted) == nil) }
        #expect(house.conclude(try house.submit(to: 1), .rejected(.tooLarge), .notContacted)?.code == .abuse)
    }

    @Test func `a looser abuse rate resets an account used under a stricter one`() throws {
        let house = AdmissionHarness { $0.abuse = Rate(burst: 20, perMinute: 2) }
        house.connect()
        for number in 1...10 { try house.send(to: number, .rejected(.badDeviceToken)) }
        house.admission.settings.abuse = Rate(burst: 20, perMinute: 60)
        for number in 11...29 { #expect(try house.send(to: number, .rejected(.badDeviceToken)) == nil) }
    }

    @Test func `several submissions in flight to a dead device token are charged once`() throws {
        let house = try makeHouse()
        let answers = try (0..<15).map { _ in try house.submit(to: 1) }
        for answer in answers { #expect(house.conclude(answer, .gone(since: nil)) == nil) }
        for number in 2...19 { #expect(try house.send(to: number, .rejected(.badDeviceToken)) == nil) }
        #expect(try house.send(to: 20, .rejected(.badDeviceToken))?.code == .abuse)
    }

    @Test func `a circuit without connections is charged as well`() throws {
        let house = AdmissionHarness()
        house.connect()
        let answers = try (1...20).map { try house.submit(to: $0) }
        house.disconnect()
        for answer in answers { house.conclude(answer, .rejected(.badDeviceToken)) }
        #expect(house.connect()?.code == .abuse)
    }

    @Test func `a charge to an unknown circuit has no effect`() throws {
        let house = AdmissionHarness { $0.circuits = 1 }
        house.connect()
        let answer = try house.submit(to: 1)
        house.disconnect()
        house.connect(.tor(2))
        #expect(house.conclude(answer, .rejected(.badDeviceToken)) == nil)
        for _ in 0..<100 { #expect(house.admission.charge(.tor(1), at: house.now) == nil) }
        house.disconnect(.tor(1))
        #expect(house.admission.known.circuits == 1)
    }

    // MARK: Connections

    @Test func `a circuit may have 16 connections and no more`() {
        let house = AdmissionHarness()
        for _ in 0..<16 { #expect(house.connect() == nil) }
        let refused = house.connect()
        #expect(refused?.code == .busy && refused?.retryAfter == 10_000)
        #expect(house.connect(.tor(2)) == nil)
        house.disconnect()
        #expect(house.connect() == nil)
        #expect(house.connect()?.code == .busy)
    }

    @Test func `a new circuit does not evict one that has a connection`() throws {
        let house = AdmissionHarness { $0.circuits = 1000 }
        for id in 0..<1000 as Range<UInt32> { #expect(house.connect(.tor(id)) == nil) }
        let refused = house.connect(.tor(5000))
        #expect(refused?.code == .busy && refused?.retryAfter == 10_000)
        for id in 0..<1000 as Range<UInt32> { #expect(try house.submit(to: 1, on: .tor(id)).isAdmitted || id > 0) }
        house.disconnect(.tor(7))
        #expect(house.connect(.tor(5000)) == nil)
        #expect(house.admission.known.circuits == 1000)
    }

    @Test func `known circuits and device tokens never exceed their capacity`() throws {
        let house = AdmissionHarness {
            $0.circuits = 1000
            $0.deviceTokens = 1000
        }
        for number in 0..<5000 {
            let circuit = CircuitID.connection(UInt64(number))
            #expect(house.connect(circuit) == nil)
            try house.send(to: number, on: circuit, number % 2 == 0 ? .delivered() : .rejected(.badDeviceToken))
            house.disconnect(circuit)
        }
        #expect(house.admission.known.circuits == 1000)
        #expect(house.admission.known.deviceTokens == 1000)
    }

    @Test func `a disconnected circuit is forgotten within 121 s`() throws {
        let house = AdmissionHarness()
        for id in 0..<100 as Range<UInt32> {
            house.connect(.tor(id))
            try house.send(to: Int(id), on: .tor(id), .delivered())
            house.disconnect(.tor(id))
        }
        #expect(house.admission.known.circuits == 100)
        for _ in 0..<121 { house.tick() }
        #expect(house.admission.known.circuits == 0)
    }

    // MARK: Properties

    /// By how many nanoseconds of a rate those that passed exceed what came in by time, in the worst of all windows.
    private static func most(of passed: [UInt64], above rate: Rate) -> Int64 {
        var (most, least): (Int64, Int64) = (0, .max)
        for (index, time) in passed.enumerated() {
            let before = Int64(index) * Int64(rate.interval) - Int64(time)
            least = min(least, before)
            most = max(most, before + Int64(rate.interval) - least)
        }
        return most
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
        let house = AdmissionHarness {
            ($0.device, $0.circuit, $0.app, $0.node, $0.unproven) = (device, circuit, app, node, unproven)
            $0.abuse = Rate(burst: 1_000_000, perMinute: 1)
        }
        for id in 0..<10 as Range<UInt32> { house.connect(.tor(id)) }
        var passed: [String: [UInt64]] = [:]
        let pause = 1 + generator.below(1000)
        for _ in 0..<3000 {
            house.pass(.milliseconds(generator.below(pause)))
            // Few phones have many senders, and the other way round.
            let (device, circuit) = (generator.below(1 + generator.below(15)), generator.below(10))
            let app = ["one", "two"][generator.below(2)]
            let answer = try house.submit(to: device, app: app, on: .tor(UInt32(circuit)))
            guard let ticket = answer.ticket else { continue }
            let time = house.now.nanoseconds
            for key in ["device \(device) of \(app)", "circuit \(circuit)", "app \(app)", "node"] {
                passed[key, default: []].append(time)
            }
            let isBad = device >= 12
            if ticket.isUnproven, isBad { passed["unproven", default: []].append(time) }
            house.conclude(answer, isBad ? .rejected(.badDeviceToken) : .delivered())
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
            #expect(Self.most(of: times, above: rate) <= Int64(rate.refillTime), "\(key)")
        }
    }

    @Test(arguments: 1...5 as ClosedRange<UInt64>)
    func `a device token is rung no more often than burst and rate, whatever fails in between`(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let rate = Rate(burst: 5 + generator.below(10), perMinute: 10)
        let house = try makeHouse { $0.device = rate }
        let begin = house.now
        var (underWay, rung): ([Admission.Ticket], Int) = ([], 1)
        for _ in 0..<3000 {
            house.pass(.milliseconds(generator.below(1000)))
            if generator.below(2) == 0, let ticket = try house.submit(to: 1).ticket { underWay.append(ticket) }
            guard !underWay.isEmpty, generator.below(2) == 0 else { continue }
            let ticket = underWay.remove(at: generator.below(underWay.count))
            let isDelivered = generator.below(3) == 0
            if isDelivered { rung += 1 }
            _ = house.admission.finish(
                ticket, with: isDelivered ? .delivered() : .retry(.providerUnreachable, after: 1), contact: .contacted,
                at: house.moment)
            #expect(Double(rung) <= Double(rate.burst) + (house.now - begin).milliseconds / 6000)
        }
        #expect(rung > 150)
    }

    // MARK: Reload

    @Test(arguments: Limit.allCases)
    func `a new limit takes effect immediately`(limit: Limit) throws {
        let house = AdmissionHarness {
            limit.set(Rate(burst: 2, perMinute: 1), in: &$0)
            $0.puzzle = .init(mode: .off)
        }
        house.connect()
        #expect(try house.admitted(of: 10, to: 1) == 2)
        limit.set(Rate(burst: 7, perMinute: 1), in: &house.admission.settings)
        #expect(try house.admitted(of: 10, to: 1) == 5)
        limit.set(Rate(burst: 1, perMinute: 60), in: &house.admission.settings)
        #expect(try house.submit(to: 1).retryAfter == 1000)
    }

    @Test func `new limits on circuits and connections take effect immediately`() {
        let house = AdmissionHarness()
        for _ in 0..<3 { #expect(house.connect() == nil) }
        house.admission.settings.connectionsPerCircuit = 2
        #expect(house.connect()?.code == .busy)
        house.admission.settings.connectionsPerCircuit = 4
        #expect(house.connect() == nil)
        house.admission.settings.circuits = 1
        #expect(house.connect(.tor(2))?.code == .busy)
        house.admission.settings.circuits = 2
        #expect(house.connect(.tor(2)) == nil)
    }

    @Test func `new abuse settings take effect from the next charge`() throws {
        let house = AdmissionHarness()
        house.connect()
        for number in 1...3 { #expect(try house.send(to: number, .rejected(.badDeviceToken)) == nil) }
        house.admission.settings.abuse = Rate(burst: 5, perMinute: 2)
        house.admission.settings.abuseBlock = 7
        #expect(try house.send(to: 4, .rejected(.badDeviceToken)) == nil)
        #expect(try house.send(to: 5, .rejected(.badDeviceToken))?.retryAfter == 7000)
        house.admission.settings.abuseBlock = 1000
        #expect(house.connect()?.retryAfter == 7000)
        house.pass(.seconds(7))
        #expect(house.connect() == nil)
    }

    // MARK: The monotonic clock

    @Test func `if the monotonic clock goes back, each limit behaves as if empty`() throws {
        let house = try makeHouse {
            $0.device = Rate(burst: 5, perMinute: 60)
            $0.circuit = Rate(burst: 50, perMinute: 60_000)
        }
        #expect(try house.admitted(of: 10, to: 1) == 4)
        house.now = MonotonicTime(nanoseconds: 5)
        for (reason, wait) in [
            (.connectionOverRate, 1), (.nodeBusy, 1), (.tooManyUnproven, 1), (.deviceTokenOverRate, 998),
        ]
            as [(Reason, UInt32)]
        {
            let answer = try house.submit(to: 1)
            #expect(answer.reason == reason)
            #expect(answer.retryAfter == wait)
            house.pass(.milliseconds(Int(wait)))
        }
        #expect(try house.admitted(of: 10, to: 1) == 1)
        house.pass(.seconds(5))
        #expect(try house.admitted(of: 10, to: 1) == 5)
        house.tick()
        #expect(house.admission.known.circuits == 1)
    }

    @Test func `nothing overflows at the end of the monotonic clock's range`() throws {
        let house = AdmissionHarness(now: MonotonicTime(nanoseconds: .max - 3_000_000_000))
        house.connect()
        for number in 0..<30 {
            try house.send(to: number, .rejected(.badDeviceToken))
            house.now = MonotonicTime(nanoseconds: house.now.nanoseconds &+ 300_000_000)
            _ = house.admission.tick(queue: 1, at: house.moment) { Array(repeating: 2, count: Puzzle.seedLength) }
        }
        house.disconnect()
        #expect(house.admission.known.circuits <= 1)
    }
}
