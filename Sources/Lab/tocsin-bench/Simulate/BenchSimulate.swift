// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Console
import EventLoop
import FoundationEssentials
import Glibc
import StandIns
import Time
import World

struct BenchSimulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Run a node for days of bad weather, in virtual time and under one seed.",
        discussion: """
            The node, Apple and Google, senders, attackers, the network, the disk and the clocks run in one thread. The \
            same seed gives the same run. Faults come at random: services that fail, connections that break, kills, \
            power failures, full disks, wrong clocks. Exits with 1 at the first broken rule, and names the seed and \
            the step.

            EXAMPLES
              tocsin-bench simulate --seed 1 --days 1
              tocsin-bench simulate --seed 1 --days 1 --trace /tmp/trace
              tocsin-bench simulate --seed 1 --days 1 --skip 3,4,5
              tocsin-bench simulate --seed 1 --days 0.5 --nodes 3
              tocsin-bench simulate --seed 1 --days 0.5 --chain
            """)

    @Option(help: "The seed, which determines everything.")
    var seed: UInt64 = 1

    @Option(help: "The virtual days to run.")
    var days = 1.0

    @OptionGroup
    var options: WorldOptions

    @Option(help: "The number of phones.")
    var phones = 20

    @Option(help: "The average seconds between two notifications to one phone.")
    var pace = 120.0

    @Option(help: "The average seconds between two faults.")
    var calm = 300.0

    @Option(help: "Stop after this step.")
    var until: UInt64?

    @Option(help: "Leave out the faults with these numbers, separated by commas.")
    var skip: String?

    @Option(help: "Write each event to this file.")
    var trace: String?

    @Option(help: "Print the node's log from this level: debug, info, notice, warning or error.")
    var log: String?

    @Flag(help: .hidden)
    var report = false

    /// The age from which a submission without an outcome breaks a rule. A node answers sooner, with all attempts and
    /// pauses.
    private static let maximumSubmissionTime = Duration.seconds(300)

    /// The real seconds after which a virtual minute counts as blocked. It takes 30 to 500 ms.
    static let maximumStep: UInt32 = 120

    func run() async throws {
        try Self.ensureDeterministicHashing()
        guard try simulate() else { throw ExitCode(1) }
    }

    /// Starts the program again with `SWIFT_DETERMINISTIC_HASHING`, unless it is set: without it, Swift seeds its hash
    /// tables at random when a process starts.
    static func ensureDeterministicHashing() throws {
        let name = "SWIFT_DETERMINISTIC_HASHING"
        guard getenv(name) == nil else { return }
        setenv(name, "1", 1)
        var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
        execv("/proc/self/exe", &arguments)
        throw fail("cannot start again with \(name): \(String(cString: strerror(errno)))", .failure)
    }

    private func simulate() throws -> Bool {
        let directory = URL.temporaryDirectory.appending(path: "tocsin-simulate-\(getpid())").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let world = try SimulatedWorld(seed: seed, directory: directory, layout: options.layout)
        let recorder = try TraceRecorder(path: trace, simulation: world.simulation)
        world.trace = { recorder.record($0, $1) }
        if let log { world.logLevel = log }
        world.showLog = { [log] line in
            recorder.record(line)
            if log != nil { Terminal.print("\(WeatherEvent.text(world.elapsed)) \(line)") }
        }
        world.judge.note = { recorder.record($0) }
        let attackers = SimulatedAttackers(world)
        let weather = WeatherStation(world, attackers: attackers)
        var random = world.simulation.random("weather")
        let length = Duration.seconds(days * 86_400)
        let skipped = Set((skip ?? "").split(separator: ",").compactMap { Int($0) })
        var plan = WeatherEvent.plan(over: length, of: options.faults(seed), calm: .seconds(calm), using: &random)
        if options.chain {
            var random = world.simulation.random("outages")
            plan = WeatherEvent.merged(plan, WeatherEvent.outages(over: length, using: &random))
        }
        plan.removeAll { skipped.contains($0.number) }
        let began = ContinuousClock.now

        let first = world.simulation.now
        try world.start(phones: phones)
        let handles = SimulatedHandles(world)
        world.received = { handles.received($1, at: $0.deviceToken) }
        world.tokenChanged = { handles.tokenChanged(of: $0) }
        world.nodeEnded = { handles.nodeEnded() }
        handles.start()
        let senders = SimulatedSenders(world, handles: handles, pace: .seconds(pace))
        weather.schedule(plan) { recorder.record($0) }
        if options.flood {
            world.serviceJudge.floodedSince = first
            attackers.flood(for: length)
        }
        senders.start()
        let simulation = world.simulation
        let isOver = { [until] in world.judge.violation != nil || until.map { simulation.steps >= $0 } == true }
        simulation.afterStep = { if isOver() { simulation.pause() } }
        while world.elapsed < length, !isOver() { Self.runMinute(of: simulation) }
        drain(world, senders, isOver)
        let real = ContinuousClock.now - began
        print(world, senders, handles, attackers, recorder, plan, real)
        guard let violation = world.judge.violation else { return true }
        Terminal.error(
            "seed \(seed), step \(simulation.steps), at \(WeatherEvent.text(world.elapsed)): \(violation)\n"
                + "see it again, with the same options and --until \(simulation.steps) --trace FILE"
        )
        if report {
            let faults = plan.last { $0.start < world.elapsed }?.number ?? 0
            let days = Double(world.elapsed.components.seconds) / 86_400 + 0.01
            Terminal.print("FAILED \(faults) \(days) \(violation)")
        }
        return false
    }

    /// Runs a virtual minute. SIGALRM ends the process if code of the node blocks: the simulation has one thread, so
    /// nothing that the code waits for could happen.
    private static func runMinute(of simulation: Simulation) {
        alarm(maximumStep)
        simulation.run(for: .seconds(60))
        alarm(0)
    }

    /// Runs 90 minutes without new notifications and faults, and checks that each submission gets its outcome and that
    /// each phone still rings. Ends early if the run is over.
    private func drain(_ world: SimulatedWorld, _ senders: SimulatedSenders, _ isOver: () -> Bool) {
        senders.isActive = false
        world.serviceJudge.sendersStopped()
        // Faults that began near the end last up to 15 minutes, and a sender waits for up to 30.
        for _ in 0..<75 where !isOver() { Self.runMinute(of: world.simulation) }
        if !isOver() { senders.ringEveryPhone() }
        for _ in 0..<15 where !isOver() { Self.runMinute(of: world.simulation) }
        guard !isOver() else { return }
        if senders.waiting > 0 { world.judge.violated("\(senders.waiting) senders still wait for an outcome") }
        // Younger submissions are in order: nodes without credentials still pass on what they have stored for
        // strangers.
        let open = world.connections.open(for: Self.maximumSubmissionTime)
        if open > 0 { world.judge.violated("\(open) submissions have no outcome on connections that live") }
        world.judge.checkAll()
    }

    private func print(
        _ world: SimulatedWorld, _ senders: SimulatedSenders, _ handles: SimulatedHandles,
        _ attackers: SimulatedAttackers, _ trace: TraceRecorder, _ plan: [WeatherEvent], _ real: Duration
    ) {
        let seconds = Double(real.components.seconds) + Double(real.components.attoseconds) / 1e18
        let factor = Double(world.elapsed.components.seconds) / max(seconds, 0.001)
        Terminal.print(
            """
            seed \(seed): \(WeatherEvent.text(world.elapsed)) in \(Terminal.number(seconds, digits: 1)) s, \
            \(Terminal.number(factor, digits: 0)) × real time; \(plan.count) faults, \(world.kills) kills, \
            \(world.simulation.steps) steps
              \(world.judge.envelopes) envelopes, \(world.judge.delivered) received, \(world.judge.repeated) twice; \
            outcomes \(senders.outcomes.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")); \
            handles: \(handles.rotations) changed, \(handles.acceptedOverHTTP) requests over HTTP; \
            \(attackers.connections) attacking connections, \(attackers.unknownTokens) unknown tokens
              longest wait \(WeatherEvent.text(senders.maximumWait)), \
            among attacks only \(WeatherEvent.text(senders.longestBoundedWait)); trace \(trace.hash)
            """)
    }
}
