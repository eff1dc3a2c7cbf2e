// SPDX-License-Identifier: Apache-2.0

import Admission
import Cryptography
import Redis
import TNP
import Time

/// The rates that the nodes of a cluster share, and the days for which a record counts, as the text of numbers that
/// functions.lua reads.
package struct SharedLimits: Sendable {
    private let settings: AdmissionSettings
    private let senderProtocol: Admission.SenderProtocol
    /// All rates and days.
    let all: String
    /// The rate of device tokens and all days, with 0 in place of the rates of budgets.
    let none: String

    /// - Parameter senderProtocol: the endpoint that received the submission.
    package init(_ settings: AdmissionSettings, for senderProtocol: Admission.SenderProtocol) {
        self.settings = settings
        self.senderProtocol = senderProtocol
        all = Self.text(settings, for: senderProtocol) { _ in true }
        none = Self.text(settings, for: senderProtocol) { _ in false }
    }

    /// Interval and time to refill, in microseconds; rounded up, so that the engine never admits more than the rate.
    static func rate(_ rate: Rate) -> [Int64] {
        let interval = (60_000_000 + rate.perMinute - 1) / rate.perMinute
        return [interval, interval * rate.burst].map { Int64(clamping: $0) }
    }

    /// The limits with 0 in place of the rates of budgets that are not wanted.
    func only(_ isWanted: (SharedBudget) -> Bool) -> String {
        Self.text(settings, for: senderProtocol, wanting: isWanted)
    }

    private static func text(
        _ settings: AdmissionSettings, for senderProtocol: Admission.SenderProtocol,
        wanting isWanted: (SharedBudget) -> Bool
    ) -> String {
        let budgets = SharedBudget.allCases.flatMap { budget in
            isWanted(budget) ? budget.rate(in: settings, through: senderProtocol).map(rate) ?? [0, 0] : [0, 0]
        }
        let days = [settings.provenDays, settings.deadDays, settings.senderForgetDays, settings.senderQuietDays]
        return (rate(settings.device) + budgets + days.map { Int64(clamping: $0) }).map { "\($0)" }.joined(
            separator: " ")
    }
}

/// The keys of an envelope in the engine.
package struct EnvelopeKeys: Sendable {
    /// The key of the envelope's claim or outcome.
    package let digest: [UInt8]
    /// The keys of the envelope if it is stored.
    let stored: StoredEnvelopeKeys
    /// The keys of the claim, of device token and iv, and of the device token, and those of the budgets.
    let all: RedisCommand

    /// - Parameters:
    ///   - token: the keyed hash of the device token.
    ///   - budgets: ``KeyNames/budgets(of:through:)``.
    package init(_ envelope: Envelope, token: UInt64, budgets: RedisCommand, in names: KeyNames) {
        let hash = Self.bytes(of: token)
        stored = StoredEnvelopeKeys(envelope.digest, in: names)
        digest = stored.digest
        var all = RedisCommand([
            digest, names.name(.pair, of: hash + envelope.uniquePart), names.name(.deviceToken, of: hash),
        ])
        all.append(budgets)
        self.all = all
    }

    private static func bytes(of token: UInt64) -> [UInt8] { withUnsafeBytes(of: token.bigEndian) { Array($0) } }

    /// The key of the record of a device token.
    fileprivate static func name(of token: UInt64, in names: KeyNames) -> [UInt8] {
        names.name(.deviceToken, of: bytes(of: token))
    }
}

/// The keys of a stored envelope in the engine.
package struct StoredEnvelopeKeys: Sendable {
    /// The key of the stored envelope.
    package let envelope: [UInt8]
    let digest, ofSessions, sessions: [UInt8]

    package init(_ digest: Digest256, in names: KeyNames) {
        (self.digest, envelope) = names.names(of: digest)
        ofSessions = names.beginning(.sessionEnvelopes)
        sessions = names.name(.storingSessions)
    }
}

/// The engine's answer to a claim.
package enum ClaimAnswer: Sendable, Equatable {
    /// This node delivers the envelope.
    case claimed(SharedRecord, used: Duration)
    /// This node delivers the envelope, which was admitted before.
    case resumed
    /// The envelope has this sealed outcome.
    case final([UInt8])
    /// Another living node delivers the envelope.
    case elsewhere
    /// The iv was used with another ciphertext.
    case ivReused
    /// The nodes together refuse the submission.
    case refused(SharedRefusal)

    /// What a node gives back to the engine when it refuses an envelope that it has claimed.
    package struct Release: Equatable, Sendable {
        /// What the sender gets back; `nil` if that is not known.
        package let refund: Admission.Refund?
        /// Whether the envelope was charged as one to an unproven device token.
        package let wasUnproven: Bool
    }

    /// What a node gives back when it refuses the envelope; `nil` if the engine gave it nothing.
    /// - Parameter answer: `nil` if the reply was lost: the engine may have given the envelope to the node.
    package static func release(after answer: ClaimAnswer?) -> Release? {
        switch answer {
        case .claimed(let record, _): Release(refund: .everything, wasUnproven: !record.isProven)
        case nil: Release(refund: nil, wasUnproven: false)
        case .resumed, .final, .elsewhere, .ivReused, .refused: nil
        }
    }

    /// Decodes the reply to `take` or `resume`; `nil` if it is malformed.
    package init?(_ reply: RedisReply) {
        switch reply {
        case .status("claimed"): self = .resumed
        case .status("elsewhere"): self = .elsewhere
        case .status("iv"): self = .ivReused
        case .status("key_required"): self = .refused(.keyRequired)
        case .status("key_mismatch"): self = .refused(.keyMismatch)
        case .status(let text):
            guard let obstacle = Admission.UnprovenObstacle(rawValue: text) else { return nil }
            self = .refused(.obstacle(obstacle))
        case .array(let parts):
            switch (parts.first?.text, parts.count) {
            case ("claimed", 2):
                guard let (record, used) = parts[1].bytes.flatMap({ SharedRecord.decode($0) }) else { return nil }
                self = .claimed(record, used: .microseconds(Int64(clamping: used)))
            case ("final", 2):
                guard let sealed = parts[1].bytes else { return nil }
                self = .final(sealed)
            case ("over", 3):
                guard let wait = parts[2].integer.map({ Duration.milliseconds($0) }) else { return nil }
                self = .refused(parts[1].text == "unproven" ? .unproven(wait: wait) : .busy(wait: wait))
            case ("device", 3):
                guard let wait = parts[1].integer, let used = parts[2].microseconds else { return nil }
                self = .refused(.device(wait: .milliseconds(wait), used: used))
            case ("dead", 2):
                guard let since = parts[1].text.flatMap({ UInt64($0, radix: 10) }) else { return nil }
                self = .refused(.dead(since: since))
            default: return nil
            }
        default: return nil
        }
    }
}

extension RedisReply {
    /// A number of microseconds in decimal digits.
    fileprivate var microseconds: Duration? { text.flatMap { Int64($0, radix: 10) }.map { .microseconds($0) } }
}

extension SharedRecord {
    /// Decodes a record of the engine, as functions.lua describes it.
    /// - Returns: the record, and its last number; `nil` if the text is malformed.
    static func decode(_ text: [UInt8]) -> (record: SharedRecord, last: UInt64)? {
        var numbers = DecimalNumbers(text)
        guard let standing = numbers.next().flatMap({ UInt8(exactly: $0) }), let since = numbers.next(),
            let day = numbers.next().flatMap({ UInt16(exactly: $0) }), let sender = numbers.next(),
            let unsigned = numbers.next().flatMap({ UInt16(exactly: $0) }), let last = numbers.next(), numbers.isAtEnd
        else { return nil }
        let record = SharedRecord(standing: standing, since: since, day: day, sender: sender, unsignedDay: unsigned)
        return (record, last)
    }

    /// The record in the form of the engine, with a full bucket.
    fileprivate var text: [UInt8] {
        var text: [UInt8] = []
        for number in [UInt64(clamping: standing), since, UInt64(clamping: day), sender, UInt64(clamping: unsignedDay)]
        {
            text.append(decimal: number)
            text.append(UInt8(ascii: " "))
        }
        text.append(UInt8(ascii: "0"))
        return text
    }
}

/// Reads decimal numbers that are separated by one space each.
private struct DecimalNumbers {
    private let text: [UInt8]
    private var index = 0

    init(_ text: [UInt8]) { self.text = text }

    /// Whether nothing is left.
    var isAtEnd: Bool { index == text.count }

    /// The next number; `nil` if none follows, or it is larger than 64 bits hold.
    mutating func next() -> UInt64? {
        if index > 0 {
            guard index < text.count, text[index] == UInt8(ascii: " ") else { return nil }
            index += 1
        }
        let start = index
        var number: UInt64 = 0
        while index < text.count, case let digit = text[index] &- UInt8(ascii: "0"), digit < 10 {
            let (tens, isTooLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, isLarger) = tens.addingReportingOverflow(UInt64(clamping: digit))
            guard !isTooLarge, !isLarger else { return nil }
            number = sum
            index += 1
        }
        return index > start ? number : nil
    }
}

/// The calls by which a node claims envelopes, and concludes them.
package struct ClaimCalls: Sendable {
    /// How long a claim lasts at least, in milliseconds.
    private static let shortestClaim: Int64 = 600_000

    let session: [UInt8]
    let sessionKey: [UInt8]

    /// Admits an envelope for all nodes, and claims it.
    /// - Parameters:
    ///   - content: a hash of the ciphertext.
    ///   - record: what this node knows about the device token.
    package func take(
        _ keys: EnvelopeKeys, content: [UInt8], ttl: UInt32, terms: Admission.Terms, limits: SharedLimits,
        senderKeysCount: Bool, obstacle: Admission.UnprovenObstacle?, record: SharedRecord
    ) -> RedisCommand {
        var command = RedisCommand(.take, keys.all, keys: [sessionKey])
        command.append(session)
        command.append(content)
        command.append(Self.claimTime(ttl: ttl))
        command.append(limits.all)
        command.append(terms.signer)
        command.append(senderKeysCount ? "1" : "0")
        command.append(obstacle?.rawValue ?? "")
        command.append(record.text)
        command.append(terms.predecessor)
        return command
    }

    /// Claims an envelope that this node has stored before.
    package func resume(_ keys: EnvelopeKeys, ttl: UInt32) -> RedisCommand {
        var command = RedisCommand(.resume, keys: [keys.digest, sessionKey])
        command.append(session)
        command.append(Self.claimTime(ttl: ttl))
        return command
    }

    /// Unbinds a device token from its sender key.
    /// - Parameters:
    ///   - token: the keyed hash of the device token.
    ///   - sender: the keyed hash of the only key that it is to be unbound from; 0 for any key.
    package func unbind(_ token: UInt64, from sender: UInt64, in names: KeyNames) -> RedisCommand {
        var command = RedisCommand(.unbind, keys: [EnvelopeKeys.name(of: token, in: names)])
        command.append(sender)
        return command
    }

    /// Keeps an envelope that this node has stored, so that another node can deliver it if this one ends.
    /// - Parameters:
    ///   - sealed: the sealed envelope.
    ///   - life: the time until it expires.
    package func keep(
        _ keys: StoredEnvelopeKeys, sealed: [UInt8], for life: Duration
    ) -> RedisCommand {
        var command = RedisCommand(
            .keep,
            keys: [keys.envelope, keys.digest, keys.ofSessions, keys.sessions])
        command.append(session)
        command.append(sealed)
        command.append(max(1, life.wholeMilliseconds))
        return command
    }

    /// Asks for stored envelopes of nodes that have ended. Each remains where it is until this node claims and keeps it.
    /// - Parameter room: how many this node takes.
    package func adopt(upTo room: Int, in names: KeyNames) -> RedisCommand {
        var command = RedisCommand(
            .adopt,
            keys: [names.beginning(.sessionEnvelopes), names.name(.storingSessions), names.beginning(.session)])
        command.append(session)
        command.append(Int64(clamping: room))
        return command
    }

    private static func claimTime(ttl: UInt32) -> Int64 { max(shortestClaim, Int64(clamping: ttl) * 1000) }

    /// Records the outcome of an envelope.
    /// - Parameters:
    ///   - outcome: the sealed outcome; `nil` if a resend is to be tried again.
    ///   - window: how long the outcome is remembered.
    ///   - refund: what the submission gets back; `nil` if the engine did not admit it.
    ///   - wasUnproven: whether it took from the budget of unproven device tokens.
    package func conclude(
        _ keys: EnvelopeKeys, outcome: [UInt8]?, window: Duration, limits: SharedLimits, refund: Admission.Refund?,
        wasUnproven: Bool, event: TokenEvent
    ) -> RedisCommand {
        var command = RedisCommand(
            .conclude, keys.all,
            keys: [keys.stored.envelope, keys.stored.ofSessions, keys.stored.sessions])
        command.append(session)
        command.append(outcome ?? [])
        command.append(window.wholeMilliseconds)
        let isRefunded = refund?.budgets ?? false
        command.append(isRefunded ? limits.only { $0 != .unproven || wasUnproven } : limits.none)
        command.append(refund?.device == true ? "1" : "0")
        switch event {
        case .accepted(let time, let signer, let predecessor, let isUnsigned):
            command.append("accepted")
            command.append(time)
            command.append(signer)
            command.append(isUnsigned ? "1" : "0")
            command.append(predecessor)
        case .gone(let since):
            command.append("gone")
            command.append(since)
            for _ in 0..<3 { command.append("0") }
        case .bad, .none:
            command.append(event == .bad ? "bad" : "")
            for _ in 0..<4 { command.append("0") }
        }
        return command
    }
}
