// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Sender
import TNP
import Time

/// An upstream node, which has the credentials for an app that this node lacks (PROTOCOL §9). This node is its sender.
///
/// Each device token has its own connections and its own tor circuit, up to ``maximumCircuits``: the upstream node cannot
/// link these phones. A direct target that knows this node as a site links them anyway, and charges the site, not the
/// connection: there, phones share that many connections, which stay open. Elsewhere a connection is blocked for bad device
/// tokens that a stranger sent through this node, and phones must not share that for good. Attempts end when no upstream
/// node can be reached: Delivery decides when to try again.
package final class UpstreamProvider: Provider, NodeLinkOwner, @unchecked Sendable {
    // Unchecked: used on the loop's thread only, which `attempt` and the links' streams run on.

    /// The upstream nodes, and how they are used.
    package struct Target: Sendable, Hashable {
        /// The addresses; the preferred one first.
        package var nodes: [Endpoint]
        /// The SOCKS port of a tor; `nil` to connect directly.
        package var socks: Endpoint?
        /// The app's name at the upstream nodes; `nil` if envelopes keep the name that their senders use. With another
        /// name an envelope has another digest, so this node replaces the sender's signature by its own.
        package var app: String?
        /// The app's envelope format.
        package var format: EnvelopeFormat

        package init(nodes: [Endpoint], socks: Endpoint?, app: String?, format: EnvelopeFormat) {
            self.nodes = nodes
            self.socks = socks
            self.app = app
            self.format = format
        }
    }

    /// How long an attempt may take, proof of work and the way through tor included.
    package static let answerTimeout = Duration.seconds(90)
    private static let connectTimeout = Duration.seconds(60)
    /// The maximum time of the search for an envelope's proof of work, and the maximum effort that this node accepts, in
    /// expected hashes.
    private static let (workLimit, maximumEffort) = (Duration.seconds(20), UInt32(clamping: 1 << 24))
    /// The largest number of device tokens with connections of their own. Beyond it, they share connections.
    package static let maximumCircuits = PhoneCircuits<Circuit>.maximum
    private static let tickInterval = Duration.seconds(1)

    /// The connections for one device token, or for several beyond ``maximumCircuits``. A circuit has the number of its
    /// first link.
    final class Circuit {
        let key: [UInt8]
        let links: [NodeLink]
        var number: Int { links[0].id }

        init(_ key: [UInt8], _ links: [NodeLink]) {
            self.key = key
            self.links = links
        }
    }

    private typealias Attempt = UpstreamAttempts.Attempt
    private typealias Place = UpstreamAttempts.Place

    private let keys: UpstreamKeys
    package var upstreamKeys: UpstreamKeys? { keys }
    private let outgoing: UpstreamEnvelopeBuilder
    /// Whether phones share connections that stay open.
    private let sharesConnections: Bool
    private let loop: EventLoop
    private var linkFactory: NodeLinkFactory
    private var nodes: UpstreamNodes
    private var attempts = UpstreamAttempts(timeout: UpstreamProvider.answerTimeout)
    private var circuits = PhoneCircuits<Circuit>()
    private var circuitsByNumber: [Int: Circuit] = [:]
    private var ticker: Timer?
    private var isRetired = false
    private var isClosed = false

    /// A provider without connections; the first attempt opens one.
    /// - Parameters:
    ///   - keys: signs for senders that do not.
    ///   - siteKey: the key by which the upstream nodes know this node as a site; `nil` if it is none.
    ///   - slots: limits the searches for proofs of work of all of the app's providers together.
    package init(
        _ target: Target, keys: UpstreamKeys, siteKey: Ed25519.PrivateKey? = nil, slots: SearchSlots, on loop: EventLoop
    ) {
        self.keys = keys
        self.loop = loop
        sharesConnections = target.socks == nil && siteKey != nil
        outgoing = UpstreamEnvelopeBuilder(app: target.app, format: target.format, keys: keys)
        linkFactory = NodeLinkFactory(
            target.nodes, through: target.socks.map { .socks5($0, nil) }, requiresCircuitIsolation: true, agent: "",
            connectTimeout: Self.connectTimeout, computesProofOfWork: true, maximumEffort: Self.maximumEffort,
            siteKey: siteKey, searches: slots)
        nodes = UpstreamNodes(target.nodes)
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
        let circuit = circuit(for: Array(envelope.phone.bytes))
        let attempt = attempts.begin(
            UpstreamAttempts.Caller(number: number, receiver: receiver), on: circuit.number, now: .now)
        startTicker()
        place(attempt, PendingSubmission(Submission(request: 0, envelope: made), workLimit: Self.workLimit))
    }

    package func retire() {
        isRetired = true
        closeIfDone()
    }

    private func closeIfDone() {
        if isRetired, attempts.count == 0 { close() }
    }

    package func close() {
        guard !isClosed else { return }
        isClosed = true
        for circuit in circuits.all {
            for link in circuit.links { link.close() }
        }
        (circuits, circuitsByNumber, ticker) = (PhoneCircuits(), [:], nil)
        withExtendedLifetime(self) {
            loop.letGo(of: self)
            for caller in attempts.finishAll() { caller.receiver.attempted(caller.number, Self.closed) }
        }
    }

    private static var closed: AttemptResult {
        UpstreamAnswers.attemptResult(on: .unreachable("closed locally"), isNew: false)
    }

    // MARK: Circuits

    private func circuit(for phone: [UInt8]) -> Circuit {
        switch circuits.circuit(for: phone, isIdle: sharesConnections ? nil : { self.attempts.isIdle($0.number) }) {
        case .known(let circuit): return circuit
        case .new(let idle):
            if let idle {
                for link in idle.links { link.close() }
                forget(idle)
            }
            let circuit = Circuit(phone, linkFactory.links(for: self, on: loop))
            attempts.open(circuit.number, links: circuit.links.map(\.id))
            circuits.insert(circuit, for: phone)
            circuitsByNumber[circuit.number] = circuit
            return circuit
        }
    }

    private func forget(_ circuit: Circuit) {
        circuitsByNumber[circuit.number] = nil
        attempts.close(circuit.number, links: circuit.links.map(\.id))
    }

    /// The links of an attempt.
    private func candidates(
        for entry: UpstreamAttempts.Entry, on circuit: Circuit, now: MonotonicTime
    ) -> [UpstreamNodes.Candidate] {
        circuit.links.map { link in
            link.node.revive(now: now)
            if link.isUnused { link.node.endPause(now: now) }
            return UpstreamNodes.Candidate(
                isUsable: link.node.isUsable, isConnected: link.isConnected, isSlow: link.node.isSlow,
                hasFailed: entry.tried.contains(link.id))
        }
    }

    /// Gives a submission to a usable node that has not failed it; ends the attempt if there is none.
    private func place(_ attempt: Attempt, _ submission: PendingSubmission) {
        guard let entry = attempts[attempt], let circuit = circuitsByNumber[entry.circuit] else { return }
        let now = MonotonicTime.now
        guard let index = nodes.choice(of: candidates(for: entry, on: circuit, now: now), now: now) else {
            let known = circuit.links.lazy.compactMap(\.failure).first ?? .unreachable("no node can be used now")
            return finish(
                attempt, UpstreamAnswers.attemptResult(on: entry.failure ?? known, isNew: entry.failure != nil))
        }
        let link = circuit.links[index]
        attempts.place(attempt, at: Place(link: link.id, request: link.session.add(submission)))
        link.wake()
    }

    private func finish(_ attempt: Attempt, _ result: AttemptResult) {
        guard let caller = attempts.finish(attempt) else { return }
        caller.receiver.attempted(caller.number, result)
        closeIfDone()
    }

    // MARK: NodeLinkOwner

    package func needs(_ link: NodeLink) -> Bool { attempts.needs(link.id) }

    package func handle(_ event: NodeLink.Event, of link: NodeLink) {
        guard let node = attempts.node(of: link.id) else { return }
        let now = MonotonicTime.now
        switch event {
        case .connecting, .connected, .usable, .retrying, .solving: break
        case .welcomed(let welcome): nodes.answered(node, welcome: welcome, now: now)
        case .answered(let result):
            nodes.answered(node, now: now)
            answered(result, by: link)
        case .unusable(let requests, let failure):
            nodes.failed(node, failure, now: now)
            for request in requests { move(Place(link: link.id, request: request), from: link, because: failure) }
        case .slow(let requests):
            nodes.hesitated(node, now: now)
            for place in requests.map({ Place(link: link.id, request: $0) }) {
                guard let entry = attempts.attempt(at: place).flatMap({ attempts[$0] }),
                    let circuit = circuitsByNumber[entry.circuit],
                    nodes.hasQuick(among: candidates(for: entry, on: circuit, now: now), now: now)
                else { continue }
                move(place, from: link)
            }
        }
    }

    /// Gives an attempt to another node.
    private func move(_ place: Place, from link: NodeLink, because failure: NodeLink.Failure? = nil) {
        guard let submission = link.withdraw(place.request),
            let attempt = attempts.remove(from: place, because: failure)
        else { return }
        self.place(attempt, submission)
    }

    private func answered(_ result: SubmissionResult, by link: NodeLink) {
        // A QUEUED that nobody asked for is not the end: the final outcome follows.
        guard result.outcome.isFinal else { return }
        _ = link.session.takeRefused(result.request)
        guard let attempt = attempts.attempt(at: Place(link: link.id, request: result.request)) else { return }
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
        while let attempt = attempts.nextOverdue(now: now) { timeOut(attempt) }
        for circuit in Array(circuits.all) {
            for link in circuit.links { link.watch(now: now) }
            if attempts.isIdle(circuit.number),
                circuit.links.allSatisfy({ $0.isUnused && $0.node.retryAt <= now })
            {
                circuits.remove(circuit.key)
                forget(circuit)
            }
        }
        if circuits.all.isEmpty, !attempts.hasDeadlines { loop.letGo(of: self) } else { startTicker() }
    }

    private func timeOut(_ attempt: Attempt) {
        if let entry = attempts[attempt], let place = entry.place,
            let link = circuitsByNumber[entry.circuit]?.links.first(where: { $0.id == place.link })
        {
            link.stopSolving(place.request)
            link.session.remove(place.request)
            link.flush()
            // A node that does not answer must not keep the connection, and with it the circuit, for ever.
            link.closeIfEmpty()
        }
        finish(attempt, UpstreamAnswers.timedOut)
    }
}
