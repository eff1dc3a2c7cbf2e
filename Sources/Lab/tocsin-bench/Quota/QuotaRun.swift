// SPDX-License-Identifier: Apache-2.0

import EventLoop
import StandIns
import TNP
import Time
import TocsinClient
import World

/// A simulated node between senders with a constant rate and a push service whose quota changes.
final class QuotaRun: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    private let service: BenchQuota.Service
    private let world: SimulatedWorld
    private var random: SimulatedRandomNumbers
    private var clients: [TocsinClient] = []
    private var phones: [SimulatedPhone] = []
    private var samples: [QuotaReport.Sample] = []
    private var current = QuotaReport.Sample()
    private var before = (requests: 0, overQuota: 0, outstanding: 0)
    private var rate = 0.0
    private var submissions = 0
    private var waiting = 0

    /// The number of phones: so many that the rate of each is far below its quota.
    private static let phones = 2000
    /// The share of all notifications that go to a single phone: more than its quota allows.
    private static let perMilleToOnePhone = 50
    private static let connections = 20
    /// The TTL of each envelope in seconds: none of them is left when the quiet phase is half over.
    private static let ttl: UInt32 = 300
    /// FCM allows 240 messages a minute to a device.
    private static let device = Quota.Rate(burst: 20, perSecond: 4)
    private static let rampUp = Duration.seconds(60)
    /// The round trip to the service, in milliseconds.
    private static let latency = Latency.uniform(30...70)
    private static let processedPerSecond = 400.0

    static let phases = [
        QuotaReport.Phase(name: "slow start", length: 300, submitted: 100, quota: 200),
        QuotaReport.Phase(name: "quota below the rate", length: 300, submitted: 100, quota: 50),
        QuotaReport.Phase(name: "quota above it again", length: 300, submitted: 100, quota: 200),
        QuotaReport.Phase(name: "quiet", length: 600, submitted: 0, quota: 200),
        QuotaReport.Phase(name: "slow start after quiet", length: 300, submitted: 100, quota: 200),
    ]

    init(_ service: BenchQuota.Service, seed: UInt64, directory: String) throws {
        self.service = service
        world = try SimulatedWorld(seed: seed, directory: directory)
        random = world.simulation.random("submissions")
        world.additionalTables = """
            [spool]
            enabled = true
            \(SimulatedConfiguration.unlimitedRates)
            total_in_flight = 20000
            """
    }

    /// Runs all phases.
    func run() throws -> QuotaReport {
        try world.start(phones: 4 * Self.phones)
        clients = (0..<Self.connections).map { _ in
            TocsinClient(TocsinClient.Options(nodes: world.onions(for: 0)), on: world.sendersLoop)
        }
        phones = world.phones.filter { $0.magic == service.magic }
        let platform = TestBed.device(service.magic).platform
        var faults = Faults()
        faults.latency = Self.latency
        world.apply(faults, to: platform)
        sample(platform)
        submitNext()
        for phase in Self.phases {
            var quota = Quota()
            quota.device = Self.device
            quota.whole = Quota.Rate(burst: phase.quota, perSecond: phase.quota)
            quota.rampUp = Self.rampUp
            quota.processedPerSecond = Self.processedPerSecond
            world.changeServices { [quota] in try await $0.set(quota, on: platform) }
            rate = phase.submitted
            world.simulation.run(for: .seconds(phase.length))
        }
        return QuotaReport(phases: Self.phases, samples: samples)
    }

    /// Takes a sample at the end of each second.
    private func sample(_ platform: Device.Platform) {
        world.simulation.schedule(after: .seconds(1), in: world.simulation.background) { [self] in
            world.changeServices { [self] services in
                let now = await services.load(of: platform)
                current.requests = now.requests - before.requests
                current.refused = now.overQuota - before.overQuota
                current.outstanding = now.outstanding
                current.waiting = waiting
                samples.append(current)
                current = QuotaReport.Sample()
                before = now
            }
            sample(platform)
        }
    }

    /// Submits at random times, ``rate`` times a second on average.
    private func submitNext() {
        let pause = rate > 0 ? random.duration(in: .zero...(.seconds(2 / rate))) : .seconds(1)
        world.simulation.schedule(after: pause, in: world.sendersProcess) { [self] in
            if rate > 0 { submit() }
            submitNext()
        }
    }

    private func submit() {
        submissions += 1
        current.submitted += 1
        let isHot = random.happens(perMille: Self.perMilleToOnePhone)
        let phone = phones[isHot ? 0 : Int(random.next() % UInt64(phones.count))]
        let digits = Array("\(submissions)".utf8)
        let name = [UInt8](repeating: UInt8(ascii: "0"), count: SimulatedPhone.numberLength - digits.count) + digits
        let envelope = phone.envelope(
            numbered: name, (0..<96).map { _ in UInt8(truncatingIfNeeded: random.next()) }, ttl: Self.ttl)
        let client = clients[submissions % clients.count]
        waiting += 1
        _ = Task(executorPreference: world.sendersLoop) { [self] in
            _ = try? await client.submit(envelope, timeout: .seconds(600), acceptQueued: true)
            waiting -= 1
        }
    }
}
