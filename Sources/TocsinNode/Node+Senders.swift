import Admission
import Cryptography
import Delivery
import EventLoop
import Logging
import Providers
import TNP

/// What comes from senders, and whether it is let in.
extension Node {
    // MARK: Connections

    /// Connections of senders at this moment, those among them that are about to end.
    public var connectionCount: Int { connections.count }

    var connectionsByDoor: (tnp: Int, http: Int) {
        let http = connections.values.count { $0.door == .http }
        return (connections.count - http, http)
    }

    /// Takes a new connection, of which nothing is known yet.
    func welcomeStranger(_ connection: any SenderConnection) {
        book.came(connection.number)
        if !configuration.listen.circuitIDs {
            let circuit = CircuitID.connection(connection.number)
            if let goAway = identified(connection, as: circuit) { return connection.sendAway(goAway) }
        }
        guard let oldest = book.strangerToGo(most: configuration.limits.halfOpen) else { return }
        connections[oldest]?.sendAway(
            GoAway(code: .busy, retryAfter: 10_000, text: "too many connections that have not said anything"))
    }

    /// There are too many connections: a quiet one is let go of. Its sender may come again; who holds connections open for
    /// nothing does not keep others out.
    func makeRoomForConnection() {
        let spare = book.oneToSpare { number in
            guard let connection = connections[number], connection.isIdle(for: Self.youngest) else { return .busy }
            return connection.hasServed ? .served : .unused
        }
        if let spare { connections[spare]?.letGo("there are too many connections, and this one was quiet") }
    }

    /// Who has come lately may be about to send.
    private static let youngest = Duration.seconds(10)

    private func identified(_ connection: any SenderConnection, as circuit: CircuitID) -> GoAway? {
        if let goAway = admission.connected(circuit, at: .now) { return goAway }
        connection.circuit = circuit
        return nil
    }

    nonisolated func comes(_ connection: any SenderConnection, from circuit: UInt32) -> GoAway? {
        let connection = Loan(connection)
        return assumeIsolated { $0.identified(connection.value, as: .tor(circuit)) }
    }

    nonisolated func greeted(_ connection: any SenderConnection) {
        let number = connection.number
        assumeIsolated { $0.book.greeted(number) }
    }

    nonisolated func ended(_ connection: any SenderConnection) {
        let (number, circuit) = (connection.number, connection.circuit)
        assumeIsolated { node in
            guard node.connections.removeValue(forKey: number) != nil else { return }
            node.book.ended(number)
            if let circuit { node.admission.disconnected(circuit, at: .now) }
            if node.connections.isEmpty { node.wakeWaiting() }
        }
    }

    nonisolated func welcome(under rules: IngressSession.Rules) -> Welcome {
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
                serverTime: UInt64(max(UnixTime.now, 0)) * 1000, puzzle: puzzle, routes: rules.routes)
        }
    }

    // MARK: Submissions

    nonisolated func deliver(
        _ submission: Submission, app: String, format: EnvelopeFormat, for connection: any SenderConnection
    ) {
        let connection = Loan(connection)
        assumeIsolated { $0.take(submission, app: app, format: format, from: connection.value) }
    }

    private func take(
        _ submission: Submission, app: String, format: EnvelopeFormat, from connection: any SenderConnection
    ) {
        guard let circuit = connection.circuit else { return }
        let (envelope, request) = (submission.envelope, submission.request)
        let route = Route(app: app, magic: envelope.magic)
        let start = MonotonicTime.now
        figures.record(start - connection.lastRead, in: .ingress)
        do throws(Refusal) {
            let moment = moment
            try admission.enters(on: circuit, at: moment.monotonic)
            if dispatch.knows(envelope, app: app) {
                let reply = Reply(acceptsQueued: submission.acceptQueued) { [weak connection] in
                    connection?.isOver == false
                } tell: { [weak connection] outcome, _ in
                    connection?.finished(request, outcome)
                }
                return dispatch.repeatOutcome(of: envelope, to: reply)
            }
            let ticket = try admission.admit(submission, app: app, on: circuit, through: connection.door, at: moment)
            // Wanted also when its sender is gone: it says what became of the device token.
            let own = Reply(acceptsQueued: submission.acceptQueued) { [weak self, weak connection] outcome, reach in
                let connection = Loan(connection)
                self?.assumeIsolated { $0.tell(outcome, reach, of: ticket, route, request, on: connection.value) }
            }
            figures.record(.now - start, in: .admission)
            let origin = Origin(circuit: circuit, effort: ticket.paid, isProven: !ticket.isUnproven)
            dispatch.submit(envelope, app: app, format: format, from: origin, own)
        } catch {
            figures.record(.now - start, in: .admission)
            figures.refused(error, at: connection.door.rawValue)
            if let outcome = error.outcome {
                figures.answered(outcome, of: route, at: connection.door.rawValue)
                history.count(outcome.kind, at: UnixTime.now)
            }
            connection.refused(request, error)
            if error.outcome?.reason == .connectionOverRate {
                connection.rest(for: .milliseconds(Int64(error.outcome?.retryAfter ?? 0)))
            }
            if error.goAway != nil { noteAbuse() }
        }
    }

    /// What was admitted has an outcome. It counts also where its sender is there no more.
    private func tell(
        _ outcome: Outcome, _ reach: Reach, of ticket: Admission.Ticket, _ route: Route, _ request: UInt32,
        on connection: (any SenderConnection)?
    ) {
        guard outcome.isFinal else {
            connection?.finished(request, outcome)
            return
        }
        figures.answered(outcome, of: route, at: ticket.door.rawValue)
        history.count(outcome.kind, at: UnixTime.now)
        let goAway = admission.concluded(ticket, outcome, reach, at: moment)
        connection?.finished(request, admission.showingAllowance(outcome, of: ticket, at: .now))
        guard let goAway else { return }
        noteAbuse()
        connection?.sendAway(goAway)
    }

    nonisolated func responded(_ status: Int) { assumeIsolated { $0.figures.responded(status) } }

    nonisolated func charge(_ connection: any SenderConnection, faults: Int) {
        guard let circuit = connection.circuit else { return }
        let goAway = assumeIsolated { node in
            var goAway: GoAway?
            for _ in 0..<faults { goAway = node.admission.charge(circuit, at: .now) ?? goAway }
            if goAway != nil { node.noteAbuse() }
            return goAway
        }
        if let goAway { connection.sendAway(goAway) }
    }

    func noteAbuse() {
        figures.countAbuse()
        guard throttle.allows("abuse", at: .now) else { return }
        logger.info("a circuit has sent too much that is wrong, and is not listened to for a while")
    }

    // MARK: Time

    /// A second has passed.
    func advanceAdmission() {
        let isChanged = admission.tick(queue: dispatch.load, at: moment) { SecureRandom.bytes(Puzzle.seedLength) }
        if isChanged { announcePuzzle() }
        if admission.efforts.unproven != announcedToUnproven {
            announcedToUnproven = admission.efforts.unproven
            // While more is asked for them still, who sends to them hears of it when he does.
            if admission.efforts.unproven == admission.efforts.all {
                let puzzle = admission.puzzle(at: .now)
                for connection in connections.values where connection.isAskedForMore { connection.announce(puzzle) }
            }
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
            if isFirst { distrustClock(ifFarAfter: row.day) }
            isFirst = false
            admission.restore(row, on: moment)
        }
        standing = store
    }

    /// Days by which the clock may be ahead of the last use of any device token, as it is after a long rest.
    private static let longestRest: Int64 = 30

    /// A clock that was wrongly put far ahead would have everything look too old that is known, and the keys that are bound
    /// to phones would be forgotten. So time goes on for admission from a little after the last use.
    private func distrustClock(ifFarAfter day: UInt16) {
        let ahead = UnixTime.now / 86_400 - Int64(day) - Self.longestRest
        guard ahead > 0 else { return }
        clockAhead = ahead * 86_400
        logger.warning(
            "no device token was used for a long time: is this machine's clock right? None is forgotten for it",
            metadata: ["days": "\(ahead + Self.longestRest)"])
    }

    /// The present moment, as admission counts it.
    var moment: Moment { Moment(monotonic: .now, unix: UnixTime.now - clockAhead) }

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
            admission.putBack(changes)
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
