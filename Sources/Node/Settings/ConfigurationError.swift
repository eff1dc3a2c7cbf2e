// SPDX-License-Identifier: Apache-2.0

/// An error in the configuration: its location, the problem and the remedy.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The configuration file, with line and column for a syntax error.
    package let file: String
    /// The key with its tables, e.g. `app[1].apns.topic`; `nil` if the error concerns the whole file.
    package let key: String?
    /// The problem and its remedy.
    package let problem: String

    package init(file: String, key: String? = nil, problem: String) {
        self.file = file
        self.key = key
        self.problem = problem
    }

    package var description: String { key.map { "\(file): \($0): \(problem)" } ?? "\(file): \(problem)" }
}
