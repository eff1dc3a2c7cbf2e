// SPDX-License-Identifier: Apache-2.0

import EventLoop
import NodeConfiguration
import Settings

/// The canary of the configuration that is in force, if it has one.
final class CanaryKeeper: NodeComponent {
    private let onions: NodeOnionServices
    private let metrics: NodeMetrics
    private let log: EventLog
    private let loop: EventLoop
    /// Sends test notifications to the operator's phone; `nil` if none is configured.
    private(set) var canary: Canary?

    init(_ onions: NodeOnionServices, metrics: NodeMetrics, log: EventLog, on loop: EventLoop) {
        self.onions = onions
        self.metrics = metrics
        self.log = log
        self.loop = loop
    }

    /// The canary of a new configuration: the present canary, if its settings and its phone stay the same.
    /// - Parameter present: the configuration in force.
    /// - Throws: `ConfigurationError`.
    func made(for new: Configuration, inPlaceOf present: Configuration) throws(ConfigurationError) -> Canary? {
        if new.canary != nil, new.tor.managed == true, !present.tor.hasSOCKSPort {
            throw ConfigurationError(
                file: new.file, key: "canary",
                problem: "needs a restart of the node: its running tor has no SOCKS port")
        }
        let made = try new.canary.map { (settings) throws(ConfigurationError) in
            try Canary(settings, new, on: loop) { [onions] in
                onions.canaryAddress
            } report: { [unowned self] in
                log.canary($0)
                metrics.show(canary: $0, lastSuccess: canary?.record.lastSuccess ?? 0)
            }
        }
        return made?.settings == canary?.settings && made?.identity == canary?.identity ? canary : made
    }

    /// Starts a canary in place of the present one.
    func replace(with new: Canary?) {
        guard new !== canary else { return }
        canary?.stop()
        canary = new
        metrics.show(canary: new?.settings, since: new?.record.lastSuccess)
        new?.start()
    }

    func stop() { canary?.stop() }

    func close(isolation: isolated (any Actor)?) async { stop() }
}
