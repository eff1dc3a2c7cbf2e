// SPDX-License-Identifier: Apache-2.0

import Admission
import Cluster
import Delivery
import TNP
import Time

/// The gate of a cluster: applies the engine's decision, or this node's own without it, to a submission that passed the
/// node's own gates.
final class ClusterGate {
    private let shared: IntakeState
    private let metrics: NodeMetrics

    init(_ shared: IntakeState, metrics: NodeMetrics) {
        self.shared = shared
        self.metrics = metrics
    }

    /// Applies the engine's decision about a submission.
    /// - Parameter open: opens an outcome that the engine remembers; `nil` if it is damaged.
    func decided(
        _ reply: Reply, _ terms: Admission.Terms, _ keys: EnvelopeKeys, _ answer: ClaimAnswer,
        open: (_ sealed: [UInt8]) -> Outcome?
    ) -> ClaimResult {
        metrics.decided(alone: false)
        switch answer {
        case .claimed(let record, let used):
            do throws(Refusal) {
                let ticket = try shared.admission.admitted(terms, record, used: used, at: shared.reading)
                return granted(reply, keys, ticket, isAlone: false)
            } catch {
                return refused(reply, error)
            }
        case .final(let sealed): return open(sealed).map { .final($0) } ?? .elsewhere
        case .elsewhere, .resumed: return .elsewhere
        case .ivReused:
            var terms = terms
            shared.admission.refundNode(&terms, at: shared.reading.monotonic)
            return refused(reply, Refusal(.rejected(.ivReused)))
        case .refused(let reason):
            return refused(reply, shared.admission.refusal(of: terms, reason, at: shared.reading))
        }
    }

    /// Decides about a submission without the engine.
    func decideAlone(_ reply: Reply, _ terms: Admission.Terms, _ keys: EnvelopeKeys) -> ClaimResult {
        let now = shared.reading
        metrics.decided(alone: true)
        var terms = terms
        shared.admission.refundNode(&terms, at: now.monotonic)
        do throws(Refusal) {
            return granted(reply, keys, try shared.admission.admit(terms, at: now), isAlone: true)
        } catch {
            return refused(reply, error)
        }
    }

    private func granted(
        _ reply: Reply, _ keys: EnvelopeKeys, _ ticket: Admission.Ticket, isAlone: Bool
    ) -> ClaimResult {
        shared.waiting.decide(reply, .admitted(ticket, keys))
        return .granted(isProven: !ticket.isUnproven, isAlone: isAlone)
    }

    private func refused(_ reply: Reply, _ refusal: Refusal) -> ClaimResult {
        shared.waiting.decide(reply, .refused(refusal))
        // A blocked circuit gets GOAWAY in place of an outcome.
        return .refused(refusal.outcome ?? .retry(.nodeBusy, after: Dispatch.busyRetry))
    }
}
