// SPDX-License-Identifier: Apache-2.0

import AdminPort
import Confinement
import EventLoop
import KeyHolder
import Logging
import NodeConfiguration
import Time

/// Runs the node's resolver, and reports what the supervisor tells: refused system calls, and the ends of key holders
/// and resolvers; and the supervisor's own end.
final class IsolationWatch: NodeComponent {
    private let isolation: ProcessIsolation
    private let resolver: NodeResolver
    private let alarms: AlarmLog
    private let metrics: NodeMetrics
    private let log: EventLog

    init(
        _ isolation: ProcessIsolation, alarms: AlarmLog, metrics: NodeMetrics, log: EventLog, on loop: EventLoop
    ) {
        self.isolation = isolation
        self.alarms = alarms
        self.metrics = metrics
        self.log = log
        resolver = NodeResolver(isolation.supervisor, on: loop)
        loop.nameService = resolver
    }

    /// Warns of sandbox functions that the kernel lacks, or the container forbids.
    func warn(about configuration: Configuration) {
        guard configuration.sandbox != .off else { return }
        if !isolation.reportsRefusedCalls {
            log.logger.warning(
                "refused system calls raise no alarm: the kernel, or the container, does not allow to report them",
                metadata: AlarmLogHandler.setUp)
        }
        if isolation.landlock == 0 {
            log.logger.warning(
                "the kernel has no Landlock (Linux 5.13), or the container forbids it: the node can read the files that its user can read",
                metadata: AlarmLogHandler.setUp)
        }
    }

    func secondPassed() {
        for report in isolation.supervisor.takeReports() {
            switch report {
            case .refused(let call):
                metrics.countRefusedCall()
                alarms.record(
                    "error", "the sandbox refused a system call",
                    details: [("call", call.name), ("thread", "\(call.thread)")])
            case .holderEnded(let how):
                log.logger.info("a key holder has ended", metadata: ["how": "\(how)"])
            case .resolverEnded(let how):
                log.logger.warning(
                    "the node's resolver has ended; another one starts with the next name", metadata: ["how": "\(how)"])
            }
        }
        if isolation.supervisor.hasEnded, log.supervisorEnded() { metrics.countLostKeyHolder() }
        resolver.secondPassed(at: .now)
    }

    func close(isolation: isolated (any Actor)?) async { resolver.stop() }
}
