// SPDX-License-Identifier: Apache-2.0

import TNP
import Tables

/// The circuit that an envelope came from, its proof of work, and the standing of its device token.
package struct Origin: Sendable {
    /// The circuit or connection of the sender, which is its flow in the fair queue.
    package let circuit: CircuitID
    /// Expected hashes of the proof of work; 0 without one.
    package let effort: UInt32
    /// Whether a push service has accepted the device token before.
    package internal(set) var isProven: Bool
    /// Whether the device token is that of a handle which this node has looked up alone: another node of the cluster may
    /// know a newer one.
    package var isLookedUpAlone = false

    package init(circuit: CircuitID, effort: UInt32 = 0, isProven: Bool = false) {
        self.circuit = circuit
        self.effort = effort
        self.isProven = isProven
    }

    /// Above the band of the largest effort, which is 32.
    private static let siteBand: UInt8 = 33

    /// The band in the fair queue: known sites go first, then more effort; twice the effort is one band higher.
    var band: UInt8 {
        if circuit.site != nil { return Self.siteBand }
        return effort == 0 ? 0 : UInt8(32 - effort.leadingZeroBitCount)
    }
}
