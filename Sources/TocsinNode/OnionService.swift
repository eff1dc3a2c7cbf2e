// SPDX-License-Identifier: Apache-2.0

import EventLoop
import Tor

/// The node's own tor and the state of its onion service.
final class OnionService {
    private let tor: ManagedTor
    private(set) var status = TorStatus()
    private let log: EventLog
    /// Called on each change, with the previous and the current status.
    var onChange: ((_ before: TorStatus, _ now: TorStatus) -> Void)?

    /// - Parameter observer: receives each status on the loop, and passes it to ``changed(to:tellsProblems:)``.
    init(
        _ settings: TorSettings, tnp: Endpoint, http: Endpoint?, log: EventLog, on loop: EventLoop,
        observer: @escaping @Sendable (TorStatus) -> Void
    ) {
        tor = ManagedTor(settings, ports: settings.ports(tnp: tnp, http: http), on: loop, observe: observer)
        self.log = log
    }

    func start(isolation: isolated (any Actor)? = #isolation) async { await tor.start() }

    func stop(isolation: isolated (any Actor)? = #isolation) async { await tor.stop() }

    /// Takes a new status.
    /// - Parameter tellsProblems: whether to log a new problem; not while the node stops.
    func changed(to new: TorStatus, tellsProblems: Bool) {
        let before = status
        status = new
        if let problem = new.problem, problem != before.problem, tellsProblems { log.problem(of: problem) }
        onChange?(before, new)
    }
}
