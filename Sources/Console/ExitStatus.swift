// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Glibc

/// What the process says to whoever called it (sysexits.h, and 76 for a token that is gone).
package enum ExitStatus {
    package static let failure = ExitCode(1)
    package static let usage = ExitCode(64)
    package static let rejected = ExitCode(65)
    package static let unreachable = ExitCode(69)
    package static let tryLater = ExitCode(75)
    package static let gone = ExitCode(76)
    package static let configuration = ExitCode(78)
}

/// Says what went wrong, on standard error, and ends with this status.
package func fail(_ message: String, _ status: ExitCode) -> ExitCode {
    Terminal.error("tocsin: \(message)")
    return status
}
