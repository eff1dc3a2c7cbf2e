// SPDX-License-Identifier: Apache-2.0

import EventLoop
import KeyHolder
import Time

/// Gives the key holder its work of each second, and reports its losses and restarts.
final class KeyHolderWatch: NodeComponent {
    private let holder: KeyHolder
    private let metrics: NodeMetrics
    private let log: EventLog

    init(_ holder: KeyHolder, metrics: NodeMetrics, log: EventLog, on loop: EventLoop) {
        self.holder = holder
        self.metrics = metrics
        self.log = log
        holder.loop = loop
    }

    func secondPassed() {
        for event in holder.secondPassed(at: .now) {
            if case .ended = event { metrics.countLostKeyHolder() }
            log.record(event)
        }
    }
}
