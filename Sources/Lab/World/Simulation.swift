// SPDX-License-Identifier: Apache-2.0

import EventLoop
import HeapModule
import StandIns
import Time

/// Virtual time, event loops without threads, and a network without sockets. Everything on the loops of a simulation
/// runs in one thread, in an order that only its seed determines. An hour without events takes no real time.
///
/// A process of the operating system has one simulation, which replaces its clocks and random bytes.
package final class Simulation: @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// The clocks, which all simulated processes share.
    package let clocks: SimulatedClocks
    /// The network between the processes.
    package private(set) var network: SimulatedNetwork!
    /// A process for events that belong to no machine; nothing kills it.
    package let background: SimulatedProcess
    /// The process whose code runs, or ran last.
    package private(set) var current: SimulatedProcess { didSet { clocks.skew = current.clockSkew } }
    /// The number of turns of loops and of events that have run.
    package private(set) var steps: UInt64 = 0
    /// Called after each turn of a loop and each event, with the simulation between two steps.
    package var afterStep: (() -> Void)?

    private let seed: UInt64
    private var events = Heap<Event>()
    private var lastSerial: UInt64 = 0
    /// The loops with work, in the order in which they got it.
    private var busy: [(loop: EventLoop, process: SimulatedProcess)] = []

    /// The time that a turn of a loop takes.
    private static let turnTime = Duration.microseconds(20)
    /// The number of turns without any event between them after which a loop counts as spinning.
    private static let maximumSpin = 1_000_000

    private struct Event: Comparable {
        let time: MonotonicTime
        let serial: UInt64
        let process: SimulatedProcess
        let body: () -> Void

        static func < (one: Event, other: Event) -> Bool {
            one.time == other.time ? one.serial < other.serial : one.time < other.time
        }
        static func == (one: Event, other: Event) -> Bool { one.serial == other.serial }
    }

    /// Starts virtual time.
    /// - Parameters:
    ///   - seed: determines everything that happens.
    ///   - unix: the wall clock at the start: Unix time in seconds.
    package init(seed: UInt64, unix: Int64 = 1_800_000_000) {
        self.seed = seed
        // Not 0: code may subtract from the time.
        let start = MonotonicTime(nanoseconds: 1_000_000_000_000)
        clocks = SimulatedClocks(monotonic: start, unix: unix)
        background = SimulatedProcess(on: "", random: SimulatedRandomNumbers(seed: seed, name: "simulation"))
        current = background
        background.simulation = self
        network = SimulatedNetwork(self, random: SimulatedRandomNumbers(seed: seed, name: "network"))
        SimulatedRandom.use { [unowned self] in current.random.fill($0) }
        StrayJobs.take(for: EventLoop(in: current, name: "stray jobs"))
    }

    /// The virtual time.
    package var now: MonotonicTime { clocks.monotonic }

    /// A new process. Its random numbers depend on the seed and its name only, so that leaving out other processes does
    /// not change them.
    /// - Parameter machine: where the process runs, for cuts of the network.
    package func process(_ name: String, on machine: String = "") -> SimulatedProcess {
        let process = SimulatedProcess(on: machine, random: SimulatedRandomNumbers(seed: seed, name: name))
        process.simulation = self
        return process
    }

    /// A source of random numbers that depends on the seed and this name only.
    package func random(_ name: String) -> SimulatedRandomNumbers { SimulatedRandomNumbers(seed: seed, name: name) }

    /// A loop of this process.
    package func loop(in process: SimulatedProcess, name: String) -> EventLoop {
        EventLoop(in: process, name: name)
    }

    /// Runs `body` as code of `process`, which must not have been killed.
    package func run<Result>(as process: SimulatedProcess, _ body: () throws -> Result) rethrows -> Result {
        let before = current
        current = process
        defer { current = before }
        return try body()
    }

    /// Calls `body` after `delay` as code of a process, the current one if `nil`, unless it is killed before.
    package func schedule(
        after delay: Duration, in process: SimulatedProcess? = nil, _ body: @escaping () -> Void
    ) {
        schedule(at: now + delay, in: process, body)
    }

    /// Calls `body` at `time` as code of a process, the current one if `nil`, unless it is killed before.
    package func schedule(at time: MonotonicTime, in process: SimulatedProcess? = nil, _ body: @escaping () -> Void) {
        lastSerial += 1
        events.insert(Event(time: time, serial: lastSerial, process: process ?? current, body: body))
    }

    /// Queues a loop for its next turn.
    func enqueue(_ loop: EventLoop, of process: SimulatedProcess) { busy.append((loop, process)) }

    /// Ends a process at once, as SIGKILL does: no code of it runs again, and its peers see its connections end.
    package func kill(_ process: SimulatedProcess) {
        process.isKilled = true
        network.closeAll(of: process)
    }

    /// Ends a process at once, as a power failure does: its peers learn nothing until they send to it again.
    package func cutPower(of process: SimulatedProcess) {
        process.isKilled = true
        process.hasPower = false
    }

    /// Runs for this virtual time, or until ``pause()`` is called.
    package func run(for duration: Duration) {
        let end = now + duration
        isPaused = false
        var turnsSinceEvent = 0
        while !isPaused {
            if let next = events.min, next.time <= now || (busy.isEmpty && next.time <= end) {
                events.removeMin()
                clocks.monotonic = max(now, next.time)
                guard !next.process.isKilled else { continue }
                if let end = next.process.stoppedUntil, end > now {
                    schedule(at: end, in: next.process, next.body)
                    continue
                }
                run(as: next.process, next.body)
                steps += 1
                turnsSinceEvent = 0
                afterStep?()
            } else if !busy.isEmpty {
                let (loop, process) = busy.removeFirst()
                guard !process.isKilled else { continue }
                if let end = process.stoppedUntil, end > now {
                    schedule(at: end, in: process) { self.enqueue(loop, of: process) }
                    continue
                }
                run(as: process) { loop.runTurn() }
                clocks.monotonic = now + Self.turnTime
                steps += 1
                turnsSinceEvent += 1
                precondition(turnsSinceEvent < Self.maximumSpin, "a loop spins")
                afterStep?()
            } else {
                clocks.monotonic = max(now, end)
                return
            }
            if now >= end { return }
        }
    }

    private var isPaused = false

    /// Makes ``run(for:)`` return after the current step.
    package func pause() { isPaused = true }
}

/// Loops that are killed together, like a process of an operating system.
package final class SimulatedProcess: LoopWorld, @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// The simulation. It sets this property, and outlives the process.
    unowned var simulation: Simulation!

    /// The machine on which it runs.
    package let machine: String
    /// Until when no code of the process runs, as after SIGSTOP or in a paused virtual machine.
    package var stoppedUntil: MonotonicTime?
    /// Whether the process was killed.
    package fileprivate(set) var isKilled = false
    /// Whether the process's machine has power; without power it does not even refuse connections. Set it to `true`
    /// when the machine is on again.
    package var hasPower = true
    /// By how many milliseconds the wall clock of the process's machine is ahead. Takes effect when code of the process
    /// runs next.
    package var clockSkew: Int64 = 0
    /// The process's source of randomness.
    var random: SimulatedRandomNumbers
    /// How many more operations run before ``atOperation`` is called; `nil` for no call.
    package var operationsLeft: Int?
    /// Called, once, before an operation of the process.
    package var atOperation: (() -> Void)?

    fileprivate init(on machine: String, random: SimulatedRandomNumbers) {
        (self.machine, self.random) = (machine, random)
    }

    package func needsTurn(_ loop: EventLoop) { simulation.enqueue(loop, of: self) }

    package func schedule(after delay: Duration, _ body: @escaping () -> Void) {
        simulation.schedule(after: delay, in: self, body)
    }

    package func listen(
        at endpoint: Endpoint, on loop: EventLoop, accept: @escaping (any StreamSocket) -> Void
    ) -> (any WorldListener)? {
        let listener = SimulatedListener(in: self, on: loop, accept: accept)
        return simulation.network.listen(at: endpoint, listener) ? listener : nil
    }

    package func connect(to endpoint: Endpoint, on loop: EventLoop) -> any StreamSocket {
        let socket = SimulatedSocket(in: self, on: loop)
        simulation.network.connect(socket, to: endpoint)
        return socket
    }

    /// Counts an operation whose effect others can see: a write to the network or to a disk.
    /// - Returns: whether it has an effect; `false` if the process has been killed.
    package func operates() -> Bool {
        if let left = operationsLeft {
            operationsLeft = left > 0 ? left - 1 : nil
            if left == 0 { atOperation?() }
        }
        return !isKilled
    }
}

/// Random numbers that depend on a seed and a name only.
package struct SimulatedRandomNumbers: RandomNumberGenerator, Sendable {
    private var numbers: SplitMix64

    init(seed: UInt64, name: String) {
        var hash = FNV1a()
        hash.add(name.utf8)
        var first = SplitMix64(seed: seed ^ hash.value)
        numbers = SplitMix64(seed: first.next())
    }

    /// 64 random bits.
    package mutating func next() -> UInt64 { numbers.next() }

    /// Fills the buffer with random bytes.
    mutating func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        var word: UInt64 = 0
        for index in bytes.indices {
            if index % 8 == 0 { word = next() }
            bytes[index] = UInt8(truncatingIfNeeded: word)
            word >>= 8
        }
    }

    /// Whether an event of this probability happens.
    package mutating func happens(perMille: Int) -> Bool { perMille > 0 && Int(next() % 1000) < perMille }

    /// A random duration in this range.
    package mutating func duration(in range: ClosedRange<Duration>) -> Duration {
        let (low, high) = (range.lowerBound.wholeNanoseconds, range.upperBound.wholeNanoseconds)
        return .nanoseconds(Int64(low + (high > low ? next() % (high - low + 1) : 0)))
    }
}
