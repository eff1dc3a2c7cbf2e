// SPDX-License-Identifier: Apache-2.0

import Settings

/// What the last reloads say of the files on disk. The node goes on with what it has read before, so that a broken file
/// shows only when it starts again.
package struct ReloadState: Sendable, Equatable {
    /// What was read again.
    package enum Subject: String, CaseIterable, Sendable {
        case configuration, credentials
    }

    /// A reload that has failed.
    package struct Failure: Sendable, Equatable {
        /// When the first of the failures in a row was, Unix time in seconds.
        package let since: Int64
        /// The error.
        package let text: String
    }

    package private(set) var failures: [Subject: Failure] = [:]
    /// The keys of the configuration on disk that take effect after a restart.
    package private(set) var restartKeys: [String] = []

    /// How many errors of a configuration are shown, and how many characters of each: in every answer of the admin port.
    private static let (shownErrors, maximumLength) = (3, 300)

    package init() {}

    /// A reload has failed.
    /// - Returns: whether the error is another one than before.
    package mutating func failed(_ subject: Subject, _ text: String, at now: Int64) -> Bool {
        let before = failures[subject]
        let lines = text.split(separator: "\n")
        let rest = lines.count - Self.shownErrors
        let text =
            lines.prefix(Self.shownErrors).map { String($0.prefix(Self.maximumLength)) }.joined(separator: "; ")
            + (rest > 0 ? "; and \(rest) more, which tocsin check tells" : "")
        failures[subject] = Failure(since: before?.since ?? now, text: text)
        return text != before?.text
    }

    /// The credentials were read.
    package mutating func readCredentials() { failures[.credentials] = nil }

    /// The configuration was read, and with it the credentials.
    package mutating func readConfiguration(restartKeys: [String]) {
        failures = [:]
        self.restartKeys = restartKeys
    }

    var concerns: [Concern] {
        var concerns = Subject.allCases.compactMap { subject in
            failures[subject].map { failure in
                Concern(
                    subject == .configuration
                        ? "the configuration on disk, or a file that it names, cannot be used"
                        : "a credential on disk cannot be used",
                    "\(failure.text); since \(Format.time(failure.since))", see: .reloadFailed)
            }
        }
        if !restartKeys.isEmpty {
            concerns.append(
                Concern("settings wait for a restart", restartKeys.joined(separator: ", "), see: .restartPending))
        }
        return concerns
    }
}
