// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Admission
import Cryptography
import Delivery
import EventLoop
import Ingress
import Logging
import NodeConfiguration
import Providers
import TNP
import Time

/// What comes from senders, and whether it is let in.
extension Node {
    // MARK: Connections

    /// Connections of senders at this moment, those among them that are about to end.
    package var connectionCount: Int { connections.count }

    var connectionsByProtocol: (tnp: Int, http: Int) {
        let http = connections.values.count { $0.senderProtocol == .http }
        return (connections.count - http, http)
    }

    /// Finds a place for a new connection, of which nothing is known yet.
    func place(_ connection: any SenderConnection) {
        switch connectionRegistry.place(at: connection.senderProtocol, use: use(of:)) {
        case .accept: opened(connection)
        case .acceptEvicting(let oldest):
            connections[oldest]?.evict(
                GoAway(code: .busy, retryAfter: 10_000, text: "too many connections that have not said anything"))
            opened(connection)
        case .reject(let quiet):
            if let quiet {
                connections[quiet]?.closeIdle("there are too many connections, and this one was quiet")
            }
            let goAway = GoAway(code: .busy, retryAfter: 10_000, text: "too many connections")
            // A rejected connection is kept until its last words are out; only so many of them are.
            if connections.count > connectionRegistry.limits.connections + Configuration.descriptorsForFiles / 2 {
                connection.evict(goAway)
            } else {
                connection.reject(goAway)
            }
        }
    }

    private func opened(_ connection: any SenderConnection) {
        connectionRegistry.opened(connection.number, at: connection.senderProtocol)
        guard !configuration.listen.circuitIDs else { return }
        if let goAway = identified(connection, as: .connection(connection.number)) { connection.reject(goAway) }
    }

    private func use(of number: UInt64) -> ConnectionRegistry.Use {
        guard let connection = connections[number], connection.isIdle(minimumAge: Self.youngest) else { return .busy }
        return connection.hasDelivered ? .idleAfterDelivery : .idle
    }

    /// Who has come lately may be about to send.
    private static let youngest = Duration.seconds(10)

    private func identified(_ connection: any SenderConnection, as circuit: CircuitID) -> GoAway? {
        if let goAway = admission.connected(circuit, at: .now) { return goAway }
        connection.circuit = circuit
        return nil
    }

    package nonisolated func assign(_ connection: any SenderConnection, toCircuit circuit: UInt32) -> GoAway? {
        let connection = UnsafeTransfer(connection)
        return assumeIsolated { $0.identified(connection.value, as: .tor(circuit)) }
    }

    package nonisolated func identified(_ connection: any SenderConnection) {
        let number = connection.number
        assumeIsolated { $0.connectionRegistry.identified(number) }
    }

    package nonisolated func ended(_ connection: any SenderConnection) {
        let (number, circuit) = (connection.number, connection.circuit)
        assumeIsolated { node in
            guard node.connections.removeValue(forKey: number) != nil else { return }
            node.connectionRegistry.closed(number)
            if let circuit { node.admission.disconnected(circuit, at: .now) }
            if node.connections.isEmpty { node.resumeIdleWaiters() }
        }
    }

    package nonisolated func welcome(under rules: IngressSession.Rules) -> Welcome {
        assumeIsolated { node in
            let puzzle = node.admission.puzzle(at: .now)
            var features: Welcome.Features = node.dispatch.canQueue ? .durableQueue : []
            if puzzle.effort > 0 { features.insert(.proofOfWork) }
            switch node.admission.settings.senders {
            case .off: break
            case .optional: features.insert(.senderKeys)
            case .required: features.formUnion([.senderKeys, .senderKeysRequired])
            }
            return Welcome(
                features: features, maximumFrame: UInt32(rules.maximumFrame),
                maximumInFlight: UInt16(rules.maximumInFlight),
                idleTimeout: UInt32(rules.idleTimeout.components.seconds),
                serverTime: UInt64(max(UnixTime.now, 0)) / 60 * 60_000, puzzle: puzzle, routes: rules.routes)
        }
    }

    // MARK: Submissions

    package nonisolated func deliver(
        _ submission: Submission, app: String, format: EnvelopeFormat, for connection: any SenderConnection
    ) {
        let connection = UnsafeTransfer(connection)
        assumeIsolated { $0.take(Intake(submission, app: app, format: format, connection: connection.value)) }
    }

    /// What was admitted has an outcome. It counts also where its sender is there no more.
    func tell(
        _ outcome: Outcome, _ reach: ProviderContact, of ticket: Admission.Ticket, _ route: Route, _ request: UInt32,
        on connection: (any SenderConnection)?
    ) {
        guard outcome.isFinal else {
            connection?.finished(request, outcome)
            return
        }
        figures.answered(outcome, of: route, at: ticket.senderProtocol.rawValue)
        history.count(outcome.kind, at: UnixTime.now)
        let goAway = admission.finish(ticket, with: outcome, contact: reach, at: moment)
        connection?.finished(request, admission.addingAllowance(to: outcome, of: ticket, at: .now))
        guard let goAway else { return }
        recordAbuse()
        connection?.reject(goAway)
    }

    package nonisolated func responded(_ status: Int) { assumeIsolated { $0.figures.responded(status) } }

    package nonisolated func countViolations(_ connection: any SenderConnection, _ faults: Int) {
        guard let circuit = connection.circuit else { return }
        let goAway = assumeIsolated { node in
            var goAway: GoAway?
            for _ in 0..<faults { goAway = node.admission.charge(circuit, at: .now) ?? goAway }
            if goAway != nil { node.recordAbuse() }
            return goAway
        }
        if let goAway { connection.reject(goAway) }
    }

    func recordAbuse() {
        figures.countAbuse()
        guard throttle.allows("abuse", at: .now) else { return }
        logger.info("a circuit has sent too much that is wrong, and is not listened to for a while")
    }

    // MARK: Time

    /// A second has passed.
    func advanceAdmission() {
        clock.observe(wall: UnixTime.now, at: .now)
        let isChanged = admission.tick(queue: dispatch.load, at: moment) { SecureRandom.bytes(Puzzle.seedLength) }
        if isChanged { announcePuzzle() }
        if admission.efforts.unproven != announcedToUnproven {
            announcedToUnproven = admission.efforts.unproven
            // While more is asked for them still, who sends to them hears of it when he does.
            if admission.efforts.unproven == admission.efforts.all {
                let puzzle = admission.puzzle(at: .now)
                for connection in connections.values where connection.hasOwnPuzzle { connection.announce(puzzle) }
            }
        }
        if let names = UnbindRequest.take(state: configuration.state) {
            logger.notice(
                "sender keys removed on the operator's request", metadata: ["phones": "\(admission.unbind(names))"])
        }
        figures.show(admission.efforts, known: admission.known)
        saveStanding()
    }

    /// Tells those who are connected what is asked now.
    func announcePuzzle() {
        let puzzle = admission.puzzle(at: .now)
        if (puzzle.effort == 0) != (announced == 0) {
            logger.notice(
                puzzle.effort == 0
                    ? "no proof of work is asked of everybody any more" : "proof of work is asked of everybody",
                metadata: ["effort": "\(puzzle.effort)"])
        }
        announced = puzzle.effort
        for connection in connections.values { connection.announce(puzzle) }
    }

    // MARK: Standing

    /// Reads what an earlier process knew of device tokens.
    func openStanding() throws {
        let store = try StandingStore.open(
            at: "\(configuration.state)/standing.sqlite", keyFile: "\(configuration.state)/standing.key")
        admission = Admission(
            configuration.admission, hash: KeyedHash(key: store.key), seed: SecureRandom.bytes(Puzzle.seedLength),
            now: .now)
        announced = admission.puzzle(at: .now).effort
        var isFirst = true
        try store.load { row in
            // The first was used last.
            if isFirst { holdBackClock(ifFarAfter: row.day) }
            isFirst = false
            admission.restore(row, on: moment)
        }
        standing = store
    }

    /// Days by which the clock may be ahead of the last use of any device token, as it is after a long rest.
    private static let longestRest: Int64 = 30

    /// A clock that was wrongly put far ahead would have everything look too old that is known, and the keys that are bound
    /// to phones would be forgotten. So time goes on for admission from a little after the last use.
    private func holdBackClock(ifFarAfter day: UInt16) {
        let ahead = UnixTime.now / 86_400 - Int64(day) - Self.longestRest
        guard ahead > 0 else { return }
        clock.assumeAhead(by: ahead * 86_400)
        logger.warning(
            "no device token was used for a long time: is this machine's clock right? None is forgotten for it",
            metadata: ["days": "\(ahead + Self.longestRest)"])
    }

    /// The present moment, as admission counts it.
    var moment: ClockReading { clock.reading(at: .now) }

    private func saveStanding() {
        guard let standing, !isSavingStanding, let changes = admission.takeChanges(atMost: Self.rowsOfASave) else {
            return
        }
        isSavingStanding = true
        Task {
            _ = await save(changes, in: standing)
            isSavingStanding = false
        }
    }

    /// Of one transaction: the store's log grows to what one changes.
    private static let rowsOfASave = 5000

    private func save(_ changes: Admission.Changes, in store: StandingStore) async -> Bool {
        do {
            try await store.save(changes.rows, forgetting: changes.forgotten)
            return true
        } catch {
            admission.requeue(changes)
            if throttle.allows("standing", at: .now) {
                logger.error("what is known of device tokens could not be saved; the node tries again: \(error)")
            }
            return false
        }
    }

    func closeStanding() async {
        guard let standing else { return }
        // One that is under way ends first: the store takes one after the other.
        while let changes = admission.takeChanges(atMost: Self.rowsOfASave), await save(changes, in: standing) {}
        await standing.close()
        self.standing = nil
    }
}
