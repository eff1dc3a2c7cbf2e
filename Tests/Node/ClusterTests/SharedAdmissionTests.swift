// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import EventLoop
import Redis
import StandIns
import TNP
import TestSupport
import Testing
import Time

@testable import Cluster

/// Two nodes that admit submissions together, with a real Redis server.
@Suite(.tags(.sockets)) struct SharedAdmissionTests {
    private let loop = EventLoop(name: "admission")

    /// A node without endpoints and push services.
    private final class Peer {
        let engine: Engine
        var admission: Admission
        private static let secret = SecretBytes([UInt8](repeating: 7, count: 32))

        init(_ name: String, _ server: RedisServer, _ settings: AdmissionSettings, on loop: EventLoop) {
            engine = Engine(
                EngineSettings(
                    cluster: "test", node: name, address: .direct(server.endpoint), secret: Self.secret),
                version: "1", on: loop)
            admission = Admission(
                settings, hash: KeyedHash(key: Self.secret), seed: Array(repeating: 1, count: Puzzle.seedLength),
                now: .now)
            _ = admission.connected(.tor(1), at: .now)
        }

        var now: ClockReading { ClockReading(monotonic: .now, unix: UnixTime.now) }

        func call(_ command: RedisCommand, on domain: isolated LoopDomain) async throws -> RedisReply {
            final class Receiver: RedisReceiver {
                var reply: Result<RedisReply, RedisError>?
                func replied(_ number: UInt64, _ reply: Result<RedisReply, RedisError>) { self.reply = reply }
            }
            let receiver = Receiver()
            #expect(engine.send(command, number: 0, for: receiver))
            while receiver.reply == nil { await domain.loop.sleep(for: .milliseconds(1)) }
            return try receiver.reply!.get()
        }
    }

    /// A submission on its way through a node.
    private struct Sent {
        let envelope: Envelope
        let terms: Admission.Terms
        let keys: EnvelopeKeys
        let answer: ClaimAnswer
        /// `nil` if the submission was refused.
        var ticket: Admission.Ticket?
    }

    private static let wide = Rate(burst: 100_000, perMinute: 100_000)

    /// Settings with no limit that a test reaches.
    private static func settings(_ change: (inout AdmissionSettings) -> Void = { _ in }) -> AdmissionSettings {
        var settings = AdmissionSettings()
        (settings.device, settings.app, settings.unproven) = (wide, wide, wide)
        settings.senderQuietDays = 0
        change(&settings)
        return settings
    }

    private func withPeers(
        _ change: (inout AdmissionSettings) -> Void = { _ in },
        _ body: @Sendable (Peer, Peer, isolated LoopDomain) async throws -> Void
    ) async throws {
        let server = try RedisServer()
        try await server.start()
        let settings = Self.settings(change)
        try await LoopDomain(loop).run { domain in
            let one = Peer("one", server, settings, on: domain.loop)
            let two = Peer("two", server, settings, on: domain.loop)
            await one.engine.start()
            await two.engine.start()
            try await body(one, two, domain)
            await one.engine.stop()
            await two.engine.stop()
        }
        await server.stop()
    }

    private static func envelope(_ number: Int, to device: Int, content: UInt8 = 1) throws -> Envelope {
        try Envelope(
            magic: .iOS, deviceToken: Array(String(1_000_000_000 + device).utf8)[...],
            iv: Array(String(1_000_000_000_000_000 + number).utf8)[...],
            ciphertext: [UInt8](repeating: content, count: 16)[...], format: .pipe)
    }

    private func send(
        _ envelope: Envelope, app: String = "app", by key: Ed25519.PrivateKey? = nil,
        succeeding earlier: Ed25519.PrivateKey? = nil, to peer: Peer,
        through senderProtocol: Admission.SenderProtocol = .tnp, on domain: isolated LoopDomain
    ) async throws -> Sent {
        let signature = key.map { SenderSignature(of: envelope, by: $0, succeeding: earlier) }
        let submission = Submission(request: 1, envelope: envelope, proof: nil, signature: signature)
        let terms = peer.admission.terms(
            of: submission, paid: 0, app: app, on: .tor(1), through: senderProtocol)
        let keys = EnvelopeKeys(
            envelope, token: terms.token, budgets: peer.engine.names.budgets(of: app, through: senderProtocol),
            in: peer.engine.names)
        let now = peer.now
        let settings = peer.admission.settings
        let reply = try await peer.call(
            peer.engine.claims.take(
                keys, content: peer.engine.names.hash(of: Array(envelope.ciphertext), as: .pair), ttl: envelope.ttl,
                terms: terms, limits: SharedLimits(settings, for: senderProtocol),
                senderKeysCount: settings.senders != .off,
                obstacle: peer.admission.obstacle(to: terms, at: now.monotonic),
                record: peer.admission.record(for: terms, on: now.day)), on: domain)
        let answer = try #require(ClaimAnswer(reply))
        var sent = Sent(envelope: envelope, terms: terms, keys: keys, answer: answer)
        if case .claimed(let record, let used) = answer {
            sent.ticket = try peer.admission.admitted(terms, record, used: used, at: now)
        }
        return sent
    }

    @discardableResult
    private func conclude(
        _ sent: Sent, _ outcome: Outcome = .delivered(), _ contact: ProviderContact = .contacted, at peer: Peer,
        on domain: isolated LoopDomain
    ) async throws -> RedisReply {
        let ticket = try #require(sent.ticket)
        let now = peer.now
        let event = peer.admission.event(outcome, of: ticket, binds: true, at: now)
        return try await peer.call(
            peer.engine.claims.conclude(
                sent.keys, outcome: outcome.kind == .retry ? nil : Array("sealed".utf8), window: .seconds(600),
                limits: SharedLimits(peer.admission.settings, for: ticket.terms.senderProtocol),
                refund: Admission.Refund(outcome, contact: contact), wasUnproven: ticket.isUnproven, event: event),
            on: domain)
    }

    /// The number of submissions to one device, by turns at both nodes, that are admitted.
    private func admitted(
        _ count: Int, to device: (Int) -> Int, app: String = "app",
        through senderProtocol: Admission.SenderProtocol = .tnp, _ one: Peer, _ two: Peer,
        on domain: isolated LoopDomain
    ) async throws -> (Int, refusals: [ClaimAnswer]) {
        var admitted = 0
        var refusals: [ClaimAnswer] = []
        for number in 0..<count {
            let sent = try await send(
                try Self.envelope(number + 1000, to: device(number)), app: app, to: number % 2 == 0 ? one : two,
                through: senderProtocol, on: domain)
            if sent.ticket != nil { admitted += 1 } else { refusals.append(sent.answer) }
        }
        return (admitted, refusals)
    }

    // MARK: One node delivers

    @Test func `one node delivers an envelope, and the others learn its outcome`() async throws {
        try await withPeers { one, two, domain in
            let envelope = try Self.envelope(1, to: 1)
            let first = try await send(envelope, to: one, on: domain)
            #expect(first.ticket?.isUnproven == true)
            #expect(try await send(envelope, to: two, on: domain).answer == .elsewhere)
            // A resend at the same node is still this node's.
            #expect(try await send(envelope, to: one, on: domain).ticket != nil)
            try await conclude(first, at: one, on: domain)
            for peer in [one, two] {
                #expect(try await send(envelope, to: peer, on: domain).answer == .final(Array("sealed".utf8)))
            }
        }
    }

    @Test func `another node takes over when a session has ended`() async throws {
        try await withPeers { one, two, domain in
            let envelope = try Self.envelope(1, to: 1)
            let first = try await send(envelope, to: one, on: domain)
            _ = try await two.call(RedisCommand("DEL", "tocsin:{test}:n:\(one.engine.session)"), on: domain)
            let second = try await send(envelope, to: two, on: domain)
            #expect(second.ticket != nil)
            // A failure of the node that has lost the envelope changes nothing.
            let failure = Outcome.retry(.providerUnreachable, after: 1)
            #expect(try await conclude(first, failure, at: one, on: domain) == .status("ignored"))
            #expect(try await send(envelope, to: one, on: domain).answer == .elsewhere)
            // What a push service has said counts.
            try await conclude(first, at: one, on: domain)
            #expect(try await conclude(second, failure, at: two, on: domain) == .status("ignored"))
            #expect(try await send(envelope, to: two, on: domain).answer == .final(Array("sealed".utf8)))
        }
    }

    @Test func `an envelope that is taken over by a resend keeps its outcome as long as it may be stored`() async throws
    {
        try await withPeers { one, two, domain in
            let envelope = try Self.envelope(1, to: 1)
            _ = try await keep(try await send(envelope, to: one, on: domain), at: one, on: domain)
            try await endSession(of: one, by: two, on: domain)
            let second = try await send(envelope, to: two, on: domain)
            try await conclude(second, at: two, on: domain)
            #expect(try await life(of: second, at: two, on: domain) > 3000)
        }
    }

    @Test func `a record ages by the engine's clock`() async throws {
        try await withPeers { one, two, domain in
            let envelope = try Self.envelope(1, to: 1)
            let submission = Submission(request: 1, envelope: envelope, proof: nil, signature: nil)
            let terms = one.admission.terms(of: submission, paid: 0, app: "app", on: .tor(1), through: .tnp)
            let keys = EnvelopeKeys(
                envelope, token: terms.token, budgets: one.engine.names.budgets(of: "app", through: .tnp),
                in: one.engine.names)
            // A node whose clock is years ahead.
            let record = SharedRecord(standing: 1, since: 1, day: one.now.day + 2000, sender: 0, unsignedDay: 0)
            let reply = try await one.call(
                one.engine.claims.take(
                    keys, content: [1], ttl: envelope.ttl, terms: terms,
                    limits: SharedLimits(one.admission.settings, for: .tnp), senderKeysCount: true, obstacle: nil,
                    record: record), on: domain)
            guard case .claimed(let shared, _) = ClaimAnswer(reply) else {
                Issue.record("not claimed: \(reply)")
                return
            }
            #expect(shared.day == one.now.day)
        }
    }

    @Test
    func
        `a circuit has no more unproven device tokens in flight than its abuse account allows, also while the engine decides`()
        async throws
    {
        try await withPeers { one, _, _ in
            var asked = 0
            while asked < 1000 {
                let submission = Submission(
                    request: 1, envelope: try Self.envelope(asked, to: asked), proof: nil, signature: nil)
                var terms = one.admission.terms(of: submission, paid: 0, app: "app", on: .tor(1), through: .tnp)
                try one.admission.checkNode(&terms, at: .now)
                guard one.admission.obstacle(to: terms, at: .now) == nil else { break }
                asked += 1
            }
            #expect(asked == one.admission.settings.abuse.burst)
        }
    }

    @Test func `an envelope that ended with RETRY may be sent to any node`() async throws {
        try await withPeers { one, two, domain in
            let envelope = try Self.envelope(1, to: 1)
            let first = try await send(envelope, to: one, on: domain)
            try await conclude(first, .retry(.providerUnreachable, after: 1), at: one, on: domain)
            #expect(try await send(envelope, to: two, on: domain).ticket != nil)
        }
    }

    @Test func `a node resumes what it has stored, unless another has delivered it`() async throws {
        try await withPeers { one, two, domain in
            let sent = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            let mine = try await one.call(one.engine.claims.resume(sent.keys, ttl: 60), on: domain)
            let others = try await two.call(two.engine.claims.resume(sent.keys, ttl: 60), on: domain)
            #expect(ClaimAnswer(mine) == .resumed && ClaimAnswer(others) == .elsewhere)
            try await conclude(sent, at: one, on: domain)
            let late = try await two.call(two.engine.claims.resume(sent.keys, ttl: 60), on: domain)
            #expect(ClaimAnswer(late) == .final(Array("sealed".utf8)))
        }
    }

    // MARK: Stored envelopes

    private func keep(_ sent: Sent, at peer: Peer, on domain: isolated LoopDomain) async throws -> RedisReply {
        try await peer.call(
            peer.engine.claims.keep(sent.keys.stored, sealed: Array("stored".utf8), for: .seconds(3600)), on: domain)
    }

    /// The keys of the envelopes that a node takes over.
    private func adopt(upTo room: Int = 100, by peer: Peer, on domain: isolated LoopDomain) async throws -> [[UInt8]] {
        let reply = try await peer.call(
            peer.engine.claims.adopt(upTo: room, in: peer.engine.names), on: domain)
        return try #require(reply.elements).map { parts in
            #expect(parts.elements?.last == .bytes(Array("stored".utf8)))
            return try #require(parts.elements?.first?.bytes)
        }
    }

    /// Seconds for which the engine remembers what it knows about an envelope.
    private func life(of sent: Sent, at peer: Peer, on domain: isolated LoopDomain) async throws -> Int64 {
        var command = RedisCommand("TTL")
        command.append(sent.keys.digest)
        return try #require(try await peer.call(command, on: domain).integer)
    }

    private func endSession(of peer: Peer, by other: Peer, on domain: isolated LoopDomain) async throws {
        _ = try await other.call(RedisCommand("DEL", "tocsin:{test}:n:\(peer.engine.session)"), on: domain)
    }

    @Test func `stored envelopes of an ended node go to another node, each once`() async throws {
        try await withPeers { one, two, domain in
            var sent: [Sent] = []
            for number in 0..<5 {
                try await sent.append(send(Self.envelope(number, to: number), to: one, on: domain))
                #expect(try await keep(sent[number], at: one, on: domain) == .status("OK"))
            }
            #expect(try await adopt(by: two, on: domain).isEmpty)
            try await endSession(of: one, by: two, on: domain)
            let first = try await adopt(upTo: 3, by: two, on: domain)
            #expect(first.count == 3)
            // The reply may have been lost: until a node has claimed them, all can be asked for again.
            #expect(try await Set(adopt(by: two, on: domain)) == Set(sent.map(\.keys.stored.envelope)))
            for sent in sent where first.contains(sent.keys.stored.envelope) {
                _ = try await two.call(two.engine.claims.resume(sent.keys, ttl: 60), on: domain)
                #expect(try await keep(sent, at: two, on: domain) == .status("OK"))
            }
            let rest = try await adopt(by: two, on: domain)
            #expect(Set(first + rest) == Set(sent.map(\.keys.stored.envelope)) && rest.count == 2)
            // They are the second node's now.
            try await endSession(of: two, by: one, on: domain)
            #expect(try await Set(adopt(by: one, on: domain)).isSuperset(of: first))
        }
    }

    @Test func `an envelope with an outcome is no longer stored, and its outcome lasts as long as an adopted one`()
        async throws
    {
        try await withPeers { one, two, domain in
            let delivered = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            let left = try await send(try Self.envelope(2, to: 2), to: one, on: domain)
            for sent in [delivered, left] { _ = try await keep(sent, at: one, on: domain) }
            try await conclude(delivered, at: one, on: domain)
            // The copy comes late, and changes nothing.
            #expect(try await keep(delivered, at: one, on: domain) == .status("ignored"))
            try await endSession(of: one, by: two, on: domain)
            #expect(try await adopt(by: two, on: domain) == [left.keys.stored.envelope])
            let claim = try await two.call(two.engine.claims.resume(left.keys, ttl: 3600), on: domain)
            #expect(ClaimAnswer(claim) == .resumed)
            try await conclude(left, at: two, on: domain)
            #expect(try await life(of: delivered, at: two, on: domain) <= 600)
            #expect(try await life(of: left, at: two, on: domain) > 3000)
            // The first node returns.
            let returned = try await one.call(one.engine.claims.resume(left.keys, ttl: 3600), on: domain)
            #expect(ClaimAnswer(returned) == .final(Array("sealed".utf8)))
        }
    }

    @Test func `the engine remembers an unsigned day for as long as it counts`() async throws {
        try await withPeers {
            $0.senderQuietDays = 900
        } _: { one, two, domain in
            let sent = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            try await conclude(sent, at: one, on: domain)
            var command = RedisCommand("TTL")
            command.append(
                one.engine.names.name(
                    .deviceToken, of: withUnsafeBytes(of: sent.terms.token.bigEndian) { Array($0) }))
            let life = try #require(try await two.call(command, on: domain).integer)
            #expect(life > 899 * 86_400 && life <= 900 * 86_400)
        }
    }

    @Test func `a node that cannot deliver an adopted envelope leaves it to others`() async throws {
        try await withPeers { one, two, domain in
            let sent = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            _ = try await keep(sent, at: one, on: domain)
            // Given back by the node that has stored it, and by one that has adopted it.
            for peer in [one, two] {
                _ = try await peer.call(peer.engine.claims.resume(sent.keys, ttl: 60), on: domain)
                try await conclude(sent, .retry(.internalError, after: 1), at: peer, on: domain)
                #expect(try await adopt(by: two, on: domain) == [sent.keys.stored.envelope])
            }
            // Given back by a node that could not claim it.
            _ = try await one.call(one.engine.claims.resume(sent.keys, ttl: 60), on: domain)
            #expect(
                try await conclude(sent, .retry(.nodeBusy, after: 1), at: two, on: domain) == .status("ignored"))
            // It belongs to the node that has claimed it.
            #expect(try await adopt(by: two, on: domain).isEmpty)
            try await endSession(of: one, by: two, on: domain)
            #expect(try await adopt(by: two, on: domain) == [sent.keys.stored.envelope])
        }
    }

    // MARK: Initialisation vectors

    @Test func `an iv is used once, at any node`() async throws {
        try await withPeers { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            let other = try Self.envelope(1, to: 1, content: 2)
            #expect(try await send(other, to: two, on: domain).answer == .ivReused)
            try await conclude(first, at: one, on: domain)
            #expect(try await send(other, to: two, on: domain).answer == .ivReused)
            #expect(try await send(try Self.envelope(1, to: 2, content: 2), to: two, on: domain).ticket != nil)
        }
    }

    // MARK: Rates

    @Test func `the rate of a device token holds across nodes`() async throws {
        try await withPeers({ $0.device = Rate(burst: 5, perMinute: 1) }) { one, two, domain in
            let (admitted, refusals) = try await admitted(8, to: { _ in 1 }, one, two, on: domain)
            #expect(admitted == 5 && refusals.count == 3)
            for refusal in refusals {
                guard case .refused(.device(let wait, let used)) = refusal else {
                    Issue.record("\(refusal)")
                    continue
                }
                #expect(
                    (.seconds(55)...(.seconds(60))).contains(wait) && (.seconds(295)...(.seconds(300))).contains(used))
            }
            #expect(try await send(try Self.envelope(1, to: 2), to: two, on: domain).ticket != nil)
        }
    }

    @Test func `the rate of an app holds across nodes`() async throws {
        try await withPeers({ $0.app = Rate(burst: 6, perMinute: 1) }) { one, two, domain in
            let (count, refusals) = try await admitted(9, to: { $0 }, one, two, on: domain)
            #expect(count == 6)
            #expect(refusals.allSatisfy { if case .refused(.busy) = $0 { true } else { false } })
            let (others, _) = try await admitted(3, to: { $0 + 100 }, app: "other", one, two, on: domain)
            #expect(others == 3)
        }
    }

    @Test(arguments: [Admission.SenderProtocol.tnp, .http])
    func `the budget of unproven device tokens holds across nodes`(_ senderProtocol: Admission.SenderProtocol)
        async throws
    {
        let change: (inout AdmissionSettings) -> Void = {
            $0.unproven = Rate(burst: 4, perMinute: 1)
            $0.httpUnproven = $0.unproven
            $0.abuse = Self.wide
        }
        try await withPeers(change) { one, two, domain in
            let proven = try await send(
                try Self.envelope(1, to: 1), to: one, through: senderProtocol, on: domain)
            try await conclude(proven, at: one, on: domain)
            let (count, refusals) = try await admitted(
                6, to: { $0 + 10 }, through: senderProtocol, one, two, on: domain)
            #expect(count == 3)
            #expect(refusals.allSatisfy { if case .refused(.unproven) = $0 { true } else { false } })
            // The other node has never seen this device token, which is proven.
            let again = try await send(
                try Self.envelope(2, to: 1), to: two, through: senderProtocol, on: domain)
            #expect(again.ticket?.isUnproven == false)
        }
    }

    @Test func `the rate of HTTP holds across nodes, and is not that of TNP`() async throws {
        try await withPeers({ $0.http = Rate(burst: 3, perMinute: 1) }) { one, two, domain in
            let (overHTTP, _) = try await admitted(5, to: { $0 }, through: .http, one, two, on: domain)
            let (overTNP, _) = try await admitted(5, to: { $0 + 50 }, one, two, on: domain)
            #expect(overHTTP == 3 && overTNP == 5)
        }
    }

    @Test func `a submission that reached no push service is refunded`() async throws {
        let change: (inout AdmissionSettings) -> Void = {
            $0.device = Rate(burst: 1, perMinute: 1)
            $0.app = $0.device
            $0.unproven = $0.device
        }
        try await withPeers(change) { one, two, domain in
            for number in 0..<4 {
                let sent = try await send(
                    try Self.envelope(number, to: 1), to: number % 2 == 0 ? one : two, on: domain)
                #expect(sent.ticket != nil)
                guard sent.ticket != nil else { return }
                try await conclude(
                    sent, .retry(.nodeBusy, after: 1), .notContacted, at: number % 2 == 0 ? one : two, on: domain)
            }
        }
    }

    @Test func `an obstacle refuses unproven device tokens only`() async throws {
        try await withPeers({ $0.abuse = Rate(burst: 1, perMinute: 1) }) { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            // The circuit has one unproven device token in flight, as many as it may have.
            #expect(
                try await send(try Self.envelope(2, to: 2), to: one, on: domain).answer
                    == .refused(.obstacle(.circuit)))
            try await conclude(first, at: one, on: domain)
            #expect(try await send(try Self.envelope(3, to: 1), to: one, on: domain).ticket != nil)
            _ = two
        }
    }

    // MARK: Device tokens

    @Test func `the first delivered key binds a device token at all nodes`() async throws {
        let keys = try [1, 2].map { try #require(Ed25519.PrivateKey(seed: Array(repeating: UInt8($0), count: 32))) }
        try await withPeers { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), by: keys[0], to: one, on: domain)
            let second = try await send(try Self.envelope(2, to: 1), by: keys[1], to: two, on: domain)
            try await conclude(second, at: two, on: domain)
            try await conclude(first, at: one, on: domain)
            let refused = try await send(try Self.envelope(3, to: 1), by: keys[0], to: one, on: domain)
            #expect(refused.answer == .refused(.keyMismatch))
            let unsigned = try await send(try Self.envelope(4, to: 1), to: one, on: domain)
            #expect(unsigned.answer == .refused(.keyRequired))
            #expect(try await send(try Self.envelope(5, to: 1), by: keys[1], to: one, on: domain).ticket != nil)
        }
    }

    @Test func `a new key takes over the binding of the earlier one at all nodes`() async throws {
        let keys = try [1, 2].map { try #require(Ed25519.PrivateKey(seed: Array(repeating: UInt8($0), count: 32))) }
        let (earlier, new) = (keys[0], keys[1])
        try await withPeers { one, two, domain in
            try await conclude(
                try await send(try Self.envelope(1, to: 1), by: earlier, to: one, on: domain), at: one, on: domain)
            let refused = try await send(try Self.envelope(2, to: 1), by: new, to: two, on: domain)
            #expect(refused.answer == .refused(.keyMismatch))
            let moved = try await send(
                try Self.envelope(3, to: 1), by: new, succeeding: earlier, to: two, on: domain)
            try await conclude(moved, at: two, on: domain)
            #expect(try await send(try Self.envelope(4, to: 1), by: new, to: one, on: domain).ticket != nil)
            let late = try await send(try Self.envelope(5, to: 1), by: earlier, to: one, on: domain)
            #expect(late.answer == .refused(.keyMismatch))
            // The binding is another key's.
            let again = try await send(
                try Self.envelope(6, to: 1), by: earlier, succeeding: earlier, to: two, on: domain)
            #expect(again.answer == .refused(.keyMismatch))
        }
    }

    @Test func `a device token that is unbound is unbound at all nodes`() async throws {
        let keys = try [1, 2].map { try #require(Ed25519.PrivateKey(seed: Array(repeating: UInt8($0), count: 32))) }
        try await withPeers { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), by: keys[0], to: one, on: domain)
            try await conclude(first, at: one, on: domain)
            let (token, names) = (first.terms.token, one.engine.names)
            let other = two.engine.claims.unbind(token, from: 1, in: names)
            #expect(try await two.call(other, on: domain) == .integer(0))
            let refused = try await send(try Self.envelope(2, to: 1), by: keys[1], to: one, on: domain)
            #expect(refused.answer == .refused(.keyMismatch))
            let own = two.engine.claims.unbind(token, from: first.terms.signer, in: names)
            #expect(try await two.call(own, on: domain) == .integer(1))
            #expect(try await send(try Self.envelope(3, to: 1), by: keys[1], to: one, on: domain).ticket != nil)
        }
    }

    @Test func `an unsigned notification keeps a key from binding for some days`() async throws {
        let key = try #require(Ed25519.PrivateKey(seed: Array(repeating: 1, count: 32)))
        try await withPeers({ $0.senderQuietDays = 30 }) { one, two, domain in
            try await conclude(try await send(try Self.envelope(1, to: 1), to: one, on: domain), at: one, on: domain)
            let signed = try await send(try Self.envelope(2, to: 1), by: key, to: two, on: domain)
            try await conclude(signed, at: two, on: domain)
            #expect(try await send(try Self.envelope(3, to: 1), to: one, on: domain).ticket != nil)
        }
    }

    @Test func `a dead device token is dead at all nodes, and revives at none`() async throws {
        try await withPeers { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            try await conclude(first, .gone(since: 1_700_000_000_000), at: one, on: domain)
            #expect(
                try await send(try Self.envelope(2, to: 1), to: two, on: domain).answer
                    == .refused(.dead(since: 1_700_000_000_000)))
        }
    }

    @Test func `a push service's old complaint does not end a device token that it has accepted since`() async throws {
        try await withPeers { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            let second = try await send(try Self.envelope(2, to: 1), to: two, on: domain)
            try await conclude(first, at: one, on: domain)
            try await conclude(second, .gone(since: 1_700_000_000_000), at: two, on: domain)
            #expect(try await send(try Self.envelope(3, to: 1), to: two, on: domain).ticket?.isUnproven == false)
        }
    }

    @Test func `an engine that knows nothing learns what the node knows`() async throws {
        try await withPeers { one, two, domain in
            let first = try await send(try Self.envelope(1, to: 1), to: one, on: domain)
            try await conclude(first, at: one, on: domain)
            _ = one.admission.finish(try #require(first.ticket), with: .delivered(), contact: .contacted, at: one.now)
            _ = try await one.call(RedisCommand("FLUSHALL"), on: domain)
            #expect(try await send(try Self.envelope(2, to: 1), to: one, on: domain).ticket?.isUnproven == false)
            #expect(try await send(try Self.envelope(3, to: 1), to: two, on: domain).ticket?.isUnproven == false)
        }
    }
}
