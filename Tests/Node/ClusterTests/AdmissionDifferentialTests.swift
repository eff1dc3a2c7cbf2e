// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Foundation
import Redis
import StandIns
import TNP
import TestSupport
import Testing

@testable import Admission
@testable import Cluster
@testable import Time

/// The rules of admission stand in Swift and in functions.lua. The same random events reach a node that decides alone, and
/// one whose engine, a real Redis, decides: each decision must be the same.
@Suite(.tags(.sockets)) struct AdmissionDifferentialTests {
    private static let secret = SecretBytes([UInt8](repeating: 7, count: 32))
    private static let circuit = CircuitID.tor(1)

    /// What the library says of a call to the engine, with the test's clock and without expiry: the engine's own clock
    /// would run beside the test's.
    private static let testEngine = """

        local function test_call(command, ...)
          local arguments = {...}
          if command == 'TIME' then return redis.call('LRANGE', 'test:time', 0, 1) end
          if command == 'EXPIRE' or command == 'PEXPIRE' then return 1 end
          if command == 'SET' and arguments[3] == 'PX' then return redis.call('SET', arguments[1], arguments[2]) end
          return redis.call(command, unpack(arguments))
        end
        """

    private static var library: String {
        let text = FunctionLibrary.current.text
        guard let head = text.range(of: "\nlocal library = "), let end = text[head.upperBound...].firstIndex(of: "\n")
        else { return text }
        return text[..<end] + testEngine + text[end...].replacing("redis.call(", with: "test_call(")
    }

    /// What a node says to a submission.
    private enum Decision: Equatable, CustomStringConvertible {
        case admitted(isUnproven: Bool)
        case refused(Outcome)
        case closed

        var description: String {
            switch self {
            case .admitted(let isUnproven): "admitted\(isUnproven ? ", unproven" : "")"
            case .refused(let outcome):
                "\(outcome.kind) \(outcome.reason.name) after \(outcome.retryAfter), left \(outcome.left ?? 0), full in "
                    + "\(outcome.fullIn ?? 0)"
            case .closed: "closed"
            }
        }

        init(_ refusal: Refusal) {
            guard var outcome = refusal.outcome else {
                self = .closed
                return
            }
            // The engine has the time at which a node learned that a phone is gone, which nobody else may learn.
            outcome.goneSince = nil
            // Several limits may keep a sender waiting, and the one that is asked first answers.
            if outcome.reason == .nodeBusy { outcome.retryAfter = 0 }
            self = .refused(outcome)
        }
    }

    /// A node that decides alone, or together with the engine.
    private final class Node {
        var admission: Admission

        init(_ settings: AdmissionSettings, at now: MonotonicTime) {
            admission = Admission(
                settings, hash: KeyedHash(key: AdmissionDifferentialTests.secret),
                seed: Array(repeating: 1, count: Puzzle.seedLength), now: now)
            _ = admission.connected(AdmissionDifferentialTests.circuit, at: now)
        }
    }

    private static var settings: AdmissionSettings {
        let wide = Rate(burst: 100_000, perMinute: 100_000)
        var settings = AdmissionSettings()
        // Their intervals are whole milliseconds, as are the times of the events: no rounding can decide.
        settings.device = Rate(burst: 2, perMinute: 10)
        settings.app = Rate(burst: 5, perMinute: 40)
        settings.unproven = Rate(burst: 3, perMinute: 10)
        settings.http = Rate(burst: 4, perMinute: 30)
        settings.httpUnproven = Rate(burst: 2, perMinute: 10)
        // The circuit is checked before: the same for both.
        (settings.circuit, settings.node) = (wide, Rate(burst: 16, perMinute: 80))
        (settings.abuse, settings.abuseBlock) = (Rate(burst: 6, perMinute: 60), 2)
        settings.puzzle = EffortControl.Settings(mode: .off)
        (settings.provenDays, settings.deadDays) = (20, 9)
        (settings.senderForgetDays, settings.senderQuietDays) = (15, 4)
        return settings
    }

    /// Clocks that the test moves: whole milliseconds, both by the same.
    private struct Clocks {
        var milliseconds: Int64 = 1_760_000_000_000

        var reading: ClockReading {
            ClockReading(
                monotonic: MonotonicTime(nanoseconds: UInt64(milliseconds) * 1_000_000), unix: milliseconds / 1000)
        }
    }

    private static let outcomes: [(Outcome, ProviderContact)] = [
        (.gone(since: nil), .contacted), (.rejected(.badDeviceToken), .contacted),
        (.rejected(.tooLarge), .contacted), (.rejected(.ttlRanOut), .notContacted),
        (.retry(.providerUnreachable, after: 1), .contacted), (.retry(.providerUnreachable, after: 1), .notContacted),
        (.retry(.nodeBusy, after: 1), .noCapacity),
    ]

    /// Most submissions are delivered.
    private static func outcome(using random: inout SplitMix64) -> (Outcome, ProviderContact) {
        let index = Int.random(in: 0..<4 * outcomes.count, using: &random)
        return index < outcomes.count ? outcomes[index] : (.delivered(), .contacted)
    }

    @Test func `a node and its engine decide as a node alone does`() async throws {
        let server = try RedisServer()
        try await server.start()
        do {
            try await LoopDomain(EventLoop(name: "differential")).run { domain in
                let connection = RedisConnection(try await domain.loop.dial(server.endpoint, timeout: .seconds(60)))
                var load = RedisCommand("FUNCTION", "LOAD")
                load.append(Self.library)
                _ = try await connection.call(load)
                var decisions: [String: Int] = [:]
                for seed in 1...8 as ClosedRange<UInt64> {
                    _ = try await connection.call(RedisCommand("FLUSHDB"))
                    try await compare(seed, &decisions, over: connection)
                }
                // The events reach each rule.
                for word in [
                    "admitted", "unregistered", "device_token_over_rate", "node_busy", "too_many_unproven",
                    "sender_key_needed", "not_this_sender_key", "bad_device_token",
                ] {
                    #expect(decisions[word, default: 0] > 10, "\(word): \(decisions)")
                }
            }
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    private func compare(
        _ seed: UInt64, _ decisions: inout [String: Int], over connection: RedisConnection,
        isolation: isolated (any Actor)? = #isolation
    ) async throws {
        var random = SplitMix64(seed: seed)
        var clocks = Clocks()
        let settings = Self.settings
        let (alone, shared) = (
            Node(settings, at: clocks.reading.monotonic), Node(settings, at: clocks.reading.monotonic)
        )
        let names = KeyNames(cluster: "test", secret: Self.secret)
        let claims = ClaimCalls(session: Array("one".utf8), sessionKey: Array("tocsin:{test}:n:one".utf8))
        let keys = try (1...3).map { number in
            try #require(Ed25519.PrivateKey(seed: [UInt8](repeating: UInt8(number), count: 32)))
        }
        var open: [Open] = []
        for step in 0..<1500 {
            let pause: Int64 =
                switch UInt8.random(in: 0..<100, using: &random) {
                case 0..<80: Int64.random(in: 0...60, using: &random)
                case 80..<97: Int64.random(in: 200...4000, using: &random)
                default: Int64.random(in: 1...7, using: &random) * 86_400_000
                }
            clocks.milliseconds += pause
            let now = clocks.reading
            let device = Int.random(in: 0..<10, using: &random)
            let envelope = try Envelope(
                magic: .iOS, deviceToken: Array(String(1_000_000_000 + device).utf8)[...],
                iv: Array(String(1_000_000_000_000_000 + step).utf8)[...],
                ciphertext: [UInt8](repeating: 1, count: 16)[...], format: .pipe)
            let senderProtocol: Admission.SenderProtocol =
                UInt8.random(in: 0..<4, using: &random) == 0 ? .http : .tnp
            let signer =
                senderProtocol == .http ? 0 : [0, 0, 1, 1, 1, 1, 1, 2, 3, 4][Int.random(in: 0..<10, using: &random)]
            let signature =
                signer == 0
                ? nil
                : SenderSignature(
                    of: envelope, by: keys[signer == 4 ? 1 : signer - 1], succeeding: signer == 4 ? keys[0] : nil)
            let submission = Submission(request: 1, envelope: envelope, proof: nil, signature: signature)
            let app = "app\(Int.random(in: 0..<2, using: &random))"

            func terms(of node: Node) -> Admission.Terms {
                node.admission.terms(of: submission, paid: 0, app: app, on: Self.circuit, through: senderProtocol)
            }
            // A circuit that is blocked submits nothing.
            if (try? alone.admission.checkCircuit(Self.circuit, at: now.monotonic)) == nil {
                #expect((try? shared.admission.checkCircuit(Self.circuit, at: now.monotonic)) == nil)
                clocks.milliseconds += 1000
                continue
            }
            var aloneTicket: Admission.Ticket?
            let expected: Decision
            do throws(Refusal) {
                let ticket = try alone.admission.admit(terms(of: alone), at: now)
                (aloneTicket, expected) = (ticket, .admitted(isUnproven: ticket.isUnproven))
            } catch {
                expected = Decision(error)
            }

            var sharedTicket: Admission.Ticket?
            var sharedTerms = terms(of: shared)
            let envelopeKeys = EnvelopeKeys(
                envelope, token: sharedTerms.token, budgets: names.budgets(of: app, through: senderProtocol), in: names)
            let limits = SharedLimits(settings, for: senderProtocol)
            try await setTime(clocks.milliseconds, over: connection)
            let found: Decision
            do throws(Refusal) {
                try shared.admission.checkNode(&sharedTerms, at: now.monotonic)
                found = .closed
            } catch {
                found = Decision(error)
            }
            var actual = found
            if case .closed = found {
                let reply = try await connection.call(
                    claims.take(
                        envelopeKeys, content: names.hash(of: Array(envelope.ciphertext), as: .pair), ttl: envelope.ttl,
                        terms: sharedTerms, limits: limits, senderKeysCount: settings.senders != .off,
                        obstacle: shared.admission.obstacle(to: sharedTerms, at: now.monotonic),
                        record: shared.admission.record(for: sharedTerms, on: now.day)))
                switch try #require(ClaimAnswer(reply), "\(reply)") {
                case .claimed(let record, let used):
                    do throws(Refusal) {
                        let ticket = try shared.admission.admitted(sharedTerms, record, used: used, at: now)
                        (sharedTicket, actual) = (ticket, .admitted(isUnproven: ticket.isUnproven))
                    } catch {
                        actual = Decision(error)
                    }
                    if sharedTicket == nil {
                        _ = try await connection.call(
                            claims.conclude(
                                envelopeKeys, outcome: nil, window: .seconds(600), limits: limits, refund: .everything,
                                wasUnproven: !record.isProven, event: .none))
                    }
                case .refused(let reason):
                    actual = Decision(shared.admission.refusal(of: sharedTerms, reason, at: now))
                case let other: Issue.record("\(other)")
                }
            }
            try #require(
                expected == actual,
                "seed \(seed), step \(step), device \(device), \(app), \(senderProtocol), signer \(signer)")
            decisions[word(of: expected), default: 0] += 1

            if let aloneTicket, let sharedTicket {
                open.append(Open(alone: aloneTicket, shared: sharedTicket, keys: envelopeKeys, limits: limits))
            }
            // Some submissions wait for their outcomes while others arrive.
            guard !open.isEmpty, open.count > 5 || UInt8.random(in: 0..<10, using: &random) < 6 else { continue }
            clocks.milliseconds += Int64.random(in: 0...50, using: &random)
            try await end(
                open.remove(at: Int.random(in: open.indices, using: &random)), alone, shared, claims, at: clocks,
                over: connection, using: &random)
        }
    }

    /// A submission without an outcome.
    private struct Open {
        let alone, shared: Admission.Ticket
        let keys: EnvelopeKeys
        let limits: SharedLimits
    }

    private func end(
        _ open: Open, _ alone: Node, _ shared: Node, _ claims: ClaimCalls, at clocks: Clocks,
        over connection: RedisConnection, using random: inout SplitMix64,
        isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let now = clocks.reading
        let (outcome, contact) = Self.outcome(using: &random)
        let binds = UInt8.random(in: 0..<8, using: &random) != 0
        try await setTime(clocks.milliseconds, over: connection)
        let event = shared.admission.event(outcome, of: open.shared, binds: binds, at: now)
        let reply = try await connection.call(
            claims.conclude(
                open.keys, outcome: outcome.kind == .retry ? nil : Array("sealed".utf8), window: .seconds(600),
                limits: open.limits, refund: Admission.Refund(outcome, contact: contact),
                wasUnproven: open.shared.isUnproven, event: event))
        let goAways = [
            alone.admission.finish(open.alone, with: outcome, contact: contact, binds: binds, at: now),
            shared.admission.finish(open.shared, with: outcome, contact: contact, binds: binds, at: now),
        ]
        try #require(goAways[0]?.code == goAways[1]?.code, "\(outcome)")
        let allowances = [
            alone.admission.addingAllowance(to: outcome, of: open.alone, at: now.monotonic),
            shared.admission.addingAllowance(to: outcome, of: open.shared, at: now.monotonic),
        ]
        try #require(allowances[0] == allowances[1], "\(outcome)")
        // What the engine keeps of the device token is what the node alone keeps.
        let found = try #require(reply.bytes.flatMap { SharedRecord.decode($0)?.record }, "\(reply)")
        guard case .none = event else {
            let kept = try #require(alone.admission.tokens[open.alone.terms.token])
            let settings = Self.settings
            #expect(found.standing == settings.standing(of: kept, on: now.day).rawValue)
            #expect(found.sender == settings.sender(of: kept, on: now.day))
            return
        }
    }

    private func word(of decision: Decision) -> String {
        if case .refused(let outcome) = decision { outcome.reason.name } else { "admitted" }
    }

    private func setTime(
        _ milliseconds: Int64, over connection: RedisConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        _ = try await connection.call(RedisCommand("DEL", "test:time"))
        _ = try await connection.call(
            RedisCommand("RPUSH", "test:time", "\(milliseconds / 1000)", "\(milliseconds % 1000 * 1000)"))
    }
}
