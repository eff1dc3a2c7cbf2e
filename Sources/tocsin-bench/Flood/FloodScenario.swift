// SPDX-License-Identifier: Apache-2.0

import Console
import EventLoop
import Simulator
import TNP
import Time

/// Honest senders at a normal pace, first alone, then with hostile circuits of all kinds at once.
actor FloodScenario {
    struct Options {
        /// Of the calm part, and of the flooded one.
        var time = Duration.seconds(20)
        var honest = 20
        /// Honest senders who come only when the flood is there.
        var newcomers = 2
        /// Circuits, of each kind as many.
        var hostile = 200
    }

    /// Before the calm part, and between the attack's beginning and the flooded one.
    private static let leadIn = Duration.seconds(2)
    /// Honest circuits come before this one, hostile ones after it.
    private static let firstHostileCircuit: UInt32 = 0x1_0000
    /// Since when the dead tokens are dead, Unix time in milliseconds.
    private static let longAgo: UInt64 = 1_700_000_000_000

    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let way: FloodTransport
    private let options: Options
    private let watch = PushCounter()
    private let senderProtocol: Endpoint
    /// Device tokens that the push services know and nobody has yet.
    private var unused: [Magic: ArraySlice<[UInt8]>]
    private var report = FloodReport()

    /// - Parameters:
    ///   - bed: with a node that is told circuits.
    ///   - way: how it is reached.
    init(_ bed: TestBed, by way: FloodTransport, _ options: Options) {
        self.bed = bed
        self.way = way
        self.options = options
        senderProtocol = .unix(path: "\(bed.directory)/tor.sock")
        unused = bed.tokens.mapValues { $0[...] }
    }

    /// Runs it, in a little more than twice its time.
    func run() async throws -> FloodReport {
        await bed.services.observe { [watch, tally = bed.tally] notification in
            watch.delivered(notification)
            tally.delivered(notification)
        }
        let relay = CircuitRelay(by: way, circuits: TorCircuits(after: 0), on: loop)
        try await relay.listen(at: senderProtocol)
        let pace = NodeDefaults.pace(over: (Self.leadIn + options.time) * 2)

        Terminal.progress("device tokens are proven …")
        let (honest, witness) = (try senders(options.honest), try senders(1))
        _ = try await prove(honest, options.honest)
        _ = try await prove(witness, 1)
        let attack = Attack(
            by: way, of: try await hostileCircuits(), ids: TorCircuits(after: Self.firstHostileCircuit))
        await honest.begin(pace: pace)
        await loop.sleep(for: Self.leadIn)

        Terminal.progress("calm …")
        await measure(.calm, honest)

        Terminal.progress("\(options.hostile) hostile circuits …")
        let before = await watch.refusals(by: bed.services)
        let beginning = MonotonicTime.now
        await attack.begin()
        await loop.sleep(for: Self.leadIn)
        let newcomers = try senders(options.newcomers)
        await newcomers.count(for: .flooded)
        await newcomers.begin(pace: pace)
        await measure(.flooded, honest)

        Terminal.progress("what is still under way …")
        async let ended = honest.end()
        let late = await newcomers.end()
        report.honest = await ended.figures
        report.newcomers = late.figures[.flooded] ?? HonestStatistics()
        report.firstNewcomer = late.first
        report.hostile = await attack.end()
        report.isAlive = await !witness.sendOne().isEmpty
        _ = await witness.end()
        let after = await watch.refusals(by: bed.services)
        report.refusals = after - before
        report.attacked = .now - beginning
        report.repeats = bed.tally.sums.repeats
        await relay.close()
        return report
    }

    private func measure(_ phase: FloodPhase, _ honest: HonestSenders) async {
        let start = await bed.nodeFigures
        await honest.count(for: phase)
        await loop.sleep(for: options.time)
        await honest.count(for: nil)
        if let start, let end = await bed.nodeFigures { report.node[phase] = NodeStatistics(from: start, to: end) }
    }

    // MARK: Who is there

    /// So many honest senders, each with a phone that nobody else has.
    private func senders(_ count: Int) throws -> HonestSenders {
        HonestSenders(try phones(count), node: senderProtocol, on: loop)
    }

    private func phones(_ count: Int) throws -> [Recipient] {
        try (0..<count).map { index in
            let magic = Magic.allCases[index % Magic.allCases.count]
            guard let token = unused[magic]?.popFirst() else {
                throw fail("too many senders: there are no phones left for them", ExitStatus.usage)
            }
            return Recipient(magic: magic, deviceToken: token)
        }
    }

    /// Has each of them deliver an envelope while nobody else is there.
    private func prove(_ senders: HonestSenders, _ count: Int) async throws -> [Envelope] {
        let envelopes = await senders.sendOne()
        guard envelopes.count == count else {
            throw fail(
                "\(envelopes.count) of \(count) honest senders were served though nobody else was there",
                ExitStatus.failure)
        }
        return envelopes
    }

    private func hostileCircuits() async throws -> [HostileCircuit] {
        var circuits: [HostileCircuit] = []
        let kinds = HostileKind.allCases
        for kind in kinds {
            let count = (options.hostile + kinds.count - 1 - kind.rawValue) / kinds.count
            switch kind {
            case .inventedTokens, .garbage, .stalling:
                circuits += (0..<count).map { _ in HostileCircuit(kind: kind) }
            case .badTokens:
                for _ in 0..<count { circuits.append(HostileCircuit(kind: kind, targets: await badTokens())) }
            case .replaying:
                let owners = try senders(count)
                circuits += try await prove(owners, count).map { HostileCircuit(kind: kind, captured: $0) }
                _ = await owners.end()
            case .neverReading:
                let phones = try phones(count)
                let owners = HonestSenders(phones, node: senderProtocol, on: loop)
                _ = try await prove(owners, count)
                _ = await owners.end()
                circuits += phones.map { HostileCircuit(kind: kind, targets: [$0]) }
            }
        }
        return circuits
    }

    /// Of each platform one that is dead and one that never was.
    private func badTokens() async -> [Recipient] {
        var random = SystemRandomNumberGenerator()
        var targets: [Recipient] = []
        for magic in [Magic.iOS, .android] {
            let dead = Recipient.invented(magic, using: &random)
            await bed.services.set(
                TestBed.device(magic, state: .unregistered(since: Self.longAgo)),
                for: String(decoding: dead.deviceToken, as: UTF8.self))
            targets += [dead, .invented(magic, using: &random)]
        }
        return targets
    }
}
