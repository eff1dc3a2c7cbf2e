// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import StandIns
import TNP
import Time

/// Runs honest senders at a normal pace, first alone, then together with hostile circuits of all kinds.
actor FloodScenario {
    struct Options {
        /// The duration of each phase, calm and flooded.
        var time = Duration.seconds(20)
        /// The duration of the calm phase; `nil` for ``time``.
        var calm: Duration?
        /// The number of honest senders in both phases.
        var honest = 20
        /// The number of further honest senders, which start one after the other during the flood.
        var newcomers = 10
        /// Multiplies the pauses between the submissions of hostile circuits.
        var pauseFactor = 1.0
        /// The number of hostile circuits, divided equally among the kinds.
        var hostile = 200
    }

    /// The wait before the calm phase, and between the start of the attack and the flooded phase.
    private static let leadIn = Duration.seconds(2)
    /// The number before that of the first hostile circuit; honest circuits have lower numbers.
    private static let firstHostileCircuit: UInt32 = 0x1_0000
    /// The part of the flooded phase over which the newcomers start.
    private static let arrivals = 0.8
    /// When the dead device tokens were unregistered: Unix time in milliseconds.
    private static let longAgo: UInt64 = 1_700_000_000_000

    private nonisolated let loop = EventLoop(name: "senders")
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let bed: TestBed
    private let transport: FloodTransport
    private let http: FloodTransport?
    private let options: Options
    private let watch = PushCounter()
    private let relayEndpoint: Endpoint
    /// Device tokens that the push services know and no sender uses yet.
    private var unused: [Magic: ArraySlice<[UInt8]>]
    private var report = FloodReport()

    /// - Parameters:
    ///   - bed: a test bed whose node receives circuit ids.
    ///   - transport: the route to the node's TNP endpoint.
    ///   - http: the route to its HTTP endpoint; `nil` for no attack on that.
    init(_ bed: TestBed, by transport: FloodTransport, http: FloodTransport?, _ options: Options) {
        self.bed = bed
        self.transport = transport
        self.http = http
        self.options = options
        relayEndpoint = .unix(path: "\(bed.directory)/tor.sock")
        unused = bed.tokens.mapValues { $0[...] }
    }

    /// Runs both phases. Takes a little longer than ``Options/calm`` and ``Options/time`` together.
    func run() async throws -> FloodReport {
        await bed.services.observe { [watch, tally = bed.tally] notification in
            watch.delivered(notification)
            tally.delivered(notification)
        }
        let relay = CircuitRelay(by: transport, circuits: TorCircuits(after: 0), on: loop)
        try await relay.listen(at: relayEndpoint)
        let calm = options.calm ?? options.time
        let pace = NodeDefaults.pace(over: Self.leadIn * 2 + calm + options.time)

        Terminal.progress("proving device tokens …")
        let (honest, witness) = (try senders(options.honest), try senders(1))
        _ = try await prove(honest, options.honest)
        _ = try await prove(witness, 1)
        // Attackers and newcomers compute proofs of work in turns on the same threads: 200 attackers together are 200
        // times as fast as the desktop of one newcomer.
        let searches = IdleWorkers()
        let attack = Attack(
            by: transport, http: http, relay: relayEndpoint, of: try await hostileCircuits(),
            ids: TorCircuits(after: Self.firstHostileCircuit), searches: searches, pauseFactor: options.pauseFactor)
        await honest.begin(pace: pace)
        await loop.sleep(for: Self.leadIn)

        Terminal.progress("calm …")
        await measure(.calm, honest, for: calm)

        Terminal.progress("flooded: \(options.hostile) hostile circuits …")
        let before = await watch.refusals(by: bed.services)
        let beginning = MonotonicTime.now
        await attack.begin()
        await loop.sleep(for: Self.leadIn)
        let newcomers = HonestSenders(
            try phones(options.newcomers), node: relayEndpoint, on: EventLoop(name: "new senders", workers: searches))
        await newcomers.count(for: .flooded)
        await newcomers.begin(pace: pace, over: options.time * Self.arrivals)
        await measure(.flooded, honest, for: options.time)

        Terminal.progress("waiting for the envelopes in flight …")
        async let ended = honest.stop()
        let late = await newcomers.stop()
        report.honest = await ended.figures
        report.newcomers = late.figures[.flooded] ?? HonestStatistics()
        report.firstRings = late.firstRings
        report.hostile = await attack.stop()
        report.isAlive = await !witness.sendOne().isEmpty
        _ = await witness.stop()
        let after = await watch.refusals(by: bed.services)
        report.refusals = after - before
        report.attackDuration = .now - beginning
        report.repeats = bed.tally.sums.repeats
        await relay.close()
        return report
    }

    private func measure(_ phase: FloodPhase, _ honest: HonestSenders, for time: Duration) async {
        let meter = UsageMeter([await bed.nodePID].compactMap(\.self))
        await honest.count(for: phase)
        await loop.sleep(for: time)
        await honest.count(for: nil)
        report.node[phase] = meter.usage.first
    }

    // MARK: Senders and circuits

    /// Honest senders, each with a phone of its own.
    private func senders(_ count: Int) throws -> HonestSenders {
        HonestSenders(try phones(count), node: relayEndpoint, on: loop)
    }

    private func phones(_ count: Int) throws -> [Recipient] {
        try (0..<count).map { index in
            // A third of the phones receive by Web Push.
            let magic = [Magic.iOS, .web, .iOSDev, .android, .web, .android][index % 6]
            guard let token = unused[magic]?.popFirst() else {
                throw fail("too many senders: no phones are left", .usage)
            }
            return Recipient(magic: magic, deviceToken: token)
        }
    }

    /// Proves the device token of each sender by one delivery before the flood.
    private func prove(_ senders: HonestSenders, _ count: Int) async throws -> [Envelope] {
        let envelopes = await senders.sendOne()
        guard envelopes.count == count else {
            throw fail(
                "only \(envelopes.count) of \(count) honest senders were served before the flood",
                .failure)
        }
        return envelopes
    }

    private func hostileCircuits() async throws -> [HostileCircuit] {
        var circuits: [HostileCircuit] = []
        // An onion service of the private network leads to the TNP endpoint only.
        let kinds = HostileKind.allCases.filter { $0 != .http || http != nil }
        for kind in kinds {
            let count = (options.hostile + kinds.count - 1 - kind.rawValue) / kinds.count
            let phoneCount = min(count, HostileKind.maximumPhones)
            switch kind {
            case .inventedTokens, .garbage, .stalling, .http, .working:
                circuits += (0..<count).map { _ in HostileCircuit(kind: kind, pushServer: bed.pushServer) }
            case .badTokens:
                for _ in 0..<count { circuits.append(HostileCircuit(kind: kind, targets: await badTokens())) }
            case .replaying:
                let owners = try senders(phoneCount)
                let envelopes = try await prove(owners, phoneCount)
                report.replayed = envelopes.count
                _ = await owners.stop()
                circuits += (0..<count).map { HostileCircuit(kind: kind, captured: envelopes[$0 % phoneCount]) }
            case .neverReading, .ownPhones:
                let phones = try phones(phoneCount)
                let owners = HonestSenders(phones, node: relayEndpoint, on: loop)
                _ = try await prove(owners, phoneCount)
                _ = await owners.stop()
                circuits += (0..<count).map { HostileCircuit(kind: kind, targets: [phones[$0 % phoneCount]]) }
            }
        }
        return circuits
    }

    /// One unregistered device token and one that never existed, for Apple's production environment, Google and Web
    /// Push each.
    private func badTokens() async -> [Recipient] {
        var random = SystemRandomNumberGenerator()
        var targets: [Recipient] = []
        for magic in [Magic.iOS, .android, .web] {
            let dead = Recipient.invented(magic, at: bed.pushServer, using: &random)
            await bed.services.set(
                TestBed.device(magic, state: .unregistered(since: Self.longAgo)),
                for: String(decoding: dead.deviceToken, as: UTF8.self))
            targets += [dead, .invented(magic, at: bed.pushServer, using: &random)]
        }
        return targets
    }
}
