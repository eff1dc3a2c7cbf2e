// SPDX-License-Identifier: Apache-2.0

import TNP

/// Why the spool is full.
package enum SpoolShortage: String, Equatable, Sendable {
    /// The rows have reached `spool.max_bytes`, or one more might exceed it.
    case bytes
    /// The number of envelopes has reached `spool.max_envelopes`.
    case envelopes
    /// Less than ``Spool/diskReserve`` is free on the disk.
    case disk

    /// Text for the log and for `/readyz`.
    package var text: String {
        switch self {
        case .bytes: "spool.max_bytes reached"
        case .envelopes: "spool.max_envelopes reached"
        case .disk: "less than \(Spool.diskReserve >> 20) MiB free on the disk"
        }
    }
}

/// The result of storing an envelope.
package enum StoreResult: Equatable, Sendable {
    /// The envelope is on disk under this id and survives a crash: QUEUED may be sent.
    case stored(id: Int64)
    /// An envelope with the same digest is stored already, under this id.
    case alreadyStored(id: Int64)
    /// An envelope with the same digest has had this outcome.
    case alreadyFinal(Outcome)
    /// There is no room, even without expired rows.
    case full(SpoolShortage)
    /// The disk failed; the text says why and contains nothing of the envelope.
    case failed(String)
}
