// SPDX-License-Identifier: Apache-2.0

import Cryptography
import Store

/// A row of the store of handles, as nodes of a cluster exchange it. Opening it requires the handle itself. Prints as
/// `<redacted>`.
package struct SealedHandle: Sendable, Equatable, Redacted {
    /// The keyed hash of the handle.
    package let name: [UInt8]
    /// The sealed record.
    package let sealed: [UInt8]
    package let state: HandleEntry.State
    /// As ``HandleEntry/time``.
    package let time: Int64
    /// The sequence of the owner's last request; 0 if the row was written before the node joined a cluster.
    package let sequence: UInt64

    package init(name: [UInt8], sealed: [UInt8], state: HandleEntry.State, time: Int64, sequence: UInt64) {
        self.name = name
        self.sealed = sealed
        self.state = state
        self.time = time
        self.sequence = sequence
    }

    /// - Parameter row: has the columns of ``HandleStore/selection``.
    init?(_ row: Row) {
        guard let state = HandleEntry.State(rawValue: UInt8(truncatingIfNeeded: row.integer(2))) else { return nil }
        self.init(
            name: row.bytes(0), sealed: row.bytes(1), state: state, time: row.integer(3),
            sequence: UInt64(bitPattern: row.integer(4)))
    }

    func with(sequence: UInt64) -> SealedHandle {
        SealedHandle(name: name, sealed: sealed, state: state, time: time, sequence: sequence)
    }

    /// Seconds for which the engine keeps it.
    package func life(_ limits: HandleStore.Limits) -> Int64 {
        switch state {
        case .unconfirmed: HandleEntry.confirmationTime
        case .confirmed, .forgotten: Self.life(limits)
        }
    }

    /// Seconds for which the engine keeps a handle that is in use.
    package static func life(_ limits: HandleStore.Limits) -> Int64 {
        Int64(limits.forgetDays + 2) * HandleEntry.secondsPerDay
    }
}
