// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP
import Time
import World

/// Checks what phones receive and what the node tells senders, and reports the first broken rule.
final class DeliveryJudge {
    /// What a sender knows of an envelope.
    enum Fate: Equatable { case pending, queued, delivered, refused, abandoned }

    private struct Record {
        let device: Magic
        /// The device tokens that the node may use for the envelope; by handle, there may be two.
        let deviceTokens: Set<[UInt8]>
        let mayBeStored: Bool
        /// The seconds after which nobody needs to deliver it.
        let ttl: Int64
        let made: MonotonicTime
        /// The address and the collapse id; `nil` without one. Of the envelopes with the same key, the newest replaces
        /// the others.
        let replacementKey: [UInt8]?
        var fate = Fate.pending
        var deliveries = 0
        /// When the node last read a service's answer to a delivery; `nil` if it may know of none.
        var answered: MonotonicTime?
        var id = ""
        var collapseID: String?
    }

    /// The longest pause between attempts, in seconds: those of breakers and devices are shorter. The node refuses an
    /// envelope whose ttl runs out before its next attempt.
    private static let maximumPause: Int64 = 900

    /// How long the node remembers an outcome: the replay window's default (PROTOCOL §3).
    private static let replayWindow = Duration.seconds(600)

    private let simulation: Simulation
    private var records: [String: Record] = [:]
    /// Reads what the services and the node say to each other.
    private(set) var answers: AnswerWatch!
    /// The device tokens that are no longer registered: their envelopes may be refused or dropped.
    private var endedTokens: Set<[UInt8]> = []
    /// When a phone has received an envelope with this replacement key last.
    private var lastReceived: [[UInt8]: MonotonicTime] = [:]
    /// Whether nodes of a cluster may deliver an envelope twice because of what happened at this time.
    var mayRepeat: (ClosedRange<MonotonicTime>) -> Bool = { _ in false }
    /// When two nodes were each other's upstream; `end` is `nil` while they still are.
    private var loops: [(start: MonotonicTime, end: MonotonicTime?)] = []
    /// The most seconds between the clocks of two nodes.
    var clocksApart: Int64 = 0
    /// By how many seconds each node's wall clock was ahead, and until when; `nil` for at present.
    private var skews: [Int: [(until: MonotonicTime?, skew: Int64)]] = [:]

    /// The wall clock of a node has been moved, and is `skew` seconds ahead now.
    func clockMoved(to skew: Int64, of node: Int) {
        var known = skews[node] ?? [(nil, 0)]
        known[known.count - 1].until = simulation.now
        skews[node] = known + [(nil, skew)]
    }

    /// The most seconds that can have passed since `start` by the wall clocks of the nodes, which may have been moved.
    /// Each node measures a part of the time by its own clock.
    private func longestTime(since start: MonotonicTime) -> Int64 {
        let moved = skews.values.map { known in
            let skews = known.filter { $0.until ?? start >= start }.map(\.skew)
            return (skews.max() ?? 0) - (skews.min() ?? 0)
        }
        return (simulation.now - start).components.seconds + moved.reduce(0, +) + clocksApart
    }
    /// The first broken rule.
    private(set) var violation: String?
    /// Receives a line about each event.
    var note: (String) -> Void = { _ in }
    private(set) var delivered = 0
    private(set) var repeated = 0

    init(_ simulation: Simulation) {
        self.simulation = simulation
        answers = AnswerWatch(simulation) { [unowned self] name in
            note("\(name): the node has read the answer")
            records[name]?.answered = simulation.now
        }
    }

    /// The number of envelopes that senders have made.
    var envelopes: Int { records.count }

    func violated(_ rule: String) { violation = violation ?? rule }

    // MARK: Senders

    /// A sender has made an envelope.
    /// - Parameters:
    ///   - deviceTokens: those that the node may use, if the sender names a handle.
    ///   - mayBeStored: whether the sender lets the node store it.
    func made(
        _ envelope: Envelope, named name: String, for deviceTokens: Set<[UInt8]>? = nil, mayBeStored: Bool = true
    ) {
        let collapseID = envelope.collapseID.map { String(decoding: $0, as: UTF8.self) } ?? "-"
        let address = envelope.handle?.bytes ?? Array(envelope.deviceToken)
        let deviceToken = envelope.handle == nil ? String(decoding: address.prefix(8), as: UTF8.self) : "a handle"
        note("\(name) made for \(envelope.magic) \(deviceToken)…, ttl \(envelope.ttl), collapse id \(collapseID)")
        records[name] = Record(
            device: envelope.magic, deviceTokens: deviceTokens ?? [address], mayBeStored: mayBeStored,
            ttl: Int64(envelope.ttl), made: simulation.now,
            replacementKey: envelope.collapseID.map { address + $0 })
    }

    /// A sender has learnt an outcome.
    func told(_ outcome: Outcome, of name: String) {
        guard var record = records[name] else { return }
        note("\(name) told \(outcome.kind), \(outcome.reason)")
        switch outcome.kind {
        case .delivered:
            record.fate = .delivered
            if record.deliveries == 0 { violated("DELIVERED \(name), which no phone has received") }
        case .queued: if record.fate == .pending { record.fate = .queued }
        case .gone:
            // What a node has stored while it decided alone stays with the device token that it knew (Docs/cluster.md).
            let isOutdated = record.mayBeStored && mayRepeat(record.made...simulation.now)
            record.fate = .refused
            if endedTokens.isDisjoint(with: record.deviceTokens), outcome.reason != .unknownHandle, !isOutdated {
                violated("GONE \(name) for a phone that has kept its device token")
            }
        case .rejected:
            record.fate = .refused
            // A node signs what it passes on by handle. If that comes back, the signature is none of a sender key to
            // which the node has bound the phone.
            if [.tooManyHops, .senderKeyMismatch].contains(outcome.reason), wasInLoop(record) { break }
            // After unknown fates the pauses double: the next one is as long as all earlier ones together, and up to a
            // quarter longer.
            let age = (simulation.now - record.made).components.seconds
            if outcome.reason != .ttlRanOut || !mayBeDropped(record, within: max(Self.maximumPause, age * 5 / 4)) {
                violated("REJECTED \(name) without a cause: \(outcome.reason)")
            }
        case .retry: if record.fate == .pending { record.fate = .abandoned }
        }
        records[name] = record
    }

    /// A sender has given up waiting for an envelope's outcome.
    func abandoned(_ name: String) {
        note("\(name) abandoned")
        if records[name]?.fate == .pending { records[name]?.fate = .abandoned }
    }

    // MARK: Loops

    /// Whether two nodes are each other's upstream.
    var isLoop = false {
        didSet {
            guard isLoop != oldValue else { return }
            if isLoop { loops.append((simulation.now, nil)) } else { loops[loops.count - 1].end = simulation.now }
        }
    }

    /// Whether an envelope may have been refused because two nodes passed it to each other.
    private func wasInLoop(_ record: Record) -> Bool {
        loops.contains { $0.end.map { record.made <= $0 + Self.loopTime } ?? true }
    }

    /// Whether the node may refuse an envelope for good.
    func mayBeRefused(_ name: String) -> Bool {
        guard let record = records[name] else { return false }
        return !endedTokens.isDisjoint(with: record.deviceTokens) || wasInLoop(record)
    }

    /// How long envelopes may still go round after the configuration was corrected.
    private static let loopTime = Duration.seconds(120)

    // MARK: Phones

    /// A device token is no longer registered.
    func ended(_ deviceToken: [UInt8]) { endedTokens.insert(deviceToken) }

    /// A phone has received an envelope.
    func received(_ notification: ReceivedNotification, named name: String) {
        guard var record = records[name] else { return violated("a phone has received \(name), which nobody has sent") }
        note("\(name) received by a phone")
        delivered += 1
        if let key = record.replacementKey { lastReceived[key] = simulation.now }
        if record.deliveries > 0 {
            repeated += 1
            let sent = answers.timeSent(stream: notification.stream) ?? simulation.now
            if let answered = record.answered, answered < sent, sent < answered + Self.replayWindow,
                !mayRepeat(record.made...simulation.now)
            {
                violated("\(name) was sent again, although the node had read the answer")
            }
            // Google and push servers assign a new id to each message; Apple's is the node's.
            let isOfNode = record.device == .iOS || record.device == .iOSDev
            if isOfNode, record.id != notification.id {
                violated("\(name) was delivered again under another apns-id")
            }
            if record.collapseID != notification.collapseID {
                violated("\(name) was delivered again under another collapse id")
            }
        }
        record.deliveries += 1
        (record.id, record.collapseID) = (notification.id, notification.collapseID)
        records[name] = record
        answers.accepted(name, stream: notification.stream)
    }

    // MARK: The node

    /// The node has ended. It may have lost the answers that it has not passed on to a sender or not flushed.
    /// - Parameter flush: every answer that the node has read before this time is on the disk.
    func nodeEnded(flush: MonotonicTime) {
        for (name, record) in records {
            if let answered = record.answered, record.fate == .pending || answered >= flush {
                records[name]?.answered = nil
            }
        }
    }

    // MARK: The end

    /// Checks, after a calm time at the end, that nothing was lost.
    func checkAll() {
        for name in records.keys.sorted() {
            guard let record = records[name] else { continue }
            switch record.fate {
            case .delivered, .refused, .abandoned: break
            case .pending: violated("\(name) has no outcome")
            case .queued:
                if record.deliveries == 0, !mayBeDropped(record), !wasInLoop(record) {
                    violated("QUEUED \(name), and then lost")
                }
            }
        }
    }

    /// Whether the node need not deliver an envelope: its device token has ended, its ttl runs out within `seconds` by
    /// the nodes' clocks, or the phone has since received another one with its replacement key.
    private func mayBeDropped(_ record: Record, within seconds: Int64 = 0) -> Bool {
        !endedTokens.isDisjoint(with: record.deviceTokens) || record.ttl <= longestTime(since: record.made) + seconds
            || record.replacementKey.flatMap { lastReceived[$0] }.map { $0 > record.made } ?? false
    }
}
