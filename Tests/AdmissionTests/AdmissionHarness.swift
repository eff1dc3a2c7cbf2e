// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

@testable import Admission
@testable import Time

/// An ``Admission`` with both its clocks, and what senders and push services do to it.
final class AdmissionHarness {
    enum Answer {
        case admitted(Admission.Ticket)
        case refused(Refusal)

        var ticket: Admission.Ticket? { if case .admitted(let ticket) = self { ticket } else { nil } }
        var refusal: Refusal? { if case .refused(let refusal) = self { refusal } else { nil } }
        var isAdmitted: Bool { ticket != nil }
        /// Why it is refused; nil where it is admitted, or the connection ends without an outcome.
        var reason: Reason? { refusal?.outcome?.reason }
        var retryAfter: UInt32 { refusal?.outcome?.retryAfter ?? 0 }
    }

    /// Limits that nobody meets, so that each test sets those that it is about.
    static let wide = Rate(burst: 100_000, perMinute: 100_000)

    var admission: Admission
    var now: MonotonicTime
    /// 2025-10-09.
    var unix: Int64 = 1_760_000_000
    private var envelopes: UInt64 = 0
    private static let key = SecretBytes(Array(repeating: UInt8(7), count: 32))

    init(
        now: MonotonicTime = MonotonicTime(nanoseconds: 1_000_000_000_000),
        _ change: (inout AdmissionSettings) -> Void = { _ in }
    ) {
        self.now = now
        var settings = AdmissionSettings()
        settings.device = Self.wide
        settings.circuit = Self.wide
        settings.app = Self.wide
        settings.node = Self.wide
        settings.unproven = Self.wide
        settings.senderQuietDays = 0
        change(&settings)
        admission = Admission(
            settings, hash: KeyedHash(key: Self.key), seed: Array(repeating: 1, count: Puzzle.seedLength), now: now)
    }

    var moment: ClockReading { ClockReading(monotonic: now, unix: unix) }

    /// Both clocks go on.
    func pass(_ duration: Duration) {
        let before = now
        now = now + duration
        unix += Int64(now.nanoseconds / 1_000_000_000) - Int64(before.nanoseconds / 1_000_000_000)
    }

    func pass(days: Int) { pass(.seconds(86_400 * days)) }

    /// A second, and what is to be done each second.
    @discardableResult
    func tick(queue: Double = 0) -> Bool {
        pass(.seconds(1))
        return admission.tick(queue: queue, at: moment) { Array(repeating: 2, count: Puzzle.seedLength) }
    }

    /// The node's next process, which has what the store had. The clock of the system starts anew.
    func restart(_ rows: [StandingRow], _ change: (inout AdmissionSettings) -> Void = { _ in }) {
        var settings = admission.settings
        change(&settings)
        now = MonotonicTime(nanoseconds: 5_000_000_000)
        admission = Admission(
            settings, hash: KeyedHash(key: Self.key), seed: Array(repeating: 3, count: Puzzle.seedLength), now: now)
        for row in rows { admission.restore(row, on: moment) }
    }

    func takeChanges(atMost most: Int = .max) -> Admission.Changes? { admission.takeChanges(atMost: most) }

    // MARK: Senders

    @discardableResult
    func connect(_ circuit: CircuitID = .tor(1)) -> GoAway? { admission.connected(circuit, at: now) }

    func disconnect(_ circuit: CircuitID = .tor(1)) { admission.disconnected(circuit, at: now) }

    /// An envelope that was never there before, for the phone of this number.
    func envelope(for device: Int, magic: Magic = .iOS, token: String? = nil) throws -> Envelope {
        envelopes += 1
        return try Envelope(
            magic: magic, deviceToken: Array((token ?? String(1_000_000_000 + device)).utf8)[...],
            iv: Array(String(1_000_000_000_000_000 + envelopes).utf8)[...],
            ciphertext: [UInt8](repeating: 1, count: 16)[...],
            format: .pipe)
    }

    /// Goes through all gates.
    func submit(
        _ envelope: Envelope, app: String = "app", on circuit: CircuitID = .tor(1), proof: Proof? = nil,
        signature: SenderSignature? = nil, through senderProtocol: Admission.SenderProtocol = .tnp
    ) -> Answer {
        do throws(Refusal) {
            try admission.checkCircuit(circuit, at: now)
            let submission = Submission(request: 1, envelope: envelope, proof: proof, signature: signature)
            let paid = try admission.verify(submission, on: circuit, through: senderProtocol, at: now)
            return .admitted(
                try admission.admit(submission, paid: paid, app: app, on: circuit, through: senderProtocol, at: moment))
        } catch {
            return .refused(error)
        }
    }

    /// Goes through all gates, with the signature of a key and the proof for a puzzle where they are named.
    func submit(
        to device: Int, app: String = "app", on circuit: CircuitID = .tor(1), by key: Ed25519.PrivateKey? = nil,
        solving puzzle: Puzzle? = nil, through senderProtocol: Admission.SenderProtocol = .tnp
    ) throws -> Answer {
        let envelope = try envelope(for: device)
        return submit(
            envelope, app: app, on: circuit, proof: puzzle?.solve(for: envelope.digest, tries: 1 << 24),
            signature: key.map { SenderSignature(of: envelope.digest, by: $0) }, through: senderProtocol)
    }

    /// How many of so many submissions are admitted.
    func admitted(of count: Int, to device: Int, app: String = "app", on circuit: CircuitID = .tor(1)) throws -> Int {
        try (0..<count).count { _ in try submit(to: device, app: app, on: circuit).isAdmitted }
    }

    // MARK: The operator

    /// What the store would have by now.
    func rows() -> [StandingRow] {
        var rows: [UInt64: StandingRow] = [:]
        while let changes = admission.takeChanges(atMost: 1000) {
            for row in changes.rows { rows[row.token] = row }
            for token in changes.forgotten { rows[token] = nil }
        }
        return Array(rows.values)
    }

    /// Takes the sender key off a phone.
    /// - Returns: how many were bound.
    func unbind(_ device: Int, app: String = "app") -> Int {
        admission.unbind(
            Admission.hashes(of: Array(String(1_000_000_000 + device).utf8), app: app, under: KeyedHash(key: Self.key)))
    }

    // MARK: Push services

    @discardableResult
    func conclude(_ answer: Answer, _ outcome: Outcome = .delivered(), _ reach: ProviderContact = .contacted) -> GoAway?
    {
        answer.ticket.flatMap { admission.finish($0, with: outcome, contact: reach, at: moment) }
    }

    /// Goes through both gates, and this comes of it.
    /// - Returns: what the circuit is sent away with, at a gate or for what came of it.
    @discardableResult
    func send(
        to device: Int, app: String = "app", on circuit: CircuitID = .tor(1), by key: Ed25519.PrivateKey? = nil,
        _ outcome: Outcome
    ) throws -> GoAway? {
        let answer = try submit(to: device, app: app, on: circuit, by: key)
        return answer.refusal?.goAway ?? conclude(answer, outcome)
    }

    /// Whether a submission to the phone would need some of what is there for unproven ones. Takes what one takes.
    func isUnproven(_ device: Int, app: String = "app", by key: Ed25519.PrivateKey? = nil) throws -> Bool? {
        let answer = try submit(to: device, app: app, on: .tor(1), by: key)
        conclude(answer, .retry(.providerUnreachable, after: 0))
        return answer.ticket?.isUnproven
    }
}

extension Ed25519.PrivateKey {
    /// A key of its own for each number.
    static func numbered(_ number: UInt8) throws -> Ed25519.PrivateKey {
        struct NoKey: Error {}
        guard let key = Ed25519.PrivateKey(seed: Array(repeating: number, count: 32)) else { throw NoKey() }
        return key
    }
}
