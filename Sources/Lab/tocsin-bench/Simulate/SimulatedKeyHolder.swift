// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import KeyHolder
import Providers
import Time
import World

/// The supervisor of a simulated node: the real `SupervisorState` decides, and this class starts the key holders and
/// keeps what they have issued.
final class SimulatedHolders: HolderSource, @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    private let simulation: Simulation
    /// The node's process, the name of its machine, and its configuration file.
    private let node: SimulatedProcess
    private let name: String
    private let configuration: String
    private var random: SimulatedRandomNumbers
    private var state = SupervisorState()
    private var starts: pid_t = 0
    private var all: [Weak] = []
    /// The key holders that have not ended.
    var holders: [SimulatedHolder] { all.compactMap(\.holder).filter { !$0.hasEnded } }

    private struct Weak { weak var holder: SimulatedHolder? }
    /// The memory that outlives a key holder: `IssuedTokens` as JSON.
    fileprivate var issued: [UInt8] = IssuedTokens().json
    /// Whether the supervisor has ended.
    var hasEnded = false

    /// How long a key holder takes to start.
    private static let startTime = Duration.milliseconds(20)...(.seconds(2))

    /// - Parameters:
    ///   - node: the node's process.
    ///   - configuration: the configuration file.
    init(_ simulation: Simulation, of node: SimulatedProcess, named name: String, configuration: String) {
        (self.simulation, self.node, self.name, self.configuration) = (simulation, node, name, configuration)
        random = simulation.random("\(name)'s key holders")
    }

    func startBlocking() throws(HolderProblem) -> any RunningHolder {
        guard let holder = startHolder() else { throw .hasEnded }
        return holder
    }

    func start(
        on loop: EventLoop, _ result: @escaping @Sendable (Result<any RunningHolder, HolderProblem>) -> Void
    ) {
        guard !hasEnded else { return result(.failure(.hasEnded)) }
        let holder = startHolder()
        simulation.schedule(after: random.duration(in: Self.startTime), in: node) {
            _ = Task(executorPreference: loop) {
                // If the supervisor refuses, the node sees a closed connection.
                result(holder.flatMap { $0.hasEnded ? nil : .success($0) } ?? .failure(.hasEnded))
            }
        }
    }

    /// Starts a key holder, unless the supervisor refuses.
    private func startHolder() -> SimulatedHolder? {
        guard state.received(.startHolder, now: .now) == [.start(.holder)] else { return nil }
        let holder = makeHolder()
        state.started(.holder, holder.id)
        return holder
    }

    /// The supervisor notices that a key holder has ended.
    fileprivate func ended(_ holder: pid_t) {
        if !hasEnded { _ = state.ended(holder, "by signal 9", isRegular: false) }
    }

    private func makeHolder() -> SimulatedHolder {
        starts += 1
        let process = simulation.process("\(name)'s key holder \(starts)", on: node.machine)
        process.clockSkew = node.clockSkew
        let holder = SimulatedHolder(starts, process, of: node, configuration, self, simulation)
        all.removeAll { $0.holder?.hasEnded ?? true }
        all.append(Weak(holder: holder))
        return holder
    }

    /// The wall clock of the machine has been moved.
    func clockMoved() { for holder in holders { holder.process.clockSkew = node.clockSkew } }

    /// Ends a key holder, now or with the next request.
    func killOne(_ end: SimulatedHolder.End, choice: Int) { one(choice)?.kill(end) }

    /// Stops a key holder for a time when it gets the next request, as SIGSTOP does.
    func stopOne(for time: Duration, choice: Int) { one(choice)?.stopAtNextRequest(for: time) }

    /// Lets the next requests be answered.
    func disarm() { for holder in holders { holder.disarm() } }

    private func one(_ choice: Int) -> SimulatedHolder? {
        let holders = holders
        return holders.isEmpty ? nil : holders[choice % holders.count]
    }

    /// Ends all key holders, because the node has ended.
    func end() {
        for holder in holders { holder.kill() }
    }

    fileprivate func nextAnswerTime() -> Duration { random.duration(in: .microseconds(50)...(.milliseconds(5))) }
}

/// A key holder with real keys, in a simulated process.
final class SimulatedHolder: RunningHolder, @unchecked Sendable {
    // Unchecked: a simulation has one thread.

    /// When a key holder ends.
    enum End { case now, beforeAnswer, afterAnswer }

    let id: pid_t
    let process: SimulatedProcess
    let report: HolderReport
    private let node: SimulatedProcess
    private let simulation: Simulation
    private let memory: SimulatedHolders
    private var keys: HeldKeys
    private var end: End?
    /// How long the next request stops the process; `nil` for not at all.
    private var stop: Duration?
    /// The requests without an answer.
    private var waiting: [(number: Int, answered: (Result<[UInt8], HolderProblem>) -> Void)] = []
    private var lastNumber = 0

    private static let answerTimeout = Duration.seconds(1)

    fileprivate init(
        _ id: pid_t, _ process: SimulatedProcess, of node: SimulatedProcess, _ configuration: String,
        _ memory: SimulatedHolders, _ simulation: Simulation
    ) {
        self.id = id
        (self.process, self.node, self.memory, self.simulation) = (process, node, memory, simulation)
        var keys = HeldKeys(issued: Self.decoded(memory.issued))
        report = Self.decoded(keys.load(configuration).json)
        self.keys = keys
    }

    /// The node has dropped the connection, at which a key holder ends.
    deinit { memory.ended(id) }

    /// Decodes what another process has written.
    private static func decoded<Message: Decodable>(_ json: [UInt8]) -> Message {
        guard let message = Message(ifJSON: json) else { preconditionFailure("a process reads what another wrote") }
        return message
    }

    private(set) var hasEnded = false

    /// Ends the process now, or with the next request.
    func kill(_ end: End = .now) {
        guard end == .now else { return self.end = end }
        simulation.kill(process)
        memory.ended(id)
        failAll(.hasEnded)
    }

    /// Stops the process for a time when it gets the next request.
    func stopAtNextRequest(for time: Duration) { stop = time }

    /// Forgets what was to happen with the next request.
    func disarm() { (end, stop) = (nil, nil) }

    private func failAll(_ problem: HolderProblem) {
        hasEnded = true
        let failed = waiting
        waiting = []
        for request in failed { request.answered(.failure(problem)) }
    }

    func ask(
        _ request: HolderRequest, on loop: EventLoop,
        _ result: @escaping @Sendable (Result<[UInt8], HolderProblem>) -> Void
    ) {
        guard !hasEnded else { return pass(.failure(.hasEnded), to: loop, result) }
        lastNumber += 1
        let number = lastNumber
        waiting.append((number, { [self] in pass($0, to: loop, result) }))
        if let stop {
            process.stoppedUntil = simulation.now + stop
            self.stop = nil
        }
        simulation.schedule(after: memory.nextAnswerTime(), in: process) { [self] in
            guard end != .beforeAnswer else { return kill() }
            let bytes = answer(to: request)
            guard end != .afterAnswer else { return kill() }
            guard let place = waiting.firstIndex(where: { $0.number == number }) else { return }
            waiting.remove(at: place).answered(.success(bytes))
        }
        // A request without an answer in time ends the connection, as in `HolderConnection`.
        simulation.schedule(after: Self.answerTimeout, in: node) { [self] in
            guard let place = waiting.firstIndex(where: { $0.number == number }) else { return }
            waiting.remove(at: place).answered(.failure(.doesNotAnswer))
            failAll(.hasEnded)
        }
    }

    private func pass(
        _ answer: Result<[UInt8], HolderProblem>, to loop: EventLoop,
        _ result: @escaping @Sendable (Result<[UInt8], HolderProblem>) -> Void
    ) {
        guard !node.isKilled else { return }
        simulation.run(as: node) { _ = Task(executorPreference: loop) { result(answer) } }
    }

    private func answer(to request: HolderRequest) -> [UInt8] {
        let request: HolderRequest = Self.decoded(request.json)
        keys.issued.merge(Self.decoded(memory.issued))
        defer { memory.issued = keys.issued.json }
        return keys.answer(request, at: ClockReading(monotonic: .now, unix: UnixTime.now)).bytes ?? []
    }

    func askBlocking(_ request: HolderRequest) -> Result<[UInt8], HolderProblem> {
        hasEnded ? .failure(.hasEnded) : .success(answer(to: request))
    }
}
