// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import EventLoop
import Sender
import TNP
import Tables
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

    /// The connections for one device token, or for several beyond ``maximumCircuits``.
    final class Circuit {
        let key: [UInt8]
        let links: [NodeLink]
        /// Attempts without a result.
        var attempts = 0

        init(_ key: [UInt8], _ links: [NodeLink]) {
            self.key = key
            self.links = links
        }
    }

    /// An attempt without a result.
    private struct Exchange {
        let number: UInt64
        let receiver: any AttemptReceiver
        let circuit: Circuit
        /// The link whose session has the submission, and its request number there.
        var place: (link: Int, request: UInt32)?
        /// The links that failed, and why the last one did.
        var tried: Set<Int> = []
        var failure: NodeLink.Failure?
    }

    private typealias Handle = Slab<Exchange>.Handle

    private let keys: UpstreamKeys
    package var upstreamKeys: UpstreamKeys? { keys }
    private let outgoing: UpstreamEnvelopeBuilder
    /// Whether phones share connections that stay open.
    private let sharesConnections: Bool
    private let loop: EventLoop
    private var linkFactory: NodeLinkFactory
    private var nodes: UpstreamNodes
    private var circuits = PhoneCircuits<Circuit>()
    /// The circuit of each link, and the attempts whose submissions its session has.
    private var links: [Int: (circuit: Circuit, index: Int, attempts: [UInt32: Handle])] = [:]
    private var exchanges = Slab<Exchange>()
    /// The attempts by their deadlines, earliest first; those with a result stay until then.
    private var deadlines: Deque<(time: MonotonicTime, handle: Handle)> = []
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
        guard !isClosed else {
            return receiver.attempted(number, Self.closed)
        }
        let circuit = circuit(for: Array(envelope.phone.bytes))
        circuit.attempts += 1
        let handle = exchanges.insert(Exchange(number: number, receiver: receiver, circuit: circuit))
        deadlines.append((.now + Self.answerTimeout, handle))
        startTicker()
        place(handle, PendingSubmission(Submission(request: 0, envelope: made), workLimit: Self.workLimit))
    }

    package func retire() {
        isRetired = true
        closeIfDone()
    }

    private func closeIfDone() {
        if isRetired, exchanges.count == 0 { close() }
    }

    package func close() {
        guard !isClosed else { return }
        isClosed = true
        for circuit in circuits.all {
            for link in circuit.links { link.close() }
        }
        let open = deadlines.map(\.handle)
        (circuits, links, ticker) = (PhoneCircuits(), [:], nil)
        deadlines.removeAll()
        withExtendedLifetime(self) {
            loop.letGo(of: self)
            for handle in open { finish(handle, Self.closed) }
        }
    }

    private static var closed: AttemptResult {
        UpstreamAnswers.attemptResult(on: .unreachable("closed locally"), isNew: false)
    }

    // MARK: Circuits

    private func circuit(for phone: [UInt8]) -> Circuit {
        switch circuits.circuit(for: phone, isIdle: sharesConnections ? nil : { $0.attempts == 0 }) {
        case .known(let circuit): return circuit
        case .new(let idle):
            if let idle {
                for link in idle.links { link.close() }
                forgetLinks(of: idle)
            }
            let circuit = Circuit(phone, linkFactory.links(for: self, on: loop))
            for (index, link) in circuit.links.enumerated() { links[link.id] = (circuit, index, [:]) }
            circuits.insert(circuit, for: phone)
            return circuit
        }
    }

    private func forgetLinks(of circuit: Circuit) {
        for link in circuit.links { links[link.id] = nil }
    }

    /// The links of an attempt.
    private func candidates(for exchange: Exchange, now: MonotonicTime) -> [UpstreamNodes.Candidate] {
        for link in exchange.circuit.links {
            link.node.revive(now: now)
            if link.isUnused { link.node.endPause(now: now) }
        }
        return exchange.circuit.links.map { link in
            UpstreamNodes.Candidate(
                isUsable: link.node.isUsable, isConnected: link.isConnected, isSlow: link.node.isSlow,
                hasFailed: exchange.tried.contains(link.id))
        }
    }

    /// Gives a submission to a usable node that has not failed it; ends the attempt if there is none.
    private func place(_ handle: Handle, _ submission: PendingSubmission) {
        let exchange = exchanges[handle]
        let circuit = exchange.circuit
        let now = MonotonicTime.now
        guard let index = nodes.choice(of: candidates(for: exchange, now: now), now: now) else {
            let known = circuit.links.lazy.compactMap(\.failure).first ?? .unreachable("no node can be used now")
            return finish(
                handle, UpstreamAnswers.attemptResult(on: exchange.failure ?? known, isNew: exchange.failure != nil))
        }
        let link = circuit.links[index]
        let request = link.session.add(submission)
        links[link.id]?.attempts[request] = handle
        exchanges[handle].place = (link.id, request)
        link.wake()
    }

    private func finish(_ handle: Handle, _ result: AttemptResult) {
        guard let exchange = exchanges.remove(handle) else { return }
        exchange.circuit.attempts -= 1
        exchange.receiver.attempted(exchange.number, result)
        closeIfDone()
    }

    // MARK: NodeLinkOwner

    package func needs(_ link: NodeLink) -> Bool { links[link.id].map { $0.circuit.attempts > 0 } ?? false }

    package func handle(_ event: NodeLink.Event, of link: NodeLink) {
        switch event {
        case .connecting, .connected, .usable, .retrying, .solving: break
        case .welcomed(let welcome):
            if let index = links[link.id]?.index { nodes.answered(index, welcome: welcome, now: .now) }
        case .answered(let result): answered(result, by: link)
        case .unusable(let requests):
            let failure = link.failure ?? .unreachable("the connection was closed")
            if let index = links[link.id]?.index { nodes.failed(index, failure, now: .now) }
            for request in requests {
                guard let (handle, submission) = withdraw(request, from: link) else { continue }
                exchanges[handle].tried.insert(link.id)
                exchanges[handle].failure = failure
                place(handle, submission)
            }
        case .slow(let requests):
            guard let (_, index, attempts) = links[link.id] else { break }
            let now = MonotonicTime.now
            nodes.hesitated(index, now: now)
            for request in requests {
                guard let handle = attempts[request],
                    nodes.hasQuick(among: candidates(for: exchanges[handle], now: now), now: now),
                    let (_, submission) = withdraw(request, from: link)
                else { continue }
                place(handle, submission)
            }
        }
    }

    private func withdraw(_ request: UInt32, from link: NodeLink) -> (Handle, PendingSubmission)? {
        guard let submission = link.withdraw(request),
            let handle = links[link.id]?.attempts.removeValue(forKey: request)
        else { return nil }
        exchanges[handle].place = nil
        return (handle, submission)
    }

    private func answered(_ result: SubmissionResult, by link: NodeLink) {
        if let index = links[link.id]?.index { nodes.answered(index, now: .now) }
        // A QUEUED that nobody asked for is not the end: the final outcome follows.
        guard result.outcome.isFinal else { return }
        _ = link.session.takeRefused(result.request)
        guard let handle = links[link.id]?.attempts.removeValue(forKey: result.request) else { return }
        finish(handle, UpstreamAnswers.attemptResult(on: result.outcome))
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
        while let first = deadlines.first, first.time <= now {
            deadlines.removeFirst()
            timeOut(first.handle)
        }
        for circuit in Array(circuits.all) {
            for link in circuit.links { link.watch(now: now) }
            if circuit.attempts == 0, circuit.links.allSatisfy({ $0.isUnused && $0.node.retryAt <= now }) {
                circuits.remove(circuit.key)
                forgetLinks(of: circuit)
            }
        }
        if circuits.all.isEmpty, deadlines.isEmpty { loop.letGo(of: self) } else { startTicker() }
    }

    private func timeOut(_ handle: Handle) {
        guard exchanges.contains(handle) else { return }
        if let place = exchanges[handle].place {
            links[place.link]?.attempts[place.request] = nil
            let link = exchanges[handle].circuit.links.first { $0.id == place.link }
            link?.stopSolving(place.request)
            link?.session.remove(place.request)
            link?.flush()
            // A node that does not answer must not keep the connection, and with it the circuit, for ever.
            link?.closeIfEmpty()
        }
        finish(handle, UpstreamAnswers.timedOut)
    }
}
