// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TestSupport
import Testing

@testable import HTTP2
@testable import Time

@Suite(.tags(.sockets)) struct ConnectionWatchTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let nanosecond = Duration.nanoseconds(1)

    private func time(_ seconds: Int) -> MonotonicTime { start + .seconds(seconds) }

    // MARK: Requests in flight

    @Test func `5 s of silence with requests in flight sends one PING`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        let before = watch.check(start + (Duration.seconds(5) - nanosecond), lastReceived: start)
        #expect(before == .nothing)
        let then = watch.check(time(5), lastReceived: start)
        #expect(then == .ping)
        for second in 5..<9 {
            let later = watch.check(time(second), lastReceived: start)
            #expect(later == .nothing)
        }
    }

    @Test func `9 s of silence with requests in flight means a dead connection`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        _ = watch.check(time(5), lastReceived: start)
        let before = watch.check(start + (Duration.seconds(9) - nanosecond), lastReceived: start)
        #expect(before == .nothing)
        let then = watch.check(time(9), lastReceived: start)
        #expect(then == .dead)
    }

    @Test func `an answered PING keeps the connection, and the next silence sends another`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        _ = watch.check(time(5), lastReceived: start)
        watch.responseCompleted(time(6))
        let alive = watch.check(time(10), lastReceived: time(6))
        #expect(alive == .nothing)
        let asked = watch.check(time(11), lastReceived: time(6))
        #expect(asked == .ping)
        let ended = watch.check(time(16), lastReceived: time(6))
        #expect(ended == .dead)
    }

    @Test func `silence before the first request does not count`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(time(1000))
        let fresh = watch.check(time(1004), lastReceived: start)
        #expect(fresh == .nothing)
        let asked = watch.check(time(1005), lastReceived: start)
        #expect(asked == .ping)
        let ended = watch.check(time(1010), lastReceived: start)
        #expect(ended == .dead)
    }

    @Test func `10 s of bytes without a response report a stall once`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        var findings: [Int: ConnectionWatch.Finding] = [:]
        for second in 1...60 {
            let finding = watch.check(time(second), lastReceived: time(second))
            if finding != .nothing { findings[second] = finding }
        }
        #expect(findings == [10: .stalled])
    }

    @Test func `one response within 10 s prevents a stall`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        for second in 1...100 {
            if second.isMultiple(of: 9) { watch.responseCompleted(time(second)) }
            let finding = watch.check(time(second), lastReceived: time(second))
            #expect(finding == .nothing, "\(second) s")
        }
    }

    @Test func `new requests after idle time have their own 10 s`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        let first = watch.check(time(10), lastReceived: time(10))
        #expect(first == .stalled)
        watch.becameIdle()
        watch.becameBusy(time(20))
        let fresh = watch.check(time(29), lastReceived: time(29))
        #expect(fresh == .nothing)
        let second = watch.check(time(30), lastReceived: time(30))
        #expect(second == .stalled)
    }

    // MARK: Idle

    @Test func `an idle connection gets a PING after one hour`() {
        var watch = ConnectionWatch(now: start)
        let before = watch.check(time(3599), lastReceived: start)
        #expect(before == .nothing)
        let asked = watch.check(time(3600), lastReceived: start)
        #expect(asked == .ping)
        // The PING was answered.
        let answered = watch.check(time(3660), lastReceived: time(3601))
        #expect(answered == .nothing)
        let quiet = watch.check(time(7200), lastReceived: time(3601))
        #expect(quiet == .nothing)
        let again = watch.check(time(7201), lastReceived: time(3601))
        #expect(again == .ping)
    }

    @Test func `an idle connection that does not answer a PING for 5 s is dead`() {
        var watch = ConnectionWatch(now: start)
        _ = watch.check(time(3600), lastReceived: start)
        let before = watch.check(time(3604), lastReceived: start)
        #expect(before == .nothing)
        let then = watch.check(time(3605), lastReceived: start)
        #expect(then == .dead)
    }

    @Test func `a request during an unanswered PING finds the connection dead within 10 s`() {
        var watch = ConnectionWatch(now: start)
        _ = watch.check(time(3600), lastReceived: start)
        watch.becameBusy(time(3601))
        let before = watch.check(time(3609), lastReceived: start)
        #expect(before == .nothing)
        let then = watch.check(time(3610), lastReceived: start)
        #expect(then == .dead)
    }

    @Test func `a connection that becomes idle gets no PING for one hour`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        watch.responseCompleted(time(4))
        watch.becameIdle()
        for second in stride(from: 4, to: 3604, by: 60) {
            let finding = watch.check(time(second), lastReceived: time(4))
            #expect(finding == .nothing)
        }
        let asked = watch.check(time(3604), lastReceived: time(4))
        #expect(asked == .ping)
    }

    // MARK: Patterns of traffic

    @Test func `a server that falls silent under load is detected within 10 s`() {
        let resolution = 100
        for offset in stride(from: 0, to: 20_000, by: 370) {
            var watch = ConnectionWatch(now: start)
            watch.becameBusy(start)
            let silence = start + .milliseconds(offset)
            var pings = 0
            var ended: MonotonicTime?
            for tick in stride(from: 0, to: 40_000, by: resolution) where ended == nil {
                let now = start + .milliseconds(tick)
                let lastReceived = min(now, silence)
                watch.responseCompleted(lastReceived)
                switch watch.check(now, lastReceived: lastReceived) {
                case .nothing: break
                case .ping: pings += 1
                case .stalled: Issue.record("the connection was reported as stalled, not as dead")
                case .dead: ended = now
                }
            }
            let taken = ended.map { $0 - silence } ?? .zero
            #expect(taken >= .seconds(9))
            #expect(taken <= .milliseconds(9100))
            #expect(pings == 1)
        }
    }

    @Test func `a slow but responsive connection gets no PING and no stall`() {
        var watch = ConnectionWatch(now: start)
        watch.becameBusy(start)
        var last = 0
        for tick in stride(from: 0, to: 300_000, by: 100) {
            // A byte every 4.9 seconds, and a response with every second one.
            if tick - last >= 4900 {
                last = tick
                if (tick / 4900).isMultiple(of: 2) { watch.responseCompleted(start + .milliseconds(tick)) }
            }
            let finding = watch.check(start + .milliseconds(tick), lastReceived: start + .milliseconds(last))
            if finding != .nothing { Issue.record("\(finding) after \(tick) ms") }
        }
    }
}
