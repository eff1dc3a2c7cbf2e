// SPDX-License-Identifier: Apache-2.0

/// What is wrong with the configuration, where, and what was expected.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The file.
    package let file: String
    /// The key with its tables, e.g. `app[1].apns.topic`; nil where it is about the whole file.
    package let key: String?
    /// What is wrong and what to do.
    package let problem: String

    /// - Parameters: as the properties of the same names.
    package init(file: String, key: String? = nil, problem: String) {
        self.file = file
        self.key = key
        self.problem = problem
    }

    package var description: String { key.map { "\(file): \($0): \(problem)" } ?? "\(file): \(problem)" }
}
