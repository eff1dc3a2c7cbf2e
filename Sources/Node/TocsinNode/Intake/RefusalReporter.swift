// SPDX-License-Identifier: Apache-2.0

import Admission
import Ingress
import TNP
import Time

/// Reports refusals to senders, and blocked circuits to the operator.
struct RefusalReporter {
    let metrics: NodeMetrics
    let log: EventLog

    /// Reports a refusal to the sender of a request.
    func report(_ refusal: Refusal, to request: UInt32, on connection: any SenderConnection) {
        metrics.refused(refusal, at: connection.senderProtocol.rawValue)
        connection.refused(request, refusal)
        if refusal.outcome?.reason == .connectionOverRate {
            connection.pauseReading(for: .milliseconds(Int64(refusal.outcome?.retryAfter ?? 0)))
        }
        if refusal.goAway != nil { recordBlock() }
    }

    /// Rejects a connection whose circuit is blocked.
    func reject(_ connection: (any SenderConnection)?, _ goAway: GoAway) {
        recordBlock()
        connection?.reject(goAway)
    }

    /// Records that a circuit was blocked.
    func recordBlock() {
        metrics.countAbuse()
        log.circuitBlocked()
    }
}
