// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The exit statuses of the commands: those of sysexits.h, except 76, which means that a device token is gone, and
/// `failure`, 1, for a reason without a status of its own, e.g. a check that did not pass.
extension ExitCode {
    /// The command line is wrong (`EX_USAGE`).
    package static let usage = ExitCode(64)
    /// The input was rejected: sending it again does not help (`EX_DATAERR`).
    package static let rejected = ExitCode(65)
    /// The node could not be reached (`EX_UNAVAILABLE`).
    package static let unreachable = ExitCode(69)
    /// A temporary failure: try again later (`EX_TEMPFAIL`).
    package static let tryLater = ExitCode(75)
    /// The phone no longer has this device token.
    package static let gone = ExitCode(76)
    /// The configuration, or a file that the command needs, cannot be used (`EX_CONFIG`).
    package static let configuration = ExitCode(78)
}

/// Prints an error message to standard error and returns the status, for the caller to throw.
package func fail(_ message: String, _ status: ExitCode) -> ExitCode {
    Terminal.error("tocsin: \(message)")
    return status
}

/// Returns the result of `body`. If it throws, prints the error to standard error and throws the status.
package func failing<Result>(with status: ExitCode, _ body: () throws -> Result) throws -> Result {
    do {
        return try body()
    } catch {
        throw fail("\(error)", status)
    }
}
