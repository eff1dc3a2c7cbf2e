// SPDX-License-Identifier: Apache-2.0

/// What is wrong with a configuration: for each error its location, the problem and the remedy.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The configuration file, with line and column for a syntax error.
    package let file: String
    /// The line of the key, or of its table if the file does not set the key; `nil` if the error concerns no line.
    package let line: Int?
    /// The key with its tables, e.g. `app[1].apns.topic`; `nil` if the error concerns the whole file.
    package let key: String?
    /// The name of the app, site or onion to which the key belongs; `nil` if it belongs to none.
    package let owner: String?
    /// The problem and its remedy.
    package let problem: String
    /// The other errors of the file, each with no `others` of its own.
    private var others: [ConfigurationError] = []

    package init(file: String, line: Int? = nil, key: String? = nil, owner: String? = nil, problem: String) {
        self.file = file
        self.line = line
        self.key = key
        self.owner = owner
        self.problem = problem
    }

    /// All errors of a file, those of earlier lines first; `nil` if there are none.
    package init?(_ errors: [ConfigurationError]) {
        let sorted = errors.enumerated().sorted {
            ($0.element.line ?? .max, $0.offset) < ($1.element.line ?? .max, $1.offset)
        }.map(\.element)
        guard let first = sorted.first else { return nil }
        self = first
        others = Array(sorted.dropFirst())
    }

    /// All errors of the file.
    package var all: [ConfigurationError] {
        var first = self
        first.others = []
        return [first] + others
    }

    /// One line for each error.
    package var description: String { all.map(\.text).joined(separator: "\n") }

    private var text: String {
        let place = line.map { "\(file):\($0)" } ?? file
        return [place, owner.map { "\"\($0)\"" }, key, problem].compactMap(\.self).joined(separator: ": ")
    }
}
