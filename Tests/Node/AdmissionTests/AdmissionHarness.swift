// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import TNP

@testable import Admission
@testable import Time

/// An ``Admission`` with its two clocks, and the actions of senders, push services and the operator.
final class AdmissionHarness {
    enum Answer {
        case admitted(Admission.Ticket)
        case refused(Refusal)

        var ticket: Admission.Ticket? { if case .admitted(let ticket) = self { ticket } else { nil } }
        var refusal: Refusal? { if case .refused(let refusal) = self { refusal } else { nil } }
        var isAdmitted: Bool { ticket != nil }
        /// The reason of the refusal; `nil` if the submission was admitted or the connection is closed without an
        /// outcome.
        var reason: Reason? { refusal?.outcome?.reason }
        var retryAfter: UInt32 { refusal?.outcome?.retryAfter ?? 0 }
    }

    /// A limit that no test reaches, so that each test sets only the limits that it is about.
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

    /// Advances both clocks.
    func pass(_ duration: Duration) {
        let before = now
        now = now + duration
        unix += Int64(now.nanoseconds / 1_000_000_000) - Int64(before.nanoseconds / 1_000_000_000)
    }

    func pass(days: Int) { pass(.seconds(86_400 * days)) }

    /// Advances both clocks by one second and runs the work of each second.
    @discardableResult
    func tick(queue: Double = 0) -> Bool {
        pass(.seconds(1))
        return admission.tick(queue: queue, at: moment) { Array(repeating: 2, count: Puzzle.seedLength) }
    }

    /// Starts the node's next process with the rows of the store. The monotonic clock starts again.
    func restart(_ rows: [TokenRecord], _ change: (inout AdmissionSettings) -> Void = { _ in }) {
        var settings = admission.settings
        change(&settings)
        now = MonotonicTime(nanoseconds: 5_000_000_000)
        admission = Admission(
            settings, hash: KeyedHash(key: Self.key), seed: Array(repeating: 3, count: Puzzle.seedLength), now: now)
        for row in rows { admission.restore(row, on: moment) }
    }

    func takeChanges(atMost count: Int = .max) -> Admission.Changes? { admission.takeChanges(atMost: count) }

    // MARK: Senders

    @discardableResult
    func connect(_ circuit: CircuitID = .tor(1)) -> GoAway? { admission.connected(circuit, at: now) }

    func disconnect(_ circuit: CircuitID = .tor(1)) { admission.disconnected(circuit, at: now) }

    /// A new envelope for the device with this number.
    func envelope(for device: Int, magic: Magic = .iOS, token: String? = nil) throws -> Envelope {
        envelopes += 1
        return try Envelope(
            magic: magic, deviceToken: Array((token ?? String(1_000_000_000 + device)).utf8)[...],
            iv: Array(String(1_000_000_000_000_000 + envelopes).utf8)[...],
            ciphertext: [UInt8](repeating: 1, count: 16)[...],
            format: .pipe)
    }

    /// Passes a submission through all checks.
    func submit(
        _ envelope: Envelope, app: String = "app", on circuit: CircuitID = .tor(1), proof: Proof? = nil,
        signature: SenderSignature? = nil, through senderProtocol: Admission.SenderProtocol = .tnp
    ) -> Answer {
        do throws(Refusal) {
            try admission.checkCircuit(circuit, at: now)
            let submission = Submission(request: 1, envelope: envelope, proof: proof, signature: signature)
            let paid = try admission.verify(submission, on: circuit, through: senderProtocol, at: now)
            return .admitted(
                try admission.admit(
                    admission.terms(of: submission, paid: paid, app: app, on: circuit, through: senderProtocol),
                    at: moment))
        } catch {
            return .refused(error)
        }
    }

    /// Passes a submission through all checks, with a signature of `key` and a proof for `puzzle` if they are given.
    func submit(
        to device: Int, app: String = "app", on circuit: CircuitID = .tor(1), by key: Ed25519.PrivateKey? = nil,
        succeeding earlier: Ed25519.PrivateKey? = nil, solving puzzle: Puzzle? = nil,
        through senderProtocol: Admission.SenderProtocol = .tnp
    ) throws -> Answer {
        let envelope = try envelope(for: device)
        return submit(
            envelope, app: app, on: circuit, proof: puzzle?.solve(for: envelope.digest, tries: 1 << 24),
            signature: key.map { SenderSignature(of: envelope, by: $0, succeeding: earlier) }, through: senderProtocol)
    }

    /// The number of admitted submissions out of `count`.
    func admitted(of count: Int, to device: Int, app: String = "app", on circuit: CircuitID = .tor(1)) throws -> Int {
        try (0..<count).count { _ in try submit(to: device, app: app, on: circuit).isAdmitted }
    }

    // MARK: The operator

    /// The rows that the store would now have.
    func rows() -> [TokenRecord] {
        var rows: [UInt64: TokenRecord] = [:]
        while let changes = admission.takeChanges(atMost: 1000) {
            for row in changes.records { rows[row.token] = row }
            for token in changes.forgotten { rows[token] = nil }
        }
        return Array(rows.values)
    }

    /// Unbinds the sender key of a device.
    /// - Returns: the number of removed bindings.
    func unbind(_ device: Int, app: String = "app") -> Int {
        admission.unbind(
            Admission.hashes(of: Array(String(1_000_000_000 + device).utf8), app: app, under: KeyedHash(key: Self.key)))
    }

    // MARK: Push services

    @discardableResult
    func conclude(_ answer: Answer, _ outcome: Outcome = .delivered(), _ contact: ProviderContact = .contacted)
        -> GoAway?
    {
        answer.ticket.flatMap { admission.finish($0, with: outcome, contact: contact, at: moment) }
    }

    /// Submits an envelope and concludes it with `outcome` if it is admitted.
    /// - Returns: the GOAWAY for the circuit, from a check or because of the outcome.
    @discardableResult
    func send(
        to device: Int, app: String = "app", on circuit: CircuitID = .tor(1), by key: Ed25519.PrivateKey? = nil,
        _ outcome: Outcome
    ) throws -> GoAway? {
        let answer = try submit(to: device, app: app, on: circuit, by: key)
        return answer.refusal?.goAway ?? conclude(answer, outcome)
    }

    /// Whether a submission to the device uses the budget for unproven device tokens. Uses the limits as one
    /// submission.
    func isUnproven(_ device: Int, app: String = "app", by key: Ed25519.PrivateKey? = nil) throws -> Bool? {
        let answer = try submit(to: device, app: app, on: .tor(1), by: key)
        conclude(answer, .retry(.providerUnreachable, after: 0))
        return answer.ticket?.isUnproven
    }
}

extension Ed25519.PrivateKey {
    /// A distinct key for each number.
    static func numbered(_ number: UInt8) throws -> Ed25519.PrivateKey {
        struct NoKey: Error {}
        guard let key = Ed25519.PrivateKey(seed: Array(repeating: number, count: 32)) else { throw NoKey() }
        return key
    }
}

extension Admission.Counts {
    /// Device tokens of any standing.
    var deviceTokens: Int { proven + unproven + dead }
}
