// SPDX-License-Identifier: Apache-2.0

import Cryptography
import TNP
import Time

/// Says yes, no or later to what senders submit: so that the push services see what honest senders send, at a pace they
/// can stand, whoever else is there. Pure: events and time in, decisions out; nothing in it names a phone or a sender.
///
/// A submission passes three gates: ``enters(on:at:)``, and, where it is no resend of what the node knows already,
/// ``verify(_:on:through:at:)`` and ``admit(_:paid:app:on:through:at:)``. ``concluded(_:_:_:at:)`` reports its outcome.
package struct Admission {
    /// Where a submission comes in.
    package enum SenderProtocol: String, Sendable {
        case tnp
        /// Whose senders are the desktops of today: they sign nothing and solve no puzzle.
        case http
    }

    /// Of a submission that was admitted: what ``Admission/concluded(_:_:_:at:)`` needs to know of it.
    package struct Ticket: Sendable, Redacted {
        let token: UInt64
        /// The place of its app's allowance.
        let app: Int
        /// The keyed hash of the key that has signed it; 0: none.
        let signer: UInt64
        /// Whether it is known to have come without a signature.
        let isUnsigned: Bool
        /// Whether no push service has accepted its device token yet.
        package let isUnproven: Bool
        package let circuit: CircuitID
        package let senderProtocol: SenderProtocol
        /// What its proof of work is worth, in expected hashes.
        package let paid: UInt32
    }

    /// Takes effect at once.
    package var settings: AdmissionSettings {
        didSet {
            effort.settings = settings.puzzle
            unprovenEffort.settings = settings.puzzle.forUnproven
        }
    }
    private let hash: KeyedHash
    let tokens: TokenTable
    private(set) var circuits = Circuits()
    /// A handful: looked through faster than hashed.
    private var apps: [(name: String, allowance: Allowance)] = []
    private var node = Allowance()
    /// What is left for device tokens that no push service has accepted yet.
    private var unproven = Allowance()
    /// What is left for the HTTP endpoint, and there for device tokens that no push service has accepted yet.
    private var http = Allowance()
    private var httpUnproven = Allowance()
    private var seeds: PuzzleSeeds
    /// What everybody is asked for.
    private var effort: EffortControl
    /// What is asked for an unproven device token.
    private var unprovenEffort: EffortControl
    /// Device tokens whose record the store does not have as it is.
    private var unsaved: [UInt64] = []
    /// Device tokens whose record went.
    private var forgotten: [UInt64] = []

    /// - Parameters:
    ///   - hash: under a key of the node; what is restored was made under the same.
    ///   - seed: of the first puzzle, 16 random bytes.
    package init(_ settings: AdmissionSettings, hash: KeyedHash, seed: [UInt8], now: MonotonicTime) {
        self.settings = settings
        self.hash = hash
        tokens = TokenTable(capacity: settings.deviceTokens)
        seeds = PuzzleSeeds(seed: seed, now: now)
        effort = EffortControl(settings.puzzle, now: now)
        unprovenEffort = EffortControl(settings.puzzle.forUnproven, now: now)
    }

    // MARK: Connections

    /// A connection has come, as soon as it is known of which circuit.
    /// - Returns: what it is sent away with; then ``disconnected(_:at:)`` does not follow.
    package mutating func connected(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        if let goAway = blocked(circuit, now) { return goAway }
        guard (circuits[circuit]?.connections ?? 0) < settings.connectionsPerCircuit else {
            return GoAway(code: .busy, retryAfter: 10_000, text: "too many connections of one circuit")
        }
        guard circuits.connected(circuit, capacity: settings.circuits, now: now) else {
            return GoAway(code: .busy, retryAfter: 10_000, text: "too many circuits")
        }
        return nil
    }

    /// A connection has gone.
    package mutating func disconnected(_ circuit: CircuitID, at now: MonotonicTime) {
        circuits.disconnected(circuit, now: now)
    }

    /// Notes that a circuit has sent what breaks the rules.
    /// - Returns: what it is sent away with, if that was too much.
    package mutating func charge(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        let (rate, block) = (settings.abuse, Duration.seconds(settings.abuseBlock))
        let isTooMuch = circuits.update(circuit) { known in
            known.account.forgive(beyond: rate, now: now)
            known.account.take(rate, now: now)
            guard known.account.left(rate, now: now) == 0 else { return false }
            known.blockedUntil = max(known.blockedUntil, now + block)
            return true
        }
        return isTooMuch == true ? blocked(circuit, now) : nil
    }

    private func blocked(_ circuit: CircuitID, _ now: MonotonicTime) -> GoAway? {
        guard let until = circuits[circuit]?.blockedUntil, until > now else { return nil }
        return GoAway(
            code: .abuse, retryAfter: (until - now).wireMilliseconds,
            text: "too many bad device tokens, wrong proofs or malformed submissions")
    }

    // MARK: Puzzles

    /// What everybody is asked for.
    package func puzzle(at now: MonotonicTime) -> Puzzle { seeds.puzzle(effort: effort.effort, at: now) }

    /// Effort asked of everybody, and for unproven device tokens; 0: nothing.
    package var efforts: (all: UInt32, unproven: UInt32) {
        (effort.effort, max(effort.effort, unprovenEffort.effort))
    }

    // MARK: Gates

    /// The first gate: whether the circuit is listened to, and what it may submit. Who asks for the outcome of what he has
    /// sent before needs no more than this.
    package mutating func enters(on circuit: CircuitID, at now: MonotonicTime) throws(Refusal) {
        let rate = settings.circuit
        // One look at the table for both.
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

    /// The second gate, for what is new to the node: proof of work and signature. Nothing that is known of the device token
    /// is looked at.
    /// - Returns: what the proof is worth, in expected hashes.
    package mutating func verify(
        _ submission: Submission, on circuit: CircuitID, through senderProtocol: SenderProtocol, at now: MonotonicTime
    ) throws(Refusal) -> UInt32 {
        let digest = submission.envelope.digest
        let paid = senderProtocol == .http ? 0 : try worth(of: submission.proof, for: digest, circuit, now)
        switch (settings.senders, submission.signature) {
        case (.off, _), (.optional, nil): break
        case (.required, nil): throw Refusal(.rejected(.senderKeyNeeded))
        case (_, let signature?):
            if !signature.isValid(for: digest) {
                throw Refusal(.rejected(.notThisSenderKey), goAway: charge(circuit, at: now))
            }
        }
        return paid
    }

    /// There is no room in the node for a submission that passed ``verify(_:on:through:at:)``: more proof of work is asked.
    package mutating func lacksRoom(paid: UInt32, through senderProtocol: SenderProtocol) {
        if senderProtocol == .tnp { effort.count(isRefused: true, paid: paid) }
    }

    /// The third gate: limits, and what is known of the device token. A refusal for one rule uses up nothing of another.
    ///
    /// A refusal that depends on the device token (it is dead, bound, over its rate) is given only where a device token
    /// unknown to the node would have been admitted. Otherwise whoever has used up what is left for unknown ones could
    /// learn, without ringing it, whether the node serves a phone.
    /// - Parameters:
    ///   - paid: as ``verify(_:on:through:at:)`` returned it.
    ///   - app: the name of the profile that it is for.
    ///   - endpoint: where it has come in.
    package mutating func admit(
        _ submission: Submission, paid: UInt32, app: String, on circuit: CircuitID,
        through senderProtocol: SenderProtocol,
        at moment: ClockReading
    ) throws(Refusal) -> Ticket {
        let now = moment.monotonic
        let token = hash(of: submission.envelope, app: app)
        var record = tokens[token] ?? TokenRecord(token: token)
        let standing = settings.standing(of: record, on: moment.day)
        let signer = signer(of: submission, to: token)
        let objection = objection(to: submission, signer, standing, &record, moment)
        let isUnproven = standing != .proven
        let own = place(of: app)
        let appWait = apps[own].allowance.wait(settings.app, now: now)
        let nodeWait = node.wait(settings.node, now: now)
        let httpWait = senderProtocol == .http ? http.wait(settings.http, now: now) : .zero
        let longestWait = max(appWait, nodeWait, httpWait)
        guard longestWait == .zero else {
            // An app over its own limit is nothing that all others should pay for; and those who cannot pay set no price.
            if senderProtocol == .tnp, nodeWait > .zero { effort.count(isRefused: true, paid: paid) }
            throw .retry(.nodeBusy, after: longestWait)
        }
        if isUnproven || objection != nil { try checkUnproven(submission, paid: paid, circuit, senderProtocol, now) }
        if senderProtocol == .tnp { effort.count(isRefused: false, paid: paid) }
        if let objection {
            // Today's desktops ignore GONE and also ring live phones: the circuit is not charged.
            let isCharged = objection.kind == .gone && senderProtocol != .http
            throw Refusal(objection, goAway: isCharged ? charge(circuit, at: now) : nil)
        }

        apps[own].allowance.take(settings.app, now: now)
        node.take(settings.node, now: now)
        if senderProtocol == .http { http.take(settings.http, now: now) }
        if isUnproven {
            switch senderProtocol {
            case .tnp: unproven.take(settings.unproven, now: now)
            case .http: httpUnproven.take(settings.httpUnproven, now: now)
            }
            circuits.update(circuit) { $0.unproven += 1 }
        }
        use(record, moment)
        return Ticket(
            token: token, app: own, signer: signer, isUnsigned: submission.signature == nil, isUnproven: isUnproven,
            circuit: circuit, senderProtocol: senderProtocol, paid: paid)
    }

    /// What speaks against a submission to this device token, of all that is known of it.
    private func objection(
        to submission: Submission, _ signer: UInt64, _ standing: TokenRecord.Standing, _ record: inout TokenRecord,
        _ moment: ClockReading
    ) -> Outcome? {
        if standing == .dead { return .gone(since: record.since) }
        let bound = settings.sender(of: record, on: moment.day)
        if settings.senders != .off, signer == 0, bound != 0 { return .rejected(.senderKeyNeeded) }
        // Not charged: it may be the owner, whose phone somebody else has bound first.
        if signer != 0, bound != 0, bound != signer { return .rejected(.notThisSenderKey) }
        let wait = record.allowance.wait(settings.device, now: moment.monotonic)
        guard wait > .zero else { return nil }
        let allowance = record.allowance
        tokens.update(record.token) { $0.allowance = allowance }
        return allowance.shown(
            on: .retry(.deviceTokenOverRate, after: wait.wireMilliseconds), settings.device, now: moment.monotonic)
    }

    /// What a proof is worth, in expected hashes.
    private mutating func worth(
        of proof: Proof?, for digest: Digest256, _ circuit: CircuitID, _ now: MonotonicTime
    ) throws(Refusal) -> UInt32 {
        guard settings.puzzle.mode != .off else { return 0 }
        switch seeds.validate(proof, for: digest, effort: effort.effort, now: now) {
        case .notAsked: return 0
        // Anybody has a proof of next to no effort: it is worth nothing, or it would be the way past all others.
        case .valid(let effort): return effort < settings.puzzle.least ? 0 : effort
        case .missing: throw Refusal(.retry(.proofNeeded, after: 0), puzzle: puzzle(at: now))
        case .tooSmall, .stale: throw Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle(at: now))
        // Who shows a proof that is none has the node compute for nothing.
        case .wrong:
            throw Refusal(.retry(.proofWrong, after: 0), puzzle: puzzle(at: now), goAway: charge(circuit, at: now))
        }
    }

    private mutating func place(of app: String) -> Int {
        if let place = apps.firstIndex(where: { $0.name == app }) { return place }
        apps.append((app, Allowance()))
        return apps.count - 1
    }

    /// A device token is one of an app's on one of the two systems: Apple's environments share it. Apple takes its
    /// hexadecimal digits large and small, so that one token can be written in very many ways.
    private func hash(of envelope: Envelope, app: String) -> UInt64 {
        Self.name(of: envelope.deviceToken, magic: envelope.magic, app: app, under: hash)
    }

    private static func name(of token: Bytes, magic: Magic, app: String, under hash: KeyedHash) -> UInt64 {
        var app = app
        return app.withUTF8 { name in
            if magic == .android { return hash(name, token, label: 1) }
            guard token.contains(where: { $0 & 0x60 == 0x40 }) else { return hash(name, token, label: 0) }
            return hash(name, token.map { $0 | 0x20 }, label: 0)
        }
    }

    /// The keyed hash of the key that has signed it, where that counts; 0: none.
    private func signer(of submission: Submission, to token: UInt64) -> UInt64 {
        guard settings.senders != .off, let signature = submission.signature else { return 0 }
        // With the device token in it, it does not tell whether two phones have the same sender.
        return TokenRecord.sender(withUnsafeBytes(of: token) { hash($0, signature.key, label: 2) })
    }

    private mutating func checkUnproven(
        _ submission: Submission, paid: UInt32, _ circuit: CircuitID, _ senderProtocol: SenderProtocol,
        _ now: MonotonicTime
    ) throws(Refusal) {
        let asked = senderProtocol == .http ? 0 : efforts.unproven
        if paid < asked {
            let reason: Reason = submission.proof == nil ? .proofNeeded : .proofWrong
            throw Refusal(.retry(reason, after: 0), puzzle: seeds.puzzle(effort: asked, at: now))
        }
        // Each may turn out to be a bad one: a circuit has no more of them under way than it may do wrong.
        let rate = settings.abuse
        let isFull = circuits.update(circuit) { known in
            known.account.forgive(beyond: rate, now: now)
            return known.unproven >= known.account.left(rate, now: now)
        }
        if isFull == true {
            throw .retry(.tooManyUnproven, after: .seconds(5), "too many unproven device tokens of one circuit")
        }
        let wait: Duration
        switch senderProtocol {
        case .tnp:
            wait = unproven.wait(settings.unproven, now: now)
            unprovenEffort.count(isRefused: wait > .zero, paid: paid)
        case .http: wait = httpUnproven.wait(settings.httpUnproven, now: now)
        }
        if wait > .zero { throw .retry(.tooManyUnproven, after: wait) }
    }

    // MARK: What came of it

    /// A submission that was admitted has its final outcome.
    /// - Returns: what its circuit is sent away with, if it was one bad device token too many.
    package mutating func concluded(
        _ ticket: Ticket, _ outcome: Outcome, _ reach: ProviderContact, at moment: ClockReading
    ) -> GoAway? {
        let now = moment.monotonic
        if ticket.isUnproven {
            circuits.update(ticket.circuit) { $0.unproven = max(0, $0.unproven - 1) }
        }
        // What no push service has seen costs nobody anything but its circuit; but what is remembered for a while
        // (PROTOCOL §3) is paid for, or it would fill the memory for nothing.
        let isFree = reach != .asked && outcome.reason != .ttlRanOut
        if isFree {
            switch ticket.senderProtocol {
            case .tnp: if ticket.isUnproven { unproven.giveBack(settings.unproven, now: now) }
            case .http:
                if ticket.isUnproven { httpUnproven.giveBack(settings.httpUnproven, now: now) }
                http.giveBack(settings.http, now: now)
            }
            node.giveBack(settings.node, now: now)
            apps[ticket.app].allowance.giveBack(settings.app, now: now)
        }
        if reach == .noRoom, ticket.senderProtocol == .tnp { effort.count(isRefused: true, paid: ticket.paid) }
        if isFree || outcome.kind == .retry {
            // It has not rung the phone, either.
            let rate = settings.device
            tokens.update(ticket.token) { $0.allowance.giveBack(rate, now: now) }
        }
        switch outcome.kind {
        case .delivered: accepted(ticket, moment)
        case .gone:
            guard died(ticket, since: outcome.goneSince ?? moment.milliseconds, moment) else { return nil }
            return charge(ticket.circuit, at: moment.monotonic)
        case .rejected where outcome.reason == .badDeviceToken:
            change(ticket.token) { $0.standing = .unknown }
            return charge(ticket.circuit, at: moment.monotonic)
        // The node has made a request in vain that its sender could have known to be too large.
        case .rejected where outcome.reason == .tooLarge: return charge(ticket.circuit, at: now)
        case .rejected, .queued, .retry: break
        }
        return nil
    }

    /// A push service has refused an unproven device token, at a time when so many are refused that the node itself may be
    /// at fault and its sender is not told so. Who comes back when he is told to, with a few of them, is far from being sent
    /// away for it; who floods is not.
    /// - Returns: what the circuit is sent away with.
    package mutating func suspected(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        charge(circuit, at: now)
    }

    /// What came of an envelope of which nobody knows any more who sent it.
    package mutating func learned(_ outcome: Outcome, of envelope: Envelope, app: String, at moment: ClockReading) {
        let ticket = Ticket(
            token: hash(of: envelope, app: app), app: place(of: app), signer: 0, isUnsigned: false, isUnproven: false,
            circuit: .phone(0), senderProtocol: .tnp, paid: 0)
        _ = concluded(ticket, outcome, .asked, at: moment)
    }

    /// The outcome with what is left to its device token, and until when that is full again, where it has rung the phone:
    /// else anybody who knows the device token could watch, without a sound, when others ring it.
    package func showingAllowance(_ outcome: Outcome, of ticket: Ticket, at now: MonotonicTime) -> Outcome {
        guard outcome.kind == .delivered else { return outcome }
        return (tokens[ticket.token]?.allowance ?? Allowance()).shown(on: outcome, settings.device, now: now)
    }

    private mutating func accepted(_ ticket: Ticket, _ moment: ClockReading) {
        let record = tokens[ticket.token] ?? TokenRecord(token: ticket.token)
        let isBound = settings.sender(of: record, on: moment.day) != 0
        let binds =
            ticket.signer != 0 && settings.senders != .off && !isBound
            && !settings.isQuietTime(of: record, on: moment.day)
        let isNewsOfUnsigned =
            ticket.isUnsigned && !isBound && settings.senderQuietDays > 0 && record.unsignedDay != moment.day
        if record.standing == .proven, !binds, !isNewsOfUnsigned {
            // The moment is of use in memory only, and not worth a write to the disk for each notification.
            tokens.update(ticket.token) { $0.since = moment.milliseconds }
            return
        }
        change(ticket.token) { record in
            record.standing = .proven
            record.since = moment.milliseconds
            record.use(on: moment.day)
            if binds {
                record.sender = ticket.signer
            } else if isNewsOfUnsigned {
                record.unsignedDay = moment.day
            }
        }
    }

    /// - Returns: whether that is news, and to be believed: a device token that was accepted later has come back to life.
    private mutating func died(_ ticket: Ticket, since: UInt64, _ moment: ClockReading) -> Bool {
        // An acceptance that is still to come was noted by a clock that has been put right since, and says nothing.
        if let record = tokens[ticket.token], record.standing == .proven, record.since > since,
            record.since <= moment.milliseconds
        {
            return false
        }
        let isNews = tokens[ticket.token]?.standing != .dead
        change(ticket.token) { record in
            record.standing = .dead
            record.since = since
            record.use(on: moment.day)
            record.unbind()
        }
        return isNews
    }

    // MARK: Records

    /// A submission to a device token is admitted.
    private mutating func use(_ record: TokenRecord, _ moment: ClockReading) {
        let (rate, now, day) = (settings.device, moment.monotonic, moment.day)
        if record.day >= day, tokens.update(record.token, { $0.allowance.take(rate, now: now) }) { return }
        var used = record
        used.allowance.take(rate, now: now)
        // Whatever was too old to count must not come back by being used.
        used.standing = settings.standing(of: record, on: day)
        settings.forgetOldBinding(of: &used, on: day)
        used.use(on: day)
        store(used)
    }

    private mutating func change(_ token: UInt64, _ change: (inout TokenRecord) -> Void) {
        var record = tokens[token] ?? TokenRecord(token: token)
        change(&record)
        store(record)
    }

    private mutating func store(_ record: TokenRecord) {
        var record = record
        if !record.isUnsaved, record.isWorthKeeping || tokens[record.token]?.isWorthKeeping == true {
            record.isUnsaved = true
            unsaved.append(record.token)
        }
        if let gone = tokens.insert(record) { forget(gone) }
    }

    private mutating func forget(_ record: TokenRecord) {
        // A store that does not work is not waited for: what it keeps too much of is too old at the next start.
        if record.isWorthKeeping || record.isUnsaved, forgotten.count < settings.deviceTokens {
            forgotten.append(record.token)
        }
    }

    // MARK: Time

    /// To be called each second.
    /// - Parameters:
    ///   - queue: the share of the node's room for envelopes that is taken, from 0 to 1.
    ///   - seed: 16 random bytes, drawn when a new puzzle is due.
    /// - Returns: whether ``puzzle(at:)`` has changed and is to be announced.
    package mutating func tick(queue: Double, at moment: ClockReading, seed: () -> [UInt8]) -> Bool {
        let now = moment.monotonic
        circuits.purge(now: now)
        sweep(moment)
        _ = unprovenEffort.tick(queue: 0, now: now)
        var isChanged = effort.tick(queue: queue, now: now)
        if now >= seeds.changesAt {
            seeds.rotate(to: seed(), now: now)
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
            if !record.isWorthKeeping, record.allowance.isFull(now: now) {
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
    /// What a device token that was accepted, or gone, long ago is worth now.
    fileprivate func standing(of record: TokenRecord, on day: UInt16) -> TokenRecord.Standing {
        switch record.standing {
        case .proven where record.age(on: day) >= provenDays: .unknown
        case .dead where record.age(on: day) >= deadDays: .unknown
        case let standing: standing
        }
    }

    /// The key that a device token is bound to, unless that was long ago; 0: none.
    fileprivate func sender(of record: TokenRecord, on day: UInt16) -> UInt64 {
        record.age(on: day) >= senderForgetDays ? 0 : record.sender
    }

    /// Whether unsigned submissions have rung the phone within the quiet time: then a signed one does not bind it
    /// (PROTOCOL §3, Binding).
    fileprivate func isQuietTime(of record: TokenRecord, on day: UInt16) -> Bool {
        record.unsignedDay.map { Int(day) - Int($0) < senderQuietDays } ?? false
    }

    fileprivate func forgetOldBinding(of record: inout TokenRecord, on day: UInt16) {
        if record.sender != 0, sender(of: record, on: day) == 0 { record.unbind() }
        if record.unsignedDay != nil, !isQuietTime(of: record, on: day) { record.unbind() }
    }
}

extension Allowance {
    /// RESULT's fields 0x04 and 0x05.
    func shown(on outcome: Outcome, _ rate: Rate, now: MonotonicTime) -> Outcome {
        var outcome = outcome
        outcome.left = UInt32(clamping: left(rate, now: now))
        outcome.fullIn = fullIn(rate, now: now).wireMilliseconds
        return outcome
    }
}

extension EffortControl.Settings {
    /// Who proves a new device token is asked for work only when too many want to, in each mode but `off`.
    var forUnproven: EffortControl.Settings {
        EffortControl.Settings(mode: mode == .off ? .off : .adaptive, least: least, most: most)
    }
}

// MARK: Unbinding

extension Admission {
    /// What names a device token in a request of the operator's: its hash as one of Apple's, and as one of Google's.
    package static func names(of deviceToken: [UInt8], app: String, under hash: KeyedHash) -> [UInt64] {
        [Magic.iOS, .android].map { name(of: deviceToken[...], magic: $0, app: app, under: hash) }
    }

    /// Removes the sender keys of these device tokens. The next signed submission that is delivered binds each again.
    /// - Parameter names: as ``names(of:app:under:)`` makes them.
    /// - Returns: how many were bound.
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
    /// What the store is to be told.
    package struct Changes: Sendable, Redacted {
        package var rows: [StandingRow]
        package var forgotten: [UInt64]
    }

    /// What is known of device tokens that the store does not know yet; nil: nothing.
    /// - Parameter most: of each kind; the others come with the next call.
    package mutating func takeChanges(atMost most: Int) -> Changes? {
        guard !unsaved.isEmpty || !forgotten.isEmpty else { return nil }
        var rows: [StandingRow] = []
        let now = unsaved.suffix(most)
        unsaved.removeLast(now.count)
        for token in now {
            tokens.update(token) { record in
                // One that went and came back stands here twice.
                guard record.isUnsaved else { return }
                record.isUnsaved = false
                if record.isWorthKeeping { rows.append(StandingRow(record)) } else { forgotten.append(token) }
            }
        }
        let gone = forgotten.suffix(most)
        forgotten.removeLast(gone.count)
        // What went and came back is not gone.
        return Changes(rows: rows, forgotten: gone.filter { tokens[$0]?.isWorthKeeping != true })
    }

    /// The store has not taken them: they are told again.
    package mutating func putBack(_ changes: Changes) {
        for row in changes.rows {
            tokens.update(row.token) { record in
                guard !record.isUnsaved else { return }
                record.isUnsaved = true
                unsaved.append(row.token)
            }
        }
        for token in changes.forgotten where forgotten.count < settings.deviceTokens { forgotten.append(token) }
    }

    /// Takes a row of the store in, at the start.
    package mutating func restore(_ row: StandingRow, on moment: ClockReading) {
        var record = TokenRecord(row)
        // Written by a clock that was ahead: it ages from now on.
        record.clamp(to: moment.day, moment.milliseconds)
        record.standing = settings.standing(of: record, on: moment.day)
        settings.forgetOldBinding(of: &record, on: moment.day)
        // No token has the hash 0: it stands for an empty place.
        guard record.isWorthKeeping, record.token != 0 else {
            forgotten.append(row.token)
            return
        }
        if let gone = tokens.insert(record) { forget(gone) }
    }

    /// Bytes that the table of so many device tokens takes at most.
    package static func mostBytes(deviceTokens: Int) -> Int { TokenTable.mostBytes(capacity: deviceTokens) }

    /// Bytes that the table of so many circuits takes at most.
    package static func mostBytes(circuits: Int) -> Int { Circuits.mostBytes(capacity: circuits) }

    /// How many are known of what.
    package struct Known: Sendable, Equatable {
        /// Device tokens that a push service has accepted.
        package var proven: Int
        /// Device tokens of which nothing is known.
        package var unknown: Int
        /// Device tokens that are gone.
        package var dead: Int
        package var circuits: Int

        package var deviceTokens: Int { proven + unknown + dead }
    }

    /// How many device tokens, and how many circuits, are known.
    package var known: Known {
        Known(
            proven: tokens.count(of: .proven), unknown: tokens.count(of: .unknown), dead: tokens.count(of: .dead),
            circuits: circuits.count)
    }
}

extension StandingRow {
    init(_ record: TokenRecord) {
        self.init(
            token: record.token, standing: record.standing.rawValue, since: record.since, day: record.day,
            sender: record.binding)
    }
}

extension TokenRecord {
    init(_ row: StandingRow) {
        self.init(token: row.token)
        standing = Standing(rawValue: row.standing) ?? .unknown
        since = row.since
        day = row.day
        restore(binding: row.sender)
    }
}
