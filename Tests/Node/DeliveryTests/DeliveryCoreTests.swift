// SPDX-License-Identifier: Apache-2.0

import TNP
import TestSupport
import Testing

@testable import Delivery
@testable import Providers

@Suite(.tags(.computing)) struct DeliveryCoreTests {
    private let android = Route(app: "one", magic: .android)
    private let apple = Route(app: "one", magic: .iOS)
    private let appleDevelopment = Route(app: "one", magic: .iOSDev)

    private func makeModel(
        totalInFlight: Int = 100, concurrency: Int = 100, usesClaims: Bool = false
    ) -> DeliveryCoreModel {
        var limits = DispatchLimits()
        limits.totalInFlight = totalInFlight
        limits.concurrency = concurrency
        return DeliveryCoreModel(limits: limits, usesClaims: usesClaims)
    }

    /// Submits envelopes that the spool stores one after the other.
    @discardableResult private func store(_ numbers: ClosedRange<Int>, in model: DeliveryCoreModel) throws -> [Int] {
        var submissions: [Int] = []
        for number in numbers {
            submissions.append(try model.submit(Draft(number: number), acceptsQueued: true))
            model.storeOverdue()
        }
        return submissions
    }

    /// Delivers everything that can be sent without waiting.
    private func deliverAll(_ model: DeliveryCoreModel) {
        while !model.attempts.isEmpty {
            model.answer(.delivered)
            model.runSpool()
        }
    }

    // MARK: Outcomes

    @Test func `an accepted envelope is sent, and its outcome is told once`() throws {
        let model = makeModel()
        let submission = try model.submit(Draft())
        #expect(model.sent == [1])
        #expect(model.kind(of: submission) == nil)
        #expect(model.inFlight == 1)
        model.answer(.delivered)
        #expect(model.kind(of: submission) == .delivered)
        #expect(model.contact(of: submission) == .contacted)
        #expect(model.sent == [])
        #expect(model.pending == 0)
        #expect(model.inFlight == 0)
    }

    @Test func `a resend of a pending envelope attaches, and both submissions get the outcome`() throws {
        let model = makeModel()
        let first = try model.submit(Draft())
        let second = try model.submit(Draft(ttl: 30, priority: .conservePower))
        #expect(model.sent == [1])
        model.answer(.gone, goneSince: 7)
        #expect(model.kind(of: first) == .gone)
        #expect(model.outcome(of: second) == model.outcome(of: first))
        #expect(model.pending == 0)
    }

    @Test func `a resend after the outcome gets the same outcome without an attempt, until the window ends`() throws {
        let model = makeModel()
        let first = try model.submit(Draft())
        model.answer(.delivered)
        model.advance(.seconds(599))
        let second = try model.submit(Draft())
        #expect(model.sent == [])
        #expect(model.kind(of: second) == .delivered)
        #expect(model.outcome(of: second) == model.outcome(of: first))
        model.advance(.seconds(1))
        try model.submit(Draft())
        #expect(model.sent == [1])
    }

    @Test func `a stored envelope is claimed again if other nodes may have taken it over`() throws {
        let model = makeModel(usesClaims: true)
        /// Ends the attempt, and lets time pass until the envelope is sent or claimed again.
        func retry() {
            model.answer(.unavailable(seconds: 60), retryAfter: 60)
            model.runSpool()
            for _ in 0..<1000 where model.sent.isEmpty && model.claimCount == 0 {
                model.advanceToWake()
                model.runSpool()
            }
        }
        try model.openSpool()
        try model.submit(Draft(ttl: 86_400), acceptsQueued: true)
        model.answerClaim()
        model.runSpool()
        // The claim holds as long as the others see heartbeats.
        model.renewClaims(for: .seconds(3600))
        retry()
        #expect(model.sent == [1] && model.claimCount == 0)
        model.renewClaims(for: .seconds(30))
        retry()
        #expect(model.sent == [] && model.claimCount == 1)
        // Another node has it. It gives it back; and then this node is believed to be dead once more.
        model.answerClaim(.elsewhere)
        model.renewClaims(for: .seconds(3600))
        model.advance(.seconds(31))
        model.runSpool()
        model.answerClaim()
        #expect(model.sent == [1])
        model.renewClaims(for: .seconds(3600), isNew: true)
        retry()
        model.answerClaim(.final(.delivered()))
        #expect(model.sent == [] && model.pending == 0)
    }

    @Test func `a stored envelope waits while nobody can say whether another node has it`() throws {
        let model = makeModel(usesClaims: true)
        try model.openSpool(stored: [Draft(number: 1)])
        model.runSpool()
        model.answerClaim(.undecided)
        // That of another node is left to the nodes that can ask.
        try model.adopt(Draft(device: 2, number: 2))
        model.answerClaim(.undecided)
        #expect(model.sent == [] && model.pending == 1)
        model.advance(.seconds(5))
        model.runSpool()
        model.answerClaim()
        #expect(model.sent == [1])
    }

    @Test(arguments: [(age: Int64(20), isReplaced: false), (age: 40, isReplaced: true)])
    func `of another node's envelope and one with the same collapse id the newer counts`(age: Int64, isReplaced: Bool)
        throws
    {
        let model = makeModel(usesClaims: true)
        try model.openSpool()
        model.renewClaims(for: .seconds(3600))
        try model.submit(Draft(number: 1, collapseID: 1))
        model.answerClaim()
        model.answer(.delivered)
        model.advance(.seconds(30))
        try model.adopt(Draft(number: 2, collapseID: 1), age: age)
        model.runSpool()
        model.answerClaim()
        model.runSpool()
        #expect(model.sent == (isReplaced ? [] : [2]))
    }

    @Test func `what a node has decided alone is claimed before it goes on`() throws {
        let model = makeModel(usesClaims: true)
        try model.openSpool()
        try model.submit(Draft(ttl: 86_400), acceptsQueued: true)
        model.answerClaim(.granted(isProven: true, isAlone: true))
        model.runSpool()
        model.renewClaims(for: .seconds(3600))
        model.answer(.unavailable(seconds: 60), retryAfter: 60)
        model.runSpool()
        for _ in 0..<100 where model.claimCount == 0 {
            model.advanceToWake()
            model.runSpool()
        }
        #expect(model.sent == [] && model.claimCount == 1)
    }

    @Test func `a node that decides alone does not say that the phone behind a handle is gone`() throws {
        for (isAlone, isByHandle) in [(true, true), (false, true), (true, false)] {
            let model = makeModel(usesClaims: true)
            let submission = try model.submit(Draft(isByHandle: isByHandle))
            model.answerClaim(.granted(isProven: true, isAlone: isAlone))
            model.answer(.gone, goneSince: 7)
            #expect(model.kind(of: submission) == (isAlone && isByHandle ? .retry : .gone))
        }
        // The engine did not answer when the handle was looked up, and then it did.
        for isByHandle in [true, false] {
            let model = makeModel(usesClaims: true)
            var origin = Origin(circuit: .tor(1))
            origin.isLookedUpAlone = true
            let submission = try model.submit(Draft(isByHandle: isByHandle), from: origin)
            model.answerClaim(.granted(isProven: true))
            model.answer(.gone, goneSince: 7)
            #expect(model.kind(of: submission) == (isByHandle ? .retry : .gone))
        }
        // A stored envelope would ask about the same device token again and again.
        let model = makeModel(usesClaims: true)
        try model.openSpool()
        let stored = try model.submit(Draft(ttl: 86_400, isByHandle: true), acceptsQueued: true)
        model.answerClaim(.granted(isProven: true, isAlone: true))
        model.runSpool()
        model.answer(.unavailable(seconds: 60), retryAfter: 60)
        model.runSpool()
        for _ in 0..<100 where model.claimCount == 0 {
            model.advanceToWake()
            model.runSpool()
        }
        model.answerClaim(.granted(isProven: true, isAlone: true))
        model.answer(.gone, goneSince: 7)
        #expect(model.kind(of: stored) == .gone)
    }

    @Test func `a resend after RETRY is a new envelope`() throws {
        let model = makeModel()
        let first = try model.submit(Draft(ttl: 0))
        model.answer(.unavailable(seconds: 30))
        #expect(model.reason(of: first) == .providerUnreachable)
        let second = try model.submit(Draft(ttl: 0))
        #expect(model.sent == [1])
        model.answer(.delivered)
        #expect(model.kind(of: second) == .delivered)
    }

    @Test func `an iv is rejected with another ciphertext, during and after the delivery`() throws {
        let model = makeModel()
        try model.submit(Draft(text: 1))
        let during = try model.submit(Draft(text: 2))
        #expect(model.reason(of: during) == .ivReused)
        #expect(model.sent.count == 1)
        model.answer(.delivered)
        let after = try model.submit(Draft(text: 2))
        #expect(model.reason(of: after) == .ivReused)
        #expect(model.sent == [])
    }

    @Test func `no more than 256 submissions wait for one envelope`() throws {
        let model = makeModel()
        var waiting: [Int] = []
        for _ in 0..<256 { waiting.append(try model.submit(Draft())) }
        let refused = try model.submit(Draft())
        #expect(model.reason(of: refused) == .nodeBusy)
        model.answer(.delivered)
        #expect(waiting.allSatisfy { model.kind(of: $0) == .delivered })
    }

    @Test func `submissions whose senders are gone make room for others`() throws {
        let model = makeModel()
        try model.submit(Draft())
        var gone: [Int] = []
        for _ in 0..<15 { gone.append(try model.submit(Draft())) }
        for submission in gone { model.abandon(submission) }
        let last = try model.submit(Draft())
        #expect(gone.allSatisfy { model.reason(of: $0) == .nodeBusy })
        model.answer(.delivered)
        #expect(model.kind(of: last) == .delivered)
    }

    // MARK: Attempts

    @Test func `an envelope waits for room in the window`() throws {
        let model = makeModel(concurrency: 2)
        for number in 1...5 { try model.submit(Draft(number: number)) }
        #expect(model.sent == [1, 2])
        model.answer(.delivered)
        #expect(model.sent == [2, 3])
        model.answer(.delivered, at: 1)
        #expect(model.sent == [2, 4])
        model.answer(.delivered)
        model.answer(.delivered)
        #expect(model.sent == [5])
        model.answer(.delivered)
        #expect(model.pending == 0)
    }

    @Test func `a request lost with its connection is repeated once`() throws {
        let model = makeModel()
        let submission = try model.submit(Draft())
        model.answer(.connectionFailed)
        #expect(model.sent == [])
        model.advance(.seconds(1))
        #expect(model.sent == [1])
        model.answer(.connectionFailed)
        #expect(model.reason(of: submission) == .providerUnreachable)
        #expect(model.contact(of: submission) == .contacted)
    }

    @Test func `an open breaker turns new envelopes away until one probe succeeds`() throws {
        let model = makeModel()
        let first = try model.submit(Draft(number: 1))
        model.answer(.throttled(seconds: 60))
        #expect(model.reason(of: first) == .providerThrottles)
        #expect(model.breaker(of: android) == .open)
        let early = try model.submit(Draft(number: 2))
        #expect(model.reason(of: early) == .providerThrottles)
        #expect(model.contact(of: early) == .notContacted)
        // The breaker stays open for up to a fifth longer.
        model.advance(.seconds(72))
        let probe = try model.submit(Draft(number: 3))
        let meanwhile = try model.submit(Draft(number: 4))
        #expect(model.sent == [3])
        #expect(model.kind(of: meanwhile) == .retry)
        model.answer(.delivered)
        #expect(model.kind(of: probe) == .delivered)
        #expect(model.breaker(of: android) == .closed)
        for number in 5...6 { try model.submit(Draft(number: number)) }
        #expect(model.sent == [5, 6])
    }

    @Test func `subscriptions that strangers name do not stop a push server`() throws {
        let model = makeModel()
        for number in 1...10 {
            let stranger = try model.submit(Draft(device: 5 * number, number: number))
            model.answer(.subscriptionRefused)
            #expect(model.reason(of: stranger) == .credentialsRefused)
            // The request was made: it takes from the stranger's allowances.
            #expect(model.contact(of: stranger) == .contacted)
        }
        // One proven phone, however often, and two with an accepted one between.
        for device in [100, 105] {
            try model.submit(Draft(device: device, number: device), from: Origin(circuit: .tor(2), isProven: true))
            model.answer(.subscriptionRefused)
            let honest = try model.submit(
                Draft(device: 200, number: device), from: Origin(circuit: .tor(3), isProven: true))
            model.answer(.delivered)
            #expect(model.kind(of: honest) == .delivered)
        }
        #expect(model.breaker(of: android) == .closed)
    }

    @Test func `a push server that refuses three proven phones in a row refuses the node`() throws {
        let model = makeModel()
        for device in [5, 10, 15] {
            #expect(model.breaker(of: android) == .closed)
            try model.submit(Draft(device: device, number: device), from: Origin(circuit: .tor(2), isProven: true))
            model.answer(.subscriptionRefused)
        }
        #expect(model.breaker(of: android) == .open)
        model.advance(.seconds(72))
        let probe = try model.submit(Draft(device: 25, number: 25), from: Origin(circuit: .tor(3), isProven: true))
        model.answer(.delivered)
        #expect(model.kind(of: probe) == .delivered && model.breaker(of: android) == .closed)
    }

    @Test func `a breaker that opens sends away what waits in its queue`() throws {
        let model = makeModel(concurrency: 1)
        try model.submit(Draft(number: 1))
        let waiting = try model.submit(Draft(number: 2))
        let elsewhere = try model.submit(Draft(magic: .iOS, number: 3))
        model.answer(.credentialRefused)
        #expect(model.reason(of: waiting) == .credentialsRefused)
        #expect(model.contact(of: waiting) == .notContacted)
        #expect(model.kind(of: elsewhere) == nil)
        #expect(model.sent == [3])
    }

    @Test func `a throttled device holds back only its own envelopes`() throws {
        let model = makeModel()
        let first = try model.submit(Draft(number: 1))
        model.answer(.deviceThrottled(seconds: 60))
        #expect(model.reason(of: first) == .providerThrottles)
        let second = try model.submit(Draft(number: 2))
        #expect(model.reason(of: second) == .providerThrottles)
        #expect(model.contact(of: second) == .notContacted)
        try model.submit(Draft(device: 2, number: 3))
        #expect(model.sent == [3])
        model.advance(.seconds(60))
        try model.submit(Draft(number: 4))
        #expect(model.sent == [3, 4])
    }

    @Test func `Apple's other environment is asked once`() throws {
        let model = makeModel()
        let first = try model.submit(Draft(magic: .iOS, number: 1))
        #expect(model.sentTo == [apple])
        model.answer(.badToken)
        #expect(model.sentTo == [appleDevelopment])
        model.answer(.badToken)
        #expect(model.sentTo == [])
        #expect(model.reason(of: first) == .badDeviceToken)
        let second = try model.submit(Draft(magic: .iOS, number: 2))
        #expect(model.sentTo == [apple])
        model.answer(.badToken)
        #expect(model.sentTo == [])
        #expect(model.reason(of: second) == .badDeviceToken)
    }

    @Test func `an Apple environment that accepted a device is asked first`() throws {
        let model = makeModel()
        let first = try model.submit(Draft(magic: .iOS, number: 1))
        model.answer(.badToken)
        model.answer(.delivered)
        #expect(model.kind(of: first) == .delivered)
        #expect(model.outcome(of: first)?.text != nil)
        try model.submit(Draft(magic: .iOS, number: 2))
        #expect(model.sentTo == [appleDevelopment])
    }

    @Test func `an envelope that waits does not replace a newer one with the same collapse id`() throws {
        let model = makeModel()
        let older = try model.submit(Draft(number: 1, collapseID: 1))
        model.answer(.unavailable(seconds: 30))
        let newer = try model.submit(Draft(number: 2, collapseID: 1))
        model.answer(.delivered)
        model.advance(.seconds(1))
        #expect(model.sent == [])
        #expect(model.reason(of: older) == .ttlRanOut)
        #expect(model.kind(of: newer) == .delivered)
    }

    // MARK: Queues

    @Test func `an envelope whose ttl runs out in the queue is rejected`() throws {
        let model = makeModel(concurrency: 1)
        let first = try model.submit(Draft(number: 1))
        let second = try model.submit(Draft(number: 2, ttl: 5))
        model.advance(.seconds(4))
        model.secondPassed()
        #expect(model.kind(of: second) == nil)
        model.advance(.seconds(1))
        model.secondPassed()
        #expect(model.kind(of: second) == .rejected)
        #expect(model.reason(of: second) == .ttlRanOut)
        #expect(model.kind(of: first) == nil)
        #expect(model.sent == [1])
    }

    @Test func `an envelope that waits in the queue for too long gets RETRY`() throws {
        let model = makeModel(concurrency: 1)
        try model.submit(Draft(number: 1))
        let second = try model.submit(Draft(number: 2))
        model.advance(.seconds(19))
        model.secondPassed()
        #expect(model.kind(of: second) == nil)
        model.advance(.seconds(1))
        model.secondPassed()
        #expect(model.reason(of: second) == .nodeBusy)
        #expect(model.contact(of: second) == .noCapacity)
    }

    @Test func `a full memory evicts the newest envelope of the longest flow`() throws {
        let (greedy, modest) = (Origin(circuit: .tor(1)), Origin(circuit: .tor(2)))
        // A lane leaves as much room for the others as it takes itself: the fourth envelope needs an eviction.
        let model = makeModel(totalInFlight: 4, concurrency: 1)
        var submissions: [Int] = []
        for number in 1...3 { submissions.append(try model.submit(Draft(number: number), from: greedy)) }
        let newcomer = try model.submit(Draft(number: 4), from: modest)
        #expect(model.kind(of: submissions[1]) == nil)
        #expect(model.reason(of: submissions[2]) == .nodeBusy)
        #expect(model.contact(of: submissions[2]) == .noCapacity)
        #expect(model.kind(of: newcomer) == nil)
        #expect(model.inFlight == 3)
        // Now both flows are as long: nothing makes room for the first one.
        let late = try model.submit(Draft(number: 5), from: greedy)
        #expect(model.reason(of: late) == .nodeBusy)
        deliverAll(model)
        #expect(model.kind(of: newcomer) == .delivered)
    }

    // MARK: Reloads

    @Test func `a queue continues in the lane that replaces its own`() throws {
        let model = makeModel(concurrency: 1)
        let first = try model.submit(Draft(number: 1))
        let second = try model.submit(Draft(number: 2))
        #expect(model.sent == [1])
        model.serve([android], replacing: [android])
        #expect(model.sent == [1, 2])
        model.answer(.delivered)
        model.answer(.delivered)
        #expect(model.kind(of: first) == .delivered)
        #expect(model.kind(of: second) == .delivered)
    }

    @Test func `a route that is removed finishes its attempts and accepts nothing`() throws {
        let model = makeModel()
        let first = try model.submit(Draft(number: 1))
        model.serve([apple])
        let second = try model.submit(Draft(number: 2))
        #expect(model.reason(of: second) == .platformNotConfigured)
        model.answer(.delivered)
        #expect(model.kind(of: first) == .delivered)
        // A sender that lost its connection gets the outcome although the route is gone, and during a shutdown.
        #expect(model.kind(of: try model.submit(Draft(number: 1))) == .delivered)
        model.drain()
        #expect(model.kind(of: try model.submit(Draft(number: 1))) == .delivered)
    }

    @Test func `a stored envelope waits for its route to be served again`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try store(1...1, in: model)[0]
        model.answer(.unavailable(seconds: 60, minimum: 5))
        model.serve([])
        model.advance(.seconds(6))
        model.runSpool()
        #expect(model.sent == [])
        #expect(model.parked == 1)
        #expect(model.kind(of: submission) == nil)
        model.serve([android])
        model.advance(.seconds(300))
        model.runSpool()
        #expect(model.sent == [1])
        deliverAll(model)
        #expect(model.kind(of: submission) == .delivered)
        #expect(model.storedRows == [])
    }

    // MARK: Web Push

    @Test func `each push server has a lane, but an upstream node has one for all`() throws {
        for lanePerServer in [true, false] {
            let model = makeModel()
            let web = Route(app: "one", magic: .web)
            model.serve([android, web], replacing: [web], lanePerServer: lanePerServer)
            for device in 10...13 { try model.submit(Draft(magic: .web, device: device, number: device)) }
            // A push endpoint in the place of Google's device token.
            try model.submit(Draft(device: 18, number: 18))
            // An upstream node decides by itself about push endpoints under the magic android.
            #expect(model.lanesInUse == (lanePerServer ? 5 : 2))
            deliverAll(model)
        }
    }

    @Test func `without Web Push, a push endpoint goes to Google, which refuses it`() throws {
        let model = makeModel()
        model.serve([android])
        try model.submit(Draft(device: 18, number: 18))
        #expect(model.attempts.map(\.route) == [android])
    }

    @Test func `push servers that do not answer leave Apple and Google room in memory, and the named ones some`() throws
    {
        let model = makeModel(totalInFlight: 60, concurrency: 1)
        // None of these servers has a name: 3 and 4 have.
        for number in 1...200 { try model.submit(Draft(magic: .web, device: 10 + number % 40, number: number)) }
        let unnamed = model.inFlight
        #expect((15...21).contains(unnamed))
        for number in 201...300 { try model.submit(Draft(magic: .web, device: 3 + number % 2, number: number)) }
        #expect(model.inFlight > unnamed && model.inFlight <= 30)
        for number in 301...400 { try model.submit(Draft(device: 2, number: number)) }
        #expect(model.inFlight >= 44)
    }

    @Test func `a stored envelope goes to its push server when Web Push comes back`() throws {
        let model = makeModel()
        // The node has started while the app had neither Web Push nor Google.
        model.serve([apple])
        try model.openSpool(stored: [Draft(device: 18, number: 18)])
        model.runSpool()
        #expect(model.sent == [])
        model.serve([apple, Route(app: "one", magic: .web)])
        model.advance(.seconds(300))
        model.runSpool()
        #expect(model.attempts.map(\.route.magic) == [.web])
        deliverAll(model)
        #expect(model.storedRows == [])
    }

    // MARK: Shutdown

    @Test func `a shutdown ends with RETRY what is not stored, and parks what is stored`() throws {
        let model = makeModel(concurrency: 1)
        try model.openSpool()
        let paused = try model.submit(Draft(number: 1))
        model.answer(.unavailable(seconds: 30))
        let parked = try model.submit(Draft(number: 2), acceptsQueued: true)
        model.answer(.unavailable(seconds: 60, minimum: 5))
        model.runSpool()
        let flying = try model.submit(Draft(number: 3))
        let waiting = try model.submit(Draft(number: 4))
        let storing = try model.submit(Draft(number: 5), acceptsQueued: true)
        #expect(model.sent == [3])
        model.drain()
        #expect(model.reason(of: paused) == .shuttingDown)
        #expect(model.reason(of: waiting) == .shuttingDown)
        #expect(model.kind(of: flying) == nil)
        let late = try model.submit(Draft(number: 6))
        #expect(model.reason(of: late) == .shuttingDown)
        model.runSpool()
        model.answer(.unavailable(seconds: 30))
        #expect(model.reason(of: flying) == .shuttingDown)
        for submission in [parked, storing] {
            #expect(model.isQueued(submission))
            #expect(model.kind(of: submission) == nil)
        }
        #expect(model.parked == 2)
        #expect(model.storedRows.count == 2)
        model.expectEverythingParked()
    }

    @Test func `an attempt in flight at shutdown may still deliver`() throws {
        let model = makeModel()
        let submission = try model.submit(Draft())
        model.drain()
        model.answer(.delivered)
        #expect(model.kind(of: submission) == .delivered)
        model.expectEverythingParked()
    }

    // MARK: Spool

    @Test func `an envelope that is answered soon is never stored`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try model.submit(Draft(), acceptsQueued: true)
        #expect(model.sent == [1])
        model.advance(DeliveryCore.storeDelay - .milliseconds(1))
        model.answer(.delivered)
        #expect(model.kind(of: submission) == .delivered && !model.isQueued(submission))
        model.advance(.seconds(1))
        #expect(model.spoolTasks == 0)
        model.expectNothingLeft()
    }

    @Test func `an envelope that is not answered soon is stored, and its row is removed with the outcome`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try model.submit(Draft(), acceptsQueued: true)
        model.advance(DeliveryCore.storeDelay)
        #expect(model.spoolTasks == 1)
        #expect(!model.isQueued(submission))
        model.runSpool()
        #expect(model.isQueued(submission))
        #expect(model.sent == [1])
        #expect(model.storedRows.count == 1)
        deliverAll(model)
        #expect(model.kind(of: submission) == .delivered)
        #expect(model.storedRows == [])
    }

    @Test func `an envelope that has to wait is stored at once`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try model.submit(Draft(), acceptsQueued: true)
        model.answer(.unavailable(seconds: 60, minimum: 5))
        #expect(model.spoolTasks == 1 && model.kind(of: submission) == nil && model.parked == 0)
        model.runSpool()
        #expect(model.isQueued(submission) && model.parkedReplies == [UInt64(submission)] && model.parked == 1)
    }

    @Test func `an outcome that comes while the spool writes the envelope is told, and removes the row`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try model.submit(Draft(), acceptsQueued: true)
        model.advance(DeliveryCore.storeDelay)
        model.answer(.delivered)
        #expect(model.kind(of: submission) == .delivered)
        model.runSpool()
        #expect(!model.isQueued(submission) && model.storedRows == [])
        // The spool keeps the outcome, for a resend after a restart.
        #expect(model.rememberedOutcomes == 1)
        model.expectNothingLeft()
    }

    @Test func `the row of an ended envelope is that of its resend`() throws {
        for isInOrder in [true, false] {
            let model = makeModel()
            try model.openSpool()
            let first = try model.submit(Draft(), acceptsQueued: true)
            model.advance(DeliveryCore.storeDelay)
            model.answer(.gone, goneSince: 1)
            try #require(model.kind(of: first) == .gone)
            // The node forgets the outcome before the disk has written the row.
            model.advance(.seconds(601))
            let second = try model.submit(Draft(), acceptsQueued: true)
            model.advance(DeliveryCore.storeDelay)
            model.runSpoolTask(at: isInOrder ? 0 : 1)
            model.runSpool()
            #expect(model.isQueued(second) && model.storedRows.count == 1)
            deliverAll(model)
            #expect(model.kind(of: second) == .delivered)
            model.expectNothingLeft()
        }
    }

    @Test func `an attempt goes on if the disk fails meanwhile`() throws {
        for disk in [DeliveryCoreModel.Disk.fails, .isFull] {
            let model = makeModel()
            try model.openSpool()
            let submission = try model.submit(Draft(), acceptsQueued: true)
            model.advance(DeliveryCore.storeDelay)
            model.runSpool(disk: disk)
            #expect(model.sent == [1] && model.kind(of: submission) == nil)
            model.answer(.delivered)
            #expect(model.kind(of: submission) == .delivered && !model.isQueued(submission))
            model.expectNothingLeft()
        }
    }

    @Test func `a hung disk does not take more than its share of memory`() throws {
        let model = makeModel(totalInFlight: 4)
        try model.openSpool()
        for number in 1...4 {
            try model.submit(Draft(device: number, number: number), acceptsQueued: true)
            model.advance(DeliveryCore.storeDelay)
            model.answer(.delivered)
        }
        #expect(model.spoolTasks == 4 && model.pending == 0)
        let late = try model.submit(Draft(device: 5, number: 5), acceptsQueued: true)
        #expect(model.reason(of: late) == .nodeBusy)
        model.runSpool()
        let last = try model.submit(Draft(device: 6, number: 6), acceptsQueued: true)
        #expect(model.kind(of: last) == nil && model.sent == [6])
    }

    @Test func `a resend of a stored envelope gets QUEUED at once`() throws {
        let model = makeModel()
        try model.openSpool()
        _ = try store(1...1, in: model)
        let resend = try model.submit(Draft(), acceptsQueued: true)
        #expect(model.isQueued(resend))
        #expect(model.sent == [1])
        deliverAll(model)
        #expect(model.kind(of: resend) == .delivered)
    }

    @Test func `a sender that does not accept QUEUED gets RETRY when the envelope has to wait in the spool`() throws {
        let model = makeModel()
        try model.openSpool()
        let stored = try store(1...1, in: model)[0]
        let impatient = try model.submit(Draft())
        model.answer(.unavailable(seconds: 60, minimum: 5))
        #expect(model.reason(of: impatient) == .providerUnreachable)
        let late = try model.submit(Draft())
        #expect(model.reason(of: late) == .providerUnreachable)
        #expect(model.kind(of: stored) == nil)
        #expect(model.parked == 1)
    }

    @Test func `a stored envelope that has to wait is reported at once`() throws {
        let model = makeModel()
        try model.openSpool()
        let first = try store(1...1, in: model)[0]
        #expect(model.parkedReplies == [])
        model.answer(.throttled(seconds: 60))
        #expect(model.parkedReplies == [UInt64(first)])
        // The breaker is open.
        let second = try store(2...2, in: model)[0]
        #expect(model.isQueued(second) && model.parkedReplies.last == UInt64(second))
        #expect(model.kind(of: second) == nil)
    }

    @Test func `a full memory leaves stored envelopes in the spool until there is room`() throws {
        let model = makeModel(totalInFlight: 4, concurrency: 1)
        try model.openSpool()
        let submissions = try store(1...5, in: model)
        #expect(submissions.allSatisfy { model.isQueued($0) })
        #expect(model.sent == [1])
        // Two envelopes keep their memory, and two rows are loaded at a time.
        #expect(model.inFlight == 4)
        #expect(model.parked == 1)
        deliverAll(model)
        #expect(submissions.allSatisfy { model.kind(of: $0) == .delivered })
        #expect(model.storedRows == [])
        model.expectNothingLeft()
    }

    @Test func `held rows wait for the probe`() throws {
        let model = makeModel()
        try model.openSpool()
        var submissions = try store(1...1, in: model)
        model.answer(.throttled(seconds: 60))
        #expect(model.breaker(of: android) == .open)
        submissions += try store(2...3, in: model)
        #expect(submissions.allSatisfy { model.isQueued($0) })
        #expect(model.parked == 3)
        #expect(model.held(by: android) == 1)
        model.advance(.seconds(72))
        model.runSpool()
        #expect(model.sent.count == 1)
        model.answer(.delivered)
        #expect(model.breaker(of: android) == .closed)
        model.runSpool()
        model.advance(.seconds(2))
        model.runSpool()
        #expect(model.sent.count == 2)
        deliverAll(model)
        #expect(submissions.allSatisfy { model.kind(of: $0) == .delivered })
        #expect(model.storedRows == [])
    }

    @Test func `an envelope whose row cannot be read ends with RETRY`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try store(1...1, in: model)[0]
        model.answer(.unavailable(seconds: 60, minimum: 5))
        #expect(model.parked == 1)
        model.advance(.seconds(6))
        model.runSpool(unreadable: Set(model.storedRows))
        #expect(model.kind(of: submission) == .retry)
        #expect(model.reason(of: submission) == .internalError)
        #expect(model.pending == 0)
    }

    @Test func `rows are read again after the disk failed`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try store(1...1, in: model)[0]
        model.answer(.unavailable(seconds: 60, minimum: 5))
        model.advance(.seconds(6))
        model.runSpool(disk: .fails)
        #expect(model.sent == [])
        model.advance(.seconds(1))
        model.runSpool()
        #expect(model.sent == [1])
        deliverAll(model)
        #expect(model.kind(of: submission) == .delivered)
    }

    @Test func `an envelope whose row has expired is rejected when the spool removes the row`() throws {
        let model = makeModel()
        try model.openSpool()
        let submission = try model.submit(Draft(ttl: 10), acceptsQueued: true)
        model.answer(.unavailable(seconds: 60, minimum: 5))
        model.runSpool()
        #expect(model.parked == 1)
        model.advance(.seconds(10))
        model.purge()
        #expect(model.reason(of: submission) == .ttlRanOut)
        #expect(model.storedRows == [])
        model.runSpool()
        model.expectNothingLeft()
    }

    @Test func `a full spool refuses envelopes until it has room`() throws {
        let model = makeModel()
        try model.openSpool()
        model.shortage = .bytes
        let first = try model.submit(Draft(number: 1), acceptsQueued: true)
        model.answer(.unavailable(seconds: 60, minimum: 5))
        model.runSpool(disk: .isFull)
        #expect(model.reason(of: first) == .nodeBusy)
        let second = try model.submit(Draft(number: 2), acceptsQueued: true)
        #expect(model.reason(of: second) == .nodeBusy)
        #expect(model.spoolTasks == 0)
        // An envelope that need not be stored is delivered.
        try model.submit(Draft(number: 3))
        model.runSpool()
        #expect(model.sent == [3])
        model.secondPassed()
        model.runSpool()
        let tooEarly = try model.submit(Draft(number: 4), acceptsQueued: true)
        #expect(model.reason(of: tooEarly) == .nodeBusy)
        model.shortage = nil
        model.secondPassed()
        let last = try store(5...5, in: model)[0]
        #expect(model.isQueued(last))
    }

    @Test func `a disk that fails gets the sender RETRY`() throws {
        let model = makeModel()
        try model.openSpool()
        let stored = try model.submit(Draft(number: 1), acceptsQueued: true)
        model.answer(.unavailable(seconds: 60, minimum: 5))
        model.runSpool(disk: .fails)
        #expect(model.reason(of: stored) == .nodeBusy)
        #expect(!model.isQueued(stored))
        #expect(model.inFlight == 0)
    }

    @Test func `a look-up that fails gets the sender RETRY`() throws {
        let model = makeModel()
        try model.openSpool(delivered: [Draft(number: 9)])
        let submissions = try [false, true].enumerated().map { index, acceptsQueued in
            try model.submit(Draft(number: index), acceptsQueued: acceptsQueued)
        }
        model.runSpool(disk: .fails)
        #expect(submissions.allSatisfy { model.reason(of: $0) == .nodeBusy })
        #expect(model.sent == [])
        #expect(model.inFlight == 0)
    }

    // MARK: Restart

    @Test func `an envelope that an earlier process delivered is not sent again`() throws {
        for acceptsQueued in [false, true] {
            let model = makeModel()
            try model.openSpool(delivered: [Draft()])
            let submission = try model.submit(Draft(), acceptsQueued: acceptsQueued)
            model.runSpool()
            #expect(model.sent == [])
            #expect(model.kind(of: submission) == .delivered)
            #expect(!model.isQueued(submission))
            model.expectNothingLeft()
        }
    }

    @Test func `envelopes that an earlier process stored are delivered`() throws {
        let model = makeModel()
        try model.openSpool(stored: [Draft(number: 1), Draft(magic: .iOS, number: 2)])
        #expect(model.spoolTasks == 1)
        model.runSpool()
        #expect(model.sent == [1, 2])
        deliverAll(model)
        #expect(model.recovered == 2)
        #expect(model.storedRows == [])
        model.expectNothingLeft()
    }

    @Test(arguments: [false, true])
    func `a resend of an envelope that an earlier process stored is not delivered twice`(_ storesFirst: Bool) throws {
        let model = makeModel()
        try model.openSpool(stored: [Draft()])
        let submission = try model.submit(Draft(), acceptsQueued: true)
        // The row is read before or after the spool finds out that it has it.
        model.runSpoolTask(at: storesFirst ? 1 : 0)
        #expect(model.isQueued(submission))
        model.runSpool()
        #expect(model.sent == [1])
        deliverAll(model)
        #expect(model.kind(of: submission) == .delivered)
        #expect(model.storedRows == [])
        model.expectNothingLeft()
    }
}
