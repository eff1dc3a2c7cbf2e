// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Glibc

/// What the process says to whoever called it (sysexits.h, and 76 for a token that is gone).
enum ExitStatus {
    static let failure = ExitCode(1)
    static let usage = ExitCode(64)
    static let rejected = ExitCode(65)
    static let unreachable = ExitCode(69)
    static let tryLater = ExitCode(75)
    static let gone = ExitCode(76)
    static let configuration = ExitCode(78)
}

/// Says what went wrong, on standard error, and ends with this status.
func fail(_ message: String, _ status: ExitCode) -> ExitCode {
    Terminal.error("tocsin: \(message)")
    return status
}
