// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP
import TestSupport
import Testing

@testable import Delivery
@testable import Time

@Suite(.tags(.computing)) struct ReplayWindowTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let length = Duration.seconds(600)
    private var beforeTheEnd: MonotonicTime { start + (length - .nanoseconds(1)) }
    private var atTheEnd: MonotonicTime { start + length }

    private func makeWindow(capacity: Int = 100) -> ReplayWindow { ReplayWindow(length: length, capacity: capacity) }

    /// Each number selects another device, iv or ciphertext.
    private func makeEnvelope(
        device: Int = 1, iv: Int = 1, text: Int = 1, magic: Magic = .iOS, app: String = ""
    ) throws -> Envelope {
        try Envelope(
            app: Array(app.utf8)[...], magic: magic, deviceToken: Array(String(1_000_000_000 + device).utf8)[...],
            iv: Array(String(1_000_000_000_000_000 + iv).utf8)[...],
            ciphertext: [UInt8](repeating: UInt8(text), count: 16)[...], format: .pipe)
    }

    // MARK: Outcomes

    @Test func `an envelope that was never seen has no outcome`() throws {
        var window = makeWindow()
        let outcome = window.outcome(of: try makeEnvelope(), now: start)
        #expect(outcome == nil)
    }

    @Test func `a resend gets the same outcome until the window ends`() throws {
        let envelope = try makeEnvelope(magic: .android)
        let outcomes: [Outcome] = [
            .delivered(id: "projects/p/messages/1"), .gone(since: 1_700_000_000_000), .gone(since: nil),
            .rejected(.badDeviceToken, text: "no such device"),
        ]
        for outcome in outcomes {
            var window = makeWindow()
            window.finish(envelope, outcome, now: start)
            for time in [start, start + .seconds(1), beforeTheEnd] {
                let repeated = window.outcome(of: envelope, now: time)
                #expect(repeated == outcome)
            }
            #expect(window.count == 1)
            let late = window.outcome(of: envelope, now: atTheEnd)
            #expect(late == nil)
            #expect(window.count == 0)
        }
    }

    @Test func `only final outcomes of the provider are repeated`() {
        for (reason, _, text) in Reason.known {
            // The node itself uses 300.
            let isFromProvider = (301...399).contains(reason.rawValue)
            #expect(Outcome.rejected(reason).isRepeated == isFromProvider, "\(text)")
            #expect(!Outcome.retry(reason, after: 1000).isRepeated, "\(text)")
        }
        #expect(Outcome.delivered(id: "an-id").isRepeated)
        #expect(Outcome.delivered().isRepeated)
        #expect(Outcome.gone(since: 1).isRepeated)
        #expect(Outcome.gone(since: nil).isRepeated)
        #expect(!Outcome(.queued).isRepeated)
        for wrong in [100, 208, 300, 400] as [UInt16] {
            #expect(!Outcome.rejected(Reason(rawValue: wrong)).isRepeated)
        }
    }

    @Test func `retries, local rejections and QUEUED are not remembered`() throws {
        let outcomes: [Outcome] = [
            .retry(.providerUnreachable, after: 1000), .rejected(.tooLarge), .rejected(.ivReused), Outcome(.queued),
        ]
        for outcome in outcomes {
            var window = makeWindow()
            window.finish(try makeEnvelope(), outcome, now: start)
            let repeated = window.outcome(of: try makeEnvelope(), now: start)
            #expect(repeated == nil)
            #expect(window.count == 0)
        }
    }

    @Test func `another envelope has its own outcome`() throws {
        var window = makeWindow()
        window.finish(try makeEnvelope(), .delivered(), now: start)
        let others = [
            try makeEnvelope(device: 2), try makeEnvelope(iv: 2), try makeEnvelope(text: 2),
            try makeEnvelope(app: "bisq"), try makeEnvelope(magic: .iOSDev),
        ]
        for other in others {
            let outcome = window.outcome(of: other, now: start)
            #expect(outcome == nil)
        }
    }

    // MARK: The provider's id

    @Test(arguments: [Magic.iOS, .iOSDev])
    func `a repeated APNs id is derived from the digest`(_ magic: Magic) throws {
        let envelope = try makeEnvelope(magic: magic)
        let id = String(decoding: envelope.apnsID, as: UTF8.self)
        var window = makeWindow()
        var first = Outcome.delivered(id: id)
        first.text = "the device token is of Apple's other environment"
        window.finish(envelope, first, now: start)
        let repeated = window.outcome(of: envelope, now: start)
        #expect(repeated == first)
    }

    @Test func `an FCM id is stored as received`() throws {
        let envelope = try makeEnvelope(magic: .android)
        for id in ["projects/p/messages/1", nil] {
            var window = makeWindow()
            window.finish(envelope, .delivered(id: id), now: start)
            let repeated = window.outcome(of: envelope, now: start)
            #expect(repeated == .delivered(id: id))
        }
    }

    @Test func `an undelivered envelope has no provider id`() throws {
        for outcome in [Outcome.rejected(.badDeviceToken), .gone(since: 1)] {
            var window = makeWindow()
            window.finish(try makeEnvelope(), outcome, now: start)
            let repeated = window.outcome(of: try makeEnvelope(), now: start)
            #expect(repeated == outcome)
        }
    }

    // MARK: An iv with another ciphertext

    @Test func `an iv is refused for another ciphertext while the first one is in flight`() throws {
        var window = makeWindow()
        let first = window.accepts(try makeEnvelope(text: 1), now: start)
        #expect(first)
        let other = window.accepts(try makeEnvelope(text: 2), now: start)
        #expect(!other)
        let same = window.accepts(try makeEnvelope(text: 1), now: start)
        #expect(same)
    }

    @Test func `an iv is refused for another ciphertext however long the first one is in flight`() throws {
        var window = makeWindow()
        _ = window.accepts(try makeEnvelope(text: 1), now: start)
        for time in [atTheEnd, start + .seconds(86_400)] {
            let other = window.accepts(try makeEnvelope(text: 2), now: time)
            #expect(!other)
        }
        window.finish(try makeEnvelope(text: 1), .delivered(), now: start + .seconds(86_400))
        let afterwards = window.accepts(try makeEnvelope(text: 2), now: start + .seconds(86_400) + length)
        #expect(afterwards)
    }

    @Test func `an iv is refused for another ciphertext until the window after the outcome ends`() throws {
        var window = makeWindow()
        _ = window.accepts(try makeEnvelope(text: 1), now: start)
        let finished = start + .seconds(500)
        window.finish(try makeEnvelope(text: 1), .delivered(), now: finished)
        for time in [finished, atTheEnd, finished + (length - .nanoseconds(1))] {
            let other = window.accepts(try makeEnvelope(text: 2), now: time)
            #expect(!other)
        }
        let afterwards = window.accepts(try makeEnvelope(text: 2), now: finished + length)
        #expect(afterwards)
    }

    @Test func `another device may use the same iv, and the same device another iv`() throws {
        var window = makeWindow()
        for (device, iv) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
            let isAccepted = window.accepts(try makeEnvelope(device: device, iv: iv, text: device + iv), now: start)
            #expect(isAccepted)
        }
    }

    @Test func `an iv may not be reused in the other environment or in another app`() throws {
        var window = makeWindow()
        _ = window.accepts(try makeEnvelope(text: 1), now: start)
        for other in [try makeEnvelope(text: 2, magic: .iOSDev), try makeEnvelope(text: 2, app: "bisq")] {
            let isAccepted = window.accepts(other, now: start)
            #expect(!isAccepted)
        }
    }

    @Test func `an iv is free again if its envelope was not accepted`() throws {
        for outcome in [Outcome.retry(.nodeBusy, after: 1000), .rejected(.tooLarge)] {
            var window = makeWindow()
            _ = window.accepts(try makeEnvelope(text: 1), now: start)
            window.finish(try makeEnvelope(text: 1), outcome, now: start)
            let isAccepted = window.accepts(try makeEnvelope(text: 2), now: start)
            #expect(isAccepted)
        }
    }

    @Test func `an iv is not freed when a second envelope with it is not accepted`() throws {
        var window = makeWindow()
        _ = window.accepts(try makeEnvelope(), now: start)
        window.finish(try makeEnvelope(), .delivered(), now: start)
        // The same with the app's name, which changes the digest.
        _ = window.accepts(try makeEnvelope(app: "bisq"), now: start)
        window.finish(try makeEnvelope(app: "bisq"), .retry(.nodeBusy, after: 1000), now: start)
        let isAccepted = window.accepts(try makeEnvelope(text: 2), now: start)
        #expect(!isAccepted)
    }

    @Test func `an iv is not freed before the last envelope with it has its outcome`() throws {
        var window = makeWindow()
        for app in ["", "bisq"] { _ = window.accepts(try makeEnvelope(app: app), now: start) }
        window.finish(try makeEnvelope(), .retry(.providerUnreachable, after: 1000), now: start)
        let tooEarly = window.accepts(try makeEnvelope(text: 2), now: start)
        #expect(!tooEarly)
        window.finish(try makeEnvelope(app: "bisq"), .retry(.providerUnreachable, after: 1000), now: start)
        let isAccepted = window.accepts(try makeEnvelope(text: 2), now: start)
        #expect(isAccepted)
    }

    @Test func `an iv is freed when the last envelope with it leaves the window`() throws {
        var window = makeWindow()
        let later = start + .seconds(100)
        for (app, time) in [("", start), ("bisq", later)] {
            _ = window.accepts(try makeEnvelope(app: app), now: time)
            window.finish(try makeEnvelope(app: app), .delivered(), now: time)
        }
        let first = window.outcome(of: try makeEnvelope(), now: atTheEnd)
        #expect(first == nil)
        let tooEarly = window.accepts(try makeEnvelope(text: 2), now: later + (length - .nanoseconds(1)))
        #expect(!tooEarly)
        let isAccepted = window.accepts(try makeEnvelope(text: 2), now: later + length)
        #expect(isAccepted)
    }

    // MARK: Bounds

    @Test func `a full window evicts the oldest entry and its iv`() throws {
        var window = makeWindow(capacity: 3)
        for device in 1...5 {
            _ = window.accepts(try makeEnvelope(device: device), now: start)
            window.finish(try makeEnvelope(device: device), .delivered(), now: start)
            #expect(window.count == min(device, 3))
        }
        for device in 1...5 {
            let envelope = try makeEnvelope(device: device)
            let outcome = window.outcome(of: envelope, now: start)
            #expect((outcome != nil) == (device > 2), "\(device)")
            let isAccepted = window.accepts(try makeEnvelope(device: device, text: 2), now: start)
            #expect(isAccepted == (device <= 2), "\(device)")
        }
    }

    @Test func `an outcome that is recorded twice takes one entry`() throws {
        var window = makeWindow(capacity: 3)
        for _ in 0..<10 { window.finish(try makeEnvelope(), .delivered(), now: start) }
        #expect(window.count == 1)
    }

    // MARK: Anything

    /// The expected state of one iv of one device.
    private enum Expected {
        case free
        case inFlight(text: Int)
        case finished(text: Int, Outcome, at: MonotonicTime)
    }

    @Test func `in any order of submissions and outcomes resends and reused ivs are told apart`() throws {
        let outcomes: [Outcome] = [
            .delivered(id: "an-id"), .gone(since: 7), .rejected(.badDeviceToken), .rejected(.tooLarge),
            .retry(.providerUnreachable, after: 1000),
        ]
        let envelopes = try (0..<6).map { device in
            try (0..<3).map { try makeEnvelope(device: device, text: $0, magic: .android) }
        }
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SplitMix64(seed: seed)
            var window = makeWindow()
            var expected = [Expected](repeating: .free, count: envelopes.count)
            var now = start
            for _ in 0..<300 {
                now = now + .seconds(generator.below(60))
                let (device, text) = (generator.below(envelopes.count), generator.below(3))
                if case .finished(_, _, let time) = expected[device], now >= time + length { expected[device] = .free }
                let envelope = envelopes[device][text]
                let outcome = window.outcome(of: envelope, now: now)
                switch expected[device] {
                case .free:
                    let isAccepted = window.accepts(envelope, now: now)
                    #expect(outcome == nil && isAccepted, "seed \(seed)")
                    expected[device] = .inFlight(text: text)
                case .inFlight(let first):
                    #expect(outcome == nil, "seed \(seed)")
                    if text != first {
                        let isAccepted = window.accepts(envelope, now: now)
                        #expect(!isAccepted, "seed \(seed)")
                    }
                    let last = outcomes[generator.below(outcomes.count)]
                    window.finish(envelopes[device][first], last, now: now)
                    expected[device] =
                        last.isRepeated ? .finished(text: first, last, at: now) : .free
                case .finished(let first, let last, _):
                    #expect(outcome == (text == first ? last : nil), "seed \(seed)")
                    guard text != first else { continue }
                    let isAccepted = window.accepts(envelope, now: now)
                    #expect(!isAccepted, "seed \(seed)")
                }
            }
        }
    }
}

extension ReplayWindow {
    /// Whether the window accepts an envelope.
    fileprivate mutating func accepts(_ envelope: Envelope, now: MonotonicTime) -> Bool {
        claim(envelope, TableKey(envelope.phone), now: now) != nil
    }

    /// Records the outcome of an envelope.
    fileprivate mutating func finish(_ envelope: Envelope, _ outcome: Outcome, now: MonotonicTime) {
        finished(
            envelope.digest, envelope.magic, Self.key(of: envelope, TableKey(envelope.phone)), outcome, now: now)
    }
}
