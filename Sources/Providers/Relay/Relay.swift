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
/// Each device token has its own connections and, unless the target is direct, its own tor circuit, up to
/// ``maximumCircuits``: the upstream node cannot link these phones. Attempts end when
/// no upstream node can be reached: Delivery decides when to try again.
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
        /// When the node last answered anything.
        package var answered: MonotonicTime?
        /// Why the node could not be reached last, with the time.
        package var failure: (text: String, time: MonotonicTime)?

        /// How long a failure tells something about the node.
        private static let failureLifetime = Duration.seconds(1800)

        /// `false` if the node failed within ``failureLifetime`` and has not answered since; `nil` if it has never
        /// answered and has not failed recently; else `true`.
        package func isReachable(at now: MonotonicTime) -> Bool? {
            guard let failure, now - failure.time < Self.failureLifetime else { return answered.map { _ in true } }
            return answered.map { $0 > failure.time } ?? false
        }

        /// Adds what another relay to the same node has seen.
        package mutating func merge(_ other: Status) {
            connections += other.connections
            welcome = [welcome, other.welcome].compactMap(\.self).max { $0.time < $1.time }
            answered = [answered, other.answered].compactMap(\.self).max()
            failure = [failure, other.failure].compactMap(\.self).max { $0.time < $1.time }
        }
    }

    /// How long an attempt may take, proof of work and the way through tor included.
    package static let answerTimeout = Duration.seconds(90)
    private static let connectTimeout = Duration.seconds(60)
    /// The work for one envelope: a bound on its time, and on the expected hashes of a search that begins at all.
    private static let (workLimit, largestEffort) = (Duration.seconds(20), UInt32(1 << 24))
    /// The largest number of device tokens with connections of their own. Beyond it, they share connections.
    package static let maximumCircuits = 64
    /// How long other circuits avoid a node that could not be reached.
    private static let avoidance = Duration.seconds(60)
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
        /// The links that failed, and why the last one did.
        var tried: Set<Int> = []
        var failure: NodeLink.Failure?
    }

    private typealias Handle = Slab<Exchange>.Handle

    private let target: Target
    private let keys: RelayKeys
    private let siteKey: Ed25519.PrivateKey?
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
    /// Until when to prefer other nodes, by index.
    private var avoided: [Int: MonotonicTime] = [:]
    /// Check the payload size before sending: the upstream node charges a larger envelope to this node's circuit.
    private let apple: APNsRequestBuilder
    private let google: FCMRequestBuilder
    /// Keeps self alive while there are connections: resources of the loop must be released on its thread.
    private var selfWhileOpen: Relay?

    /// A relay without connections; the first attempt opens one.
    /// - Parameters:
    ///   - keys: signs for senders that do not.
    ///   - siteKey: the key by which the upstream nodes know this node as a site; `nil` if it is none.
    ///   - slots: limits the searches for proofs of work of all relays together.
    package init(
        _ target: Target, keys: RelayKeys, siteKey: Ed25519.PrivateKey? = nil, slots: SearchSlots, on loop: EventLoop
    ) {
        self.target = target
        self.keys = keys
        self.siteKey = siteKey
        self.slots = slots
        self.loop = loop
        // With the usual texts; the upstream node's may be longer.
        apple = APNsRequestBuilder(
            APNsProfile(
                topic: "", format: target.format, messageMagic: "BisqMessageiOS", alert: .text("New notification")),
            authority: "")
        google = FCMRequestBuilder(
            FCMProfile(
                format: target.format, messageMagic: "BisqMessageAndroid", notification: ("Bisq", "Notification")),
            authority: "", projectID: "")
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

    package func check(_ envelope: Envelope) throws(Rejection) {
        guard envelope.hops + 1 < Envelope.maximumHops else { throw Rejection(.tooManyHops) }
        switch envelope.magic {
        case .iOS, .iOSDev: try apple.check(envelope)
        case .android: try google.check(envelope)
        // Its largest ciphertext is that of the protocol.
        case .web: break
        }
    }

    package func attempt(_ envelope: Envelope, expiry: Expiry, number: UInt64, for receiver: any AttemptReceiver) {
        loop.preconditionOnLoop()
        let outgoing: Envelope
        do throws(Rejection) {
            outgoing = try relayed(envelope, expiry)
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
        place(handle, PendingSubmission(Submission(request: 0, envelope: outgoing), workLimit: Self.workLimit))
    }

    /// The envelope as the upstream node gets it.
    private func relayed(_ envelope: Envelope, _ expiry: Expiry) throws(Rejection) -> Envelope {
        // The handle is this node's own: the upstream node does not know it.
        var outgoing = envelope.handle == nil ? envelope : envelope.addressedByDeviceToken()
        if let app = target.app, !envelope.app.elementsEqual(app.utf8) {
            outgoing = try Envelope(
                app: Array(app.utf8)[...], magic: envelope.magic, deviceToken: envelope.deviceToken, iv: envelope.iv,
                ciphertext: envelope.ciphertext, priority: envelope.priority, sound: envelope.sound,
                collapseID: envelope.collapseID, format: target.format)
            outgoing.signature = nil
        }
        // Dispatch signs at acceptance. The signature is missing if another provider had the route then, or if the
        // envelope was renamed above.
        if outgoing.signature == nil { keys.sign(&outgoing) }
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
        withExtendedLifetime(self) {
            selfWhileOpen = nil
            for handle in open { finish(handle, Self.closed) }
        }
    }

    private static var closed: AttemptResult {
        RelayAnswers.attemptResult(on: .unreachable("closed locally"), isNew: false)
    }

    // MARK: Circuits

    private func circuit(for deviceToken: [UInt8]) -> Circuit {
        if let circuit = circuits[deviceToken] { return circuit }
        if circuits.count >= Self.maximumCircuits, let idle = circuits.values.first(where: { $0.attempts == 0 }) {
            for link in idle.links { link.close() }
            forget(idle)
        }
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
                    lastLink, to: access,
                    session: SenderSession(
                        doesWork: true, largestEffort: Self.largestEffort,
                        site: siteKey.map { SiteIdentity($0, at: node) }),
                    slots: slots, owner: self, on: loop))
            links[lastLink] = (circuit, index, [:])
        }
        circuits[deviceToken] = circuit
        return circuit
    }

    private func forget(_ circuit: Circuit) {
        circuits[circuit.key] = nil
        for link in circuit.links { links[link.id] = nil }
    }

    /// Gives a submission to a usable node that has not failed it; ends the attempt if there is none.
    private func place(_ handle: Handle, _ submission: PendingSubmission) {
        let exchange = exchanges[handle]
        let circuit = exchange.circuit
        let now = MonotonicTime.now
        for link in circuit.links {
            link.node.revive(now: now)
            if link.isUnused { link.node.endPause(now: now) }
        }
        let usable = circuit.links.indices.filter {
            circuit.links[$0].node.isUsable && !exchange.tried.contains(circuit.links[$0].id)
        }
        // The first of the list, but a connected one before one that has to be dialled, and a node that could be reached
        // recently before one that could not.
        let preferred =
            usable.first { circuit.links[$0].isConnected }
            ?? usable.first { avoided[$0].map { $0 <= now } ?? true } ?? usable.first
        guard let index = preferred else {
            let known = circuit.links.lazy.compactMap(\.failure).first ?? .unreachable("no node can be used now")
            return finish(
                handle, RelayAnswers.attemptResult(on: exchange.failure ?? known, isNew: exchange.failure != nil))
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
            noteAnswer(of: index)
        case .answered(let result): answered(result, by: link)
        case .unusable(let requests):
            let failure = link.failure ?? .unreachable("the connection was closed")
            noteFailure(failure, of: link)
            for request in requests {
                guard let submission = link.withdraw(request),
                    let handle = links[link.id]?.attempts.removeValue(forKey: request)
                else { continue }
                exchanges[handle].tried.insert(link.id)
                exchanges[handle].failure = failure
                exchanges[handle].place = nil
                place(handle, submission)
            }
        }
    }

    private func noteAnswer(of index: Int) {
        statuses[index].answered = .now
        avoided[index] = nil
    }

    private func noteFailure(_ failure: NodeLink.Failure, of link: NodeLink) {
        guard let index = links[link.id]?.index else { return }
        // A blocked circuit says nothing about the node.
        if case .refused(let goAway) = failure, goAway.code == .abuse { return }
        statuses[index].failure = (RelayAnswers.attemptResult(on: failure, isNew: true).detail ?? "", .now)
        avoided[index] = .now + Self.avoidance
    }

    private func answered(_ result: SubmissionResult, by link: NodeLink) {
        if let index = links[link.id]?.index { noteAnswer(of: index) }
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
        for circuit in Array(circuits.values) {
            for link in circuit.links { link.watch(now: now) }
            let isForgettable =
                circuit.attempts == 0 && circuit.links.allSatisfy { $0.isUnused && $0.node.retryAt <= now }
            if isForgettable { forget(circuit) }
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
            // A node that does not answer must not keep the connection, and with it the circuit, for ever.
            link?.closeIfEmpty()
        }
        finish(handle, RelayAnswers.timedOut)
    }
}
