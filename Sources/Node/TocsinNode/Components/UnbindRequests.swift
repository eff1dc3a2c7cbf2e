// SPDX-License-Identifier: Apache-2.0

import Admission
import Logging
import Store

/// Executes the operator's requests to remove a phone's sender keys.
final class UnbindRequests: NodeComponent {
    private let state: String
    private let shared: IntakeState
    private let cluster: SharedState?
    /// Writes the answers outside the loop, which a flush to disk must not stall.
    private let queue: any WorkQueue
    private let log: EventLog

    /// - Parameter state: the node's state directory.
    init(in state: String, _ shared: IntakeState, cluster: SharedState?, on disk: any Disk, log: EventLog) {
        self.state = state
        self.shared = shared
        self.cluster = cluster
        queue = disk.queue("unbind")
        self.log = log
    }

    func secondPassed() {
        guard let names = UnbindRequest.take(state: state) else { return }
        let phones = shared.admission.unbind(names)
        cluster?.outcomes.unbind(names)
        // Without an answer, the command says that the node did not answer.
        queue.async { [state] in try? UnbindRequest.answer(phones, state: state) }
        log.logger.notice("sender keys removed at the operator's request", metadata: ["phones": .number(phones)])
    }
}
