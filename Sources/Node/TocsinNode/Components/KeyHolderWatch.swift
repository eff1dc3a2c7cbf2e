// SPDX-License-Identifier: Apache-2.0

import EventLoop
import KeyHolder
import Time

/// Reports what becomes of the node's key holder.
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
