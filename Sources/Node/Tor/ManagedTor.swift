// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Glibc
import Time

/// The node's own tor, which serves the onion. Either it is a child process, restarted whenever it exits and stopped with
/// the node; or systemd runs it as another user, and the node follows it over its control socket (``TorSettings/runner``).
///
/// Three mechanisms prevent an orphaned child: ``stop()``; TAKEOWNERSHIP, by which tor exits as soon as its control
/// connection closes, even if this process is killed; and, until that connection is open,
/// `__OwningControllerProcess`, by which tor checks every few seconds that this process is alive.
///
/// A started instance keeps itself alive until it is stopped.
package actor ManagedTor {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Pause between attempts to connect to the control socket of a starting tor.
    private static let controlPause = Duration.milliseconds(100)
    /// How long tor may run without a control connection.
    private static let controlTimeout = Duration.seconds(60)
    /// The interval of the checks whether tor still answers, and the time that tor has for an answer. They are
    /// necessary because a tor that hangs keeps its connections.
    package static let checkInterval = Duration.seconds(60)
    package static let checkTimeout = Duration.seconds(30)
    /// How long tor may take to exit after the loss of its control connection.
    private static let exitGrace = Duration.seconds(5)
    /// Maximum number of queued process events; beyond it, the oldest are dropped.
    private static let maximumWaiting = 1000

    private let settings: TorSettings
    private let services: [TorConfiguration.Service]
    private let extra: [String]
    private let check: (interval: Duration, timeout: Duration)
    private let observe: @Sendable (TorStatus) -> Void

    private var supervision = TorSupervision()
    /// tor, if it is a child process.
    private var process: ChildProcess?
    /// The control connection to a tor that systemd runs.
    private var control: TorControl?
    /// The number of the current start; results that belong to an earlier one are ignored.
    private var generation = 0
    private var timer: Timer?
    /// The pending query for the program's version and modules.
    private var buildQuery: Task<TorBuild, any Error>?
    /// How long a program that does not respond may delay ``stop()``.
    private static let launchCancelTimeout = Duration.seconds(2)
    /// The state last written to the status file.
    private var written: (pid: Int32?, descriptor: OnionDescriptor, onions: [TorStatus.Onion]) = (nil, .none, [])
    private var stopWaiters: [CheckedContinuation<Void, Never>] = []

    /// Creates a tor that is not started yet.
    /// - Parameters:
    ///   - services: the onions: ``TorSettings/services(tnp:http:)``.
    ///   - extra: further lines for the torrc, e.g. those of a private network.
    ///   - check: the interval of the checks whether tor still answers, and the time for an answer.
    ///   - observe: called on `loop` after each change of the status.
    package init(
        _ settings: TorSettings, services: [TorConfiguration.Service], extra: [String] = [],
        check: (interval: Duration, timeout: Duration) = (checkInterval, checkTimeout), on loop: EventLoop,
        observe: @escaping @Sendable (TorStatus) -> Void
    ) {
        self.settings = settings
        self.services = services
        self.extra = extra
        self.check = check
        self.loop = loop
        self.observe = observe
    }

    /// The current status.
    package var status: TorStatus { supervision.status }

    /// Starts tor and restarts it whenever it exits. Returns at once; failures are reported in the status and retried.
    package func start() {
        loop.keep(self)
        handle(.start)
    }

    /// Stops a child process and waits until it has exited: a few seconds at most. A tor that systemd runs goes on.
    package func stop() async {
        buildQuery?.cancel()
        handle(.stop)
        guard status.phase != .stopped else { return }
        let limit = Timer(on: loop, after: Self.launchCancelTimeout) { [unowned self] in
            assumeIsolated { $0.abandonStart() }
        }
        await withCheckedContinuation { stopWaiters.append($0) }
        limit.stop()
    }

    /// Abandons a program that neither responds nor exits.
    private func abandonStart() {
        guard status.phase == .starting else { return }
        generation += 1
        handle(.startFailed(.unusable(binary: settings.binary, reason: "it did not respond")))
    }

    private func handle(_ event: TorSupervision.Event) {
        for action in supervision.handle(event, at: .now) {
            switch action {
            case .start: launch()
            case .stop: terminate()
            case .startTimer(let time): wait(time)
            case .report: report()
            }
        }
    }

    private func report() {
        // A tor that systemd runs goes on, and a later node needs the states.
        let goesOn = settings.runner == .service && (status.phase == .stopped || status.phase == .stopping)
        if !goesOn, (status.pid, status.descriptor, status.onions) != written {
            written = (status.pid, status.descriptor, status.onions)
            TorStatusFile(settings).write(status)
        }
        observe(status)
        guard status.phase == .stopped else { return }
        timer = nil
        loop.letGo(of: self)
        let waiting = stopWaiters
        stopWaiters = []
        for continuation in waiting { continuation.resume() }
    }

    private func wait(_ time: Duration) {
        let timer = timer ?? Timer(on: loop) { [unowned self] in assumeIsolated { $0.handle(.timerFired) } }
        timer.start(after: time)
        self.timer = timer
    }

    // MARK: The process

    private func launch() {
        generation += 1
        let generation = generation
        switch settings.runner {
        case .node: Task { await run(generation) }
        case .service: Task { await attach(generation) }
        }
    }

    private func run(_ generation: Int) async {
        do {
            let buildQuery = Task { [binary = settings.binary] in try await TorBuild(of: binary, path: Self.path) }
            self.buildQuery = buildQuery
            let build = try await buildQuery.value
            guard generation == self.generation else { return }
            self.buildQuery = nil
            try settings.writeFiles(for: services, build, controller: getpid(), extra: extra)
        } catch {
            guard generation == self.generation else { return }
            return handle(.startFailed(error as? TorProblem ?? .badSettings("\(error)")))
        }
        let (events, feed) = AsyncStream.makeStream(
            of: ChildProcess.Event.self, bufferingPolicy: .bufferingNewest(Self.maximumWaiting))
        process = ChildProcess(
            settings.binary,
            ["--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", settings.torrc, "--hush"]
        ) { event in
            feed.yield(event)
            if case .terminated = event { feed.finish() }
        }
        var isStarted = false
        for await event in events {
            switch event {
            case .started(let pid):
                isStarted = true
                handle(.started(pid: pid))
                Task { await listen(generation) }
            case .line(let text):
                if let line = TorLogLine(text) { handle(.logged(line)) }
            case .terminated(let status):
                process = nil
                handle(
                    isStarted
                        ? .exited(status: status) : .startFailed(.unusable(binary: settings.binary, reason: status)))
            }
        }
    }

    private static var path: String? { getenv("PATH").map { String(cString: $0) } }

    private func terminate() {
        let process = process
        Task { await process?.terminate() }
        control?.close()
    }

    // MARK: The control connection

    /// Whether the process of this start is the current one and runs.
    private func isRunning(_ generation: Int) -> Bool { generation == self.generation && status.phase == .running }

    /// Checks regularly, over a new connection each time, whether tor still answers, and reports the control connection
    /// as lost if it does not.
    private func watch(_ generation: Int) async {
        while isRunning(generation) {
            await loop.sleep(for: check.interval)
            guard isRunning(generation), await !answers(), isRunning(generation) else { continue }
            handle(.controlLost)
        }
    }

    private func answers() async -> Bool {
        do {
            let control = try await TorControl.open(settings, within: check.timeout, on: loop)
            defer { control.close() }
            try await control.send(ControlFilter.bootstrap, within: check.timeout)
            return true
        } catch {
            return false
        }
    }

    private func listen(_ generation: Int) async {
        let deadline = MonotonicTime.now + Self.controlTimeout
        while isRunning(generation), MonotonicTime.now < deadline {
            if let control = try? await TorControl.open(settings, on: loop) {
                if (try? await control.send("TAKEOWNERSHIP")) != nil { await follow(control, generation) }
                break
            }
            await loop.sleep(for: Self.controlPause)
        }
        await loop.sleep(for: Self.exitGrace)
        if isRunning(generation) { handle(.controlLost) }
    }

    /// Connects to a tor that systemd runs, and handles its events until the connection closes.
    private func attach(_ generation: Int) async {
        do {
            let control = try await TorControl.open(settings, on: loop)
            let pid = RunningTor.pid(in: try await control.send(ControlFilter.pid))
            guard generation == self.generation else { return control.close() }
            guard let pid else { throw TorError("it does not say its process id") }
            let recorded = TorStatusFile(settings).descriptors(at: pid)
            self.control = control
            handle(.started(pid: pid))
            await follow(control, generation) {
                identify()
                handle(.recorded(recorded))
            }
        } catch {
            guard generation == self.generation else { return }
            return handle(.startFailed(.unreachable(settings.controlSocket, reason: "\(error)")))
        }
        guard generation == self.generation else { return }
        control = nil
        handle(.exited(status: "its control connection has closed"))
    }

    /// Handles tor's events until the connection closes.
    /// - Parameter begin: called as soon as the progress of the bootstrap is known.
    private func follow(_ control: TorControl, _ generation: Int, begin: () -> Void = {}) async {
        Task { await watch(generation) }
        do {
            // The node reads the log of a child process from its output.
            try await control.send(settings.runner == .service ? ControlFilter.events : "SETEVENTS \(TorEvent.names)")
            for line in try await control.send(ControlFilter.bootstrap) { handleLine(line, generation) }
            begin()
            while isRunning(generation) { handleLine(try await control.nextEvent(), generation) }
        } catch {
            // The connection is lost. If a child process has exited too, it reports its termination.
        }
    }

    private func handleLine(_ line: String, _ generation: Int) {
        guard isRunning(generation) else { return }
        if let line = TorLogLine(event: line) { return handle(.logged(line)) }
        guard let event = TorEvent(line: line) else { return }
        if case .uploading = event, status.address == nil || status.onions.count < settings.onions.count { identify() }
        handle(.control(event))
    }

    /// Reads the addresses of the onions.
    private func identify() {
        func address(_ directory: String) -> OnionAddress? { try? OnionAddress(hostnameIn: directory) }
        guard let first = address("\(settings.directory)/onion") else { return }
        handle(
            .identified(
                first: first,
                others: settings.onions.compactMap { onion in
                    address(settings.directory(of: onion.name)).map { TorStatus.Onion(name: onion.name, address: $0) }
                }))
    }
}
