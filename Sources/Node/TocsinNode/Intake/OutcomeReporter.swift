// SPDX-License-Identifier: Apache-2.0

import Admission
import Delivery
import Handles
import Ingress
import TNP
import Time

/// Reports what became of each submission: to its sender, to admission, which learns about device tokens from it, to
/// the handles, if it named one, and to the cluster.
final class OutcomeReporter: OutcomeReceiver {
    private let shared: IntakeState
    /// The connections of senders, which may have closed.
    private let senders: SenderConnections
    private let handles: HandleKeeper?
    private let cluster: ClusterOutcomes?
    private let refusals: RefusalReporter
    private let metrics: NodeMetrics

    init(
        _ shared: IntakeState, to senders: SenderConnections, handles: HandleKeeper?, sharing cluster: ClusterOutcomes?,
        _ refusals: RefusalReporter, metrics: NodeMetrics
    ) {
        self.shared = shared
        self.senders = senders
        self.handles = handles
        self.cluster = cluster
        self.refusals = refusals
        self.metrics = metrics
    }

    func isWanted(_ reply: Reply) -> Bool {
        let submission = shared.waiting[reply]
        guard case .resend = submission.state else { return true }
        return senders.connection(submission.connection) != nil
    }

    func parked(_ reply: Reply) {
        let submission = shared.waiting[reply]
        senders.connection(submission.connection)?.parked(submission.request)
    }

    func finished(_ reply: Reply, _ outcome: Outcome, _ contact: ProviderContact) {
        guard outcome.isFinal else {
            let submission = shared.waiting[reply]
            senders.connection(submission.connection)?.finished(submission.request, outcome)
            return
        }
        guard let submission = shared.waiting.remove(reply) else { return }
        let connection = senders.connection(submission.connection)
        if let route = submission.route {
            metrics.answered(outcome, of: route, at: submission.senderProtocol.rawValue)
        }
        switch submission.state {
        case .resend: connection?.finished(submission.request, outcome)
        case .asking(var terms):
            // Another node of the cluster has delivered the envelope, or is delivering it.
            shared.admission.refundNode(&terms, at: shared.reading.monotonic)
            connection?.finished(submission.request, outcome)
        case .refused(let refusal):
            if let connection { refusals.report(refusal, to: submission.request, on: connection) }
        case .admitted(let ticket, let keys):
            let mayBind = mayBind(afterUseBy: submission, outcome)
            let now = shared.reading
            if let cluster, let keys {
                let event = shared.admission.event(outcome, of: ticket, binds: mayBind, at: now)
                cluster.conclude(keys, outcome, ticket, Admission.Refund(outcome, contact: contact), event)
            }
            let goAway = shared.admission.finish(ticket, with: outcome, contact: contact, binds: mayBind, at: now)
            connection?.finished(
                submission.request, shared.admission.addingAllowance(to: outcome, of: ticket, at: now.monotonic))
            if let goAway { refusals.reject(connection, goAway) }
        }
    }

    /// Records that a notification by handle was delivered.
    /// - Returns: whether the submission may bind the device token: not if its handle was ended meanwhile.
    private func mayBind(afterUseBy submission: WaitingSubmission, _ outcome: Outcome) -> Bool {
        guard outcome.kind == .delivered, let sender = submission.sender, let handles else { return true }
        if !sender.isSaved { handles.use.rang(sender.handle, confirming: sender.confirming) }
        return !handles.use.hasEnded(sender.handle)
    }

    /// Learns what delivery reports about device tokens and circuits.
    func observe(_ event: DispatchEvent) {
        switch event {
        case .recovered(let envelope, let app, let outcome):
            let now = shared.reading
            shared.admission.recordOutcome(outcome, of: envelope, app: app, at: now)
            cluster?.conclude(envelope, app: app, outcome, at: now)
            if outcome.kind == .delivered, let handle = envelope.handle { handles?.use.rang(handle) }
        case .unprovenTokenRefused(let circuit):
            // The node itself may be at fault, so the sender gets RETRY instead of the refusal, and the circuit is
            // charged. A sender that retries a few such tokens when RETRY tells it to stays far below the limit; a
            // flood does not. Once the circuit is blocked, its connections are rejected when they send again.
            if shared.admission.charge(circuit, at: shared.reading.monotonic) != nil { refusals.recordBlock() }
        default: break
        }
    }
}
