// SPDX-License-Identifier: Apache-2.0

import TNP
import Time

/// Connections of circuits, and what their circuits are charged.
extension Admission {
    /// Registers a connection. Call this as soon as the connection's circuit is known.
    /// - Returns: the GOAWAY to reject the connection with, or `nil` if it is accepted. Do not call
    ///   ``disconnected(_:at:)`` for a rejected connection.
    package mutating func connected(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        if let goAway = blocked(circuit, now) { return goAway }
        guard circuit.site != nil || (circuits[circuit]?.connections ?? 0) < settings.connectionsPerCircuit else {
            return GoAway(code: .busy, retryAfter: 10_000, text: "too many connections from this circuit")
        }
        guard circuits.connected(circuit, capacity: settings.circuits, now: now) else {
            return GoAway(code: .busy, retryAfter: 10_000, text: "too many circuits")
        }
        return nil
    }

    /// Removes a closed connection.
    package mutating func disconnected(_ circuit: CircuitID, at now: MonotonicTime) {
        circuits.disconnected(circuit, now: now)
    }

    /// Charges a circuit's abuse account for one violation. A site is never blocked, because the operator knows it and
    /// its users name the device tokens. Past its allowance, its unproven device tokens are refused
    /// (``obstacle(to:at:)``).
    /// - Returns: a GOAWAY if this violation blocks the circuit.
    package mutating func charge(_ circuit: CircuitID, at now: MonotonicTime) -> GoAway? {
        let (rate, block) = (settings.abuse, Duration.seconds(settings.abuseBlock))
        let isExhausted = circuits.update(circuit) { known in
            known.abuseAccount.resetIfOverdrawn(rate, now: now)
            known.abuseAccount.take(rate, now: now)
            guard circuit.site == nil, known.abuseAccount.remaining(rate, now: now) == 0 else { return false }
            known.blockedUntil = max(known.blockedUntil, now + block)
            return true
        }
        return isExhausted == true ? blocked(circuit, now) : nil
    }

    func blocked(_ circuit: CircuitID, _ now: MonotonicTime) -> GoAway? {
        guard let until = circuits[circuit]?.blockedUntil, until > now else { return nil }
        return GoAway(
            code: .abuse, retryAfter: (until - now).wireMilliseconds,
            text: "too many bad device tokens, invalid proofs or malformed submissions")
    }
}
