// SPDX-License-Identifier: Apache-2.0

import Cryptography
import DequeModule
import EventLoop
import Sender
import TNP
import Tables
import Time

/// Another node, which has the credentials for an app that this node lacks (PROTOCOL §9). This node is its sender.
///
/// Each device token has connections of its own, with its own tor circuit, so that the upstream node cannot link phones.
/// Attempts end when no upstream node can be reached: Delivery decides when to try again.
package final class Relay: Provider, NodeLinkOwner, @unchecked Sendable {
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

        /// - Parameters: as the properties of the same names.
        package init(nodes: [Endpoint], socks: Endpoint?, app: String?, format: EnvelopeFormat) {
            self.nodes = nodes
            self.socks = socks
            self.app = app
            self.format = format
        }
    }

    /// What the operator sees of an upstream node.
    package struct Status: Sendable {
        /// The node's address.
        package let node: Endpoint
        /// The number of open connections.
        package var connections = 0
        /// The last WELCOME, with the time of its arrival.
        package var welcome: (welcome: Welcome, time: MonotonicTime)?
        /// Why the last connection failed or ended, with the time.
        package var failure: (text: String, time: MonotonicTime)?

        /// Whether the node has answered since the last failure; `nil` before the first attempt.
        package var isReachable: Bool? {
            guard let failure else { return welcome.map { _ in true } }
            return welcome.map { $0.time > failure.time } ?? false
        }

        /// Adds what another relay to the same node has seen.
        package mutating func merge(_ other: Status) {
            connections += other.connections
            welcome = [welcome, other.welcome].compactMap(\.self).max { $0.time < $1.time }
            failure = [failure, other.failure].compactMap(\.self).max { $0.time < $1.time }
        }
    }

    /// How long an attempt may take, proof of work and the way through tor included.
    package static let answerTimeout = Duration.seconds(90)
    private static let connectTimeout = Duration.seconds(60)
    /// The work for one envelope: a bound on its time, and on the expected hashes of a search that begins at all.
    private static let (workLimit, largestEffort) = (Duration.seconds(20), UInt32(1 << 24))
    /// The largest number of device tokens with connections of their own. Beyond it, they share connections.
    private static let maximumCircuits = 256
    private static let tickInterval = Duration.seconds(1)

    /// The connections for one device token, or for several beyond ``maximumCircuits``.
    private final class Circuit {
        let key: [UInt8]
        var links: [NodeLink] = []
        /// Attempts without a result.
        var attempts = 0

        init(_ key: [UInt8]) { self.key = key }
    }

    /// An attempt without a result.
    private struct Exchange {
        let number: UInt64
        let receiver: any AttemptReceiver
        let circuit: Circuit
        /// The link whose session has the submission, and its request number there.
        var place: (link: Int, request: UInt32)?
        /// The links that failed.
        var tried: Set<Int> = []
    }

    private typealias Handle = Slab<Exchange>.Handle

    private let target: Target
    private let keys: RelayKeys
    package var relayKeys: RelayKeys? { keys }
    private let slots: SearchSlots
    private let loop: EventLoop
    private var circuits: [[UInt8]: Circuit] = [:]
    /// The circuit of each link, and the attempts whose submissions its session has.
    private var links: [Int: (circuit: Circuit, index: Int, attempts: [UInt32: Handle])] = [:]
    private var exchanges = Slab<Exchange>()
    /// The attempts by their deadlines, earliest first; those with a result stay until then.
    private var deadlines: Deque<(time: MonotonicTime, handle: Handle)> = []
    private var lastLink = 0
    private var ticker: Timer?
    private var isRetired = false
    private var isClosed = false
    private var statuses: [Status]
    /// Keeps self alive while there are connections: resources of the loop must be released on its thread.
    private var selfWhileOpen: Relay?

    /// A relay without connections; the first attempt opens one.
    /// - Parameters:
    ///   - keys: signs for senders that do not.
    ///   - slots: limits the searches for proofs of work of all relays together.
    package init(_ target: Target, keys: RelayKeys, slots: SearchSlots, on loop: EventLoop) {
        self.target = target
        self.keys = keys
        self.slots = slots
        self.loop = loop
        statuses = target.nodes.map { Status(node: $0) }
    }

    /// What the operator sees of the upstream nodes, in their order.
    package var status: [Status] {
        var statuses = statuses
        for circuit in circuits.values {
            for (index, link) in circuit.links.enumerated() where link.isConnected { statuses[index].connections += 1 }
        }
        return statuses
    }

    // MARK: Provider

    /// Checks nothing: the upstream node knows the limits of its push services.
    package func check(_ envelope: Envelope) throws(Rejection) {}

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        loop.preconditionOnLoop()
        let outgoing: Envelope
        do throws(Rejection) {
            outgoing = try relayed(envelope, expiry)
        } catch {
            return receiver.attempted(number, AttemptResult(error))
        }
        guard !isClosed else {
            return receiver.attempted(number, RelayAnswers.attemptResult(on: .unreachable("closed locally")))
        }
        let circuit = circuit(for: Array(envelope.deviceToken))
        circuit.attempts += 1
        let handle = exchanges.insert(Exchange(number: number, receiver: receiver, circuit: circuit))
        deadlines.append((.now + Self.answerTimeout, handle))
        startTicker()
        place(handle, PendingSubmission(Submission(request: 0, envelope: outgoing), workLimit: Self.workLimit))
    }

    /// The envelope as the upstream node gets it.
    private func relayed(_ envelope: Envelope, _ expiry: Expiry) throws(Rejection) -> Envelope {
        var outgoing = envelope
        if let app = target.app, !envelope.app.elementsEqual(app.utf8) {
            outgoing = try Envelope(
                app: Array(app.utf8)[...], magic: envelope.magic, deviceToken: envelope.deviceToken, iv: envelope.iv,
                ciphertext: envelope.ciphertext, priority: envelope.priority, sound: envelope.sound,
                collapseID: envelope.collapseID, format: target.format)
            if envelope.signature != nil { keys.sign(&outgoing) }
        }
        outgoing.hops = envelope.hops + 1
        outgoing.ttl = UInt32(expiry.secondsLeft(at: UnixTime.now))
        return outgoing
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
        for circuit in circuits.values {
            for link in circuit.links { link.close() }
        }
        let open = deadlines.map(\.handle)
        (circuits, links, ticker) = ([:], [:], nil)
        deadlines.removeAll()
        let result = RelayAnswers.attemptResult(on: .unreachable("closed locally"))
        withExtendedLifetime(self) {
            selfWhileOpen = nil
            for handle in open { finish(handle, result) }
        }
    }

    // MARK: Circuits

    private func circuit(for deviceToken: [UInt8]) -> Circuit {
        if let circuit = circuits[deviceToken] { return circuit }
        if circuits.count >= Self.maximumCircuits {
            let shared = Array(circuits.values)
            return shared[Int(deviceToken.hashValue.magnitude % UInt(shared.count))]
        }
        let circuit = Circuit(deviceToken)
        let proxy = target.socks.map {
            Proxy.socks5($0, SOCKS5.Credentials(user: "tocsin", password: Hex.encode(SecureRandom.bytes(16))))
        }
        for (index, node) in target.nodes.enumerated() {
            lastLink += 1
            let access = NodeLink.Target(node: node, proxy: proxy, agent: "", connectTimeout: Self.connectTimeout)
            circuit.links.append(
                NodeLink(
                    lastLink, to: access, session: SenderSession(doesWork: true, largestEffort: Self.largestEffort),
                    slots: slots, owner: self, on: loop))
            links[lastLink] = (circuit, index, [:])
        }
        circuits[deviceToken] = circuit
        return circuit
    }

    /// Gives a submission to the first usable node that has not failed it; ends the attempt if there is none.
    private func place(_ handle: Handle, _ submission: PendingSubmission) {
        let circuit = exchanges[handle].circuit
        let now = MonotonicTime.now
        for link in circuit.links {
            link.node.revive(now: now)
            link.node.endPause(now: now)
        }
        let tried = Set(circuit.links.indices.filter { exchanges[handle].tried.contains(circuit.links[$0].id) })
        guard let index = NodeState.choose(circuit.links.map(\.node), excluding: tried) else {
            let failure = circuit.links.lazy.compactMap(\.failure).first ?? .unreachable("no node can be used now")
            return finish(handle, RelayAnswers.attemptResult(on: failure))
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
            guard let index = links[link.id]?.index else { return }
            statuses[index].welcome = (welcome, .now)
        case .answered(let result): answered(result, by: link)
        case .unusable(let requests):
            if let index = links[link.id]?.index, let failure = link.failure {
                statuses[index].failure = (RelayAnswers.attemptResult(on: failure).detail ?? "", .now)
            }
            for request in requests {
                guard let submission = link.session.remove(request),
                    let handle = links[link.id]?.attempts.removeValue(forKey: request)
                else { continue }
                link.stopSolving(request)
                exchanges[handle].tried.insert(link.id)
                exchanges[handle].place = nil
                place(handle, submission)
            }
        }
    }

    private func answered(_ result: SubmissionResult, by link: NodeLink) {
        // A QUEUED that nobody asked for is not the end: the final outcome follows.
        guard result.outcome.isFinal else { return }
        _ = link.session.takeRefused(result.request)
        guard let handle = links[link.id]?.attempts.removeValue(forKey: result.request) else { return }
        finish(handle, RelayAnswers.attemptResult(on: result.outcome))
    }

    // MARK: Time

    private func startTicker() {
        guard ticker == nil else { return }
        selfWhileOpen = self
        ticker = Timer(on: loop, after: Self.tickInterval) { [unowned self] in tick() }
    }

    private func tick() {
        ticker = nil
        let now = MonotonicTime.now
        while let first = deadlines.first, first.time <= now {
            deadlines.removeFirst()
            timeOut(first.handle)
        }
        for circuit in circuits.values {
            for link in circuit.links { link.watch(now: now) }
            let isForgettable =
                circuit.attempts == 0 && circuit.links.allSatisfy { $0.isUnused && $0.node.retryAt <= now }
            guard isForgettable else { continue }
            circuits[circuit.key] = nil
            for link in circuit.links { links[link.id] = nil }
        }
        if circuits.isEmpty, deadlines.isEmpty { selfWhileOpen = nil } else { startTicker() }
    }

    private func timeOut(_ handle: Handle) {
        guard exchanges.contains(handle) else { return }
        if let place = exchanges[handle].place {
            links[place.link]?.attempts[place.request] = nil
            let link = exchanges[handle].circuit.links.first { $0.id == place.link }
            link?.stopSolving(place.request)
            link?.session.remove(place.request)
            link?.flush()
        }
        finish(handle, RelayAnswers.timedOut)
    }
}
