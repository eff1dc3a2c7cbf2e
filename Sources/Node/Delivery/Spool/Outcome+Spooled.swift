// SPDX-License-Identifier: Apache-2.0

import TNP

extension Outcome {
    // version u8 ‖ RESULT.
    private static let spoolVersion: UInt8 = 1

    /// The bytes that the spool, or the engine of a cluster, keeps sealed.
    package var spooled: [UInt8] {
        var output = [Self.spoolVersion]
        output.append(SubmissionResult(request: 0, outcome: self))
        return output
    }

    /// Decodes ``spooled``; `nil` if the bytes have another version or are malformed.
    package init?(spooled bytes: [UInt8]) {
        guard bytes.first == Self.spoolVersion,
            case .result(let result)? = Message(wholeFrame: bytes.dropFirst())
        else { return nil }
        self = result.outcome
    }
}
