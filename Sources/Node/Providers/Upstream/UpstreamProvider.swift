// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import Time

/// An app's upstream nodes, which have credentials that this node lacks (PROTOCOL §9). This node is their sender.
///
/// Each device token has its own connections and its own tor circuit, so that an upstream node cannot link the phones.
/// Beyond ``PhoneCircuits/maximum``, an idle circuit gives way, and phones share circuits if none is idle. A direct
/// node that knows this node as a site links phones anyway, and charges the site, not the connection: there, no circuit
/// gives way. Elsewhere a connection may be blocked for bad device tokens that a stranger sent through this node, and
/// phones must not share it for good. Attempts end when no upstream node can be reached: Delivery decides when to try
/// again.
package final class UpstreamProvider: Provider, NodeLinkOwner, @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which `attempt` and the links' streams run on.

    /// How long an attempt may take, proof of work and the way through tor included.
    package static let answerTimeout = Duration.seconds(90)
    private static let connectTimeout = Duration.seconds(60)
    /// The maximum time of the search for an envelope's proof of work, and the maximum effort that this node accepts, in
    /// expected hashes.
    private static let (workLimit, maximumEffort) = (Duration.seconds(20), UInt32(clamping: 1 << 24))
    private static let tickInterval = Duration.seconds(1)

    /// An attempt without a result.
    private struct Attempt {
        /// Who gets the result.
        let receiver: any AttemptReceiver
        let number: UInt64
        /// The nodes that have failed it, and why the last one did.
        var tried: Set<Int> = []
        var failure: NodeLink.Failure?
    }

    private let keys: UpstreamKeys
    package var upstreamKeys: UpstreamKeys? { keys }
    private let outgoing: UpstreamEnvelopeBuilder
    /// Whether phones beyond ``PhoneCircuits/maximum`` share circuits, rather than replace idle ones.
    private let sharesConnections: Bool
    private let loop: EventLoop
    private var nodes: UpstreamNodes
    private let circuits: NodeCircuits
    private var attempts: [UInt64: Attempt] = [:]
    /// The attempts' deadlines; those of attempts that have a result stay until then.
    private var deadlines = DeadlineQueue<UInt64>(limit: UpstreamProvider.answerTimeout)
    private var ticker: Timer?
    private var isRetired = false
    private var isClosed = false

    /// A provider without connections; the first attempt opens one.
    /// - Parameters:
    ///   - keys: signs for senders that do not.
    ///   - siteKey: the key by which the upstream nodes know this node as a site; `nil` if it is none.
    ///   - slots: limits the searches for proofs of work of all of the app's providers together.
    package init(
        _ target: UpstreamTarget, keys: UpstreamKeys, siteKey: Ed25519.PrivateKey? = nil, slots: SearchSlots,
        on loop: EventLoop
    ) {
        self.keys = keys
        self.loop = loop
        sharesConnections = target.socks == nil && siteKey != nil
        outgoing = UpstreamEnvelopeBuilder(app: target.app, format: target.format, keys: keys)
        nodes = UpstreamNodes(target.nodes)
        circuits = NodeCircuits(
            NodeLinkFactory(
                target.nodes, through: target.socks.map { .socks5($0, nil) }, requiresCircuitIsolation: true, agent: "",
                connectTimeout: Self.connectTimeout, computesProofOfWork: true, maximumEffort: Self.maximumEffort,
                siteKey: siteKey, searches: slots),
            on: loop)
    }

    /// What the operator sees of the upstream nodes, in their order.
    package var status: [UpstreamStatus] {
        var statuses = nodes.statuses
        for circuit in circuits.all {
            for (index, link) in circuit.links.enumerated() where link.isConnected { statuses[index].connections += 1 }
        }
        return statuses
    }

    // MARK: Provider

    package func check(_ envelope: Envelope) throws(Rejection) { try outgoing.check(envelope) }

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        loop.preconditionOnLoop()
        let made: Envelope
        do throws(Rejection) {
            made = try outgoing.build(from: envelope, ttl: UInt32(clamping: expiry.secondsLeft(at: UnixTime.now)))
        } catch {
            return receiver.attempted(number, AttemptResult(error))
        }
        guard !isClosed else { return receiver.attempted(number, Self.closed) }
        let circuit = circuits.circuit(
            for: Array(envelope.phone.bytes), of: self, mayEnd: sharesConnections ? nil : { _ in true })
        let attempt = circuits.submissions.newNumber()
        attempts[attempt] = Attempt(receiver: receiver, number: number)
        circuits.submissions.insert(attempt, on: circuit.number)
        deadlines.append(attempt, now: .now)
        startTicker()
        place(attempt, PendingSubmission(Submission(request: 0, envelope: made), workLimit: Self.workLimit))
    }

    package func retire() {
        isRetired = true
        closeIfDone()
    }

    private func closeIfDone() {
        if isRetired, circuits.submissions.count == 0 { close() }
    }

    package func close() {
        guard !isClosed else { return }
        isClosed = true
        ticker = nil
        withExtendedLifetime(self) {
            loop.letGo(of: self)
            for attempt in circuits.submissions.numbers { finish(attempt, Self.closed) }
            circuits.close()
            deadlines = DeadlineQueue(limit: Self.answerTimeout)
        }
    }

    private static var closed: AttemptResult {
        UpstreamAnswers.attemptResult(on: .unreachable("closed locally"), isNew: false)
    }

    // MARK: Attempts

    /// Gives a submission to a usable node that has not failed it; ends the attempt if there is none.
    private func place(_ attempt: UInt64, _ submission: PendingSubmission) {
        let circuit = circuits.circuit(of: attempt)
        guard let index = choice(for: attempt, on: circuit) else {
            let latest = attempts[attempt]?.failure
            let failure = latest ?? circuit.links.lazy.compactMap(\.failure).first
            return finish(
                attempt,
                UpstreamAnswers.attemptResult(
                    on: failure ?? .unreachable("no node can be used now"), isNew: latest != nil))
        }
        circuits.give(submission, attempt, to: circuit.links[index])
        circuit.links[index].wake()
    }

    /// The node for an attempt; `nil` if none can be used. Makes nodes usable again whose pause is over.
    private func choice(for attempt: UInt64, on circuit: NodeCircuit) -> Int? {
        let now = MonotonicTime.now
        for link in circuit.links {
            link.node.revive(now: now)
            if link.isUnused { link.node.endPause(now: now) }
        }
        return nodes.choice(of: circuit.nodes, excluding: attempts[attempt]?.tried ?? [], now: now)
    }

    /// Gives an attempt to another node.
    private func move(_ attempt: UInt64, _ request: UInt32, from link: NodeLink) {
        guard let submission = link.withdraw(request) else { return }
        circuits.submissions.displace(attempt)
        place(attempt, submission)
    }

    private func finish(_ attempt: UInt64, _ result: AttemptResult) {
        guard let finished = attempts.removeValue(forKey: attempt) else { return }
        circuits.submissions.remove(attempt)
        finished.receiver.attempted(finished.number, result)
        closeIfDone()
    }

    // MARK: NodeLinkOwner

    package func needs(_ link: NodeLink) -> Bool { circuits.submissions.needs(link.id) }

    package func handle(_ event: NodeLink.Event, of link: NodeLink) {
        guard let (circuit, node) = circuits.position(of: link) else { return }
        let now = MonotonicTime.now
        switch event {
        case .connecting, .connected, .usable, .retrying, .solving: break
        case .welcomed(let welcome): nodes.answered(node, welcome: welcome, now: now)
        case .answered(let result):
            nodes.answered(node, now: now)
            answered(result, by: link)
        case .unusable(let requests, let failure):
            nodes.failed(node, failure, now: now)
            for request in requests {
                guard let attempt = circuits.submission(at: link, request) else { continue }
                attempts[attempt]?.tried.insert(node)
                attempts[attempt]?.failure = failure
                move(attempt, request, from: link)
            }
        case .slow(let requests):
            nodes.hesitated(node, now: now)
            for request in requests {
                guard let attempt = circuits.submission(at: link, request),
                    let other = choice(for: attempt, on: circuit), !circuit.links[other].node.isSlow
                else { continue }
                move(attempt, request, from: link)
            }
        }
    }

    private func answered(_ result: SubmissionResult, by link: NodeLink) {
        // A QUEUED that nobody asked for is not the end: the final outcome follows.
        guard result.outcome.isFinal else { return }
        _ = link.session.takeRefused(result.request)
        guard let attempt = circuits.submission(at: link, result.request) else { return }
        finish(attempt, UpstreamAnswers.attemptResult(on: result.outcome))
    }

    // MARK: Time

    private func startTicker() {
        guard ticker == nil else { return }
        loop.keep(self)
        ticker = Timer(on: loop, after: Self.tickInterval) { [unowned self] in tick() }
    }

    private func tick() {
        ticker = nil
        let now = MonotonicTime.now
        while let attempt = deadlines.popOverdue(now: now) { timeOut(attempt) }
        circuits.watch(now: now)
        if circuits.all.isEmpty, deadlines.next == nil { loop.letGo(of: self) } else { startTicker() }
    }

    private func timeOut(_ attempt: UInt64) {
        guard circuits.submissions.contains(attempt) else { return }
        if let (link, request) = circuits.place(of: attempt) {
            link.stopSolving(request)
            link.session.remove(request)
            link.flush()
            // A node that does not answer must not keep the connection, and with it the circuit, for ever.
            link.closeIfEmpty()
        }
        finish(attempt, UpstreamAnswers.timedOut)
    }
}
