// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Glibc
import Time

/// The node's own tor: a process that serves the onion, started again whenever it ends, and ended with the node.
///
/// Three things see to it that no tor is left behind: ``stop()``; tor itself, which ends as soon as the control
/// connection to us does (TAKEOWNERSHIP), so also when we are killed; and, before that connection stands, tor's own look
/// every few seconds at whether we live (`__OwningControllerProcess`).
///
/// One that was started lives until it is stopped.
package actor ManagedTor {
    private nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// Between tries to reach the control socket of a tor that is just starting.
    private static let controlPause = Duration.milliseconds(100)
    /// How long a tor may run without one.
    private static let controlTimeout = Duration.seconds(60)
    /// How long after the loss of its control connection tor may take to end by itself.
    private static let farewell = Duration.seconds(5)
    /// Lines and other events that wait to be looked at; of more, the oldest go.
    private static let mostWaiting = 1000

    private let settings: TorSettings
    private let ports: [TorConfiguration.Port]
    private let extra: [String]
    private let observe: @Sendable (TorStatus) -> Void

    private var supervision = TorSupervision()
    private var process: ChildProcess?
    /// Counts the processes: what an earlier one says late does not matter.
    private var generation = 0
    private var timer: Timer?
    /// The question to the program which tor it is, while that is open.
    private var inquiry: Task<TorBuild, any Error>?
    /// How long a program that hangs may delay the end.
    private static let longestFarewell = Duration.seconds(2)
    /// What the status file says.
    private var written: (pid: Int32?, descriptor: OnionDescriptor) = (nil, .none)
    /// It itself while it runs: what hangs on the loop must not be let go of on another thread.
    private var whileRunning: ManagedTor?
    private var whenStopped: [CheckedContinuation<Void, Never>] = []

    /// A tor that does not run yet.
    /// - Parameters:
    ///   - ports: where the onion leads: ``TorSettings/ports(tnp:http:)``.
    ///   - extra: further lines for its torrc, e.g. those of a private network.
    ///   - observe: is told on `loop` of each change.
    package init(
        _ settings: TorSettings, ports: [TorConfiguration.Port], extra: [String] = [], on loop: EventLoop,
        observe: @escaping @Sendable (TorStatus) -> Void
    ) {
        self.settings = settings
        self.ports = ports
        self.extra = extra
        self.loop = loop
        self.observe = observe
    }

    /// How it is.
    package var status: TorStatus { supervision.status }

    /// Starts it, and again whenever it ends. Returns at once; whatever goes wrong is in the status, and tried again.
    package func start() {
        whileRunning = self
        handle(.begin)
    }

    /// Ends it, by its pid, and waits until it has ended: a few seconds at most.
    package func stop() async {
        inquiry?.cancel()
        handle(.end)
        guard status.phase != .stopped else { return }
        let limit = Timer(on: loop) { [unowned self] in assumeIsolated { $0.giveUpStart() } }
        limit.start(after: Self.longestFarewell)
        await withCheckedContinuation { whenStopped.append($0) }
        limit.stop()
    }

    /// The program neither answers nor ends: nothing of it is waited for.
    private func giveUpStart() {
        guard status.phase == .starting else { return }
        generation += 1
        handle(.notStarted(.unusable(binary: settings.binary, reason: "it did not answer")))
    }

    /// Has tor read `authorized_clients` anew.
    package func reload() {
        guard status.phase == .running, let pid = status.pid else { return }
        kill(pid, SIGHUP)
    }

    private func handle(_ event: TorSupervision.Event) {
        for action in supervision.handle(event, at: .now) {
            switch action {
            case .start: launch()
            case .stop: end()
            case .wait(let time): wait(time)
            case .report: report()
            }
        }
    }

    private func report() {
        if (status.pid, status.descriptor) != written {
            written = (status.pid, status.descriptor)
            TorStatusFile(directory: settings.directory).write(status)
        }
        observe(status)
        guard status.phase == .stopped else { return }
        timer = nil
        whileRunning = nil
        let waiting = whenStopped
        whenStopped = []
        for continuation in waiting { continuation.resume() }
    }

    private func wait(_ time: Duration) {
        let timer = timer ?? Timer(on: loop) { [unowned self] in assumeIsolated { $0.handle(.timePassed) } }
        timer.start(after: time)
        self.timer = timer
    }

    // MARK: The process

    private func launch() {
        generation += 1
        let generation = generation
        Task { await run(generation) }
    }

    private func run(_ generation: Int) async {
        do {
            let inquiry = Task { [binary = settings.binary] in try await TorBuild(of: binary, path: Self.path) }
            self.inquiry = inquiry
            let build = try await inquiry.value
            guard generation == self.generation else { return }
            self.inquiry = nil
            try prepare(build)
        } catch {
            guard generation == self.generation else { return }
            return handle(.notStarted(error as? TorProblem ?? .badSettings("\(error)")))
        }
        let (events, feed) = AsyncStream.makeStream(
            of: ChildProcess.Event.self, bufferingPolicy: .bufferingNewest(Self.mostWaiting))
        process = ChildProcess(
            settings.binary,
            ["--defaults-torrc", "/nonexistent", "--ignore-missing-torrc", "-f", torrc, "--hush"]
        ) { event in
            feed.yield(event)
            if case .ended = event { feed.finish() }
        }
        var isStarted = false
        for await event in events {
            switch event {
            case .started(let pid):
                isStarted = true
                handle(.started(pid: pid))
                Task { await listen(generation) }
            case .line(let text):
                if let line = TorLogLine(text) { handle(.said(line)) }
            case .ended(let status):
                process = nil
                handle(
                    isStarted
                        ? .exited(status: status) : .notStarted(.unusable(binary: settings.binary, reason: status)))
            }
        }
    }

    private static var path: String? { getenv("PATH").map { String(cString: $0) } }

    private var torrc: String { "\(settings.directory)/torrc" }

    private func prepare(_ build: TorBuild) throws {
        let configuration = try TorConfiguration(
            settings, ports: ports, controller: getpid(), hasProofOfWork: build.hasProofOfWork, extra: extra)
        try OwnedFile.makeDirectory(settings.directory)
        // An onion's keys lie below: tor refuses to work where others may look.
        guard chmod(settings.directory, 0o700) == 0 else {
            throw OnionFileError.system("close to others", settings.directory, errno)
        }
        try OwnedFile.replace(torrc, with: Array(configuration.text.utf8).span.bytes)
    }

    private func end() {
        let process = process
        Task { await process?.end() }
    }

    // MARK: The control connection

    /// Whether this process is the present one, and is to live.
    private func isRunning(_ generation: Int) -> Bool { generation == self.generation && status.phase == .running }

    private func listen(_ generation: Int) async {
        let deadline = MonotonicTime.now + Self.controlTimeout
        while isRunning(generation), MonotonicTime.now < deadline {
            if let control = await TorControl.open(directory: settings.directory, on: loop) {
                await follow(control, generation)
                break
            }
            await loop.sleep(for: Self.controlPause)
        }
        await loop.sleep(for: Self.farewell)
        if isRunning(generation) { handle(.controlLost) }
    }

    /// Tells of tor's events until the connection ends.
    private func follow(_ control: TorControl, _ generation: Int) async {
        do {
            try await control.ask("TAKEOWNERSHIP")
            try await control.ask("SETEVENTS \(TorEvent.names)")
            for line in try await control.ask("GETINFO status/bootstrap-phase") { tell(line, generation) }
            while isRunning(generation) { tell(try await control.nextEvent(), generation) }
        } catch {
            // It is over; whether tor is, too, is seen by its process.
        }
    }

    private func tell(_ line: String, _ generation: Int) {
        guard isRunning(generation), let event = TorEvent(line: line) else { return }
        handle(.control(event))
    }
}
