// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// Decides whether the node admits a submission, rejects it, or asks its sender to retry, so that the push services
/// receive what honest senders send, at a rate that they accept, even during an attack. `Admission` performs no I/O and
/// reads no clock: callers pass in events and times. It keeps device tokens and sender keys only as keyed hashes.
///
/// A submission passes three gates: ``checkCircuit(_:at:)`` and, unless it is a resend of an envelope that the node
/// knows, ``verify(_:by:on:through:at:)`` and ``admit(_:at:)``.
/// ``finish(_:with:contact:binds:at:)`` records its outcome.
package struct Admission: ~Copyable {
    /// The endpoint that received a submission.
    package enum SenderProtocol: String, Sendable {
        case tnp
        /// The HTTP API, whose senders neither sign nor solve puzzles.
        case http
    }

    /// An admitted submission, for ``Admission/finish(_:with:contact:binds:at:)``.
    package struct Ticket: Sendable, Redacted {
        package let terms: Terms
        /// Whether no push service has accepted the device token yet.
        package let isUnproven: Bool
        /// Whether the engine has admitted the submission for all nodes of the cluster.
        package let isShared: Bool
    }

    /// The current settings. A new value takes effect at once, except `deviceTokens`.
    package var settings: AdmissionSettings {
        didSet {
            effort.settings = settings.puzzle
            unprovenEffort.settings = settings.puzzle.forUnproven
        }
    }
    let hash: KeyedHash
    let tokens: TokenTable
    var circuits = Circuits()
    /// The apps with their allowances. A linear search through a few apps is faster than hashing.
    var apps: [(name: String, allowance: Allowance)] = []
    var node = Allowance()
    /// The TNP endpoint's budget for device tokens that no push service has accepted yet.
    var unproven = Allowance()
    /// The budget of the HTTP endpoint.
    var http = Allowance()
    /// The HTTP endpoint's budget for device tokens that no push service has accepted yet.
    var httpUnproven = Allowance()
    private(set) var seeds: PuzzleSeeds
    var spentProofs = SpentProofs()
    /// The effort required for every TNP submission.
    var effort: EffortControl
    /// The effort required for an unproven device token.
    var unprovenEffort: EffortControl
    /// Device tokens that a push service has refused.
    var badTokens = BadTokens()
    /// Device tokens whose record differs from the stored one, up to ``maximumListed``.
    var unsaved: [UInt64] = []
    /// Whether more records differ from the stored ones than ``unsaved`` lists.
    var hasUnlisted = false
    /// Device tokens whose record was removed, to be deleted from the store, up to ``maximumListed``.
    var forgotten: [UInt64] = []
    /// The maximum length of ``unsaved`` and of ``forgotten``: more changes than a node makes while the store saves
    /// those of one second. A variable for tests.
    var maximumListed = 1 << 17

    /// Starts with no known device tokens.
    /// - Parameters:
    ///   - hash: hashes device tokens and sender keys under the node's key. Restored records must use the same key.
    ///   - seed: the seed of the first puzzle, 16 random bytes.
    package init(_ settings: AdmissionSettings, hash: KeyedHash, seed: [UInt8], now: MonotonicTime) {
        self.settings = settings
        self.hash = hash
        tokens = TokenTable(capacity: settings.deviceTokens)
        seeds = PuzzleSeeds(seed: seed, now: now)
        effort = EffortControl(settings.puzzle, now: now)
        unprovenEffort = EffortControl(settings.puzzle.forUnproven, now: now)
    }

    // MARK: Puzzles

    /// The puzzle that every TNP submission must solve.
    package func puzzle(at now: MonotonicTime) -> Puzzle { seeds.puzzle(effort: effort.effort, at: now) }

    /// The puzzle that a REGISTER must solve.
    package func registrationPuzzle(at now: MonotonicTime) -> Puzzle {
        seeds.puzzle(effort: efforts.unproven, at: now)
    }

    /// The efforts required for every TNP submission and for unproven device tokens; 0 if no proof is required.
    package var efforts: (all: UInt32, unproven: UInt32) {
        (effort.effort, max(effort.effort, unprovenEffort.effort))
    }

    // MARK: Gates

    /// Gate 2 of `Intake`: checks that the circuit is not blocked and is within its rate. A resend passes only this gate.
    package mutating func checkCircuit(_ circuit: CircuitID, at now: MonotonicTime) throws(Refusal) {
        let rate = circuit.site.flatMap { settings.sites[$0] } ?? settings.circuit
        // One table lookup for both checks.
        let wait: Duration? =
            circuits.update(circuit) { known in
                if known.blockedUntil > now { return nil }
                let wait = known.submissions.wait(rate, now: now)
                if wait == .zero { known.submissions.take(rate, now: now) }
                return wait
            } ?? .zero
        guard let wait else { throw Refusal(nil, goAway: blocked(circuit, now)) }
        if wait > .zero { throw .retry(.connectionOverRate, after: wait) }
    }

    /// Gate 5 of `Intake`, for submissions that are not resends: checks proof of work and signature. The result does
    /// not depend on what the node knows about the device token.
    /// - Parameter access: who may ring the phone by the handle that the sender has used; `nil` if it has used the device
    ///   token.
    /// - Returns: the effort of the proof, in expected hashes; 0 if no proof counts.
    package mutating func verify(
        _ submission: Submission, by access: HandleAccess? = nil, on circuit: CircuitID,
        through senderProtocol: SenderProtocol, at now: MonotonicTime
    ) throws(Refusal) -> UInt32 {
        let digest = submission.envelope.digest
        let paid = senderProtocol == .http ? 0 : try worth(of: submission.proof, for: digest, circuit, now)
        let isLimited = access?.senderKeys.isEmpty == false
        switch (settings.senders, submission.envelope.signature) {
        case (_, nil) where isLimited: throw Refusal(.rejected(.senderKeyRequired))
        case (.off, _) where !isLimited: break
        case (.optional, nil): break
        case (_, nil): throw Refusal(.rejected(.senderKeyRequired))
        case (_, let signature?):
            if !signature.isValid(for: digest) {
                throw Refusal(.rejected(.senderKeyMismatch), goAway: charge(circuit, at: now))
            }
            if access == nil, let succession = signature.succession,
                !succession.isValid(to: signature.key, of: submission.envelope.phone)
            {
                throw Refusal(.rejected(.senderKeyMismatch), goAway: charge(circuit, at: now))
            }
            if let access, !access.allows(signature.key) { throw Refusal(.rejected(.senderKeyMismatch)) }
        }
        return paid
    }

    /// The gate for a REGISTER, after ``checkCircuit(_:at:)``. A REGISTER costs as much as a submission to an unproven
    /// device token that turns out to be bad, because nobody knows whether the phone exists. A site is not charged.
    package mutating func admit(
        registration request: HandleRequest, on circuit: CircuitID, at now: MonotonicTime
    ) throws(Refusal) {
        let paid = try worth(of: request.proof, for: request.hash, circuit, now)
        try checkUnproven(
            Terms(token: 0, circuit: circuit, senderProtocol: .tnp, effort: paid, hasProof: request.proof != nil), now)
        unproven.take(settings.unproven, now: now)
        guard circuit.site == nil else { return }
        let rate = settings.abuse
        circuits.update(circuit) { $0.abuseAccount.take(rate, now: now) }
    }

    /// Gives back to the budget for unproven device tokens what a REGISTER took that got RETRY. Its circuit stays
    /// charged.
    package mutating func refundRegistration(at now: MonotonicTime) { unproven.refund(settings.unproven, now: now) }

    /// Records that a REGISTER has its final answer, so that its proof pays for nothing else.
    package mutating func finish(registration request: HandleRequest) {
        if let proof = request.proof { spentProofs.insert(SpentProofs.name(of: proof, for: request.hash)) }
    }

    /// Records that the node had no room for a submission that passed ``verify(_:by:on:through:at:)``. Such refusals raise
    /// the required effort.
    package mutating func recordLackOfRoom(paid: UInt32, through senderProtocol: SenderProtocol) {
        if senderProtocol == .tnp { effort.count(isRefused: true, paid: paid) }
    }

    /// What gate 7 of `Intake` needs to know about a submission.
    package struct Terms: Sendable, Redacted {
        /// The keyed hash of the device token.
        package let token: UInt64
        /// The keyed hash of the key that signed the submission or, if it came by handle, of the handle owner's key; 0
        /// if none counts.
        package internal(set) var signer: UInt64 = 0
        /// The keyed hash of the earlier key whose binding the signer takes over; 0 if none.
        package internal(set) var predecessor: UInt64 = 0
        /// The index of the submission's app in `apps`.
        var app = 0
        /// Whether the submission is known to be unsigned.
        var isUnsigned = false
        package let circuit: CircuitID
        /// The endpoint that received the submission.
        package let senderProtocol: SenderProtocol
        /// The effort of the proof of work, in expected hashes; 0 if no proof counts.
        package internal(set) var effort: UInt32 = 0
        var hasProof = false
        /// Identifies the proof and its envelope (``SpentProofs/name(of:for:)``); 0 if no proof counts.
        var proof: UInt64 = 0
        /// Whether ``checkNode(_:at:)`` counts it among its circuit's unproven device tokens in flight.
        var isCounted = false
    }

    /// The terms of a submission, for ``admit(_:at:)``.
    /// - Parameters:
    ///   - paid: the result of ``verify(_:by:on:through:at:)``.
    ///   - access: as for ``verify(_:by:on:through:at:)``.
    ///   - app: the name of the app.
    ///   - senderProtocol: the endpoint that received the submission.
    package mutating func terms(
        of submission: Submission, by access: HandleAccess? = nil, paid: UInt32, app: String, on circuit: CircuitID,
        through senderProtocol: SenderProtocol
    ) -> Terms {
        let token = name(of: submission.envelope, app: app)
        return Terms(
            token: token, signer: signer(of: submission, by: access, to: token),
            predecessor: predecessor(of: submission, by: access, to: token), app: index(of: app),
            isUnsigned: submission.envelope.signature == nil && access == nil, circuit: circuit,
            senderProtocol: senderProtocol, effort: paid, hasProof: submission.proof != nil,
            proof: paid == 0
                ? 0 : submission.proof.map { SpentProofs.name(of: $0, for: submission.envelope.digest) } ?? 0)
    }

    /// Gate 7 of `Intake`: checks limits and the record of the device token. If one rule refuses the submission, this uses
    /// up no allowance of the other rules.
    ///
    /// The node reports a refusal that depends on the device token (dead, bound, over its rate) only where it would
    /// have admitted an unknown device token. Otherwise an attacker who has used up the budget for unknown device
    /// tokens could learn, without ringing the phone, whether the node serves that phone.
    package mutating func admit(_ terms: Terms, at moment: ClockReading) throws(Refusal) -> Ticket {
        let now = moment.monotonic
        var record = tokens[terms.token] ?? TokenRecord(token: terms.token)
        let standing = settings.standing(of: record, on: moment.day)
        let tokenRefusal = tokenRefusal(terms, standing, &record, moment)
        let isUnproven = standing != .proven
        let appWait = apps[terms.app].allowance.wait(settings.app, now: now)
        let httpWait = terms.senderProtocol == .http ? http.wait(settings.http, now: now) : .zero
        try checkBusy(max(appWait, httpWait), terms, now)
        if isUnproven || tokenRefusal != nil { try checkUnproven(terms, now) }
        if terms.senderProtocol == .tnp { effort.count(isRefused: false, paid: terms.effort) }
        // Not charged: the node asks no push service, and the sender may also ring live phones.
        if let tokenRefusal { throw Refusal(tokenRefusal) }

        node.take(settings.node, now: now)
        takeShared(terms, isUnproven: isUnproven, now)
        use(record, moment)
        return ticket(for: terms, isUnproven: isUnproven)
    }

    /// Refuses a submission if a rate requires it to wait.
    /// - Parameter wait: the longest wait for the rates other than the node's own.
    mutating func checkBusy(_ wait: Duration, _ terms: Terms, _ now: MonotonicTime) throws(Refusal) {
        let nodeWait = node.wait(settings.node, now: now)
        let longestWait = max(wait, nodeWait)
        guard longestWait > .zero else { return }
        // Raises the effort only if the node's own rate refuses a TNP sender here: an app over its rate must not
        // raise the effort for other apps, and HTTP senders cannot do proof of work.
        if terms.senderProtocol == .tnp, nodeWait > .zero { effort.count(isRefused: true, paid: terms.effort) }
        throw .retry(.nodeBusy, after: longestWait)
    }

    /// Takes from the allowances that the nodes of a cluster share.
    mutating func takeShared(_ terms: Terms, isUnproven: Bool, _ now: MonotonicTime) {
        apps[terms.app].allowance.take(settings.app, now: now)
        if terms.senderProtocol == .http { http.take(settings.http, now: now) }
        guard isUnproven else { return }
        switch terms.senderProtocol {
        case .tnp: unproven.take(settings.unproven, now: now)
        case .http: httpUnproven.take(settings.httpUnproven, now: now)
        }
    }

    mutating func ticket(for terms: Terms, isUnproven: Bool, isShared: Bool = false) -> Ticket {
        if isUnproven { circuits.update(terms.circuit) { $0.unproven += 1 } }
        return Ticket(terms: terms, isUnproven: isUnproven, isShared: isShared)
    }

    /// The refusal that the record of the device token requires; `nil` if none.
    private func tokenRefusal(
        _ terms: Terms, _ standing: TokenRecord.Standing, _ record: inout TokenRecord, _ moment: ClockReading
    ) -> Outcome? {
        if standing == .dead { return .gone(since: record.since == 0 ? nil : record.since) }
        let bound = settings.sender(of: record, on: moment.day)
        if settings.senders != .off, terms.signer == 0, bound != 0 { return .rejected(.senderKeyRequired) }
        // Not charged: the sender may be the owner of a phone that an attacker bound first.
        if terms.signer != 0, bound != 0, bound != terms.signer, bound != terms.predecessor {
            return .rejected(.senderKeyMismatch)
        }
        if let refused = badTokens.outcome(for: record.token, at: moment.monotonic) { return refused }
        let wait = record.allowance.wait(settings.device, now: moment.monotonic)
        guard wait > .zero else { return nil }
        let allowance = record.allowance
        tokens.update(record.token) { $0.allowance = allowance }
        return allowance.added(
            to: .retry(.deviceTokenOverRate, after: wait.wireMilliseconds), settings.device, now: moment.monotonic)
    }

    /// Validates a proof and returns its effort, in expected hashes.
    mutating func worth(
        of proof: Proof?, for digest: Digest256, _ circuit: CircuitID, _ now: MonotonicTime
    ) throws(Refusal) -> UInt32 {
        guard settings.puzzle.mode != .off, circuit.site == nil else { return 0 }
        switch seeds.validate(proof, for: digest, effort: effort.effort, now: now) {
        case .notRequired: return 0
        // A proof below the minimum effort costs almost nothing to make. It counts as 0: otherwise it would move its
        // sender ahead of all others in the fair queue.
        case .valid(let effort):
            if let proof, spentProofs.contains(SpentProofs.name(of: proof, for: digest)) {
                guard self.effort.effort > 0 else { return 0 }
                throw Refusal(.retry(.proofRequired, after: 0), puzzle: puzzle(at: now))
            }
            return effort < settings.puzzle.minimum ? 0 : effort
        case .missing: throw Refusal(.retry(.proofRequired, after: 0), puzzle: puzzle(at: now))
        case .tooSmall, .stale: throw Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle(at: now))
        // Charged, because checking an invalid proof costs the node a hash.
        case .wrong:
            throw Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle(at: now), goAway: charge(circuit, at: now))
        }
    }

    mutating func index(of app: String) -> Int {
        if let index = apps.firstIndex(where: { $0.name == app }) { return index }
        apps.append((app, Allowance()))
        return apps.count - 1
    }

    /// The keyed hash of the device token of an envelope, together with its app.
    package func name(of envelope: Envelope, app: String) -> UInt64 {
        Self.name(of: envelope.phone, app: app, under: hash)
    }

    static func name(of phone: DeviceIdentity, app: String, under hash: KeyedHash) -> UInt64 {
        var app = app
        return app.withUTF8 { name in
            phone.bytes.withUnsafeBytes { hash(UnsafeRawBufferPointer(name), $0, label: phone.kind.rawValue) }
        }
    }

    /// The keyed hash of the key that signed the submission; 0 if it is unsigned or signatures are ignored. For a
    /// submission by handle, that of the handle's owner, who has named the senders.
    func signer(of submission: Submission, by access: HandleAccess?, to token: UInt64) -> UInt64 {
        guard settings.senders != .off, let key = access?.owner[...] ?? submission.envelope.signature?.key else {
            return 0
        }
        return sender(key, of: token)
    }

    /// The keyed hash of the earlier key whose binding the signer takes over; 0 if there is none, or for a submission
    /// by handle: the device token is then bound to the owner's key.
    func predecessor(of submission: Submission, by access: HandleAccess?, to token: UInt64) -> UInt64 {
        guard settings.senders != .off, access == nil, let earlier = submission.envelope.signature?.succession else {
            return 0
        }
        return sender(earlier.key, of: token)
    }

    /// The keyed hash of a key that a device token is bound to. Includes the device token, so that the hash does not
    /// reveal whether two phones have the same sender.
    func sender(_ key: Bytes, of token: UInt64) -> UInt64 {
        TokenRecord.sender(
            withUnsafeBytes(of: token) { token in key.withUnsafeBytes { hash(token, $0, label: 2) } })
    }

    /// Why a node refuses a submission to an unproven device token even if the budget has room.
    package enum UnprovenObstacle: String, Sendable {
        /// The sender has spent too little effort.
        case proof
        /// The circuit has as many unproven device tokens in flight as its abuse account has left: each may turn out to
        /// be bad.
        case circuit
    }

    /// Why this node refuses a submission if its device token is unproven; `nil` if it does not.
    package mutating func obstacle(to terms: Terms, at now: MonotonicTime) -> UnprovenObstacle? {
        if terms.effort < effortForUnproven(terms) { return .proof }
        let rate = settings.abuse
        let isFull = circuits.update(terms.circuit) { known in
            known.abuseAccount.resetIfOverdrawn(rate, now: now)
            let others = known.unproven - (terms.isCounted ? 1 : 0)
            return others >= known.abuseAccount.remaining(rate, now: now)
        }
        return isFull == true ? .circuit : nil
    }

    private func effortForUnproven(_ terms: Terms) -> UInt32 {
        terms.senderProtocol == .http || terms.circuit.site != nil ? 0 : efforts.unproven
    }

    func refusal(of terms: Terms, for obstacle: UnprovenObstacle, _ now: MonotonicTime) -> Refusal {
        switch obstacle {
        case .proof:
            let reason: Reason = terms.hasProof ? .proofWrong : .proofRequired
            return Refusal(
                .retry(reason, after: 0), puzzle: seeds.puzzle(effort: effortForUnproven(terms), at: now))
        case .circuit:
            return .retry(.tooManyUnproven, after: .seconds(5), "too many unproven device tokens in flight")
        }
    }

    /// Checks what an unproven device token requires: effort, room in the circuit's abuse account, and the shared
    /// budget.
    private mutating func checkUnproven(_ terms: Terms, _ now: MonotonicTime) throws(Refusal) {
        if let obstacle = obstacle(to: terms, at: now) { throw refusal(of: terms, for: obstacle, now) }
        let wait =
            switch terms.senderProtocol {
            case .tnp: unproven.wait(settings.unproven, now: now)
            case .http: httpUnproven.wait(settings.httpUnproven, now: now)
            }
        countUnproven(terms, isRefused: wait > .zero)
        if wait > .zero { throw .retry(.tooManyUnproven, after: wait) }
    }

    /// Tells ``unprovenEffort`` whether the budget for unproven device tokens had room for a TNP submission.
    mutating func countUnproven(_ terms: Terms, isRefused: Bool) {
        if terms.senderProtocol == .tnp { unprovenEffort.count(isRefused: isRefused, paid: terms.effort) }
    }

    // MARK: Time

    /// Expires records and circuits, and adjusts the efforts. Call this once per second.
    /// - Parameters:
    ///   - queue: the share of the node's capacity for envelopes that is in use, from 0 to 1.
    ///   - seed: makes 16 random bytes; called when a new puzzle is due.
    /// - Returns: whether ``puzzle(at:)`` has changed and must be announced.
    package mutating func tick(queue: Double, at moment: ClockReading, seed: () -> [UInt8]) -> Bool {
        let now = moment.monotonic
        circuits.purge(now: now)
        sweep(moment)
        _ = unprovenEffort.tick(queue: 0, now: now)
        var isChanged = effort.tick(queue: queue, now: now)
        if now >= seeds.rotatesAt {
            seeds.rotate(to: seed(), now: now)
            spentProofs.seedChanged()
            isChanged = true
        }
        return isChanged
    }

    mutating func sweep(_ moment: ClockReading) {
        let (now, day, settings) = (moment.monotonic, moment.day, settings)
        var gone: [TokenRecord] = []
        var changed: [UInt64] = []
        tokens.sweep { record in
            let before = record
            record.standing = settings.standing(of: record, on: day)
            settings.forgetOldBinding(of: &record, on: day)
            if !record.isPersistent, record.allowance.isFull(now: now) {
                gone.append(before)
                return true
            }
            if record != before, !record.isUnsaved {
                record.isUnsaved = true
                changed.append(record.token)
            }
            return false
        }
        for record in gone { forget(record) }
        for token in changed { list(token) }
    }
}

extension EffortControl.Settings {
    /// The settings for unproven device tokens: they require work only under pressure, or never in mode `off`.
    var forUnproven: EffortControl.Settings {
        EffortControl.Settings(mode: mode == .off ? .off : .adaptive, minimum: minimum, maximum: maximum)
    }
}
