// SPDX-License-Identifier: Apache-2.0

import TNP

extension Outcome {
    // version u8 ‖ RESULT.
    private static let spoolVersion: UInt8 = 1

    /// The bytes that are sealed.
    var spooled: [UInt8] {
        var output = [Self.spoolVersion]
        output.append(SubmissionResult(request: 0, outcome: self))
        return output
    }

    /// Reads what ``spooled`` wrote; nil where it is of another version or is none.
    init?(spooled bytes: [UInt8]) {
        guard bytes.first == Self.spoolVersion,
            case .result(let result)? = Message(wholeFrame: bytes.dropFirst())
        else { return nil }
        self = result.outcome
    }
}
