// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import FoundationEssentials
import HTTP2
import Synchronization
import TNP
import TestSupport
import Testing

@testable import StandIns
@testable import Time

/// No faults but those that `change` sets.
private func faulty(_ change: (inout Faults) -> Void) -> Faults {
    var faults = Faults()
    change(&faults)
    return faults
}

/// Unix times in seconds, and their format in HTTP.
private let dates: [(Int64, String)] = [
    (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (1_700_000_000, "Tue, 14 Nov 2023 22:13:20 GMT"),
    (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"), (Int64.max, "Fri, 31 Dec 9999 23:59:59 GMT"),
    (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
]

/// The plan for each request, without any I/O.
@Suite(.tags(.sockets)) struct FaultPlanTests {
    private func plans(
        _ faults: Faults, count: Int = 2000, isForToken: Bool = false, seed: UInt64 = 1
    ) -> [FaultPlan] {
        var random = SplitMix64(seed: seed)
        return (1...count).map { faults.plan(forRequest: $0, isTokenRequest: isForToken, using: &random) }
    }

    @Test func `without faults every request is answered at once`() {
        let good = FaultPlan(sendsGoAway: false, fate: .answered(after: .zero))
        for isForToken in [false, true] { #expect(plans(Faults(), isForToken: isForToken).allSatisfy { $0 == good }) }
    }

    @Test func `the same seed gives the same plans, another seed gives others`() {
        let wrong = faulty {
            $0.resetPerMille = 300
            $0.closePerMille = 100
            $0.latency = .exponential(mean: 50)
            $0.errors = [Faults.ErrorAnswer(perMille: 200, status: 500)]
        }
        #expect(plans(wrong, seed: 7) == plans(wrong, seed: 7))
        #expect(plans(wrong, seed: 7) != plans(wrong, seed: 8))
    }

    @Test func `the random numbers match SplitMix64`() {
        var random = SplitMix64(seed: 1_234_567)
        let numbers = (0..<5).map { _ in random.next() }
        #expect(
            numbers == [
                6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
                4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
            ])
    }

    @Test func `every Nth request of a connection triggers GOAWAY`() {
        let sendsGoAway = plans(faulty { $0.goAwayEvery = 5 }, count: 12).map(\.sendsGoAway)
        #expect(sendsGoAway.indices.filter { sendsGoAway[$0] } == [4, 9])
        #expect(plans(faulty { $0.goAwayEvery = 1 }, count: 3).allSatisfy { $0.sendsGoAway })
        #expect(!plans(faulty { $0.goAwayEvery = 0 }, count: 3).contains { $0.sendsGoAway })
    }

    @Test func `GOAWAY names the newest stream, an early GOAWAY a lower one that covers all processed`() {
        #expect(Faults().lastStream(newest: 21, processed: 5) == 21)
        let early = faulty { $0.goAwayIsEarly = true }
        #expect(early.lastStream(newest: 21, processed: 5) == 15)
        #expect(early.lastStream(newest: 21, processed: 15) == 15)
        #expect(early.lastStream(newest: 21, processed: 19) == 19)
        #expect(early.lastStream(newest: 1, processed: 0) == 0)
    }

    @Test func `a REFUSED_STREAM reset is never processed, other resets half of the time`() {
        func processed(_ code: UInt32) -> Int {
            plans(
                faulty {
                    $0.resetPerMille = 1000
                    $0.resetCodes = [code]
                }
            ).count { $0.fate == .reset(code: code, isProcessed: true) }
        }
        #expect(processed(7) == 0)
        for code: UInt32 in [2, 8, 11] { #expect((900...1100).contains(processed(code))) }
    }

    @Test func `every reset code is used, and without codes nothing is reset`() {
        func codes(_ codes: [UInt32]) -> Set<UInt32> {
            let all = plans(
                faulty {
                    $0.resetPerMille = 1000
                    $0.resetCodes = codes
                })
            return Set(
                all.compactMap { plan -> UInt32? in
                    if case .reset(let code, _) = plan.fate { code } else { nil }
                })
        }
        #expect(codes(Faults.usualResetCodes) == [2, 7, 8, 11])
        #expect(codes([8]) == [8])
        #expect(codes([]) == [])
    }

    @Test func `shares are in per mille`() {
        let closed = plans(faulty { $0.closePerMille = 100 }, count: 10_000).count {
            if case .closed = $0.fate { true } else { false }
        }
        #expect((850...1150).contains(closed))
        let ended = plans(faulty { $0.closePerMille = 1000 })
        #expect((900...1100).contains(ended.count { $0.fate == .closed(isProcessed: true) }))
        #expect((900...1100).contains(ended.count { $0.fate == .closed(isProcessed: false) }))
    }

    @Test func `errors are distributed by their shares and spare token requests`() {
        let unavailable = Faults.ErrorAnswer(perMille: 300, status: 503, retryAfter: 30)
        let failed = Faults.ErrorAnswer(perMille: 700, status: 500)
        let wrong = faulty { $0.errors = [unavailable, failed] }
        let found = plans(wrong)
        #expect((500...700).contains(found.count { $0.fate == .refused(unavailable, after: .zero) }))
        #expect((1300...1500).contains(found.count { $0.fate == .refused(failed, after: .zero) }))
        #expect(plans(wrong, isForToken: true).allSatisfy { $0.fate == .answered(after: .zero) })
        let some = plans(faulty { $0.errors = [Faults.ErrorAnswer(perMille: 100, status: 429)] })
        #expect((1700...1900).contains(some.count { $0.fate == .answered(after: .zero) }))
    }

    @Test func `a token endpoint that is down rejects token requests only`() {
        let wrong = faulty { $0.tokenEndpointIsDown = true }
        #expect(plans(wrong).allSatisfy { $0.fate == .answered(after: .zero) })
        let refused = FaultPlan.Fate.refused(Faults.ErrorAnswer(perMille: 1000, status: 503), after: .zero)
        #expect(plans(wrong, isForToken: true).allSatisfy { $0.fate == refused })
    }

    @Test func `a stall suppresses errors but not resets`() {
        let stalled = plans(
            faulty {
                $0.stalls = true
                $0.errors = [Faults.ErrorAnswer(perMille: 1000, status: 500)]
            })
        #expect(stalled.allSatisfy { $0.fate == .stalled })
        let reset = plans(
            faulty {
                $0.stalls = true
                $0.resetPerMille = 1000
                $0.resetCodes = [7]
            })
        #expect(reset.allSatisfy { $0.fate == .reset(code: 7, isProcessed: false) })
    }

    @Test func `latency follows its distribution`() {
        func draws(_ latency: Latency) -> [Duration] {
            var random = SplitMix64(seed: 3)
            return (0..<5000).map { _ in latency.draw(using: &random) }
        }
        #expect(draws(.none).allSatisfy { $0 == .zero })
        #expect(draws(.fixed(7)).allSatisfy { $0 == .milliseconds(7) })
        let uniform = draws(.uniform(10...20))
        #expect(uniform.allSatisfy { $0 >= .milliseconds(10) && $0 <= .milliseconds(20) })
        #expect(uniform.contains { $0 < .milliseconds(11) } && uniform.contains { $0 > .milliseconds(19) })
        #expect(draws(.uniform(5...5)).allSatisfy { $0 == .milliseconds(5) })
        let exponential = draws(.exponential(mean: 50))
        #expect(exponential.allSatisfy { $0 >= .zero && $0 <= .milliseconds(500) })
        let mean = exponential.reduce(Duration.zero, +) / 5000
        #expect(mean > .milliseconds(46) && mean < .milliseconds(54))
        #expect(draws(.exponential(mean: 0)).allSatisfy { $0 == .zero })
    }

    @Test(arguments: dates)
    func `a date is written in HTTP format`(_ time: Int64, _ text: String) { #expect(HTTPDate.text(time) == text) }

    @Test func `an answer counts as recent for one second`() {
        func at(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }
        var answers = RecentAnswers()
        for number in 0..<1000 { answers.append(notification("\(number)"), at: at(UInt64(number) * 10)) }
        #expect(answers.recent(at: at(9990)).map(\.id) == (900..<1000).map { "\($0)" })
        #expect(answers.recent(at: at(10_985)).map(\.id) == ["999"])
        #expect(answers.recent(at: at(10_990)).isEmpty)
    }

    private func notification(_ id: String) -> ReceivedNotification {
        ReceivedNotification(
            platform: .apnsProduction, deviceToken: "", encrypted: "", banner: nil, hasSound: false,
            isContentAvailable: false, isMutableContent: false, isUrgent: true, id: id, collapseID: nil)
    }
}

/// Invalid lines, and a part of the error message for each.
private let badLines: [(String, String)] = [
    ("", "a platform"), ("apns", "apns-production, apns-development, fcm, web-push"), ("help", "apns-production"),
    ("kill", "a platform and nothing else"), ("kill fcm now", "nothing else"), ("kill apple", "fcm, web-push"),
    ("restart", "a platform"), ("certificate fcm", "good, untrusted, expired, other-name"),
    ("certificate fcm bad", "other-name"), ("certificate apple good", "fcm, web-push"),
    ("fcm slow", "goaway-every=, reset="), ("fcm stall=1", "stall, stall-after="), ("fcm reset", "reset="),
    ("fcm goaway-every=0", "from 1"), ("fcm goaway-every=5:late", "goaway-every=N:early"),
    ("fcm goaway-every=", "found nothing"), ("fcm reset=1001", "from 0 to 1000"),
    ("fcm reset=-1", "from 0 to 1000"),
    ("fcm reset=1:", "found nothing"), ("fcm reset=1:7,", "found nothing"), ("fcm reset=1:x", "found 'x'"),
    ("fcm reset=1:7:8", "reset=PERMILLE[:CODE,...]"), ("fcm reset=1:4294967296", "from 0 to 4294967295"),
    ("fcm close=1.5", "from 0 to 1000"), ("fcm streams=-1", "from 0"), ("fcm latency=50", "latency=fixed:MS"),
    ("fcm latency=normal:50", "latency=exponential:MEAN"), ("fcm latency=uniform:9", "latency=uniform:LOW-HIGH"),
    ("fcm latency=uniform:9-5", "from 9"), ("fcm latency=fixed:3600001", "to 3600000"),
    ("fcm error=5", "error=PERMILLE:STATUS"), ("fcm error=5:200", "from 400 to 599"),
    ("fcm error=5:500:not-a-word", "letters, digits and _"), ("fcm error=5:500:A:soon", "found 'soon'"),
    ("fcm error=600:500 error=401:503", "at most 1000 per mille"), ("fcm stall stall", "already named"),
    ("fcm date-skew=tomorrow", "found 'tomorrow'"), ("fcm StalledStream", "stall, stall-after="),
]

/// Fault directives, as given on the command line and on standard input.
@Suite(.tags(.sockets)) struct FaultLineTests {
    @Test func `a platform alone clears its faults`() throws {
        #expect(try FaultDirective("apns-production") == .faults(.apnsProduction, Faults()))
        #expect(try FaultDirective("  apns-development ") == .faults(.apnsDevelopment, Faults()))
        #expect(try FaultDirective("fcm") == .faults(.fcm, Faults()))
    }

    @Test func `every fault has a keyword`() throws {
        let line = """
            apns-production goaway-every=500:early reset=10:7,8 close=3 streams=100 stall swallow \
            latency=exponential:50 error=20:503:ServiceUnavailable:30 error=5:500 error=1:429::60 \
            token-endpoint-down date-skew=-3600
            """
        let wanted = faulty {
            $0.goAwayEvery = 500
            $0.goAwayIsEarly = true
            $0.resetPerMille = 10
            $0.resetCodes = [7, 8]
            $0.closePerMille = 3
            $0.concurrentStreams = 100
            $0.stalls = true
            $0.isBlackHole = true
            $0.latency = .exponential(mean: 50)
            $0.errors = [
                Faults.ErrorAnswer(perMille: 20, status: 503, reason: "ServiceUnavailable", retryAfter: 30),
                Faults.ErrorAnswer(perMille: 5, status: 500),
                Faults.ErrorAnswer(perMille: 1, status: 429, retryAfter: 60),
            ]
            $0.tokenEndpointIsDown = true
            $0.dateSkew = -3600
        }
        #expect(try FaultDirective(line) == .faults(.apnsProduction, wanted))
    }

    @Test func `optional parts may be omitted`() throws {
        #expect(try FaultDirective("fcm goaway-every=1") == .faults(.fcm, faulty { $0.goAwayEvery = 1 }))
        #expect(try FaultDirective("fcm reset=1000") == .faults(.fcm, faulty { $0.resetPerMille = 1000 }))
        #expect(try FaultDirective("fcm latency=fixed:0") == .faults(.fcm, faulty { $0.latency = .fixed(0) }))
        #expect(try FaultDirective("fcm latency=uniform:5-9") == .faults(.fcm, faulty { $0.latency = .uniform(5...9) }))
        #expect(try FaultDirective("fcm streams=0") == .faults(.fcm, faulty { $0.concurrentStreams = 0 }))
    }

    @Test func `one-time actions have a keyword too`() throws {
        #expect(try FaultDirective("kill fcm") == .kill(.fcm))
        #expect(try FaultDirective("restart apns-production") == .restart(.apnsProduction))
        for kind in ServedCertificate.allCases {
            #expect(
                try FaultDirective("certificate apns-development \(kind.rawValue)")
                    == .certificate(.apnsDevelopment, kind))
        }
    }

    @Test(arguments: badLines)
    func `a syntax error says what was expected`(_ line: String, _ expected: String) throws {
        let mistake = #expect(throws: FaultDirective.SyntaxError.self) { try FaultDirective(line) }
        #expect(mistake?.description.contains(expected) == true, "\(mistake?.description ?? "no mistake")")
    }

    @Test func `the help names every keyword`() {
        let keywords = [
            "apns-production", "apns-development", "fcm", "kill", "restart", "certificate", "goaway-every=", "reset=",
            "close=", "streams=", "stall", "swallow", "latency=", "error=", "token-endpoint-down", "date-skew=",
        ]
        for keyword in keywords { #expect(FaultDirective.help.contains(keyword), "\(keyword)") }
        for kind in ServedCertificate.allCases { #expect(FaultDirective.help.contains(kind.rawValue)) }
    }
}

/// The effect of each fault on a client over real HTTP/2 and TLS.
@Suite(.tags(.sockets)) struct FaultTests {
    @Test func `a regular GOAWAY loses nothing, and the next request takes another connection`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.set(faulty { $0.goAwayEvery = 5 }, on: .apnsProduction)
        // On a slow machine some of these are written after the server sent GOAWAY; their sender sends them again.
        for answer in await bed.attempts(8) where answer.status != 200 {
            #expect(answer.failure == .notProcessed(.goAway))
            #expect(try await bed.attempt().get().status == 200)
        }
        #expect(try await bed.attempt().get().status == 200)
        #expect(await bed.services.received.count == 10)
        #expect(await bed.services.connectionsAccepted(.apnsProduction) == 2)
        #expect(await bed.services.requests(.apnsProduction) == 10)
        await bed.stop()
        #expect(bed.lost.isEmpty)
    }

    @Test func `an early GOAWAY correctly reports which requests were not processed`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.set(
            faulty {
                $0.goAwayEvery = 5
                $0.goAwayIsEarly = true
            }, on: .apnsProduction)
        let answers = await bed.attempts(10)
        let failures = answers.compactMap(\.failure)
        #expect(!failures.isEmpty)
        #expect(failures.allSatisfy { $0 == .notProcessed(.goAway) })
        let answered = answers.count { $0.status == 200 }
        #expect(await bed.services.received.count == 1 + answered)
        #expect(answered + failures.count == 10)
        await bed.stop()
        #expect(bed.lost.isEmpty)
    }

    @Test func `a reset has its code, and processed requests are reported as lost answers`() async throws {
        let bed = try await FaultTestBed.start()
        try await bed.services.set(
            faulty {
                $0.resetPerMille = 1000
                $0.resetCodes = [11]
            }, on: .apnsProduction)
        let answers = await bed.attempts(40)
        #expect(answers.allSatisfy { $0.failure == .outcomeUnknown(.reset(code: 11)) })
        let received = await bed.services.received.map(\.id)
        #expect((1..<40).contains(received.count))
        #expect(bed.lost == received)
        #expect(bed.answered.isEmpty)
        await bed.stop()
    }

    @Test func `an answer is reported once it has been sent`() async throws {
        let bed = try await FaultTestBed.start()
        try await bed.services.set(faulty { $0.latency = .uniform(1...50) }, on: .apnsProduction)
        let answers = await bed.attempts(20)
        #expect(answers.allSatisfy { $0.status == 200 })
        #expect(bed.answered.sorted() == (await bed.services.received.map(\.id)).sorted())
        #expect(bed.lost.isEmpty)
        await bed.stop()
    }

    @Test func `a refused stream is not processed`() async throws {
        let bed = try await FaultTestBed.start()
        try await bed.services.set(
            faulty {
                $0.resetPerMille = 1000
                $0.resetCodes = [7]
            }, on: .apnsProduction)
        let answers = await bed.attempts(20)
        #expect(answers.allSatisfy { $0.failure == .notProcessed(.reset(code: 7)) })
        #expect(await bed.services.received.isEmpty)
        #expect(bed.lost.isEmpty)
        await bed.stop()
    }

    @Test func `SETTINGS reduces and restores the streams of an open connection`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        func time(_ count: Int, _ faults: Faults) async throws -> Duration {
            try await bed.services.set(faults, on: .apnsProduction)
            // Wait until the client has read the SETTINGS.
            await bed.pause(.milliseconds(50))
            let start = MonotonicTime.now
            #expect(await bed.attempts(count).allSatisfy { $0.status == 200 })
            return .now - start
        }
        let one = try await time(
            4,
            faulty {
                $0.concurrentStreams = 1
                $0.latency = .fixed(50)
            })
        // Timers may fire slightly early.
        #expect(one >= .milliseconds(160))
        let many = try await time(12, faulty { $0.latency = .fixed(50) })
        #expect(many >= .milliseconds(40) && many < .milliseconds(12 * 50))
        #expect(await bed.services.connectionsAccepted(.apnsProduction) == 1)
        await bed.stop()
    }

    @Test func `a stalled request is delivered, and the client times out`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.set(faulty { $0.stalls = true }, on: .apnsProduction)
        let answer = await bed.attempt(timeout: .milliseconds(150))
        #expect(answer.failure == .outcomeUnknown(.timedOut))
        let received = await bed.services.received.map(\.id)
        #expect(received.count == 2)
        #expect(bed.lost == Array(received.dropFirst()))
        await bed.stop()
    }

    @Test func `a black hole accepts bytes and connections and stays silent until it is lifted`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.set(faulty { $0.isBlackHole = true }, on: .apnsProduction)
        let answer = await bed.attempt(timeout: .milliseconds(150))
        #expect(answer.failure == .outcomeUnknown(.timedOut))
        #expect(await bed.dial(timeout: .milliseconds(150)) == .timedOut)
        #expect(await bed.services.received.count == 1)
        #expect(await bed.services.connectionsAccepted(.apnsProduction) == 2)
        try await bed.services.set(Faults(), on: .apnsProduction)
        await bed.renewClient()
        #expect(await bed.attempt().status == 200)
        await bed.stop()
        #expect(bed.lost.isEmpty)
    }

    @Test func `answers are delayed by the configured latency`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.set(faulty { $0.latency = .uniform(60...80) }, on: .apnsProduction)
        #expect(await bed.attempts(10).allSatisfy { $0.status == 200 })
        // An answer that takes an hour is not there when the request times out, but the phone has rung.
        try await bed.services.set(faulty { $0.latency = .fixed(3_600_000) }, on: .apnsProduction)
        #expect(await bed.attempt(timeout: .seconds(2)).failure == .outcomeUnknown(.timedOut))
        #expect(await bed.services.received.count == 12)
        await bed.stop()
    }

    @Test(arguments: [
        (Faults.ErrorAnswer(perMille: 1000, status: 500), "InternalServerError"),
        (Faults.ErrorAnswer(perMille: 1000, status: 503, retryAfter: 30), "ServiceUnavailable"),
        (Faults.ErrorAnswer(perMille: 1000, status: 429, reason: "Enough"), "Enough"),
    ])
    func `an error has its reason and Retry-After, and delivers nothing`(
        _ error: Faults.ErrorAnswer, _ reason: String
    ) async throws {
        let bed = try await FaultTestBed.start()
        try await bed.services.set(faulty { $0.errors = [error] }, on: .apnsProduction)
        let response = try await bed.attempt().get()
        #expect(response.status == error.status)
        #expect(response.headers.text("retry-after") == error.retryAfter.map { String($0) })
        #expect(String(decoding: response.body, as: UTF8.self) == "{\"reason\":\"\(reason)\"}")
        #expect(await bed.services.received.isEmpty)
        await bed.stop()
    }

    @Test func `a dropped connection answers nothing, and its processed requests count as lost`()
        async throws
    {
        let bed = try await FaultTestBed.start()
        try await bed.services.set(faulty { $0.closePerMille = 1000 }, on: .apnsProduction)
        for _ in 0..<16 {
            let failure = await bed.attempt().failure
            guard case .outcomeUnknown(.connectionLost)? = failure else {
                Issue.record("\(String(describing: failure))")
                continue
            }
            await bed.renewClient()
        }
        let received = await bed.services.received.map(\.id)
        #expect((1..<16).contains(received.count))
        #expect(bed.lost == received)
        #expect(await bed.services.connections(.apnsProduction) == 0)
        await bed.stop()
    }

    @Test func `a killed stand-in restarts on the same port`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        #expect(await bed.services.connections(.apnsProduction) == 1)
        await bed.services.kill(.apnsProduction)
        #expect(await bed.services.connections(.apnsProduction) == 0)
        await bed.pause(.milliseconds(50))
        let failure = await bed.attempt().failure
        guard case .notProcessed(.unreachable)? = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        try await bed.services.restart(.apnsProduction)
        await bed.renewClient()
        #expect(await bed.attempt().status == 200)
        #expect(await bed.services.connectionsAccepted(.apnsProduction) == 2)
        await bed.stop()
    }

    @Test func `answers sent just before a kill or still pending count as lost`() async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.set(faulty { $0.latency = .fixed(30_000) }, on: .apnsProduction)
        async let pending = bed.attempts(3)
        for _ in 0..<500 {
            if await bed.services.received.count == 4 { break }
            await bed.pause(.milliseconds(2))
        }
        #expect(bed.lost.isEmpty)
        await bed.services.kill(.apnsProduction)
        for answer in await pending {
            guard case .outcomeUnknown(.connectionLost)? = answer.failure else {
                Issue.record("\(String(describing: answer.failure))")
                continue
            }
        }
        let received = await bed.services.received.map(\.id)
        #expect(received.count == 4)
        #expect(bed.lost.sorted() == received.sorted())
        await bed.stop()
    }

    @Test func `a request that times out at the client counts as lost`() async throws {
        let bed = try await FaultTestBed.start()
        try await bed.services.set(faulty { $0.latency = .fixed(30_000) }, on: .apnsProduction)
        #expect(await bed.attempt(timeout: .milliseconds(150)).failure == .outcomeUnknown(.timedOut))
        for _ in 0..<500 {
            if !bed.lost.isEmpty { break }
            await bed.pause(.milliseconds(2))
        }
        let received = await bed.services.received.map(\.id)
        #expect(received.count == 1)
        #expect(bed.lost == received)
        await bed.stop()
    }

    @Test(arguments: [ServedCertificate.untrusted, .expired, .otherName])
    func `a wrong certificate makes the stand-in unreachable for new connections`(
        _ certificate: ServedCertificate
    ) async throws {
        let bed = try await FaultTestBed.start()
        _ = try await bed.attempt().get()
        try await bed.services.setCertificate(of: .apnsProduction, to: certificate)
        #expect(await bed.attempt().status == 200, "on the open connection")
        await bed.renewClient()
        let failure = await bed.attempt().failure
        guard case .notProcessed(.unreachable)? = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        try await bed.services.setCertificate(of: .apnsProduction, to: .good)
        await bed.renewClient()
        #expect(await bed.attempt().status == 200)
        await bed.stop()
    }

    @Test func `a token endpoint that is down answers 503, and messages are still checked`() async throws {
        let bed = try await FaultTestBed.start()
        #expect(await bed.toGoogle("/token").status == 400)
        try await bed.services.set(faulty { $0.tokenEndpointIsDown = true }, on: .fcm)
        #expect(await bed.toGoogle("/token").status == 503)
        #expect(await bed.toGoogle("/v1/projects/bisqnotifications/messages:send").status == 401)
        #expect(await bed.services.requests(.fcm) == 3)
        await bed.stop()
    }

    @Test func `an error of the FCM stand-in has Google's format`() async throws {
        let bed = try await FaultTestBed.start()
        let error = Faults.ErrorAnswer(perMille: 1000, status: 429, retryAfter: 61)
        try await bed.services.set(faulty { $0.errors = [error] }, on: .fcm)
        let response = try await bed.toGoogle("/v1/projects/bisqnotifications/messages:send").get()
        #expect(response.status == 429)
        #expect(response.headers.text("retry-after") == "61")
        let words = JSONValue(response.body)?["error"]
        #expect(words?["status"] == .string("RESOURCE_EXHAUSTED"))
        #expect(String(decoding: response.body, as: UTF8.self).contains("\"errorCode\":\"QUOTA_EXCEEDED\""))
        await bed.stop()
    }

    @Test func `the Date header follows the stand-in's clock and skew`() async throws {
        let bed = try await FaultTestBed.start()
        func isNow(_ response: Response, plus seconds: Int64) -> Bool {
            let now = Int64(Date.now.timeIntervalSince1970) + seconds
            return (now - 5...now + 1).contains { HTTPDate.text($0) == response.headers.text("date") }
        }
        let fromApple = try await bed.attempt().get()
        let fromGoogle = try await bed.toGoogle("/token").get()
        #expect(isNow(fromApple, plus: 0))
        #expect(isNow(fromGoogle, plus: 0))
        await bed.services.moveClock(by: 86_400)
        try await bed.services.set(faulty { $0.dateSkew = -7200 }, on: .apnsProduction)
        let skewed = try await bed.attempt().get()
        let moved = try await bed.toGoogle("/token").get()
        #expect(isNow(skewed, plus: 86_400 - 7200))
        #expect(isNow(moved, plus: 86_400))
        await bed.stop()
    }

    @Test func `each provider token is counted once`() async throws {
        let bed = try await FaultTestBed.start(withCertificate: false)
        let now = Int64(Date.now.timeIntervalSince1970)
        let old = bed.bearer(issued: now - 1500)
        let new = bed.bearer(issued: now)
        for authorization in [old, old, new, new] {
            #expect(await bed.attempt(authorization: authorization).status == 200)
        }
        #expect(await bed.services.providerTokensSeen(.apnsProduction) == 2)
        #expect(await bed.attempt(authorization: bed.bearer(issued: now - 10)).status == 429)
        #expect(await bed.services.providerTokensSeen(.apnsProduction) == 3)
        #expect(await bed.services.providerTokensSeen(.apnsDevelopment) == 0)
        #expect(await bed.services.providerTokensSeen(.apnsProduction, .apnsDevelopment) == 3)
        await bed.stop()
    }

    @Test func `notifications are observed even if they are not stored`() async throws {
        let bed = try await FaultTestBed.start()
        let count = Counter()
        await bed.services.observe { _ in count.value.withLock { $0 += 1 } }
        await bed.services.setStoresReceived(false)
        #expect(await bed.attempts(5).allSatisfy { $0.status == 200 })
        #expect(await bed.services.received.isEmpty)
        #expect(count.value.withLock { $0 } == 5)
        await bed.stop()
    }

    @Test func `a phone is reached only under its own app's topic, with one key for all apps`() async throws {
        let bed = try await FaultTestBed.start(withCertificate: false)
        let bearer = bed.bearer(issued: Int64(Date.now.timeIntervalSince1970))
        for app in PhoneApp.allCases {
            let phone = Phone.new(.iOS, model: "iPhone", app: app)
            await bed.services.register(phone)
            for topic in PhoneApp.allCases.map(\.topic) {
                let answer = await bed.attempt(to: phone, topic: topic, authorization: bearer)
                let body = String(decoding: try answer.get().body, as: UTF8.self)
                #expect(body == (topic == app.topic ? "" : #"{"reason":"DeviceTokenNotForTopic"}"#))
            }
        }
        #expect(await bed.services.received.count == PhoneApp.allCases.count)
        let unregistered = Phone.new(.iOS, model: "iPhone")
        #expect(await bed.attempt(to: unregistered, topic: PhoneApp.bisq.topic, authorization: bearer).status == 400)
        await bed.stop()
    }

    @Test func `each app's project has a service account of its own`() async throws {
        let directory = "/tmp/tocsin-faults-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let services = SimulatedServices(
            SimulatedServices.Options(directory: directory, projectID: "mine"), on: EventLoop(name: "faults"))
        _ = try await services.start()
        await services.stop()
        for app in PhoneApp.allCases {
            let file = try Data(contentsOf: URL(filePath: "\(directory)/\(app.serviceAccountFile)"))
            let account = try #require(JSONValue(Array(file)))
            let projectID = app == .bisq ? "mine" : app.projectID
            #expect(account["project_id"] == .string(projectID))
            #expect(account["client_email"] == .string("node@\(projectID).iam.gserviceaccount.com"))
        }
    }

    @Test func `a stand-in that does not run accepts no directives`() async throws {
        let services = SimulatedServices(
            SimulatedServices.Options(directory: "/nonexistent"), on: EventLoop(name: "faults"))
        await #expect(throws: SimulatedServices.SetupError.self) { try await services.set(Faults(), on: .fcm) }
        await #expect(throws: SimulatedServices.SetupError.self) { try await services.apply(.restart(.fcm)) }
    }
}

private final class Counter: Sendable {
    let value = Mutex(0)
}

extension Result where Success == Response, Failure == RequestFailure {
    fileprivate var status: Int? { if case .success(let response) = self { response.status } else { nil } }
    fileprivate var failure: RequestFailure? { if case .failure(let failure) = self { failure } else { nil } }
}

/// The stand-ins, a phone, a client for Apple's production environment and one for Google, on a loop of their own.
private actor FaultTestBed {
    typealias Answer = Result<Response, RequestFailure>

    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    nonisolated let services: SimulatedServices
    private nonisolated let phone: Phone
    private nonisolated let endpoints: SimulatedServices.Endpoints
    private nonisolated let context: TLSContext
    private nonisolated let key: SigningKey
    private nonisolated let observed: Observed
    private var apple: ConnectionPool
    private let google: ConnectionPool

    private final class Observed: Sendable {
        let lost = Mutex<[String]>([])
        let answered = Mutex<[String]>([])
    }

    /// Starts everything in a new directory, which is deleted once the client has read its files.
    static func start(withCertificate: Bool = true) async throws -> FaultTestBed {
        let directory = "/tmp/tocsin-faults-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func file(_ name: String) throws -> [UInt8] {
            Array(try Data(contentsOf: URL(filePath: "\(directory)/\(name)")))
        }
        let loop = EventLoop(name: "faults")
        let services = SimulatedServices(SimulatedServices.Options(directory: directory, seed: 1), on: loop)
        let endpoints = try await services.start()
        var identity: CertifiedKey?
        if withCertificate {
            let password = SecretBytes(try file("apns.p12.password"))
            identity = try PKCS12.open(try file("apns.p12"), password: password)
        }
        let context = try TLSContext.client(
            authorities: TrustedAuthorities(and: try file("ca.pem")), identity: identity, applicationProtocol: "h2")
        let key = try SigningKey(pem: try file("apns.p8"), algorithm: .es256)
        let observed = Observed()
        await services.observeLostAnswers { notification in observed.lost.withLock { $0.append(notification.id) } }
        await services.observeAnswers { notification in observed.answered.withLock { $0.append(notification.id) } }
        let phone = Phone.new(.iOS, model: "iPhone")
        await services.register(phone)
        return FaultTestBed(services, endpoints, context, key, phone, observed, on: loop)
    }

    private init(
        _ services: SimulatedServices, _ endpoints: SimulatedServices.Endpoints, _ context: TLSContext,
        _ key: SigningKey, _ phone: Phone, _ observed: Observed, on loop: EventLoop
    ) {
        self.loop = loop
        self.services = services
        self.endpoints = endpoints
        self.context = context
        self.key = key
        self.phone = phone
        self.observed = observed
        apple = ConnectionPool(Destination(endpoints.production, tls: context), on: loop)
        google = ConnectionPool(Destination(endpoints.fcm, tls: context), on: loop)
    }

    /// The ids of notifications whose answers have been sent, in order.
    nonisolated var answered: [String] { observed.answered.withLock { $0 } }

    /// The ids of notifications whose answers were lost, in order.
    nonisolated var lost: [String] { observed.lost.withLock { $0 } }

    /// Sends a notification to the phone.
    func attempt(timeout: Duration = .seconds(10), authorization: String? = nil) async -> Answer {
        await send(request(authorization), by: apple, timeout: timeout)
    }

    /// Sends a notification to a phone under a topic.
    func attempt(to phone: Phone, topic: String, authorization: String) async -> Answer {
        await send(request(authorization, to: phone, topic: topic), by: apple, timeout: .seconds(60))
    }

    /// Sends this many notifications at once, in as few turns of the loop as the tasks allow.
    func attempts(_ count: Int) async -> [Answer] {
        let tasks = (0..<count).map { _ in Task { await attempt() } }
        var answers: [Answer] = []
        for task in tasks { answers.append(await task.value) }
        return answers
    }

    /// Sends a request that Google rejects.
    func toGoogle(_ path: String) async -> Answer {
        var headers = pseudoHeaders(path)
        headers.append("content-type", "application/json")
        return await send(Request(headers: headers, body: Array("{}".utf8)), by: google, timeout: .seconds(60))
    }

    private func send(_ request: Request, by upstream: ConnectionPool, timeout: Duration) async -> Answer {
        do {
            return .success(try await upstream.send(request, timeout: timeout))
        } catch {
            return .failure(error)
        }
    }

    /// The error of a new connection to Apple's production environment; `nil` if it succeeds.
    func dial(timeout: Duration) async -> StreamError? {
        do {
            try await loop.dial(endpoints.production, tls: context, timeout: timeout).close()
            return nil
        } catch {
            return error
        }
    }

    /// Replaces the client by a new one without a connection.
    func renewClient() {
        apple.close()
        apple = ConnectionPool(Destination(endpoints.production, tls: context), on: loop)
    }

    func pause(_ time: Duration) async { await loop.sleep(for: time) }

    func stop() async {
        apple.close()
        google.close()
        await services.stop()
    }

    private func pseudoHeaders(_ path: String) -> HeaderBlock {
        var headers = HeaderBlock()
        headers.append(":method", "POST")
        headers.append(":scheme", "https")
        headers.append(":authority", "localhost")
        headers.append(":path", path)
        return headers
    }

    private func request(_ authorization: String?, to other: Phone? = nil, topic: String = PhoneApp.bisq.topic)
        -> Request
    {
        var headers = pseudoHeaders("/3/device/\((other ?? phone).deviceToken)")
        headers.append("apns-topic", topic)
        headers.append("apns-push-type", "alert")
        headers.append("apns-id", UUID().uuidString.lowercased())
        if let authorization { headers.append("authorization", authorization) }
        return Request(headers: headers, body: Array(#"{"aps":{"alert":{"body":"New"}},"encrypted":"x"}"#.utf8))
    }

    /// The value of `authorization` with a provider token of this Unix time.
    nonisolated func bearer(issued: Int64) -> String {
        let header = "{\"alg\":\"ES256\",\"kid\":\"\(SimulatedServices.keyID)\"}"
        let claims = "{\"iss\":\"\(SimulatedServices.teamID)\",\"iat\":\(issued)}"
        let signed = Base64.encodeURLSafe(header.utf8) + [UInt8(ascii: ".")] + Base64.encodeURLSafe(claims.utf8)
        let signature = Base64.encodeURLSafe(key.sign(signed))
        return "bearer " + String(decoding: signed + [UInt8(ascii: ".")] + signature, as: UTF8.self)
    }
}
