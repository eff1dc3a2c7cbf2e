// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Time

/// Decides when the node's tor is started, ended and started again, and how it is. No process, socket or clock inside:
/// what happens and the time go in, what is to be done comes out.
///
///     stopped ─begin─▶ starting ─started─▶ running ─end─▶ stopping ─exited─▶ stopped
///                        ▲   │               │
///                        │   └─notStarted──┐ │ exited
///                        └──timePassed── waiting
package struct TorSupervision: Sendable {
    /// What has happened.
    package enum Event: Equatable, Sendable {
        /// The onion is wanted.
        case begin
        /// The process runs.
        case started(pid: Int32)
        /// There is no process, and why.
        case notStarted(TorProblem)
        /// tor told of it by its control port.
        case control(TorEvent)
        /// A line of its log.
        case said(TorLogLine)
        /// Its control port cannot be had, or was lost while the process ran.
        case controlLost
        /// The process has ended.
        case exited(status: String)
        /// The time of the last ``Action/wait(_:)`` is over.
        case timePassed
        /// The onion is wanted no longer.
        case end
    }

    /// What is to be done.
    package enum Action: Equatable, Sendable {
        /// Starts the process: answered by ``Event/started(pid:)`` or ``Event/notStarted(_:)``, and later by
        /// ``Event/exited(status:)``.
        case start
        /// Ends the process, at first kindly; answered by ``Event/exited(status:)``.
        case stop
        /// Tells of ``Event/timePassed`` after this time, and of no earlier wait.
        case wait(Duration)
        /// The status has changed.
        case report
    }

    /// The pause before tor is started again: after 1, 2, 4 … failures in a row.
    static let firstPause = Duration.seconds(1)
    static let longestPause = Duration.seconds(60)
    /// Who has run for so long has not failed in a row.
    static let steadyTime = Duration.seconds(600)
    /// How long nothing may move before that is a trouble.
    static let patience = Duration.seconds(300)

    /// How tor is.
    package private(set) var status = TorStatus()
    private var isWanted = false
    private var uploads = DescriptorUploads()
    private var runningSince: MonotonicTime?
    // No part of it is random: there is one tor, and nobody whom it would meet.
    private var backoff = Backoff(base: Self.firstPause, cap: Self.longestPause)

    /// Nothing runs, nothing is wanted.
    package init() {}

    /// Takes in what has happened.
    /// - Returns: what is to be done, in this order.
    package mutating func handle(_ event: Event, at now: MonotonicTime) -> [Action] {
        let before = status
        let actions = decide(event, at: now)
        return status == before ? actions : actions + [.report]
    }

    private mutating func decide(_ event: Event, at now: MonotonicTime) -> [Action] {
        switch event {
        case .begin:
            guard !isWanted else { return [] }
            isWanted = true
            // Who is being ended is started again when that is done.
            return status.phase == .stopped ? start() : []
        case .end:
            isWanted = false
            return stop()
        case .started(let pid):
            guard status.phase == .starting else { return [] }
            status.phase = .running
            status.pid = pid
            if case .clock? = status.trouble { status.trouble = nil }
            runningSince = now
            return isWanted ? [.wait(Self.patience)] : stop()
        case .notStarted(let trouble):
            guard status.phase == .starting else { return [] }
            return ended(trouble)
        case .control(let event): return observe(event)
        case .said(let line):
            if line.severity == .warn || line.severity == .err { status.lastWarning = line.text }
            // Of a clock that is a little wrong tor only warns.
            if line.isAboutClock, !status.isReachable { status.trouble = .clock(line.text) }
            return []
        case .controlLost:
            guard status.phase == .running else { return [] }
            status.trouble = .silent
            return stop()
        case .exited(let exit): return exited(exit, at: now)
        case .timePassed: return timePassed()
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
        // Who is starting is ended as soon as it runs.
        case .stopped, .starting, .stopping: return []
        }
    }

    private mutating func exited(_ exit: String, at now: MonotonicTime) -> [Action] {
        guard status.phase == .running || status.phase == .stopping else { return [] }
        if let runningSince, now - runningSince >= Self.steadyTime { backoff.reset() }
        let wasTold = status.phase == .stopping
        return ended(wasTold ? status.trouble : .ended(status: exit, lastWarning: status.lastWarning))
    }

    private mutating func ended(_ trouble: TorProblem?) -> [Action] {
        status.pid = nil
        status.bootstrap = 0
        status.descriptor = .none
        uploads = DescriptorUploads()
        runningSince = nil
        guard isWanted else {
            status.phase = .stopped
            status.trouble = nil
            return []
        }
        status.phase = .waiting
        // That the clock is wrong explains more than that tor has given up.
        if case .clock? = status.trouble, case .ended? = trouble {} else { status.trouble = trouble }
        return [.wait(backoff.next(random: 1))]
    }

    private mutating func timePassed() -> [Action] {
        switch status.phase {
        case .waiting:
            status.restarts += 1
            return start()
        case .running:
            guard status.descriptor != .published else { return [] }
            if case .clock? = status.trouble { return [] }
            status.trouble = status.bootstrap < 100 ? .stuck(percent: status.bootstrap) : .unpublished
            return []
        case .stopped, .starting, .stopping: return []
        }
    }

    private mutating func observe(_ event: TorEvent) -> [Action] {
        guard status.phase == .running else { return [] }
        let old = (status.bootstrap, status.descriptor)
        if case .bootstrapped(let percent) = event { status.bootstrap = percent }
        uploads.observe(event)
        status.descriptor = uploads.state
        status.address = uploads.address ?? status.address
        if status.descriptor == .published { status.trouble = nil }
        guard (status.bootstrap, status.descriptor) != old else { return [] }
        // It moves.
        if case .stuck? = status.trouble { status.trouble = nil }
        return status.descriptor == .published ? [] : [.wait(Self.patience)]
    }
}
