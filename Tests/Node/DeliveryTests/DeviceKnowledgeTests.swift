// SPDX-License-Identifier: Apache-2.0

import TNP
import Tables
import TestSupport
import Testing
import Time

@testable import Delivery
@testable import Providers

@Suite(.tags(.computing)) struct DeviceKnowledgeTests {
    private let now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let token: TableKey

    init() throws { token = TableKey(try Draft().envelope().phone) }

    private func key(_ text: String) -> TableKey { TableKey(token, with: Array(text.utf8)[...]) }

    private func subject(_ sequence: UInt64 = 1, app: Int = 0, isProven: Bool = true) -> DeviceKnowledge.Subject {
        DeviceKnowledge.Subject(
            token: token, collapse: key("collapse"), sequence: sequence, isProven: isProven,
            isStored: false, app: app, magic: .iOS)
    }

    private func makeKnowledge() -> DeviceKnowledge {
        var knowledge = DeviceKnowledge(capacity: 100)
        knowledge.divide(among: [0, 1])
        return knowledge
    }

    /// Teaches a result, and returns what follows from it.
    private func learn(
        _ disposition: Disposition, goneSince: UInt64? = nil, of subject: DeviceKnowledge.Subject? = nil,
        from magic: Magic = .iOS, _ knowledge: inout DeviceKnowledge, _ surge: inout TokenRefusalSurge
    ) -> DeviceKnowledge.Lesson {
        var random: any RandomNumberGenerator = SystemRandomNumberGenerator()
        return knowledge.learn(
            disposition.attemptResult(answer: "test", goneSince: goneSince), subject ?? self.subject(), from: magic,
            &surge, at: now, wall: 1_700_000_000, random: &random)
    }

    @Test func `an acceptance in the other environment is remembered, and the sender gets a hint`() {
        var (knowledge, surge) = (makeKnowledge(), TokenRefusalSurge(now: now))
        guard case .usual = learn(.delivered, &knowledge, &surge) else { return #expect(Bool(false), "not usual") }
        #expect(knowledge.record(of: token, app: 0)?.environment == nil)
        guard case .changed(let hinted) = learn(.delivered, from: .iOSDev, &knowledge, &surge) else {
            return #expect(Bool(false), "no hint")
        }
        #expect(hinted.outcome.kind == .delivered && hinted.outcome.text?.contains("pair again") == true)
        #expect(knowledge.record(of: token, app: 0)?.environment == .iOSDev)
        // Another app's token is another one.
        #expect(knowledge.record(of: token, app: 1) == nil)
    }

    @Test func `an accepted envelope replaces older ones with its collapse id`() throws {
        var (knowledge, surge) = (makeKnowledge(), TokenRefusalSurge(now: now))
        _ = learn(.delivered, of: subject(5), &knowledge, &surge)
        func content(_ sequence: UInt64) throws -> PendingEnvelope.Content {
            PendingEnvelope.Content(
                digest: try Draft().envelope().digest, token: token, collapse: subject().collapse, size: 1,
                format: .pipe, acceptedAt: now, sequence: sequence, ivKey: nil)
        }
        #expect(try knowledge.isReplaced(content(4)))
        #expect(try !knowledge.isReplaced(content(5)))
    }

    @Test func `GONE of a time before an acceptance is not believed the first time`() {
        var (knowledge, surge) = (makeKnowledge(), TokenRefusalSurge(now: now))
        _ = learn(.delivered, &knowledge, &surge)
        let then: UInt64 = 1_600_000_000_000
        guard case .changed(let doubted) = learn(.gone, goneSince: then, &knowledge, &surge) else {
            return #expect(Bool(false), "believed")
        }
        #expect(doubted.outcome.kind == .retry)
        guard case .usual = learn(.gone, goneSince: then, &knowledge, &surge) else {
            return #expect(Bool(false), "doubted twice")
        }
    }

    @Test func `during a surge, no refusal is trusted`() {
        var (knowledge, surge) = (makeKnowledge(), TokenRefusalSurge(now: now))
        for _ in 0..<TokenRefusalSurge.minimumRefusals { surge.refused(now, isProven: true) }
        // Apple counts repeated refusals: after GONE, the environment that has answered is asked again.
        for (disposition, searches) in [(Disposition.badToken, true), (.gone, false)] {
            guard case .surge(let result, let searchesAgain) = learn(disposition, &knowledge, &surge) else {
                return #expect(Bool(false), "trusted")
            }
            #expect(result.outcome.kind == .retry && searchesAgain == searches)
        }
    }

    @Test
    func `during a surge, the push service is asked rarely about what strangers can invent and the node has stored`() {
        var (knowledge, surge) = (makeKnowledge(), TokenRefusalSurge(now: now))
        for _ in 0..<TokenRefusalSurge.minimumRefusals { surge.refused(now, isProven: true) }
        func pause(isProven: Bool, isStored: Bool) -> UInt32? {
            let subject = DeviceKnowledge.Subject(
                token: token, collapse: nil, sequence: 1, isProven: isProven, isStored: isStored, app: 0, magic: .iOS)
            guard case .surge(let result, _) = learn(.gone, of: subject, &knowledge, &surge) else { return nil }
            return result.retryAfter
        }
        let interval = UInt32(TokenRefusalSurge.questionInterval.components.seconds)
        for number in 0..<3000 as Range<UInt32> {
            #expect(pause(isProven: false, isStored: true) == 300 + number * interval)
            #expect(pause(isProven: true, isStored: true) == 300 && pause(isProven: false, isStored: false) == 300)
        }
        for _ in 0..<50_000 { _ = pause(isProven: false, isStored: true) }
        #expect(pause(isProven: false, isStored: true) == 86_400)
    }

    @Test func `a throttled token is paused`() {
        var (knowledge, surge) = (makeKnowledge(), TokenRefusalSurge(now: now))
        #expect(knowledge.pause(of: token, now: now) == nil)
        _ = learn(.deviceThrottled(seconds: 30), &knowledge, &surge)
        let pause = knowledge.pause(of: token, now: now)
        #expect(pause.map { $0 > .zero } == true)
        let wait = knowledge.admit(token, now: now)
        #expect(wait == pause)
    }

    @Test func `the apps that are served share the room`() {
        var (knowledge, surge) = (DeviceKnowledge(capacity: 8), TokenRefusalSurge(now: now))
        knowledge.divide(among: [0, 1])
        for number in 0..<50 {
            let other = DeviceKnowledge.Subject(
                token: key("token \(number)"), collapse: nil, sequence: 1, isProven: true, isStored: false, app: 0,
                magic: .iOS)
            _ = learn(.delivered, of: other, &knowledge, &surge)
        }
        let entries = knowledge.tables.first { $0.name.contains("environments") }?.entries ?? 0
        #expect(entries > 0 && entries <= 4)
    }

    @Test func `the room stays the same when a reload adds or replaces apps`() {
        var (knowledge, surge) = (DeviceKnowledge(capacity: 8), TokenRefusalSurge(now: now))
        func entries(_ knowledge: DeviceKnowledge) -> Int {
            knowledge.tables.first { $0.name.contains("environments") }?.entries ?? 0
        }
        var apps: Set<Int> = [0]
        for app in 0..<6 {
            // The first app stays; each reload adds one beside it, or puts one in the place of the other.
            knowledge.divide(among: apps)
            for (number, owner) in (0..<50).flatMap({ number in apps.sorted().map { (number, $0) } }) {
                let subject = DeviceKnowledge.Subject(
                    token: key("\(owner) \(number)"), collapse: nil, sequence: 1, isProven: true, isStored: false,
                    app: owner, magic: .iOS)
                _ = learn(.delivered, of: subject, &knowledge, &surge)
            }
            #expect(entries(knowledge) > 0 && entries(knowledge) <= 8, "\(apps): \(entries(knowledge))")
            apps = [0, app + 1]
        }
    }
}
