// SPDX-License-Identifier: Apache-2.0

import Cryptography
import EventLoop
import Time

/// Decides when to start, stop and restart the node's tor, and keeps its status. It contains no process, socket or
/// clock: events and the time go in, actions come out.
///
///     stopped ─start─▶ starting ─started─▶ running ─stop─▶ stopping ─exited─▶ stopped
///                        ▲   │               │
///                        │   └─startFailed─┐ │ exited
///                        └──timerFired── waiting
///
/// `controlLost` leads from running to stopping, and from there to waiting; `stop` leads from waiting to stopped.
package struct TorSupervision: Sendable {
    /// An event that the supervision reacts to.
    package enum Event: Equatable, Sendable {
        /// The owner starts the onion.
        case start
        /// The process runs.
        case started(pid: Int32)
        /// The process could not be started.
        case startFailed(TorProblem)
        /// The addresses of the onions, known once tor has made their keys: of the first one, and of the further ones.
        case identified(first: OnionAddress, others: [TorStatus.Onion])
        /// The states of the descriptors that an earlier node has recorded for this process of tor, by the names of the
        /// onions; the first one has none.
        case recorded([ClientName?: OnionDescriptor])
        /// tor has sent an event over its control port.
        case control(TorEvent)
        /// tor has written a line to its log.
        case logged(TorLogLine)
        /// The control connection could not be opened or was lost while the process ran, or tor did not answer a check.
        case controlLost
        /// The process has exited; or systemd runs tor, and the control connection has closed.
        case exited(status: String)
        /// The timer of the last ``Action/startTimer(_:)`` has fired.
        case timerFired
        /// The owner stops the onion.
        case stop
    }

    /// An action for the owner to perform.
    package enum Action: Equatable, Sendable {
        /// Start the process; answered by ``Event/started(pid:)`` or ``Event/startFailed(_:)``, and later by
        /// ``Event/exited(status:)``.
        case start
        /// Stop the process, gracefully at first; answered by ``Event/exited(status:)``.
        case stop
        /// Send ``Event/timerFired`` after this time; replaces an earlier timer.
        case startTimer(Duration)
        /// Report the changed status.
        case report
    }

    /// The pause before a restart: 1, 2, 4 … seconds after failures in a row, at most ``maximumPause``.
    static let firstPause = Duration.seconds(1)
    static let maximumPause = Duration.seconds(60)
    /// A process that has run for this long resets the backoff.
    static let backoffResetTime = Duration.seconds(600)
    /// How long tor may make no progress before the status reports a problem.
    static let progressTimeout = Duration.seconds(300)

    /// The status of tor.
    package private(set) var status = TorStatus()
    private var isWanted = false
    private var uploads: [OnionAddress: DescriptorUploads] = [:]
    private var runningSince: MonotonicTime?
    /// The warning in tor's log that most likely names the reason if the running process exits.
    private var reason: TorLogLine?
    // `next(random: 1)` omits the jitter: there is only one tor, so restarts cannot coincide.
    private var backoff = Backoff(base: Self.firstPause, cap: Self.maximumPause)

    /// Creates the supervision of a stopped tor.
    package init() {}

    /// Processes an event.
    /// - Returns: the actions to perform, in this order.
    package mutating func handle(_ event: Event, at now: MonotonicTime) -> [Action] {
        let before = status
        let actions = decide(event, at: now)
        return status == before ? actions : actions + [.report]
    }

    private mutating func decide(_ event: Event, at now: MonotonicTime) -> [Action] {
        switch event {
        case .start:
            guard !isWanted else { return [] }
            isWanted = true
            // While a process is still stopping, its exit leads to the new start, after a pause.
            return status.phase == .stopped ? start() : []
        case .stop:
            isWanted = false
            return stop()
        case .started(let pid):
            guard status.phase == .starting else { return [] }
            status.phase = .running
            status.pid = pid
            reason = nil
            if case .clock? = status.problem { status.problem = nil }
            runningSince = now
            return isWanted ? [.startTimer(Self.progressTimeout)] : stop()
        case .startFailed(let trouble):
            guard status.phase == .starting else { return [] }
            return ended(trouble)
        case .identified(let first, let others):
            status.address = first
            status.onions = others
            return []
        case .recorded(let descriptors): return restore(descriptors)
        case .control(let event): return observe(event)
        case .logged(let line):
            if line.severity == .warn || line.severity == .err { warned(line) }
            // If the clock is only slightly wrong, tor warns and the onion stays reachable.
            if line.isAboutClock, !status.isReachable { status.problem = .clock(line.text) }
            return []
        case .controlLost:
            guard status.phase == .running else { return [] }
            status.problem = .unresponsive
            return stop()
        case .exited(let exit): return exited(exit, at: now)
        case .timerFired: return timePassed()
        }
    }

    private mutating func start() -> [Action] {
        status.phase = .starting
        return [.start]
    }

    private mutating func stop() -> [Action] {
        switch status.phase {
        case .running:
            status.phase = .stopping
            return [.stop]
        case .waiting:
            status.phase = .stopped
            return []
        // A starting process is stopped as soon as it runs.
        case .stopped, .starting, .stopping: return []
        }
    }

    private mutating func exited(_ exit: String, at now: MonotonicTime) -> [Action] {
        guard status.phase == .running || status.phase == .stopping else { return [] }
        if let runningSince, now - runningSince >= Self.backoffResetTime { backoff.reset() }
        let wasRequested = status.phase == .stopping
        return ended(wasRequested ? status.problem : .exited(status: exit, warning: reason?.text))
    }

    /// Keeps a warning as the likely reason for an exit. Until tor's bootstrap begins, the first warning names the
    /// cause and the others its consequences; later warnings are independent of each other.
    private mutating func warned(_ line: TorLogLine) {
        status.lastWarning = line.text
        if let reason, !reason.isGeneral, status.bootstrap == 0 || line.isGeneral { return }
        reason = line
    }

    private mutating func ended(_ trouble: TorProblem?) -> [Action] {
        status.pid = nil
        status.bootstrap = 0
        status.descriptor = .none
        for index in status.onions.indices { status.onions[index].descriptor = .none }
        uploads = [:]
        runningSince = nil
        guard isWanted else {
            status.phase = .stopped
            status.problem = nil
            return []
        }
        status.phase = .waiting
        // A wrong clock explains more than the exit of tor, so it remains the reported problem.
        if case .clock? = status.problem, case .exited? = trouble {} else { status.problem = trouble }
        return [.startTimer(backoff.next(random: 1))]
    }

    private mutating func timePassed() -> [Action] {
        switch status.phase {
        case .waiting:
            status.restarts += 1
            return start()
        case .running:
            guard status.descriptor != .published else { return [] }
            if case .clock? = status.problem { return [] }
            status.problem = status.bootstrap < 100 ? .stuck(percent: status.bootstrap) : .unpublished
            return []
        case .stopped, .starting, .stopping: return []
        }
    }

    /// Takes over the published descriptors: tor reports the next upload only after an hour or two. A tor that is still
    /// starting has published none.
    private mutating func restore(_ descriptors: [ClientName?: OnionDescriptor]) -> [Action] {
        guard status.bootstrap == 100 else { return [] }
        let addresses = [(nil, status.address)] + status.onions.map { ($0.name, $0.address) }
        return addresses.flatMap { name, address -> [Action] in
            guard descriptors[name] == .published, let address else { return [] }
            return observe(.uploaded(address))
        }
    }

    private mutating func observe(_ event: TorEvent) -> [Action] {
        guard status.phase == .running else { return [] }
        let old = (status.bootstrap, status.descriptor)
        switch event {
        case .bootstrapped(let percent): status.bootstrap = percent
        case .uploading(let address), .uploaded(let address), .failed(let address): observe(event, of: address)
        }
        if status.descriptor == .published { status.problem = nil }
        guard (status.bootstrap, status.descriptor) != old else { return [] }
        // tor has made progress, so it is no longer stuck.
        if case .stuck? = status.problem { status.problem = nil }
        return status.descriptor == .published ? [] : [.startTimer(Self.progressTimeout)]
    }

    private mutating func observe(_ event: TorEvent, of address: OnionAddress) {
        let isUpload = if case .uploading = event { true } else { false }
        // Until the addresses are known, assume that the first uploaded descriptor is the first onion's.
        if status.address == nil, isUpload { status.address = address }
        let further = status.onions.firstIndex { $0.address == address }
        // tor also reports failures to fetch descriptors of other onions.
        guard address == status.address || further != nil else { return }
        uploads[address, default: DescriptorUploads()].observe(event)
        let state = uploads[address]?.state ?? .none
        if let further { status.onions[further].descriptor = state } else { status.descriptor = state }
    }
}
