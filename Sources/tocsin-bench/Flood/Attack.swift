// SPDX-License-Identifier: Apache-2.0

import EventLoop
import TNP
import Time

/// All hostile circuits at work at once. Each comes back half a second after its stream has ended, and a second after
/// the node has called its circuit abusive: then on a new one, as an attacker can.
actor Attack {
    private nonisolated let loop = EventLoop(name: "hostile")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let way: FloodTransport
    private let circuits: [HostileCircuit]
    /// What each is called at present.
    private var names: [TorCircuit] = []
    private var ids: TorCircuits
    private var figures: [HostileKind: HostileStatistics] = [:]
    private var random = SystemRandomNumberGenerator()
    private var isOver = false
    private var work: [Task<Void, Never>] = []

    private static let pause = Duration.milliseconds(500)
    private static let pauseWhenBanned = Duration.seconds(1)
    /// How soon it is noticed that a stream, or the attack, has ended.
    private static let attention = Duration.milliseconds(200)

    init(by way: FloodTransport, of circuits: [HostileCircuit], ids: TorCircuits) {
        self.way = way
        self.circuits = circuits
        self.ids = ids
    }

    func begin() {
        for (index, circuit) in circuits.enumerated() {
            names.append(newID(for: circuit.kind))
            for stream in 0..<circuit.kind.streams {
                work.append(Task(executorPreference: loop) { await self.come(index, stream) })
            }
        }
    }

    /// Ends it.
    /// - Returns: what came of it.
    func end() async -> [HostileKind: HostileStatistics] {
        isOver = true
        for task in work { await task.value }
        work = []
        return figures
    }

    private func newID(for kind: HostileKind) -> TorCircuit {
        figures[kind, default: HostileStatistics()].circuits += 1
        return ids.next()
    }

    /// Comes again and again.
    private func come(_ index: Int, _ stream: Int) async {
        // Not all in the same moment.
        await rest(Self.pause * Double.random(in: 0..<1))
        // Circuits of a kind begin with different kinds of garbage.
        var turn = index + stream
        while !isOver {
            let isBanned = await visit(index, turn: turn)
            turn += 1
            await rest(isBanned ? Self.pauseWhenBanned : Self.pause * circuits[index].kind.streams)
        }
    }

    /// One stream, from its beginning to its end.
    /// - Returns: whether the circuit was called abusive.
    private func visit(_ index: Int, turn: Int) async -> Bool {
        let circuit = circuits[index]
        let name = names[index]
        guard let stream = try? await way.dial(on: name, by: loop) else {
            figures[circuit.kind, default: HostileStatistics()].notConnected += 1
            return false
        }
        let wire = HostileStream(stream, reads: circuit.kind != .neverReading)
        var script = HostileScript(circuit, after: way.opening(of: name), turn: turn)
        while !isOver, !wire.isCut, let stroke = script.next(using: &random) {
            wire.send(stroke)
            await rest(stroke.pause) { wire.isCut }
        }
        wire.close()
        var sum = wire.heard
        sum.connections = 1
        sum.cut = wire.isCut ? 1 : 0
        figures[circuit.kind, default: HostileStatistics()] += sum
        // Another stream of the circuit may have been told before.
        if wire.isBanned, names[index] == name { names[index] = newID(for: circuit.kind) }
        return wire.isBanned
    }

    /// Waits, but not longer than until the attack is over or `isDone`.
    private func rest(_ time: Duration, unless isDone: () -> Bool = { false }) async {
        let end = MonotonicTime.now + time
        while !isOver, !isDone() {
            let left = end - .now
            guard left > .zero else { return }
            await loop.sleep(for: min(left, Self.attention))
        }
    }
}
