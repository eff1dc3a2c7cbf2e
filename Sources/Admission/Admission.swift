// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// Decides whether the node admits a submission, rejects it, or asks its sender to retry. Whatever attackers send, the
/// push services thus receive what honest senders send, at a rate that they accept. `Admission` performs no I/O and
/// reads no clock: callers pass in events and times. It never names a phone or a sender.
///
/// A submission passes three gates: ``checkCircuit(_:at:)`` and, unless it is a resend of an envelope that the node
/// knows, ``verify(_:by:on:through:at:)`` and ``admit(_:by:paid:app:on:through:at:)``.
/// ``finish(_:with:contact:binds:at:)`` records its outcome.
package struct Admission: ~Copyable {
    /// The endpoint that received a submission.
    package enum SenderProtocol: String, Sendable {
        /// The TNP endpoint.
        case tnp
        /// The HTTP API for today's desktops, which neither sign nor solve puzzles.
        case http
    }

    /// What ``Admission/finish(_:with:contact:binds:at:)`` needs to know about an admitted submission.
    package struct Ticket: Sendable, Redacted {
        let token: UInt64
        /// The index of the submission's app in `apps`.
        let app: Int
        /// The keyed hash of the key that signed the submission; 0 if none.
        let signer: UInt64
        /// The keyed hash of the earlier key whose binding the signer takes over; 0 if none.
        let predecessor: UInt64
        /// Whether the submission is known to be unsigned.
        let isUnsigned: Bool
        /// Whether no push service has accepted the device token yet.
        package let isUnproven: Bool
        /// Whether all nodes of a cluster have admitted the submission together.
        package let isShared: Bool
        /// The circuit that the submission came from.
        package let circuit: CircuitID
        /// The endpoint that received the submission.
        package let senderProtocol: SenderProtocol
        /// The effort of the proof of work, in expected hashes.
        package let effort: UInt32
        /// What the proof is for, as ``SpentProofs`` names it; 0 without a proof.
        let proof: UInt64
    }

    /// The current settings. A new value takes effect at once.
    package var settings: AdmissionSettings {
        didSet {
            effort.settings = settings.puzzle
            unprovenEffort.settings = settings.puzzle.forUnproven
            // A reload may have mended what made the push service refuse them.
            badTokens = BadTokens()
        }
    }
    let hash: KeyedHash
    let tokens: TokenTable
    var circuits = Circuits()
    /// A linear search through a handful of apps is faster than hashing.
    var apps: [(name: String, allowance: Allowance)] = []
    var node = Allowance()
    /// The TNP endpoint's budget for device tokens that no push service has accepted yet.
    var unproven = Allowance()
    /// The budget of the HTTP endpoint.
    var http = Allowance()
    /// The HTTP endpoint's budget for device tokens that no push service has accepted yet.
    var httpUnproven = Allowance()
    private(set) var seeds: PuzzleSeeds
    private var spentProofs = SpentProofs()
    /// The effort required for every TNP submission.
    var effort: EffortControl
    /// The effort required for an unproven device token.
    var unprovenEffort: EffortControl
    /// Device tokens that a push service has refused.
    var badTokens = BadTokens()
    /// Device tokens whose record differs from the stored one.
    private var unsaved: [UInt64] = []
    /// Device tokens whose record was removed, to be deleted from the store.
    private var forgotten: [UInt64] = []

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

    // MARK: Connections

    /// Registers a connection. Call this as soon as the connection's circuit is known.
    /// - Returns: the GOAWAY to reject the connection with, or `nil` if it is accepted. Do not call
    ///   ``disconnected(_:at:)`` for a rejected connection.
    package mutating func connected(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        if let goAway = blocked(circuit, now) { return goAway }
        guard circuit.site != nil || (circuits[circuit]?.connections ?? 0) < settings.connectionsPerCircuit else {
            return GoAway(code: .busy, retryAfter: 10_000, text: "too many connections from this circuit")
        }
        guard circuits.connected(circuit, capacity: settings.circuits, now: now) else {
            return GoAway(code: .busy, retryAfter: 10_000, text: "too many circuits")
        }
        return nil
    }

    /// Removes a closed connection.
    package mutating func disconnected(_ circuit: CircuitID, at now: MonotonicTime) {
        circuits.disconnected(circuit, now: now)
    }

    /// Charges a circuit's abuse account for one violation. A site is never blocked: its users name the device tokens, and
    /// the operator knows it. Past its allowance, its unproven device tokens are refused (``obstacle(to:at:)``).
    /// - Returns: a GOAWAY if this violation blocks the circuit.
    package mutating func charge(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        let (rate, block) = (settings.abuse, Duration.seconds(settings.abuseBlock))
        let isExhausted = circuits.update(circuit) { known in
            known.abuseAccount.resetIfOverdrawn(rate, now: now)
            known.abuseAccount.take(rate, now: now)
            guard circuit.site == nil, known.abuseAccount.remaining(rate, now: now) == 0 else { return false }
            known.blockedUntil = max(known.blockedUntil, now + block)
            return true
        }
        return isExhausted == true ? blocked(circuit, now) : nil
    }

    private func blocked(_ circuit: CircuitID, _ now: MonotonicTime) -> GoAway? {
        guard let until = circuits[circuit]?.blockedUntil, until > now else { return nil }
        return GoAway(
            code: .abuse, retryAfter: (until - now).wireMilliseconds,
            text: "too many bad device tokens, invalid proofs or malformed submissions")
    }

    // MARK: Puzzles

    /// The puzzle that every TNP submission must solve.
    package func puzzle(at now: MonotonicTime) -> Puzzle { seeds.puzzle(effort: effort.effort, at: now) }

    /// The efforts required for every TNP submission and for unproven device tokens; 0 if no proof is required.
    package var efforts: (all: UInt32, unproven: UInt32) {
        (effort.effort, max(effort.effort, unprovenEffort.effort))
    }

    // MARK: Gates

    /// The first gate: checks that the circuit is not blocked and is within its rate. A resend passes only this gate.
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

    /// The second gate, for submissions that are not resends: checks proof of work and signature. The result does not
    /// depend on the device token.
    /// - Parameter access: who may ring the phone by the handle that the sender has used; `nil` if it has used the device
    ///   token.
    /// - Returns: the effort of the proof, in expected hashes.
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

    /// The gate for a REGISTER, after ``checkCircuit(_:at:)``. It costs as much as a submission to an unproven device token
    /// that turns out to be bad: nobody knows whether the phone exists.
    package mutating func admit(
        registration request: HandleRequest, on circuit: CircuitID, at now: MonotonicTime
    ) throws(Refusal) {
        let paid = try worth(of: request.proof, for: request.hash, circuit, now)
        try checkUnproven(
            Terms(
                token: 0, appName: "", signer: 0, predecessor: 0, app: 0, isUnsigned: false, circuit: circuit,
                senderProtocol: .tnp,
                effort: paid, hasProof: request.proof != nil, proof: 0), now)
        unproven.take(settings.unproven, now: now)
        guard circuit.site == nil else { return }
        let rate = settings.abuse
        circuits.update(circuit) { $0.abuseAccount.take(rate, now: now) }
    }

    /// Refunds a REGISTER for which there was no room.
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

    /// The third gate: checks limits and the record of the device token. If one rule refuses the submission, this uses
    /// up no allowance of the other rules.
    ///
    /// The node reports a refusal that depends on the device token (dead, bound, over its rate) only where it would
    /// have admitted an unknown device token. Otherwise an attacker who has used up the budget for unknown device
    /// tokens could learn, without ringing the phone, whether the node serves that phone.
    /// - Parameters:
    ///   - paid: the result of ``verify(_:by:on:through:at:)``.
    ///   - access: as for ``verify(_:by:on:through:at:)``.
    ///   - app: the name of the app.
    ///   - senderProtocol: the endpoint that received the submission.
    package mutating func admit(
        _ submission: Submission, by access: HandleAccess? = nil, paid: UInt32, app: String, on circuit: CircuitID,
        through senderProtocol: SenderProtocol, at moment: ClockReading
    ) throws(Refusal) -> Ticket {
        try admit(
            terms(of: submission, by: access, paid: paid, app: app, on: circuit, through: senderProtocol), at: moment)
    }

    /// What the third gate needs to know about a submission.
    package struct Terms: Sendable, Redacted {
        /// The keyed hash of the device token.
        package let token: UInt64
        /// The name of the app.
        package let appName: String
        /// The keyed hash of the key that signed the submission; 0 if none counts.
        package let signer: UInt64
        /// The keyed hash of the earlier key whose binding the signer takes over; 0 if none.
        package let predecessor: UInt64
        let app: Int
        let isUnsigned: Bool
        let circuit: CircuitID
        package let senderProtocol: SenderProtocol
        let effort: UInt32
        let hasProof: Bool
        let proof: UInt64
        /// Whether ``checkNode(_:at:)`` counts it among its circuit's unproven device tokens in flight.
        var isCounted = false
    }

    /// The terms of a submission: the parameters of ``admit(_:by:paid:app:on:through:at:)``.
    package mutating func terms(
        of submission: Submission, by access: HandleAccess? = nil, paid: UInt32, app: String, on circuit: CircuitID,
        through senderProtocol: SenderProtocol
    ) -> Terms {
        let token = hash(of: submission.envelope, app: app)
        return Terms(
            token: token, appName: app, signer: signer(of: submission, by: access, to: token),
            predecessor: predecessor(of: submission, by: access, to: token), app: index(of: app),
            isUnsigned: submission.envelope.signature == nil && access == nil, circuit: circuit,
            senderProtocol: senderProtocol, effort: paid, hasProof: submission.proof != nil,
            proof: paid == 0
                ? 0 : submission.proof.map { SpentProofs.name(of: $0, for: submission.envelope.digest) } ?? 0)
    }

    /// The third gate, by what this node knows.
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
        // Not charged: it costs nobody anything, and the sender may also ring live phones.
        if let tokenRefusal { throw Refusal(tokenRefusal) }

        node.take(settings.node, now: now)
        takeShared(terms, isUnproven: isUnproven, now)
        use(record, moment)
        return ticket(for: terms, isUnproven: isUnproven)
    }

    /// Refuses a submission that has to wait this long, or longer for the node's own rate.
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
        return Ticket(
            token: terms.token, app: terms.app, signer: terms.signer, predecessor: terms.predecessor,
            isUnsigned: terms.isUnsigned,
            isUnproven: isUnproven, isShared: isShared, circuit: terms.circuit, senderProtocol: terms.senderProtocol,
            effort: terms.effort, proof: terms.proof)
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
    private mutating func worth(
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

    /// Hashes a phone's identity together with its app.
    func hash(of envelope: Envelope, app: String) -> UInt64 {
        Self.name(of: envelope.phone, app: app, under: hash)
    }

    private static func name(of phone: DeviceIdentity, app: String, under hash: KeyedHash) -> UInt64 {
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

    /// The keyed hash of the earlier key whose binding the signer takes over; 0 if there is none. By handle, the binding is
    /// the owner's.
    private func predecessor(of submission: Submission, by access: HandleAccess?, to token: UInt64) -> UInt64 {
        guard settings.senders != .off, access == nil, let earlier = submission.envelope.signature?.succession else {
            return 0
        }
        return sender(earlier.key, of: token)
    }

    /// The keyed hash of a key that a device token is bound to. Includes the device token, so that the hash does not
    /// reveal whether two phones have the same sender.
    private func sender(_ key: Bytes, of token: UInt64) -> UInt64 {
        TokenRecord.sender(
            withUnsafeBytes(of: token) { token in key.withUnsafeBytes { hash(token, $0, label: 2) } })
    }

    /// Why a node refuses an unproven device token, whatever the budget.
    package enum UnprovenObstacle: String, Sendable {
        /// The sender has spent too little effort.
        case proof
        /// The circuit has as many unproven device tokens in flight as its abuse account has left: each may turn out to
        /// be bad.
        case circuit
    }

    /// What stands against a submission if its device token is unproven; `nil` if nothing does.
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

    /// Tells the effort for unproven device tokens whether their budget had room.
    mutating func countUnproven(_ terms: Terms, isRefused: Bool) {
        if terms.senderProtocol == .tnp { unprovenEffort.count(isRefused: isRefused, paid: terms.effort) }
    }

    // MARK: Outcomes

    /// Which allowances a submission with this outcome gets back.
    package struct Refund: Sendable, Equatable {
        /// Whether the app, the budget of unproven device tokens and the HTTP endpoint get theirs back. So does a
        /// submission that the node sent to no push service, except from its circuit. A submission with an expired ttl does
        /// not: it takes a place in the replay window (PROTOCOL §3), which could otherwise be filled for free.
        package let budgets: Bool
        /// Whether the device token gets its back, because the phone did not ring.
        package let device: Bool

        /// The refund of a submission that the node has not used.
        package static let everything = Refund(budgets: true, device: true)

        private init(budgets: Bool, device: Bool) {
            self.budgets = budgets
            self.device = device
        }

        package init(_ outcome: Outcome, contact: ProviderContact) {
            budgets = contact != .contacted && outcome.reason != .ttlRanOut
            device = budgets || outcome.kind == .retry
        }
    }

    /// Counts one unproven device token in flight less.
    mutating func endUnproven(on circuit: CircuitID) {
        circuits.update(circuit) { $0.unproven = max(0, $0.unproven - 1) }
    }

    /// Records the final outcome of an admitted submission.
    /// - Parameter binds: whether a delivery may bind the device token to the sender key.
    /// - Returns: a GOAWAY if the outcome blocks the circuit.
    package mutating func finish(
        _ ticket: Ticket, with outcome: Outcome, contact: ProviderContact, binds: Bool = true, at moment: ClockReading
    ) -> GoAway? {
        let now = moment.monotonic
        if ticket.isUnproven { endUnproven(on: ticket.circuit) }
        // A submission to be sent again keeps its proof.
        if ticket.proof != 0, outcome.kind != .retry { spentProofs.insert(ticket.proof) }
        let refund = Refund(outcome, contact: contact)
        if refund.budgets {
            switch ticket.senderProtocol {
            case .tnp: if ticket.isUnproven { unproven.refund(settings.unproven, now: now) }
            case .http:
                if ticket.isUnproven { httpUnproven.refund(settings.httpUnproven, now: now) }
                http.refund(settings.http, now: now)
            }
            node.refund(settings.node, now: now)
            apps[ticket.app].allowance.refund(settings.app, now: now)
        }
        if contact == .noCapacity, ticket.senderProtocol == .tnp { effort.count(isRefused: true, paid: ticket.effort) }
        if refund.device {
            let rate = settings.device
            tokens.update(ticket.token) { $0.allowance.refund(rate, now: now) }
        }
        switch outcome.kind {
        case .delivered: accepted(ticket, mayBind: binds, moment)
        case .gone:
            guard died(ticket, since: outcome.goneSince, moment) else { return nil }
            // A phone that was known is gone now: that is no abuse.
            return ticket.isUnproven ? charge(ticket.circuit, at: moment.monotonic) : nil
        case .rejected where outcome.reason == .badDeviceToken:
            change(ticket.token) { $0.standing = .unproven }
            // A token that was good before is no abuse, and the push service is asked once more.
            guard ticket.isUnproven, badTokens.refused(ticket.token, with: outcome, at: now) else { return nil }
            return charge(ticket.circuit, at: now)
        // Charged: the sender could have known that the notification is too large, and the node made a futile request.
        case .rejected where outcome.reason == .tooLarge: return charge(ticket.circuit, at: now)
        case .rejected, .queued, .retry: break
        }
        return nil
    }

    /// Records the outcome of an envelope whose sender is no longer known, such as one that an earlier process stored.
    package mutating func recordOutcome(_ outcome: Outcome, of envelope: Envelope, app: String, at moment: ClockReading)
    {
        let ticket = Ticket(
            token: hash(of: envelope, app: app), app: index(of: app), signer: 0, predecessor: 0, isUnsigned: false,
            isUnproven: false,
            isShared: false, circuit: .storedEnvelopes(phone: 0), senderProtocol: .tnp, effort: 0,
            proof: 0)
        _ = finish(ticket, with: outcome, contact: .contacted, at: moment)
    }

    /// Adds to a DELIVERED outcome the device token's remaining allowance and the time until that is full again. Other
    /// outcomes do not show them: otherwise anyone who knows the device token could watch, without ringing the phone,
    /// when others ring it.
    package func addingAllowance(to outcome: Outcome, of ticket: Ticket, at now: MonotonicTime) -> Outcome {
        guard outcome.kind == .delivered else { return outcome }
        return (tokens[ticket.token]?.allowance ?? Allowance()).added(to: outcome, settings.device, now: now)
    }

    private mutating func accepted(_ ticket: Ticket, mayBind: Bool, _ moment: ClockReading) {
        badTokens.accepted(ticket.token)
        let record = tokens[ticket.token] ?? TokenRecord(token: ticket.token)
        let bound = settings.sender(of: record, on: moment.day)
        let isBound = bound != 0
        let mayBegin = !isBound && !settings.hasRecentUnsigned(of: record, on: moment.day)
        let binds =
            mayBind && ticket.signer != 0 && settings.senders != .off
            && (mayBegin || (isBound && bound == ticket.predecessor))
        let recordsUnsigned =
            ticket.isUnsigned && !isBound && settings.senderQuietDays > 0 && record.unsignedDay != moment.day
        if record.standing == .proven, !binds, !recordsUnsigned {
            // Updates the time of acceptance in memory only: it is not worth a disk write per notification.
            tokens.update(ticket.token) { $0.since = moment.milliseconds }
            return
        }
        change(ticket.token) { record in
            record.standing = .proven
            record.since = moment.milliseconds
            record.use(on: moment.day)
            if binds {
                record.sender = ticket.signer
            } else if recordsUnsigned {
                record.unsignedDay = moment.day
            }
        }
    }

    /// Records that a device token is gone.
    /// - Returns: whether the node learned this now: `false` if the token was dead already, or if a push service
    ///   accepted it after `since`.
    private mutating func died(_ ticket: Ticket, since named: UInt64?, _ moment: ClockReading) -> Bool {
        let since = named ?? moment.milliseconds
        // Ignores an acceptance in the future, which was recorded before the wall clock was corrected.
        if let record = tokens[ticket.token], record.standing == .proven, record.since > since,
            record.since <= moment.milliseconds
        {
            return false
        }
        let isNew = tokens[ticket.token]?.standing != .dead
        change(ticket.token) { record in
            record.standing = .dead
            // Never the node's own clock, by which its onions could be linked (PROTOCOL §4).
            record.since = named ?? 0
            record.use(on: moment.day)
            record.unbind()
        }
        return isNew
    }

    // MARK: Records

    /// Records an admitted submission to a device token.
    private mutating func use(_ record: TokenRecord, _ moment: ClockReading) {
        let (rate, now, day) = (settings.device, moment.monotonic, moment.day)
        if record.day >= day, tokens.update(record.token, { $0.allowance.take(rate, now: now) }) { return }
        var used = record
        used.allowance.take(rate, now: now)
        // Using a token must not revive its expired standing or binding.
        used.standing = settings.standing(of: record, on: day)
        settings.forgetOldBinding(of: &used, on: day)
        used.use(on: day)
        store(used)
    }

    mutating func change(_ token: UInt64, _ change: (inout TokenRecord) -> Void) {
        var record = tokens[token] ?? TokenRecord(token: token)
        change(&record)
        store(record)
    }

    mutating func store(_ record: TokenRecord) {
        var record = record
        if !record.isUnsaved, record.isPersistent || tokens[record.token]?.isPersistent == true {
            record.isUnsaved = true
            unsaved.append(record.token)
        }
        if let gone = tokens.insert(record) { forget(gone) }
    }

    private mutating func forget(_ record: TokenRecord) {
        // Bounds the list even while the store fails. The store then keeps some rows too long, and ``restore(_:on:)``
        // drops those that have expired.
        if record.isPersistent || record.isUnsaved, forgotten.count < settings.deviceTokens {
            forgotten.append(record.token)
        }
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

    private mutating func sweep(_ moment: ClockReading) {
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
        unsaved += changed
    }
}

extension AdmissionSettings {
    /// The standing of a record on a day. An acceptance or death that is too old no longer counts.
    fileprivate func standing(of record: TokenRecord, on day: UInt16) -> TokenRecord.Standing {
        switch record.standing {
        case .proven where record.age(on: day) >= provenDays: .unproven
        case .dead where record.age(on: day) >= deadDays: .unproven
        case let standing: standing
        }
    }

    /// The sender key that a device token is bound to; 0 if there is none or the binding has expired.
    fileprivate func sender(of record: TokenRecord, on day: UInt16) -> UInt64 {
        record.age(on: day) >= senderForgetDays ? 0 : record.sender
    }

    /// Whether an unsigned submission has reached the phone within `senderQuietDays`. If so, a signed one does not bind
    /// the device token (PROTOCOL §3, Binding).
    fileprivate func hasRecentUnsigned(of record: TokenRecord, on day: UInt16) -> Bool {
        record.unsignedDay.map { Int(day) - Int($0) < senderQuietDays } ?? false
    }

    /// Removes an expired binding, or an expired day of the last unsigned submission.
    fileprivate func forgetOldBinding(of record: inout TokenRecord, on day: UInt16) {
        if record.sender != 0, sender(of: record, on: day) == 0 { record.unbind() }
        if record.unsignedDay != nil, !hasRecentUnsigned(of: record, on: day) { record.unbind() }
    }
}

extension Allowance {
    /// The outcome with the remaining allowance: RESULT's fields 0x04 and 0x05.
    func added(to outcome: Outcome, _ rate: Rate, now: MonotonicTime) -> Outcome {
        var outcome = outcome
        outcome.left = UInt32(clamping: remaining(rate, now: now))
        outcome.fullIn = fullIn(rate, now: now).wireMilliseconds
        return outcome
    }
}

extension EffortControl.Settings {
    /// The settings for unproven device tokens: they require work only under pressure, or never in mode `off`.
    var forUnproven: EffortControl.Settings {
        EffortControl.Settings(mode: mode == .off ? .off : .adaptive, least: minimum, most: maximum)
    }
}

// MARK: Unbinding

extension Admission {
    /// The hashes that may identify a device token in an operator's request, which does not name the platform: the hash
    /// as an Apple token, then that as a Google token or a push endpoint.
    package static func hashes(of deviceToken: [UInt8], app: String, under hash: KeyedHash) -> [UInt64] {
        [Magic.iOS, .android].map { name(of: DeviceIdentity(deviceToken[...], of: $0), app: app, under: hash) }
    }

    /// The keyed hash of the device token of an envelope.
    package func name(of envelope: Envelope, app: String) -> UInt64 { hash(of: envelope, app: app) }

    /// The keyed hash of a phone's device token.
    package func name(of phone: HandleRequest.Registration, app: String) -> UInt64 {
        Self.name(of: phone.phone, app: app, under: hash)
    }

    /// Unbinds a phone from the owner of its handle, who has ended the handle.
    /// - Returns: the keyed hashes of the device token and of the owner's key.
    package mutating func unbind(
        _ phone: HandleRequest.Registration, app: String, from owner: [UInt8]
    ) -> (token: UInt64, sender: UInt64) {
        let token = name(of: phone, app: app)
        let sender = sender(owner[...], of: token)
        if tokens[token]?.sender == sender { change(token) { $0.unbind() } }
        return (token, sender)
    }

    /// Unbinds these device tokens from their sender keys. The next signed submission that is delivered to one binds it
    /// again.
    /// - Parameter names: the results of ``hashes(of:app:under:)``.
    /// - Returns: how many device tokens were bound.
    package mutating func unbind(_ names: [UInt64]) -> Int {
        names.count { name in
            guard name != 0, let record = tokens[name], record.binding != 0 else { return false }
            change(name) { $0.unbind() }
            return record.sender != 0
        }
    }
}

// MARK: Store

extension Admission {
    /// The changes to write to the store.
    package struct Changes: Sendable, Redacted {
        /// The records to insert or replace.
        package var records: [TokenRecord]
        /// The hashes of the device tokens to delete.
        package var forgotten: [UInt64]
    }

    /// Takes the changes that the store does not have yet; `nil` if there are none.
    /// - Parameter limit: the maximum number of records, and of deletions. The next call returns the rest.
    package mutating func takeChanges(atMost limit: Int) -> Changes? {
        guard !unsaved.isEmpty || !forgotten.isEmpty else { return nil }
        var records: [TokenRecord] = []
        let now = unsaved.suffix(limit)
        unsaved.removeLast(now.count)
        for token in now {
            tokens.update(token) { record in
                // A record that was removed and inserted again is listed twice.
                guard record.isUnsaved else { return }
                record.isUnsaved = false
                if record.isPersistent { records.append(record) } else { forgotten.append(token) }
            }
        }
        let gone = forgotten.suffix(limit)
        forgotten.removeLast(gone.count)
        // A token that was removed and inserted again must not be deleted.
        return Changes(records: records, forgotten: gone.filter { tokens[$0]?.isPersistent != true })
    }

    /// Queues changes again that the store failed to write.
    package mutating func requeue(_ changes: Changes) {
        for saved in changes.records {
            tokens.update(saved.token) { record in
                guard !record.isUnsaved else { return }
                record.isUnsaved = true
                unsaved.append(saved.token)
            }
        }
        for token in changes.forgotten where forgotten.count < settings.deviceTokens { forgotten.append(token) }
    }

    /// Restores a stored record when the node starts.
    package mutating func restore(_ stored: TokenRecord, on moment: ClockReading) {
        var record = stored
        // Not stored: its times are those of the earlier process's monotonic clock.
        record.allowance = Allowance()
        // A record from a time when the clock was ahead ages from now on.
        record.clamp(to: moment.day, moment.milliseconds)
        record.standing = settings.standing(of: record, on: moment.day)
        settings.forgetOldBinding(of: &record, on: moment.day)
        // No token has the hash 0, which marks an empty slot.
        guard record.isPersistent, record.token != 0 else {
            forgotten.append(record.token)
            return
        }
        if let gone = tokens.restore(record) { forget(gone) }
    }

    /// The maximum size of the table of device tokens, in bytes.
    package static func maximumBytes(deviceTokens: Int) -> Int { TokenTable.mostBytes(capacity: deviceTokens) }

    /// The maximum size of the table of circuits, in bytes.
    package static func maximumBytes(circuits: Int) -> Int { Circuits.maximumBytes(capacity: circuits) }

    /// Numbers of known device tokens and circuits.
    package struct Counts: Sendable, Equatable {
        /// Device tokens that a push service has accepted.
        package var proven: Int
        /// Device tokens that are neither proven nor gone.
        package var unproven: Int
        /// Device tokens that are gone.
        package var dead: Int
        /// Circuits with a connection, or with state that has not expired.
        package var circuits: Int
    }

    /// The numbers of known device tokens and circuits.
    package var known: Counts {
        Counts(
            proven: tokens.count(of: .proven), unproven: tokens.count(of: .unproven), dead: tokens.count(of: .dead),
            circuits: circuits.count)
    }

    /// What the tables hold, and the bounds from which their memory follows (Docs/admission.md, Memory).
    package var tables: [(name: String, entries: Int, bound: Int)] {
        let tokens = known.proven + known.unproven + known.dead
        return [
            ("device tokens", tokens, settings.deviceTokens), ("circuits", circuits.count, settings.circuits),
            ("unsaved device tokens", unsaved.count, settings.deviceTokens),
            ("forgotten device tokens", forgotten.count, settings.deviceTokens),
            ("spent proofs", spentProofs.count, 2 * SpentProofs.capacity),
            ("bad device tokens", badTokens.count, BadTokens.capacity),
        ]
    }
}
