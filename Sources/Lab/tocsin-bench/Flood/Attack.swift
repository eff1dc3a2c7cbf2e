// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time
import TocsinClient

/// Runs all hostile circuits at once. A circuit opens a new stream half a second after one was closed (two seconds if
/// it has four streams). If the node has blocked the circuit for abuse, the attacker waits a second and comes back on a
/// new circuit.
///
/// The attackers have idle priority: they take what the node and the honest senders leave of this machine's cores,
/// because attackers on other machines could not take the node's cores either.
actor Attack {
    private nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let transport: FloodTransport
    private let http: FloodTransport?
    private let relay: Endpoint
    private let pauseFactor: Double
    private let circuits: [HostileCircuit]
    /// The current id of each hostile circuit.
    private var currentIDs: [TorCircuit] = []
    private var ids: TorCircuits
    private var statistics: [HostileKind: HostileStatistics] = [:]
    private var random = SystemRandomNumberGenerator()
    private var isOver = false
    private var work: [Task<Void, Never>] = []

    private static let pause = Duration.milliseconds(500)
    private static let pauseWhenBanned = Duration.seconds(1)
    private static let workLimit = Duration.seconds(30)
    private static let submissionsPerCircuit = 20
    /// How often to check whether a stream, or the attack, has ended.
    private static let pollInterval = Duration.milliseconds(200)

    /// - Parameters:
    ///   - transport: the route to the node's TNP endpoint.
    ///   - http: the route to its HTTP endpoint; `nil` if there is no circuit of the kind `http`.
    ///   - relay: a ``CircuitRelay``, which gives each connection of a client a new circuit.
    ///   - searches: the threads on which the attackers compute proofs of work.
    ///   - pauseFactor: multiplies the pauses between submissions.
    init(
        by transport: FloodTransport, http: FloodTransport?, relay: Endpoint, of circuits: [HostileCircuit],
        ids: TorCircuits, searches: IdleWorkers, pauseFactor: Double
    ) {
        loop = EventLoop(name: "hostile", workers: searches)
        self.pauseFactor = pauseFactor
        self.transport = transport
        self.http = http
        self.relay = relay
        self.circuits = circuits
        self.ids = ids
    }

    /// Starts all circuits.
    func begin() {
        loop.makeIdle()
        for (index, circuit) in circuits.enumerated() {
            currentIDs.append(newID(for: circuit.kind))
            for stream in 0..<circuit.kind.streams {
                work.append(Task(executorPreference: loop) { await self.run(index, stream) })
            }
        }
    }

    /// Stops the attack.
    /// - Returns: the statistics of each kind.
    func stop() async -> [HostileKind: HostileStatistics] {
        isOver = true
        for task in work { await task.value }
        work = []
        return statistics
    }

    private func newID(for kind: HostileKind) -> TorCircuit {
        statistics[kind, default: HostileStatistics()].circuits += 1
        return ids.next()
    }

    /// Opens streams one after the other until the attack is over.
    private func run(_ index: Int, _ stream: Int) async {
        if circuits[index].kind == .working { return await work(as: circuits[index]) }
        // Spreads the starts.
        await rest(Self.pause * Double.random(in: 0..<1))
        // The circuits of a kind start with different malformed or stalled streams.
        var turn = index + stream
        while !isOver {
            let isBanned = await runStream(index, turn: turn)
            turn += 1
            await rest(isBanned ? Self.pauseWhenBanned : Self.pause * circuits[index].kind.streams)
        }
    }

    /// Submits to invented device tokens until the attack is over, with a client that computes proofs of work as a
    /// desktop does. Each client has a new circuit.
    private func work(as circuit: HostileCircuit) async {
        while !isOver {
            let client = TocsinClient(
                TocsinClient.Options(nodes: [relay], workLimit: Self.workLimit, patience: .zero, isolatesPhones: false),
                on: loop)
            var sum = HostileStatistics()
            sum.circuits = 1
            sum.connections = 1
            for _ in 0..<Self.submissionsPerCircuit where !isOver {
                let phone = Recipient.invented(.iOS, at: circuit.pushServer, using: &random)
                var source = EnvelopeGenerator([phone.magic: [phone.deviceToken]])
                sum.frames += 1
                guard let outcome = try? await client.submit(source.next(phone.magic), timeout: Self.workLimit) else {
                    break
                }
                sum.answers[HostileStatistics.Answer(kind: outcome.kind, reason: outcome.reason), default: 0] += 1
                if outcome.kind == .retry { break }
            }
            await client.close()
            statistics[circuit.kind, default: HostileStatistics()] += sum
            await rest(Self.pause)
        }
    }

    /// Runs one stream until it is closed.
    /// - Returns: whether the node blocked the circuit for abuse.
    private func runStream(_ index: Int, turn: Int) async -> Bool {
        let circuit = circuits[index]
        let id = currentIDs[index]
        guard let transport = circuit.kind == .http ? http : transport,
            let stream = try? await transport.dial(on: id, by: loop)
        else {
            statistics[circuit.kind, default: HostileStatistics()].failedConnections += 1
            return false
        }
        let wire = HostileStream(
            stream, speaksHTTP: circuit.kind == .http, reads: circuit.kind != .neverReading)
        var script = HostileScript(circuit, after: transport.preamble(of: id), turn: turn, pauseFactor: pauseFactor)
        while !isOver, !wire.isClosed, let stroke = script.next(using: &random) {
            wire.send(stroke)
            await rest(stroke.pause) { wire.isClosed }
        }
        wire.close()
        var sum = wire.statistics
        sum.connections = 1
        sum.closed = wire.isClosed ? 1 : 0
        statistics[circuit.kind, default: HostileStatistics()] += sum
        // Another stream of this circuit may already have replaced its id.
        if wire.isBanned, currentIDs[index] == id { currentIDs[index] = newID(for: circuit.kind) }
        return wire.isBanned
    }

    /// Waits for `time`, or until the attack is over or `isDone`.
    private func rest(_ time: Duration, unless isDone: () -> Bool = { false }) async {
        let end = MonotonicTime.now + time
        while !isOver, !isDone() {
            let left = end - .now
            guard left > .zero else { return }
            await loop.sleep(for: min(left, Self.pollInterval))
        }
    }
}
