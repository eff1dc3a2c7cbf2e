// SPDX-License-Identifier: Apache-2.0

import StandIns
import TNP
import TestSupport
import Testing

@testable import Delivery
@testable import Providers

@Suite(.tags(.computing)) struct DeliveryCoreModelTests {
    private static let steps = 2000

    @Test(arguments: 1...48 as ClosedRange<UInt64>)
    func `no random sequence of events leads to an illegal step`(_ seed: UInt64) throws {
        var delivery = try RandomDelivery(seed: seed)
        for _ in 0..<Self.steps where delivery.isLegal { try delivery.performRandomEvent() }
        guard delivery.isLegal else { return }
        // Otherwise the run would have tested little.
        #expect(delivery.kinds.isSuperset(of: [.delivered, .rejected, .retry]))
        #expect(delivery.kinds.contains(.queued) == delivery.hasSpool)
        if seed.isMultiple(of: 4) { delivery.shutDown() } else { delivery.finishEverything() }
    }
}

/// Chooses random events for a ``DeliveryCoreModel``: submissions, resends and reused ivs, the answers of providers
/// that work or fail for some time, the results of a spool whose disk fails now and then, late timers, and reloads; every
/// third seed in a cluster.
/// The same seed gives the same events.
private struct RandomDelivery {
    private static let apps = ["one", "two"]
    /// All routes; the last app is served only after a reload.
    private static let routes = DeliveryCoreModel.routes(of: apps + ["three"])
    /// How a provider behaves for some time: it gives one of these answers.
    private static let moods: [[Disposition]] = [
        [.delivered],
        [.delivered, .delivered, .delivered, .badToken, .foreignToken, .gone, .invalidRequest, .tooLarge],
        [.delivered, .deviceThrottled(seconds: 60), .quotaExceeded],
        [.delivered, .outcomeUnknown, .connectionFailed, .notProcessed, .unavailable(seconds: 30)],
        [.unavailable(seconds: 60, minimum: 5)],
        [.connectionFailed],
        [.notProcessed],
        [.badToken],
        [.gone],
        [.throttled(seconds: 60)],
        [.credentialRefused, .credentialExpired, .misconfigured],
    ]
    private static let ttls: [UInt32] = [0, 1, 5, 30, 300, 3600, 86_400]
    private static let efforts: [UInt32] = [0, 0, 0, 8, 64]
    /// Number of drafts that may be submitted again.
    private static let maximumRecent = 40

    let hasSpool: Bool
    private let model: DeliveryCoreModel
    private var generator: SplitMix64
    /// The moods of providers that do not accept everything.
    private var weather: [Route: [Disposition]] = [:]
    private var recent: [Draft] = []
    private var lastNumber = 0

    init(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        var limits = DispatchLimits()
        limits.totalInFlight = 4 + generator.below(9)
        limits.maximumStored = 4 + generator.below(13)
        limits.concurrency = 1 + generator.below(8)
        limits.replaySeconds = 60
        limits.replayEntries = 80 + generator.below(40)
        limits.retry = RetryPolicy(attempts: 2 + generator.below(4), patience: .seconds(5 + generator.below(16)))
        model = DeliveryCoreModel(
            limits: limits, routes: DeliveryCoreModel.routes(of: Self.apps), seed: seed,
            usesClaims: seed.isMultiple(of: 3))
        hasSpool = generator.below(4) > 0
        self.generator = generator
        guard hasSpool else { return }
        let (stored, delivered) = (makeDrafts(self.generator.below(limits.maximumStored)), makeDrafts(3))
        try model.openSpool(stored: stored, delivered: delivered)
        recent = stored + delivered
    }

    var isLegal: Bool { model.isLegal }
    var kinds: Set<Outcome.Kind> { model.kinds }

    // MARK: Events

    mutating func performRandomEvent() throws {
        model.step += 1
        model.instantAnswer = generator.below(12) == 0 ? randomAnswer(of: randomMood()) : nil
        switch generator.below(100) {
        case ..<24: try submit(makeDraft())
        case ..<31: try resubmit()
        case ..<33: try reuseIV()
        case ..<57:
            answer()
            answerClaim()
        case ..<74: runSpoolTask()
        case ..<77: model.commitRemovals()
        case ..<84: model.advance(.milliseconds(generator.below(1500)))
        case ..<88: model.advanceToWake()
        case ..<90: model.oversleep(.seconds(1 + generator.below(90)))
        case ..<95:
            model.secondPassed()
            if generator.below(2) == 0 { model.renewClaims(for: .seconds(30), isNew: generator.below(8) == 0) }
        case ..<97: changeWeather()
        case ..<98: try adopt()
        case ..<99: model.purge()
        default: reload()
        }
    }

    /// Makes drafts that can be stored.
    private mutating func makeDrafts(_ count: Int) -> [Draft] {
        var drafts: [Draft] = []
        for _ in 0..<count { drafts.append(makeDraft(minimumTTL: 30)) }
        return drafts
    }

    private mutating func makeDraft(minimumTTL: UInt32 = 0) -> Draft {
        lastNumber += 1
        var draft = Draft()
        draft.app = lastNumber.isMultiple(of: 9) ? "three" : Self.apps[generator.below(Self.apps.count)]
        draft.magic = Magic.allCases[generator.below(Magic.allCases.count)]
        draft.device = generator.below(2) == 0 ? generator.below(4) : generator.below(draft.magic == .web ? 200 : 60)
        draft.number = lastNumber
        draft.ttl = max(minimumTTL, Self.ttls[generator.below(Self.ttls.count)])
        draft.priority = generator.below(2) == 0 ? .immediate : .conservePower
        draft.collapseID = generator.below(3) == 0 ? generator.below(3) : nil
        return draft
    }

    private mutating func submit(_ draft: Draft) throws {
        recent = recent.suffix(Self.maximumRecent - 1) + [draft]
        let origin = Origin(
            circuit: .tor(UInt32(generator.below(5))), effort: Self.efforts[generator.below(Self.efforts.count)],
            isProven: generator.below(2) == 0)
        let submission = try model.submit(draft, acceptsQueued: generator.below(2) == 0, from: origin)
        if generator.below(8) == 0 { model.abandon(submission) }
    }

    private mutating func resubmit() throws {
        guard var draft = recent.randomElement(using: &generator) else { return }
        // Neither is part of the envelope's identity.
        draft.ttl = Self.ttls[generator.below(Self.ttls.count)]
        draft.priority = .immediate
        try submit(draft)
    }

    private mutating func reuseIV() throws {
        guard var draft = recent.randomElement(using: &generator) else { return }
        draft.text += 1
        try submit(draft)
    }

    private mutating func answer() {
        guard !model.attempts.isEmpty else { return }
        let index = generator.below(model.attempts.count)
        let disposition = randomAnswer(of: weather[model.attempts[index].route] ?? [.delivered])
        let retryAfter = generator.below(5) == 0 ? UInt32(generator.below(100)) : nil
        let goneSince = generator.below(2) == 0 ? UInt64(model.unix - 60 + Int64(generator.below(60))) * 1000 : nil
        model.answer(disposition, at: index, retryAfter: retryAfter, goneSince: goneSince)
    }

    private mutating func answerClaim() {
        guard model.claimCount > 0 else { return }
        let result: ClaimResult =
            switch generator.below(10) {
            case 0: .refused(.retry(.tooManyUnproven, after: 1000))
            case 1: .refused(.gone(since: 1))
            case 2: .final(.delivered())
            case 3, 4: .elsewhere
            case 5: .undecided
            default: .granted(isProven: generator.below(2) == 0, isAlone: generator.below(4) == 0)
            }
        model.answerClaim(at: generator.below(model.claimCount), result)
    }

    /// Takes over an envelope of another node, or one that this node has, too.
    private mutating func adopt() throws {
        guard model.roomToAdopt > 0 || generator.below(4) == 0, model.usesClaims else { return }
        let draft =
            generator.below(2) == 0 ? makeDraft(minimumTTL: 30) : recent.randomElement(using: &generator)
        guard let draft, draft.ttl > 0 else { return }
        try model.adopt(draft)
        recent = recent.suffix(Self.maximumRecent - 1) + [draft]
    }

    private mutating func randomMood() -> [Disposition] { Self.moods[generator.below(Self.moods.count)] }

    private mutating func randomAnswer(of mood: [Disposition]) -> Disposition { mood[generator.below(mood.count)] }

    private mutating func runSpoolTask() {
        guard model.spoolTasks > 0 else { return }
        let disk: DeliveryCoreModel.Disk =
            switch generator.below(24) {
            case 0: .fails
            case 1: .isFull
            default: .works
            }
        var unreadable: Set<Int64> = []
        for row in model.storedRows where generator.below(60) == 0 { unreadable.insert(row) }
        model.runSpoolTask(at: generator.below(model.spoolTasks), disk: disk, unreadable: unreadable)
    }

    /// Changes how one provider behaves, and sometimes whether the spool is full.
    private mutating func changeWeather() {
        let route = Self.routes[generator.below(Self.routes.count)]
        weather[route] = generator.below(2) == 0 ? nil : randomMood()
        model.shortage = generator.below(4) == 0 ? .disk : nil
    }

    private mutating func reload() {
        var served: [Route] = []
        var replaced: Set<Route> = []
        for route in Self.routes {
            if generator.below(6) > 0 { served.append(route) }
            if generator.below(6) == 0 { replaced.insert(route) }
        }
        model.serve(served, replacing: replaced, concurrency: 1 + generator.below(8))
    }

    // MARK: Ends

    /// Lets each provider and the spool work: every envelope must get its outcome, and every row must be removed.
    mutating func finishEverything() {
        model.instantAnswer = .delivered
        model.shortage = nil
        model.serve(Self.routes)
        var rounds = 0
        while model.isLegal, rounds < 5000, !model.isIdle {
            rounds += 1
            while model.claimCount > 0 { model.answerClaim() }
            while !model.attempts.isEmpty { model.answer(.delivered) }
            model.runSpool()
            model.secondPassed()
            model.advanceToWake()
        }
        model.commitRemovals()
        model.expectNothingLeft()
    }

    /// Shuts down: every envelope must end or be parked.
    mutating func shutDown() {
        model.instantAnswer = nil
        model.drain()
        var rounds = 0
        while model.isLegal, rounds < 5000,
            !model.attempts.isEmpty || model.spoolTasks > 0 || model.claimCount > 0
        {
            rounds += 1
            answerClaim()
            answer()
            runSpoolTask()
        }
        model.expectEverythingParked()
    }
}
