// SPDX-License-Identifier: Apache-2.0

import TNP

/// Why the spool takes no more envelopes.
package enum SpoolShortage: String, Equatable, Sendable {
    /// They take as many bytes as they may.
    case bytes
    /// There are as many as there may be.
    case envelopes
    /// Hardly anything is free on the disk.
    case disk

    /// For the log, and for whoever asks whether the node is ready.
    package var text: String {
        switch self {
        case .bytes: "its envelopes take spool.max_bytes"
        case .envelopes: "it holds spool.max_envelopes"
        case .disk: "the disk is nearly full, less than \(Spool.diskReserve >> 20) MiB free"
        }
    }
}

/// What came of storing an envelope.
package enum StoreResult: Equatable, Sendable {
    /// It is on disk, under this id, and survives a crash: QUEUED may be answered.
    case stored(id: Int64)
    /// An envelope of the same digest waits already, under this id.
    case alreadyStored(id: Int64)
    /// An envelope of the same digest has had this outcome.
    case alreadyFinal(Outcome)
    /// There is no room, and nothing in the spool has expired.
    case full(SpoolShortage)
    /// The disk could not take it; the text says why and holds nothing of the envelope.
    case failed(String)
}
